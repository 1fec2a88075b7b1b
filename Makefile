# Every target a developer types; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: install
install: $(STAMP) ## Make .venv and install Harmony with everything pinned

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --progress-bar on --editable '.[dev]'
	@touch $@

.PHONY: demo
demo: install ## Two real jobs share this machine: table, timeline, trace
	$(BIN)/harmony run worker_image/examples/demo-mlp.yaml worker_image/examples/demo-transformer.yaml --compare

.PHONY: test
test: install ## Every test there is
	$(BIN)/python -m pytest

.PHONY: lint
lint: install ## Format, lint, types, who may import whom, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m harmony_crds --check

.PHONY: format
format: install ## Rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: crds
crds: install ## Write the resource definitions and their reference from the models
	$(BIN)/python -m harmony_crds

.PHONY: bench
bench: install ## Every benchmark, in full (root for the shaped link)
	@failed=; for name in parameter_server handoff colocation operator_scale planner simulation; do \
	    $(BIN)/python benchmarks/$$name.py || failed="$$failed $$name"; \
	done; [ -z "$$failed" ] || { echo "could not run:$$failed"; exit 1; }

.PHONY: cluster-up
cluster-up: install ## A cluster of two nodes with Harmony on it (root)
	@PYTHONPATH=tests $(BIN)/python -m cluster up

.PHONY: cluster-down
cluster-down: install ## Stop that cluster
	@PYTHONPATH=tests $(BIN)/python -m cluster down

.PHONY: clean
clean: ## Remove what was built; runs are kept
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
