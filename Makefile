# Needs Python 3.11 or later and make, nothing else: each target prepares its environment for itself.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
# The site needs no tests, and tests need no site: each has an environment of its own.
DOCS_VENV := .venv-docs
GRIDS := text tall classes small
MINUTES ?= 10
# Each process begins with another part of the tests: side by side in one file, both would compile
# the same kernels.
IN_PARALLEL := -n 2 --dist worksteal
BASE ?= main

.DEFAULT_GOAL := help
.PHONY: help demo test test-oldest fuzz test-gpu lint lint-ruff lint-format lint-mypy format docs bench bench-full bench-quick bench-regress $(addprefix bench-,$(GRIDS)) clean
# Timings that run side by side would tell nothing, and the rest is quick.
.NOTPARALLEL:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/test.stamp ## train, certify and compare on small data
	$(BIN)/widemargin demo

test: $(VENV)/test.stamp ## run the tests
	$(BIN)/python -m pytest $(IN_PARALLEL) -q

test-oldest: $(OLDEST)/stamp ## run the tests with the lowest versions of all dependencies
	$(OLDEST)/bin/python -m pytest $(IN_PARALLEL) -q

test-gpu: ## run the tests that need a GPU, with the Python that has CuPy
	PYTHONPATH=src $(PYTHON) -m pytest -q -m gpu tests/gpu

fuzz: $(VENV)/test.stamp ## look for failures: MINUTES=30, and SEED=123 to have them again
	PYTHONPATH=tests $(BIN)/python -m fuzz --minutes $(MINUTES) $(addprefix --seed ,$(SEED))

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

bench: bench-quick ## time widemargin beside its peers: about ten minutes
	$(BIN)/python -m benchmarks.startup

bench-full: bench $(addprefix bench-,$(GRIDS)) ## all benchmarks: hours
	$(BIN)/python -m benchmarks.choice measure benchmarks/results/choice.jsonl
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.selection
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.papers

bench-quick $(addprefix bench-,$(GRIDS)): bench-%: $(VENV)/bench.stamp
	$(BIN)/python -m benchmarks.run --grid $*
	$(BIN)/python -m benchmarks.analyse benchmarks/results/$*.jsonl
	$(BIN)/python -m benchmarks.plot benchmarks/results/$*.jsonl

bench-regress: $(VENV)/test.stamp ## time BASE=main against the present code, in turn; fail beyond 10 %
	git worktree add --force --detach build/base $(BASE)
	$(BIN)/python -m benchmarks.turns build/base --grids quick tall --most 1.1; \
	status=$$?; git worktree remove --force build/base; exit $$status

# -E: pages read by an earlier build would not repeat their warnings.
docs: $(DOCS_VENV)/docs.stamp ## build the site into build/docs, warnings as errors
	$(DOCS_VENV)/bin/python -m sphinx -q -E -W --keep-going -b html -d build/doctrees docs build/docs

clean: ## remove the environment, caches and builds
	rm -rf $(VENV) $(OLDEST) $(DOCS_VENV) build dist docs/api docs/stories .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(VENV)/test.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -e '.[test]'
	touch $@

# pip has no option for the lowest versions; uv has.
$(OLDEST)/stamp: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install -q uv
	VIRTUAL_ENV=$(abspath $(OLDEST)) $(OLDEST)/bin/uv pip install -q --resolution lowest-direct -e '.[test]'
	touch $@

$(DOCS_VENV)/docs.stamp: pyproject.toml
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install -q -e '.[docs]'
	touch $@

# lightning's build takes NumPy and Cython without asking for them; where it fails, it is skipped.
$(VENV)/bench.stamp: $(VENV)/test.stamp
	$(BIN)/python -m pip install -q -e '.[bench]'
	-$(BIN)/python -m pip install -q --no-build-isolation sklearn-contrib-lightning==0.6.2.post0
	touch $@
