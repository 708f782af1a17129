# Everything starts with `make help`. All targets set up .venv by themselves.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
# More words for pytest: make test-unit ARGS="-k quantity -x".
ARGS ?=
# How often `make soak` goes round.
ROUNDS ?= 10
export PYTHON

# A tree that was moved or copied, or whose Python has gone, is set up again.
INSTALLED := .venv/installed
$(shell test "$$(cat $(INSTALLED) 2>/dev/null)" = "$(CURDIR)" && $(BIN)/python -c "" 2>/dev/null || rm -f $(INSTALLED))

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: install
install: $(INSTALLED) ## Make .venv with everything: what a cluster runs with, tests, checks
	@:

$(INSTALLED): tools/make-venv pyproject.toml requirements/runtime.txt requirements/dev.txt
	@tools/make-venv .venv
	@echo "Installing into .venv: a minute or two the first time."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --requirement requirements/dev.txt \
		&& $(BIN)/python -m pip install -qq --disable-pip-version-check --no-build-isolation \
			--constraint requirements/dev.txt --editable '.[all]' \
		&& $(BIN)/python -m pip check --quiet \
		|| { echo "pip could not install what requirements/dev.txt names; what it said is above." \
			"Without a connection, or behind a proxy with a certificate of its own, tell pip" \
			"(PIP_INDEX_URL, PIP_CERT) and run make again." >&2; exit 1; }
	@printf '%s' "$(CURDIR)" > $@

.PHONY: demo
demo: install ## Run a cluster of three nodes from its start to its end, with real pods
	@$(BIN)/python examples/demo.py

.PHONY: test test-unit test-integration test-e2e
test: install ## Run the tests: unit, integration, e2e, faults
	@$(PYTEST) $(ARGS)

test-unit: install ## Run the tests of the pure parts and of the repository
	@$(PYTEST) tests/unit $(ARGS)

test-integration: install ## Run the tests of each part against a real etcd
	@$(PYTEST) tests/integration $(ARGS)

test-e2e: install ## Run the tests of whole clusters
	@$(PYTEST) tests/e2e $(ARGS)

.PHONY: faults soak test-compose
faults: export FULL_LENGTH := 1
faults: install ## Run the tests that kill, stop and cut off
	@$(PYTEST) tests/faults $(ARGS)

soak: export FULL_LENGTH := 1
soak: install ## Run integration, e2e and faults at full length, ROUNDS=10 times, until one fails
	@round=1; while [ $$round -le $(ROUNDS) ]; do \
		echo "Round $$round of $(ROUNDS)"; \
		$(PYTEST) tests/integration tests/e2e tests/faults $(ARGS) || exit 1; \
		round=$$((round + 1)); \
	done

test-compose: install ## Build the image and run deploy/compose.yaml in a real engine, where there is one
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --requirement requirements/compose.txt
	@$(PYTEST) tests/compose $(ARGS)

.PHONY: bench
bench: install ## Measure placement: 1,000 pods onto 100 simulated nodes
	@$(BIN)/python -m benchmarks placement --nodes 100 --pods 1000 --json

.PHONY: protos
protos: install ## Generate modules and stubs from the contracts
	@$(BIN)/python tools/protos.py generate

.PHONY: verify verify-lint verify-format verify-types verify-imports verify-contracts verify-generated
verify: install ## Run every check below, and tell what all of them found
	@$(MAKE) --no-print-directory --keep-going \
		verify-lint verify-format verify-types verify-imports verify-contracts verify-generated

verify-lint: install ## Check the Python code's style and habits
	@$(BIN)/ruff check --quiet

verify-format: install ## Check the Python code's layout
	@$(BIN)/ruff format --check --quiet || { echo "Layout differs: run make fix-format."; exit 1; }

verify-types: install ## Check the types
	@$(BIN)/mypy

verify-imports: install ## Check who imports whom
	@$(BIN)/lint-imports --no-logo

verify-contracts: install ## Check the contracts' style and layout
	@$(BIN)/python tools/protos.py lint
	@$(BIN)/buf format --diff --exit-code protos

verify-generated: install ## Check that generated code is that of the contracts
	@$(BIN)/python tools/protos.py check

.PHONY: fix fix-lint fix-format fix-types fix-imports fix-contracts fix-generated
fix: fix-lint fix-format fix-contracts fix-generated ## Mend all that can be mended without thought

fix-lint: install ## Mend what verify-lint found, where a rule knows how
	@$(BIN)/ruff check --fix

fix-format: install ## Lay the Python code out
	@$(BIN)/ruff format

fix-types: install ## Show what verify-types found in its code, for mending by hand
	@$(BIN)/mypy --pretty --show-error-context

fix-imports: install ## Show what verify-imports found with every step, for mending by hand
	@$(BIN)/lint-imports --no-logo --verbose

fix-contracts: install ## Lay the contracts out
	@$(BIN)/buf format --write protos

fix-generated: protos ## Generate again

.PHONY: clean distclean
clean: ## Remove what tests, checks and builds left behind
	@rm -rf .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	@find benchmarks examples protos sdk services tests tools -name __pycache__ -type d -prune \
		-exec rm -rf {} + 2>/dev/null || true

distclean: clean ## Remove .venv too
	@rm -rf .venv
