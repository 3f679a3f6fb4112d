# Needs Python 3.11 or later and make, nothing else: each target prepares .venv for itself.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-gpu lint lint-ruff lint-format lint-mypy format bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/test.stamp ## train, certify and compare on small data
	$(BIN)/widemargin demo

test: $(VENV)/test.stamp ## run the tests
	$(BIN)/python -m pytest -n 2 -q

test-gpu: ## run the tests that need a GPU, with the Python that has CuPy
	PYTHONPATH=src $(PYTHON) -m pytest -q -m gpu tests/gpu

lint: lint-ruff lint-format lint-mypy ## check style and types

lint-ruff: $(VENV)/test.stamp
	$(BIN)/ruff check .

lint-format: $(VENV)/test.stamp
	$(BIN)/ruff format --check .

lint-mypy: $(VENV)/test.stamp
	$(BIN)/mypy

format: $(VENV)/test.stamp ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/bench.stamp ## time widemargin beside its peers
	$(BIN)/python -m benchmarks.run --grid text --out benchmarks/results/text.jsonl
	$(BIN)/python -m benchmarks.analyse benchmarks/results/text.jsonl
	$(BIN)/python -m benchmarks.startup

clean: ## remove the environment, caches and builds
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(VENV)/test.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -e '.[test]'
	touch $@

$(VENV)/bench.stamp: $(VENV)/test.stamp
	$(BIN)/python -m pip install -q -e '.[bench]'
	touch $@
