"""The learner's edition: chapters as notebooks in plain Markdown, for JupyterLab, VS Code, Colab and nbviewer alike.

sphinx-tojupyter writes notebooks, too, but from a second Sphinx build of its own, without the cells' ids and metadata,
and with dask and nbdime as dependencies; jupytext and nbconvert do not know MyST's directives. So the few directives
and roles that chapters use are converted here, and one that is unknown is an error.
"""
