# The few verbs of this repository.  `make` alone lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The study: that of params.yaml, or an overlay, studies/NAME.yaml, which workflow/lib/pipelines.py looks up.
DEFAULT_STUDY := $(shell sed -nE 's/^study: *([^ ]+).*/\1/p' params.yaml)
STUDY := $(DEFAULT_STUDY)
OTHER := $(filter-out $(DEFAULT_STUDY),$(STUDY))
SITE := report/_site$(if $(OTHER),/studies/$(STUDY))
PAGE := $(SITE)/index.html
EXPLORER := $(SITE)/explorer.html
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
# Exact versions of everything are listed, so nothing is left to resolve.  Compiling every module would take longer than
# all the rest; Python compiles those that are used when they are first imported, which the next line lets it do.
INSTALL := $(PIP) --no-deps --no-compile --no-build-isolation
export PYTHONDONTWRITEBYTECODE :=
# DVC runs Snakemake by its name.
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help report record fetch docs test verify test-fast pytest faults lint audit check-page pdf odt lock

help: ## list the verbs
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

report: $(VENV)/runtime ## compute the study and render its report; STUDY=NAME takes studies/NAME.yaml, here and below
	@$(BIN)/python workflow/lib/recover.py
	@$(if $(OTHER),$(BIN)/python workflow/lib/pipelines.py $(STUDY) > /dev/null)
	@$(BIN)/snakemake --cores all $(if $(OTHER),--configfile studies/$(STUDY).yaml)
	@echo "report: $(CURDIR)/$(PAGE)"

record: $(VENV)/runtime ## compute what changed, record it in dvc.lock, recorded/ and remote/
	@$(BIN)/python workflow/lib/recover.py
	@pipeline=$$($(BIN)/python workflow/lib/pipelines.py --write $(STUDY)) && $(BIN)/dvc repro "$$pipeline"
	@$(BIN)/python workflow/lib/publish.py $(STUDY)

fetch: $(VENV)/runtime ## bring the recorded results, verified, so that nothing is left to compute
	@$(BIN)/python workflow/lib/recover.py
	@$(BIN)/python workflow/lib/fetch.py $(STUDY) $(PULL)

verify: $(VENV)/runtime ## compute recorded results again and compare; CHAPTER=scores takes one chapter, MINUTES=10 random jobs
	@$(BIN)/python workflow/lib/verify.py $(STUDY) $(if $(CHAPTER),--chapter $(CHAPTER)) $(if $(MINUTES),--minutes $(MINUTES))

# Side by side: the type checker has use for one core only.
test: $(VENV)/test ## linters, type checker, tests
	@$(MAKE) --no-print-directory --jobs=2 lint pytest

pytest: $(VENV)/test
	@$(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder -m "not slow"

test-fast: $(VENV)/test ## the tests of single functions, in less than a minute
	@$(BIN)/pytest tests/unit --numprocesses auto --dist loadfile --no-loadscope-reorder -m "not slow and not long"

faults: $(VENV)/test ## the long tests: published suites, breaks, damage and experiments, with real servers on loopback
	@$(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder -m slow

lint: $(VENV)/test
	@$(BIN)/ruff check --no-cache
	@$(BIN)/ruff format --no-cache --check
	@$(BIN)/snakefmt --check Snakefile workflow/rules
	@$(BIN)/mypy
	@$(BIN)/codespell

# Not part of the environment that it is about.
audit: ## look up known weaknesses of the pinned packages, with pip-audit and a network
	@command -v pip-audit > /dev/null || { echo "audit: skipped, as pip-audit is not installed: pipx install pip-audit" >&2; exit 0; }; \
		pip-audit --disable-pip --require-hashes -r requirements.lock -r requirements-test.lock

check-page: $(VENV)/test ## open the finished pages in headless Chromium, and take pictures of them
	@$(BIN)/pytest tests/browser --page $(PAGE) --explorer $(EXPLORER)
	@cd tests && ../$(BIN)/python -m browser.screenshots ../$(PAGE) ../$(EXPLORER) '../$(EXPLORER)#view=layers' --output ../$(SITE)/pictures

docs: $(VENV)/runtime ## write the generated parts of the documentation: reference pages, graph of rules, figure and findings
	@$(BIN)/snakemake --cores all docs

pdf odt: $(VENV)/runtime ## set the report as a paper, results/STUDY/report.pdf, or as a text for word processors, report.odt
	@$(BIN)/snakemake --cores all $(if $(OTHER),--configfile studies/$(STUDY).yaml) -- results/$(STUDY)/report.$@

# The stamps are written last, so an interrupted set-up does not count.
$(VENV)/runtime: requirements.lock
	@command -v git > /dev/null || { echo "git is missing: install it, then run make again" >&2; exit 1; }
	@command -v $(PYTHON) > /dev/null || { echo "$(PYTHON) is missing: install Python 3.11 or newer, or run make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$$($(PYTHON) --version) is too old: Python 3.11 or newer is needed; make PYTHON=/path/to/python chooses one" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || { echo "$(PYTHON) has no venv module: install it (Debian and Ubuntu: python3-venv)" >&2; exit 1; }
	@echo "setting up $(VENV) (one to two minutes, once)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip
	@# setuptools first, as it builds packages that come as sources.
	@$(INSTALL) --require-hashes --requirement <(sed -n '/^setuptools==/,/[^\\]$$/p' requirements.lock)
	@$(INSTALL) --require-hashes --requirement requirements.lock
	@# torch with what its build for this machine needs, which no lock file can know.
	@$(PIP) --no-compile "$$(grep -oE 'torch==[0-9.]+' pyproject.toml)"
	@$(INSTALL) --no-index --editable .
	@# What the repository carries of results, so that dvc pull finds it.
	@$(BIN)/python workflow/lib/unpack.py || true
	@touch $@

$(VENV)/test: $(VENV)/runtime requirements-test.lock
	@echo "adding the test tools"
	@$(INSTALL) --require-hashes --requirement requirements-test.lock
	@# Nothing was resolved, so that they fit together is to be seen.
	@$(BIN)/pip check --disable-pip-version-check
	@touch $@

lock: ## rewrite both lock files from pyproject.toml; UPGRADE=--upgrade takes the newest versions
	@scratch=$$(mktemp -d) && trap 'rm -rf $$scratch' EXIT && $(PYTHON) workflow/lib/lock.py $$scratch $(UPGRADE)
