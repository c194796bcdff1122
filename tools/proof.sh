#!/usr/bin/env bash
# The whole ladder of memory-ordering checks, from the labels in the source to fifty million frames on
# this machine's own cores, and one table at the end. Takes about ten minutes on two cores.
#
# usage: tools/proof.sh        (make proof sets up what it needs)
set -uo pipefail

logs=build/proof
rm -rf "$logs" && mkdir -p "$logs"
table=()
failed=0

step() {
  local name=$1 log
  shift
  log=$logs/$(echo "$name" | tr -cs 'A-Za-z0-9\n' '-').log
  local start=$SECONDS verdict=passed
  echo "== $name"
  if ! "$@" >"$log" 2>&1; then
    verdict="FAILED, see $log"
    failed=1
    tail -n 15 "$log"
  fi
  table+=("$(printf '%-42s %5d s  %s' "$name" $((SECONDS - start)) "$verdict")")
  tail -n 1 "$log"
}

step "labels: every order has its other half" python tools/check_atomics.py csrc
step "labels: those of the stress tests, too" python tools/check_atomics.py csrc/stress
step "models: every mutant is caught" python -m tests.models
step "ThreadSanitizer: C tests" tools/run_ctest.sh tsan
step "ThreadSanitizer: lost orders are reported" python -m pytest -q tests/test_sanitizer_mutants.py
step "machine code: ARM and x86 instructions" python -m pytest -q tests/test_machine_code.py
step "ARM, emulated: C tests" tools/run_ctest.sh aarch64
step "ARM, emulated: wheel in a Python" tools/aarch64_wheel.sh build/proof
step "atomics package sees the same words" python -m pytest -q tests/test_atomics_cross_check.py
step "free-threaded CPython: the suite" tools/test_pythons.sh 3.14t
step "stress: injected bugs are found" python -m pytest -q tests/test_stress.py
step "stress: 50 million frames" lanekit stress --with c-threads,c-processes --frames 50000000

echo
printf '%s\n' "${table[@]}"
exit $failed
