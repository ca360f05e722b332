# make run   set everything up and answer a prompt with the bundled nano model (P="..." asks something else)
# make test  the same set-up, then lint, types, import rules and all tests (WORKERS=1 runs them one after the other)
# make nano  train the bundled model on for HOURS and pack it again (nano/README.md)
# Both are quick the second time: set-up is redone only when pyproject.toml, CMakeLists.txt or native/ change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
P ?= What is the capital of France?
NATIVE := CMakeLists.txt pyproject.toml $(shell find native -name '*.cpp' -o -name '*.h')

HOURS ?= 1.5

.PHONY: run test lint bench clean real-parts nano
.DELETE_ON_ERROR:

$(VENV)/created:
	@$(PYTHON) scripts/check_tools.py
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: $(VENV)/created $(NATIVE)
	@$(PYTHON) scripts/check_tools.py
	$(BIN)/python -m pip install -qq --disable-pip-version-check "scikit-build-core>=1.1" "nanobind>=3.1" "cmake>=3.20" ninja
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install -qq --disable-pip-version-check --no-build-isolation --editable .
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	@$(PYTHON) scripts/install_test_tools.py
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install -qq --disable-pip-version-check --no-build-isolation --editable ".[test]"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install -qq --disable-pip-version-check --no-build-isolation --editable ".[test-devices]" \
	  || echo "PyTorch, Triton or MLX cannot be had here: the tests that need them will be skipped, each saying so"
	@touch $@

run: $(VENV)/installed
	@$(BIN)/whitedwarf run --nothink --temp 0 -p "$(P)"

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# DSH and llama-server, which the supervisor's tests run; they are looked for each time, and fetched once.
real-parts: $(VENV)/installed-test
	@$(BIN)/python scripts/install_real_parts.py

test: lint real-parts
	$(BIN)/whitedwarf eval --self-test-extractors
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

bench: $(VENV)/installed
	$(BIN)/whitedwarf bench

nano: $(VENV)/installed
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install -qq --disable-pip-version-check --no-build-isolation --editable ".[train]"
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m nano.train --hours $(HOURS) --draft --out build/nano
	$(BIN)/python -m nano.export build/nano/mean.pt build/nano/release
	$(BIN)/python scripts/make_nano.py --source build/nano/release
	$(BIN)/python -m nano.evaluate

clean:
	rm -rf build $(VENV) .real-parts src/whitedwarf/_native*.so
