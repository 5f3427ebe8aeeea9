# Everything on a fresh machine with Python and make: `make demo`, `make test`.
# Each target sets up a virtual environment of its own; the README has the same as plain pip lines.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test verify lint bench clean

demo: $(READY)
	$(BIN)/python examples/demo.py

# As many tests side by side as there are processors.
test: $(READY)
	$(BIN)/python -m pytest -n auto
	$(BIN)/python -m pytest -n auto --dist loadfile tests/public tests/hidden

verify: $(READY)
	$(BIN)/grade verify
	$(BIN)/grade verify --mutants

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) demo

# Every install goes through the constraints: without them pip takes the newest torch, with CUDA.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@
