# The whole line: environment -> executed chapters -> rendered book -> tests. `make help` lists what there is to do.
# Needs Python >= 3.11 and make; everything else is installed into .venv.

PROFILE ?= smoke
# Parallel processes; empty means one per core.
JOBS ?=
# Where to take torch from, for example https://download.pytorch.org/whl/cpu (200 MB instead of 2.7 GB on Linux).
TORCH_INDEX ?=
# Passed on to pytest, for example TESTFLAGS='-k lambda -x' or TESTFLAGS='-m "not slow"'.
TESTFLAGS ?=
NTEST ?= 2
# A rendered book, as a release has it.
BOOK ?= sparse-bayes-book.zip

SUITABLE := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c '$(SUITABLE)' >/dev/null 2>&1 && echo $$p && break; done)
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed

.PHONY: help read book pdf epub test check verify lab author lint site release venv clean distclean
.DEFAULT_GOAL := help

help: ## show this list
	@echo 'make TARGET [PROFILE=smoke|book|paper] [JOBS=n] [TESTFLAGS=...]'
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' Makefile

read: ## unpack a rendered book (BOOK=file.zip, from a release) and open it; installs nothing
	@test -f '$(BOOK)' || { echo 'There is no $(BOOK): take it from a release, or name it: make read BOOK=/path/to/it.zip' >&2; exit 1; }
	@rm -rf _build/read && $(PYTHON) -m zipfile -e '$(BOOK)' _build/read
	@echo "Open $(CURDIR)/_build/read/sparse-bayes-book/index.html"
	@$(PYTHON) -m webbrowser -t "file://$(CURDIR)/_build/read/sparse-bayes-book/index.html" 2>/dev/null || true

book: $(STAMP) ## run the chapters that changed, render the book, print where index.html is
	@$(PY) -m book build --profile $(PROFILE) $(if $(JOBS),--jobs $(JOBS))

pdf: book ## print the whole book into _build/book.pdf (needs Chromium)
	@$(PY) -m book pdf

epub: book ## make the book _build/book.epub, for a reading program (needs Chromium)
	@$(PY) -m book epub

test: $(STAMP) ## unit, equation, book and notebook tests (browser tests where Chromium is found)
	@OMP_NUM_THREADS=1 $(PY) -m pytest -q -n $(NTEST) --dist loadfile --no-loadscope-reorder $(TESTFLAGS)

check: $(STAMP) ## look through the rendered book: links, alt texts, external requests, cells, sizes
	@$(PY) -m book check

verify: $(STAMP) ## whether today's code would compute the stored results; writes nothing
	@OMP_NUM_THREADS=1 $(PY) -m book verify --all --check

lab: $(STAMP) ## open the learner's notebooks in JupyterLab: live sliders, exercises to answer
	@$(PY) -m book lab

author: $(STAMP) ## open the sources of the chapters in JupyterLab; saving leaves out outputs and values
	@$(VENV)/bin/jupyter lab --config=book/editions/author_config.py --LabApp.default_url=/lab/tree/chapters \
		--LabApp.news_url=None $(if $(filter 0,$(shell id -u)),--allow-root)

lint: $(STAMP) ## ruff over the code and the notebooks, mypy over the library, then the rules for chapters
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && \
		$(VENV)/bin/ruff format --check --line-length 88 chapters/*.ipynb && $(VENV)/bin/mypy && $(PY) -m book lint

site: book ## pack the rendered book with its PDF and EPUB, and the notebooks, into _build/release
	@$(PY) -m book release --only editions site

release: $(STAMP) ## make all that a release consists of, try it, and write _build/release/checklist.md
	@OMP_NUM_THREADS=1 $(PY) -m book release $(if $(TORCH_INDEX),--torch-index $(TORCH_INDEX))

venv: $(STAMP) ## only create .venv with the pinned requirements

# torch goes first and alone, so that an index of CPU wheels serves torch and nothing else.
$(STAMP): requirements.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo 'No Python >= 3.11 found. Install one, or name it: make PYTHON=/path/to/python3' >&2; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo 'python -m venv failed. On Debian and Ubuntu: apt-get install python3-venv' >&2; exit 1; }
	@echo 'Installing the pinned requirements into $(VENV) (once; a few minutes on a slow line) ...'
	@$(PY) -m pip install -q --disable-pip-version-check $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) \
		"$$(grep '^torch==' requirements.txt)"
	@$(PY) -m pip install -q --disable-pip-version-check -r requirements.txt
	@$(PY) -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

clean: ## remove the rendered book and the executed copies (keeps .venv and data)
	rm -rf _build .pytest_cache .ruff_cache .mypy_cache
	find bnnlib book chapters tests benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## also remove .venv
	rm -rf $(VENV) *.egg-info
