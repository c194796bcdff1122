#!/usr/bin/env bash
# Build the 64-bit ARM wheel on any machine, and try it under emulation.
#
# usage: tools/aarch64_wheel.sh [OUTDIR]           default: dist
set -euo pipefail

out=${1:-dist}
here=$(dirname "$0")
"$here/build_wheels.sh" "$out" cp311-aarch64
"$here/try_wheels.sh" "$out"/*cp311-abi3-*aarch64.whl
