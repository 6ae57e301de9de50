# Every target does its own set-up: a bare machine needs a Python >= 3.11 (with venv) and nothing else.
SHELL := /bin/bash
VENV ?= .venv
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-demo
BIN := $(VENV)/bin
# For pip, as --extra-index-url ADDRESS: torch's default build for Linux is that for CUDA, of several GB.
PIP_OPTIONS ?=
FIT := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$python -c '$(FIT)' 2>/dev/null && { echo $$python; break; }; done)

# Where this is set, every process of every test would compile all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv lint test check nightly demo bench clean

help:
	@echo 'make test     everything: lint, types, import contracts, all tests'
	@echo 'make check    the quick everyday suite: the same without the slow tests'
	@echo 'make nightly  damaged traces and recordings for an hour, and tests that take too long for every change or need a quiet machine'
	@echo 'make demo     record and diagnose a training with a known bottleneck'
	@echo 'make bench    accuracy and overhead, measured on this machine (long)'
	@echo 'make clean    remove the virtual environment and all caches'

venv: $(STAMP)

define make_venv
	@test -n '$(PYTHON)' || { echo 'No Python >= 3.11 with venv was found. Install one, or name it: make PYTHON=/path/to/python3.' >&2; exit 1; }
	@$(BIN)/python -c '$(FIT)' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
endef

# All that the demo needs is among what the tests need.
$(STAMP): pyproject.toml
	$(make_venv)
	$(BIN)/python -m pip install --quiet $(PIP_OPTIONS) -e '.[test]'
	@touch $(DEMO_STAMP) $@

# Not compiled: the demo imports few of torch's files, and those are compiled as they are imported.
$(DEMO_STAMP): pyproject.toml
	$(make_venv)
	$(BIN)/python -m pip install --quiet --no-compile $(PIP_OPTIONS) -e '.[demo]'
	@touch $@

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPY_NUM_WORKERS=2 $(BIN)/mypy
	$(BIN)/lint-imports

TESTS := $(BIN)/python -m pytest

# Half of a slow test's time is waiting for processes that it starts: three at a time on two cores took 13 minutes where two took 21.
SLOW_PROCESSES ?= $(shell echo $$(( ($$(nproc) * 3 + 1) / 2 )))

# Not in one go: what slow tests import would stay in the processes in which quick ones count objects and threads.
test: lint
	$(TESTS) -m 'not slow and not nightly' -n auto --dist worksteal
	$(TESTS) -m 'slow and not nightly' -n $(SLOW_PROCESSES) --dist worksteal --durations 20

# Of drawn cases a quarter, and without what takes long because it makes whole reports, experiments and command lines, each of whose parts has tests of its
# own, and without levers and how they are switched: each has small trainings, which nothing but a change of theirs can break.
WHOLE := unit/workflow/traces unit/workflow/test_trace_rank_reports.py unit/workflow/test_rank_reports.py unit/workflow/test_simulated_verdicts.py \
	unit/workflow/test_true_gains.py unit/workflow/test_experiments.py unit/workflow/test_prove_act.py unit/exporters/test_finding_tracks.py \
	unit/test_command_line.py unit/levers unit/record/experiment
check: lint
	$(TESTS) -m 'not slow and not nightly' -n auto --dist worksteal --hypothesis-profile quick $(addprefix --ignore=tests/,$(WHOLE))

# One test after the other: what some of them measure needs a quiet machine. Of the fuzz tests other cases every night: the first seed is told,
# and whatever fails is printed as a line that makes it again.
FUZZ_SECONDS ?= 3600
nightly: $(STAMP)
	$(TESTS) -m nightly --durations 20 --timeout 3600
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS) --start $$(( $$(date +%s) / 86400 * 1000000 ))

demo: $(DEMO_STAMP)
	$(BIN)/slowstep run examples/case_study/train.py --variant serial-loader

bench: $(STAMP)
	$(BIN)/python benchmarks/accuracy.py
	$(BIN)/python benchmarks/overhead.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
