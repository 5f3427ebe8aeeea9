# Everything on a fresh machine with Python and make: `make demo`, `make test`.
# Each target sets up a virtual environment of its own; the README has the same as plain pip lines.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Where an image forbids Python to keep bytecode, each process would compile the grader, and each worker the tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all verify lint bench pins editor clean

demo: $(READY)
	$(BIN)/python examples/demo.py

# Two tests side by side for each processor (tests/grader/conftest.py), each beginning elsewhere: what a module
# sets up once is rarely set up twice. The thorough ones ask the same of every exercise, attack or moment, or run a
# program for what small tests ask: `make test-all`.
test: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not thorough"

# That each solution passes its suites `make verify` proves; plain pytest is asked of one chapter, with probes.
test-all: $(READY)
	$(BIN)/python -m pytest -n auto --dist worksteal
	$(BIN)/python -m pytest -n auto --dist loadfile tests/public/internals tests/hidden/internals

# Two seeds a right answer and ten mutants a solution here. An author's `grade verify EXERCISE` takes five seeds,
# and `grade verify --mutants` takes all mutants.
verify: $(READY)
	$(BIN)/grade verify --seeds 2 --mutants 10 --words

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m bench

# The newest versions of everything, for all systems at once, which pip cannot find out (uv can, from your
# PATH). The comments at the top of both files stay. CUDA's libraries are left to PyTorch, which names them.
pins:
	mkdir -p build
	uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --extra test \
	  --upgrade --generate-hashes --no-annotate --no-header pyproject.toml -o build/pins.txt
	awk '/^[a-z]/ {keep = !/^(cuda-|nvidia-|triton=)/} keep' build/pins.txt > build/kept.txt
	grep '^#' requirements-hashed.txt > build/hashed.txt
	sed "s/^torch==[^ ]*/& ; sys_platform != 'linux'/" build/kept.txt >> build/hashed.txt
	grep '^#' constraints.txt > build/constraints.txt
	sed -n 's/ *\\$$//; /^[a-z]/p' build/kept.txt >> build/constraints.txt
	mv build/hashed.txt requirements-hashed.txt
	mv build/constraints.txt constraints.txt

# The editor of the exercise page, as the one file that is shipped; needs npm, as nothing else does.
editor:
	mkdir -p build/editor
	cp grader/serve/editor/* build/editor
	npm ci --silent --no-audit --no-fund --ignore-scripts --prefix build/editor
	cd build/editor && node_modules/.bin/esbuild entry.mjs --bundle --minify --format=iife --charset=utf8 \
	  --legal-comments=none --outfile=editor.js
	cp build/editor/editor.js grader/serve/templates/editor.js

clean:
	rm -rf $(VENV) demo

# Every install goes through the constraints: without them pip takes the newest of everything.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@
