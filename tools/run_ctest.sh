#!/usr/bin/env bash
# Configure, build and test the C core under one CMake preset, quietly unless something fails.
#
# usage: tools/run_ctest.sh PRESET     release, debug, asan, tsan or aarch64
set -euo pipefail

[ $# -eq 1 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 2; }
cd "$(dirname "$0")/.."
PATH=$PATH:$PWD/.venv/bin # cmake and ninja, where the system has none
preset=$1
log=build/$preset.log
mkdir -p build
if ! { cmake --preset "$preset" && cmake --build --preset "$preset" -j "$(nproc)"; } >"$log" 2>&1; then
  cat "$log"
  exit 1
fi
echo "== C tests, preset $preset"
ctest --preset "$preset"
