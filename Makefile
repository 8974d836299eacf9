# Everything runs in .venv, which is made on first use; PYTHON chooses the interpreter.
# PEERS=1 also installs the libraries that slicekit is compared with, and those of clusters.
# ARGS is handed to pytest, to the attacks or to slicekit bench: make test ARGS="-k diagonal"

PYTHON ?= python3
PEERS ?=
ARGS ?=

RUN := .venv/bin/python
PIP_INSTALL := $(RUN) -m pip --disable-pip-version-check -q install

# Through the environment, constraints also hold for what pip fetches to build slicekit; from pip 25.3
# on, that has a variable of its own.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt

# Where there is a C++ compiler, kernels that do not build are an error; elsewhere torch serves alone.
export SLICEKIT_REQUIRE_NATIVE ?= $(if $(shell command -v $${CXX:-c++}),1,0)

NATIVE := $(shell find native -type f)
SANITIZED := build/sanitize/libslicekit_native.so
ARM_CXX ?= aarch64-linux-gnu-g++
ARM_EMULATOR ?= qemu-aarch64
ARM_ROOT ?= /usr/aarch64-linux-gnu
library = $(shell $${CXX:-c++} -print-file-name=$(1))

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
.PHONY: help demo test attack lint format bench pages wheel test-install sanitize cross clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1	\2/' | expand -t 22

demo: $(ENVIRONMENT) ## Train on A5 words of up to 40 letters, and track its state to length 5120
	$(RUN) examples/a5.py

test: $(ENVIRONMENT) ## Run the tests and doctests (PEERS=1: also against other libraries, on clusters)
	$(RUN) -m pytest -n 2 --dist worksteal $(ARGS)

attack: $(ENVIRONMENT) ## Attack files, runs, kernels and caches for ten minutes (ARGS=--short: for one)
	$(RUN) -m tests.attack $(ARGS)

lint: $(ENVIRONMENT) ## Check style, format and types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m pyright

format: $(ENVIRONMENT) ## Rewrite the code in the project's format
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

bench: $(INSTALLED_PEERS) ## Measure speed and memory, also of other libraries (ARGS=--quick: three minutes)
	.venv/bin/slicekit bench $(ARGS)

pages: $(ENVIRONMENT) ## Make the tables and pictures of docs/ and results/ anew, from the data in results/
	$(RUN) -m slicekit.studies.pages docs results

wheel: $(ENVIRONMENT) ## Build the wheel and the source distribution into dist/
	rm -rf dist
	$(RUN) -m build
	@ls dist

test-install: $(ENVIRONMENT) ## Install slicekit in every way, with and without a compiler, and use it
	$(RUN) tests/installs.py

sanitize: $(ENVIRONMENT) ## Run the tests of the kernels under the address and undefined-behaviour sanitisers
	cmake -S native -B build/sanitize -DSLICEKIT_SANITIZE=ON
	cmake --build build/sanitize --parallel 2
	LD_PRELOAD="$(call library,libasan.so) $(call library,libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 \
	SLICEKIT_NATIVE=$(SANITIZED) $(RUN) -m pytest -n 2 tests/native tests/scans/native $(ARGS)

cross: ## Build the kernels for 64-bit ARM and try them all on an emulator
	@command -v $(ARM_CXX) >/dev/null && command -v $(ARM_EMULATOR) >/dev/null || \
	{ echo "make cross needs $(ARM_CXX) and $(ARM_EMULATOR); on Debian: apt-get install g++-aarch64-linux-gnu qemu-user"; exit 1; }
	cmake -S native -B build/aarch64 -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
	  -DCMAKE_CXX_COMPILER=$(ARM_CXX)
	cmake --build build/aarch64 --parallel 2 --target interface
	$(ARM_EMULATOR) -L $(ARM_ROOT) build/aarch64/interface

clean: ## Remove the environment, caches and built files
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt $(NATIVE)
	$(make_venv)
	$(PIP_INSTALL) -e '.[all,dev]'
	@touch $@

$(INSTALLED_PEERS): pyproject.toml constraints.txt $(NATIVE)
	$(make_venv)
	$(PIP_INSTALL) -e '.[all,aeon,dev,peers,distributed,sweep]'
	@touch $(INSTALLED) $@
