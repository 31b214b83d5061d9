"""Methods from outside, as a reader would enter them; `python -m book contest FILE` runs one."""
