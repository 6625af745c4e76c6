# Two commands matter: `make conformance` and `make test`. Each sets up what it needs, in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# Only one at a time, whatever else runs side by side.
PIP := flock $(VENV)/.installing $(BIN)/python -m pip
# The tests start hundreds of processes, and each would compile this package anew.
unexport PYTHONDONTWRITEBYTECODE

QUICK := $(addprefix tests/test_,$(addsuffix .py,check clause_ids clauses cli compare consequences expectations gates \
	joining report report_ci report_page report_terminal session slope starter subject verdict verify witness))

.DEFAULT_GOAL := help
.PHONY: help setup conformance test test-installed check gates docs docs-serve results gpu bench kill-matrix published clause-ids wheel-check \
	release-check clean

help:  ## Say what there is.
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.test $(VENV)/.docs  ## Install everything that tests and docs need into .venv.

conformance: $(VENV)/.run  ## Check the reference implementation and your PyTorch.
	$(BIN)/conformance run $(ARGS)

# Many tests wait for a deadline or for a process to start: two workers keep a core busy. conftest.py orders files.
PYTEST = $(BIN)/python -m pytest -n $$((2 * $$(nproc))) --dist loadfile --no-loadscope-reorder

test: $(VENV)/.test $(VENV)/.docs  ## Run the tests of the suite itself.
	$(PYTEST) --ignore=tests/installed $(ARGS)

test-installed: $(VENV)/.test $(VENV)/.docs  ## Run the tests of what is installed from it, in a browser, and on several nodes.
	$(PYTEST) tests/installed $(ARGS)

# What is quick to answer: lint, types, the tests that start few processes, and the reference among two, not compiled.
check: $(VENV)/.test $(VENV)/.docs  ## Check a change before it is committed, in about a minute.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache >/dev/null || $(BIN)/lint-imports
	$(BIN)/python -m pytest -q -n 2 --dist loadfile $(QUICK) $(ARGS)
	$(BIN)/conformance run --ranks 2 --no-compile

gates: $(VENV)/.test $(VENV)/.docs  ## Lint, types, spelling, workflows: all hooks of .pre-commit-config.yaml.
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pre_commit run --all-files

docs: $(VENV)/.docs  ## Build the site into docs/_build/html.
	$(BIN)/python -m sphinx -b html -W --keep-going -n -c conf docs docs/_build/html
	$(PIP) install --quiet --no-deps --no-build-isolation --upgrade --target docs/_build/specs specs/operator
	PYTHONPATH=docs/_build/specs $(BIN)/python -m sphinx -b html -W --keep-going specs/operator/docs docs/_build/html/operator

docs-serve: docs  ## Show the site at http://127.0.0.1:8000.
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory docs/_build/html 8000

results: $(VENV)/.test  ## Run everything again whose reports the site shows.
	$(BIN)/python conf/results.py $(ARGS)

gpu: $(VENV)/.test  ## On a machine with GPUs: run what is owed there, for the site. ARGS="--device emulated" rehearses.
	$(BIN)/python conf/gpu.py $(ARGS)

bench: $(VENV)/.test  ## Measure speed, side by side with other harnesses and gathers.
	$(BIN)/python -m benchmarks

kill-matrix: $(VENV)/.test  ## Prove the suite: which clause catches which planted bug.
	$(BIN)/python -m tests.proof

published: $(VENV)/.test  ## Check published implementations.
	$(BIN)/python -m published

clause-ids: $(VENV)/.run  ## Add the ids of new clauses to the list of published ones.
	$(BIN)/python conf/clause_ids.py

wheel-check: $(VENV)/.test $(VENV)/.docs  ## Build wheel and sdist, and use both as somebody else would.
	$(BIN)/python -m pytest tests/installed/test_wheel.py tests/installed/test_wheel_guide.py

release-check: wheel-check  ## Say what a release still lacks: make release-check TAG=v0.1.0
	$(BIN)/python conf/release.py $(TAG)

clean:  ## Remove what was built; the virtual environment stays.
	rm -rf docs/_build docs/api build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: conf/requirements.txt conf/requirements-run.txt pyproject.toml | $(VENV)/bin/python
	$(PIP) install --quiet -r conf/requirements.txt
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.test: conf/requirements-test.txt conf/requirements-plugins.txt $(VENV)/.run
	$(PIP) install --quiet -r conf/requirements-test.txt
	$(PIP) install --quiet --no-deps --upgrade --target $(VENV)/plugins -r conf/requirements-plugins.txt
	@touch $@

$(VENV)/.docs: conf/requirements-docs.txt $(VENV)/.run
	$(PIP) install --quiet -r conf/requirements-docs.txt
	@touch $@
