#!/usr/bin/env bash
# Configure, build and test the C core under one CMake preset, quietly unless something fails.
#
# usage: tools/run_ctest.sh PRESET
set -euo pipefail

preset=$1
log=build/$preset.log
mkdir -p build
if ! { cmake --preset "$preset" && cmake --build --preset "$preset" -j "$(nproc)"; } >"$log" 2>&1; then
  cat "$log"
  exit 1
fi
echo "== C tests, preset $preset"
ctest --preset "$preset"
