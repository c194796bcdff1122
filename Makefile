# Two commands for newcomers: `make demo` and `make test`. The rest serves them and contributors.
# Needed: a Debian- or Ubuntu-like machine with Python 3.11 or newer and a C compiler.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PRESETS := release asan tsan aarch64
COMMA := ,

.PHONY: help demo test lint ctest pytest test-pythons test-frameworks test-web test-postgres test-cluster web-screenshots proof mutants soak endurance bench bench-peers docs wheels screenshots developer clean

help: ## list the commands
	@echo 'make COMMAND, where COMMAND is one of these. Newcomers want two: demo and test.'
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^/  /; s/:.*## /\t/' | expand -t 20

# With a screen it takes the window, too. ENV names a Gymnasium environment, ARGS is passed on as it is.
DEMO_EXTRAS := slow,rl,web$(if $(DISPLAY)$(WAYLAND_DISPLAY),$(COMMA)viewer)
demo: $(VENV)/.demo-$(DEMO_EXTRAS) ## watch an agent learn: in a window, a browser or the terminal (ENV=Acrobot-v1)
	$(BIN)/lanekit demo $(if $(ENV),--env $(ENV)) $(ARGS)

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
	tools/system_packages.sh --developer $(PYTHON)
	tools/test_frameworks.sh

# Not part of `make test` either: a browser is a large thing to install, and to run beside everything else.
test-web: $(VENV)/.developer ## the browser's page in a real Chromium, over a daemon and a worker that learns
	tools/system_packages.sh --browser $(PYTHON)
	$(BIN)/python -m pip install --quiet --editable '.[test-web]'
	$(BIN)/python -m pytest tests/web

web-screenshots: $(VENV)/.developer ## take the pictures of the page in docs/images anew
	tools/system_packages.sh --browser $(PYTHON)
	$(BIN)/python -m pip install --quiet --editable '.[test-web]'
	$(BIN)/python tools/web_screenshots.py docs/images

# Nor is this: it starts Ray clusters. As root it also goes through network namespaces with loss and delay.
test-cluster: ## runs and trajectories on a Ray cluster of several raylets, in an environment of its own
	tools/system_packages.sh --developer --postgres $(PYTHON)
	tools/test_cluster.sh

# Nor is this, for its time. tests/conftest.py leaves these tests out elsewhere.
test-postgres: $(VENV)/.developer ## cut off, lock, fill and kill PostgreSQL under traffic, and compare every row
	LANEKIT_TEST_POSTGRES=1 $(BIN)/python -m pytest tests/postgres

proof: $(VENV)/.developer build/release/.configured ## all memory-ordering checks, 50 million frames included
	tools/system_packages.sh --cross $(PYTHON)
	PATH="$(abspath $(BIN)):$$PATH" tools/proof.sh

# Not part of `make test` either. It goes on where an earlier run on the same source was interrupted.
mutants: $(VENV)/.developer ## plant generated faults in the C core, see that each is caught; 20 minutes, FULL=1 takes hours
	tools/system_packages.sh --cross $(PYTHON)
	tools/install_checkers.sh
	$(BIN)/python -m tests.mutants $(if $(FULL),,--sample 300) $(ARGS)

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

# Peers that can not be installed here are listed as such in the results, so nothing of this may fail.
bench-peers: $(VENV)/.developer ## install what the lanes are measured beside; 3 GB
	-tools/system_packages.sh --window --screen $(PYTHON)
	-tools/frame_peers.sh $(BIN)/python
	-tools/bench_peers.sh trackers
	-tools/bench_peers.sh rerun
	-tools/step_peers.sh

bench: bench-peers ## every lane beside its limits and peers, in 3 minutes; FULL=1 takes some 35
	$(BIN)/python -m bench all $(if $(FULL),--full,--quick)

docs: $(VENV)/.developer ## the documentation as a site, in build/site; a warning is an error
	$(BIN)/python -m sphinx -q --fail-on-warning --keep-going -b html -c docs . build/site
	$(BIN)/python tools/check_site.py build/site
	@echo 'Open build/site/index.html in a browser.'

wheels: ## build, check and try what is released: sdist, wheels for x86-64 and ARM, and for CPython 3.14t
	rm -rf dist/wheels
	tools/build_wheels.sh dist/wheels
	tools/check_distributions.sh dist/wheels
	tools/try_wheels.sh dist/wheels/*.whl

screenshots: $(VENV)/.developer ## draw the pictures of the viewer in docs/images anew
	$(BIN)/python tools/screenshots.py docs/images

developer: $(VENV)/.developer ## the environment that the commands above use

clean: ## remove what the commands above made
	rm -rf build dist $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis

# --- environments -------------------------------------------------------------------------------

SOURCES := pyproject.toml CMakeLists.txt $(wildcard csrc/*.[ch] csrc/*.in csrc/stress/*.[ch] python/ext/*.[ch]) \
  tools/emit_binding.py

$(VENV)/bin/python:
	tools/system_packages.sh $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# Editable, so that a changed Python file needs no new install; a changed C file triggers one.
$(VENV)/.installed: $(VENV)/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.demo-%: $(VENV)/bin/python $(SOURCES)
	$(if $(findstring viewer,$*),tools/system_packages.sh --window $(PYTHON) || echo 'going on: a browser or the terminal shows it too')
	@echo "installing lanekit[$*] into $(VENV); a minute or so"
	$(BIN)/python -m pip install --editable '.[$*]'
	touch $@

# It does not wait for .installed, which would build the extension once more.
$(VENV)/.developer: $(VENV)/bin/python $(SOURCES)
	tools/system_packages.sh --developer --qt --instructions --postgres $(PYTHON)
	$(BIN)/python -m pip install --quiet --editable '.[slow,viewer,remote,web,postgres,export,rl,test,test-viewer,bench,docs,lint]'
	touch $(VENV)/.installed $@

build/release/.configured: $(VENV)/.developer CMakePresets.json
	PATH="$(abspath $(BIN)):$$PATH" cmake --preset release
	touch $@
