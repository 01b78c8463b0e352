# Everything a newcomer needs. `make help` lists the targets.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RECIPE ?= recipes/quickstart/recipe.yaml

.DEFAULT_GOAL := help
.PHONY: help install quickstart smoke test lint format clean

help: ## List the targets.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 20

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else f"utilitune needs Python 3.11+, found {sys.version.split()[0]}; use: make PYTHON=python3.11 ...")'
	@echo "==> creating $(VENV) and installing utilitune with the versions of constraints.txt (some minutes, once)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

install: $(STAMP) ## Create .venv and install utilitune into it.

quickstart: $(STAMP) ## The whole line on a small invented world: label, train, measure (about 10 minutes on 2 cores).
	@echo "==> utilitune run $(RECIPE)"
	$(BIN)/utilitune run $(RECIPE)

smoke: $(STAMP) ## The same line at its smallest, a check that every joint holds (about 2 minutes).
	@echo "==> utilitune run recipes/quickstart/smoke.yaml"
	$(BIN)/utilitune run recipes/quickstart/smoke.yaml

test: $(STAMP) ## Run the tests: unit, then those on the packaged models.
	@echo "==> pytest"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not e2e" -n 2 --dist loadfile --durations 15

lint: $(STAMP) ## ruff, mypy, docstrings.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pydoclint --quiet src

format: $(STAMP) ## Let ruff format and fix.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove the environment, caches and runs of this checkout.
	rm -rf $(VENV) runs build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
