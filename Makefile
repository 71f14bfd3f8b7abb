# `make run` and `make test` need nothing but Python 3.11+ and make: each sets up .venv the first time.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
BUDGET ?= 600
SEED ?= 0
STAMP := $(VENV)/.installed
# The oldest Python and packages that pyproject.toml allows.
OLDEST := .venv-oldest
OLDEST_PYTHON ?= python3.11
# With PyTorch and ONNX Runtime, which `make test` does without.
PEERS := .venv-peers

.DEFAULT_GOAL := help
.PHONY: help setup run test test-oldest test-peers lint fmt docs docs-links bench fuzz clean

help:
	@echo "make run     tune three real programs on this machine and print one table (under three minutes)"
	@echo "make test    lint, types and every test"
	@echo "make test-oldest  every test, with the oldest releases that pyproject.toml allows"
	@echo "make test-peers  the tests that need PyTorch or ONNX Runtime, which it installs (up to some GB)"
	@echo "make lint    ruff and mypy"
	@echo "make fmt     format the code"
	@echo "make docs    write what is made from the code, and build the site: build/site/html/index.html"
	@echo "make docs-links  check the links of the site that lead elsewhere; this needs a network"
	@echo "make bench   every benchmark under benchmarks/, one JSON object a line"
	@echo "make fuzz    random programs under random schedules for BUDGET seconds, from SEED (BUDGET=600 SEED=0)"

setup: $(STAMP)

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "metasched needs Python 3.11 or newer; set PYTHON=/path/to/python" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@$(BIN)/python -c 'import lightgbm' || { \
		echo "lightgbm needs the OpenMP runtime libgomp: install it (Debian and Ubuntu: apt-get install libgomp1)" >&2; \
		exit 1; }
	@touch $@

run: $(STAMP)
	$(BIN)/python -m benchmarks.run_main

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2

fmt: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site: its pages are put together from docs/, tutorials/ and the code, and the tutorials run (once until they change).
# What they tune goes to a folder of its own.
SITE := build/site
SPHINX := METASCHED_CACHE=$(abspath $(SITE))/cache $(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --conf-dir docs

docs: $(STAMP) $(VENV)/.docs
	$(BIN)/python docs/generate.py
	$(BIN)/python -m docs.building $(SITE)/pages
	$(SPHINX) --builder html $(SITE)/pages $(SITE)/html
	$(BIN)/python -m docs.building.built_links $(SITE)/html
	@echo "the site is $(SITE)/html/index.html"

docs-links: docs
	$(SPHINX) --builder linkcheck $(SITE)/pages $(SITE)/links

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --editable '.[docs,onnx]'
	@touch $@

test: lint
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

test-oldest: $(OLDEST)/.installed
	$(OLDEST)/bin/python -m pytest --numprocesses 2 --dist worksteal

$(OLDEST)/.installed: pyproject.toml constraints-oldest.txt
	rm -rf $(OLDEST)
	$(OLDEST_PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --editable '.[test]' --constraint constraints-oldest.txt
	@touch $@

test-peers: $(PEERS)/.installed
	$(PEERS)/bin/python -m pytest --numprocesses 2 --dist worksteal -m peers

$(PEERS)/.installed: pyproject.toml
	rm -rf $(PEERS)
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --editable '.[test,torch]' onnxruntime
	@touch $@

bench: $(STAMP)
	@for name in $$($(BIN)/python -m benchmarks --names); do $(BIN)/python -m benchmarks $$name --json || exit 1; done

fuzz: $(STAMP)
	$(BIN)/python -m tests.property.fuzz --budget $(BUDGET) --seed $(SEED)

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
