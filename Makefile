# Everything runs in .venv, which is made on first use; PYTHON chooses the interpreter.
# PEERS=1 also installs the libraries that slicekit is compared with.
# ARGS is handed to pytest: make test ARGS="-k diagonal"

PYTHON ?= python3
PEERS ?=
ARGS ?=

RUN := .venv/bin/python
PIP_INSTALL := $(RUN) -m pip --disable-pip-version-check -q install -c constraints.txt

# Stamps: newer than their prerequisites exactly when the last install of that kind succeeded.
INSTALLED := .venv/.installed
INSTALLED_PEERS := .venv/.installed-peers
ENVIRONMENT := $(if $(filter 1,$(PEERS)),$(INSTALLED_PEERS),$(INSTALLED))

define make_venv
@rm -f $(INSTALLED) $(INSTALLED_PEERS)
@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("slicekit needs Python 3.11 or later; choose one with PYTHON=...")'
@$(RUN) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
endef

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test lint format bench clean

help: ## Show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1	\2/' | expand -t 16

demo: $(ENVIRONMENT) ## Parity at length 100,000: a dense linear CDE is exact, a diagonal one is not
	$(RUN) examples/parity.py

test: $(ENVIRONMENT) ## Run the tests and doctests (PEERS=1: also against other libraries)
	$(RUN) -m pytest -n 2 --dist worksteal $(ARGS)

lint: $(ENVIRONMENT) ## Check style, format and types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m pyright

format: $(ENVIRONMENT) ## Rewrite the code in the project's format
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

bench: $(INSTALLED_PEERS) ## Time the scans against other libraries
	$(RUN) -m benchmarks.scans

clean: ## Remove the environment, caches and built files
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	$(make_venv)
	$(PIP_INSTALL) -e '.[all,dev]'
	@touch $@

$(INSTALLED_PEERS): pyproject.toml constraints.txt
	$(make_venv)
	$(PIP_INSTALL) -e '.[all,dev,peers]'
	@touch $(INSTALLED) $@
