# Two commands for newcomers: `make demo` and `make test`. The rest serves them and contributors.
# Needed: a Debian- or Ubuntu-like machine with Python 3.11 or newer and a C compiler.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PRESETS := release asan tsan aarch64

.PHONY: help demo test lint ctest pytest test-pythons test-frameworks test-postgres proof soak endurance bench screenshots developer clean

help: ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: $(VENV)/.installed ## train a small agent and watch it live in the terminal
	$(BIN)/lanekit demo

test: lint ctest pytest ## run everything: linters, the C tests under sanitizers, the Python tests

lint: $(VENV)/.developer build/release/.configured ## ruff, mypy, clang-format, clang-tidy, labels
	PATH="$(abspath $(BIN)):$$PATH" pre-commit run --all-files --show-diff-on-failure

ctest: $(VENV)/.developer ## the C core alone: release, sanitizers, 64-bit ARM under emulation
	tools/system_packages.sh --cross $(PYTHON)
	for preset in $(PRESETS); do \
	  PATH="$(abspath $(BIN)):$$PATH" tools/run_ctest.sh $$preset || exit 1; \
	done

pytest: $(VENV)/.developer ## the Python tests on this interpreter
	tools/run_pytest.sh $(BIN)/python

test-pythons: $(VENV)/.developer ## the Python tests on every supported CPython found, and 3.14t
	PATH="$(abspath $(BIN)):$$PATH" tools/test_pythons.sh $(PYTHONS)

# Not part of `make test`: it installs gigabytes and trains for minutes. tests/conftest.py leaves these tests out elsewhere.
test-frameworks: ## train with every RL framework and watch it, in an environment of its own
	tools/system_packages.sh $(PYTHON)
	tools/test_frameworks.sh

# Not part of `make test`, for its time. tests/conftest.py leaves these tests out elsewhere.
test-postgres: $(VENV)/.developer ## cut off, lock, fill and kill PostgreSQL under traffic, and compare every row
	LANEKIT_TEST_POSTGRES=1 $(BIN)/python -m pytest tests/postgres

proof: $(VENV)/.developer build/release/.configured ## all memory-ordering checks, 50 million frames included
	tools/system_packages.sh --cross $(PYTHON)
	PATH="$(abspath $(BIN)):$$PATH" tools/proof.sh

soak: $(VENV)/.developer build/release/.configured ## the slow, step, command and trajectory lanes under thousands of kills, everything compared
	$(BIN)/python -m tests.slow.campaign --kills 300
	$(BIN)/python -m tests.slow.campaign --kills 100 --durability full
	$(BIN)/python -m tests.slow.campaign --kills 100 --store postgresql
	$(BIN)/python -m tests.step_campaign
	PATH="$(abspath $(BIN)):$$PATH" cmake --build build/release
	build/release/csrc/tests/test_cmd_kills 5000
	build/release/csrc/tests/test_traj_steps every
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.trajectory.trajectory_campaign --records 250000
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.trajectory.trajectory_campaign --kills 3000 --consumer-kills 1000

endurance: $(VENV)/.developer ## a day in front of the viewer's window, in minutes: nothing may grow
	$(BIN)/python -m tests.viewer.endurance --hours 24

bench: $(VENV)/.developer ## each lane beside its limit and its peers
	$(BIN)/python -m bench fast
	$(BIN)/python -m bench slow
	$(BIN)/python -m bench step
	$(BIN)/python -m bench viewer
	$(BIN)/python -m bench engine
	$(BIN)/python -m bench trajectory

screenshots: $(VENV)/.developer ## draw the pictures of the viewer in docs/images anew
	$(BIN)/python tools/screenshots.py docs/images

developer: $(VENV)/.developer ## the environment that the commands above use

clean: ## remove what the commands above made
	rm -rf build dist $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis

# --- environments -------------------------------------------------------------------------------

SOURCES := pyproject.toml CMakeLists.txt $(wildcard csrc/*.[ch] csrc/*.in csrc/stress/*.[ch] python/ext/*.c) \
  tools/emit_binding.py

$(VENV)/bin/python:
	tools/system_packages.sh $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# Editable, so that a changed Python file needs no new install; a changed C file triggers one.
$(VENV)/.installed: $(VENV)/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.developer: $(VENV)/.installed
	tools/system_packages.sh --qt --instructions --postgres $(PYTHON)
	$(BIN)/python -m pip install --quiet --editable '.[slow,viewer,export,postgres,rl,test,test-viewer,bench,lint]'
	touch $@

build/release/.configured: $(VENV)/.developer CMakePresets.json
	PATH="$(abspath $(BIN)):$$PATH" cmake --preset release
	touch $@
