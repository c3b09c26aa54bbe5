# Everything runs in .venv, which `make` builds on first use. Needs Python >= 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# CI compares with the other libraries too; elsewhere `make test ORACLES=1` does (a large download).
ORACLES ?= $(if $(CI),1,)
STAMPS := $(VENV)/stamps

.PHONY: translate test check mutants kernel-mutants search lint docs dist site bench reports clean

translate: $(STAMPS)/run
	$(BIN)/python examples/translate_de_en.py --out runs/translate --overwrite

# All tests may take 12 minutes of processor time with the other libraries (`time make test ORACLES=1`, user + sys); a
# new test that would exceed this must share, shrink or drop something.
# Tests that want real data skip unless HANDLOOM_DATA names its folder, or it is next to the checkout.
ifneq ($(wildcard ../shared/data),)
test: export HANDLOOM_DATA ?= $(abspath ../shared/data)
endif

# The tests start hundreds of programs, which need not all compile handloom anew where PYTHONDONTWRITEBYTECODE is set.
test check: export PYTHONDONTWRITEBYTECODE :=
test: $(STAMPS)/test$(if $(ORACLES),-oracles)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal $(PYTEST_ARGS)

# For the edit-and-try loop: half of all tests in half a minute on two cores; it stops at the first failure. Files that
# start programs, draw, emulate a GPU, ask another library or take more than some four seconds are marked slow.
check: $(STAMPS)/test
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -x -q -n 2 --dist worksteal -m "not slow" $(PYTEST_ARGS)

# Plants wrong rules in the engine, one by one; the tests of the ops must notice each.
mutants: $(STAMPS)/test
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m tests.support.mutants

# The same for the CUDA kernels, on the emulator.
kernel-mutants: $(STAMPS)/test
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m tests.support.mutants kernels

# An hour of the tests marked `search`, with random seeds.
search: $(STAMPS)/test
	$(BIN)/python -m tests.support.search $(SEARCH_ARGS)

lint: $(STAMPS)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	mkdir -p $(VENV)/typing && ln -sfn ../.. $(VENV)/typing/handloom
	$(BIN)/python -m pyright --project pyproject.toml
	MYPYPATH=$(VENV)/typing $(BIN)/mypy $(addprefix -p handloom.,autograd cli course doctor errors examples.tables explorer files gpu_check kinds lazy models nn notebook tensor_files tokenizer train)

# The documentation as a site, build/docs/index.html, with the explorer live in it; warnings are errors. Once the extra is installed, without a network.
docs: $(STAMPS)/docs
	rm -rf build/docs build/doctrees
	$(BIN)/python -m sphinx -q --fail-on-warning --keep-going -d build/doctrees docs build/docs
	$(BIN)/python -m handloom.explorer --export build/docs/explorer_live
	@echo "the site: build/docs/index.html"

# dist/ gets the sdist, and the wheel that is built from it; both are checked in environments of their own.
dist: $(STAMPS)
	rm -rf dist
	$(BIN)/python -m pip install --quiet build
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python tests/support/installed.py dist

# The explorer as a folder of files, in which the shipped model runs in the browser; next to the documentation, if that is built.
site: $(STAMPS)/run
	$(BIN)/python -m handloom.explorer --export build/docs/explorer_live
	@echo "serve it: $(BIN)/python -m http.server -d build/docs/explorer_live"

bench: $(STAMPS)/test-oracles
	for name in bpe overhead train_step decode; do $(BIN)/python -m benchmarks.$$name || exit 1; done

# Every experiment of docs/reports anew, in runs/reports, the cheapest first: a day of one core. Started again it goes on.
# `make -n reports` lists them with their cost and runs nothing.
reports: $(STAMPS)/test
	+$(if $(findstring n,$(firstword -$(MAKEFLAGS))),test ! -x $(BIN)/python || $(BIN)/python -m benchmarks.reports,$(BIN)/python -m benchmarks.reports --run)

clean:
	rm -rf $(VENV) build dist docs/api docs/course *.egg-info .pytest_cache .mypy_cache .ruff_cache

$(STAMPS):
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "handloom needs Python 3.11 or newer; name one with make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	mkdir -p $@ $(VENV)/typing && ln -sfn ../.. $(VENV)/typing/handloom

$(STAMPS)/run: pyproject.toml | $(STAMPS)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(STAMPS)/test: pyproject.toml | $(STAMPS)
	$(BIN)/python -m pip install --quiet --editable .[test]
	touch $@

$(STAMPS)/test-oracles: pyproject.toml | $(STAMPS)
	$(BIN)/python -m pip install --quiet --editable .[test,oracles,docs]
	touch $@

$(STAMPS)/docs: pyproject.toml | $(STAMPS)
	$(BIN)/python -m pip install --quiet --editable .[docs]
	touch $@

$(STAMPS)/dev: pyproject.toml | $(STAMPS)
	$(BIN)/python -m pip install --quiet --editable .[test,dev]
	touch $@
