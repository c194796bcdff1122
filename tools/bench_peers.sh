#!/usr/bin/env bash
# Install what the benchmarks measure beside, trackers or Rerun, in an environment of their own, and
# print its Python. What can not be installed here is named and left out; the benchmark lists it as missing.
#
# usage: tools/bench_peers.sh [trackers|rerun]
set -euo pipefail
cd "$(dirname "$0")/.."
peer=${1:-trackers}
requirements=bench/peers/$peer/requirements.txt
venv=build/bench-$peer-venv
stamp=$venv/installed-$(sha256sum "$requirements" | cut -c1-16)
if [ ! -e "$stamp" ]; then
  rm -rf "$venv"
  "${PYTHON:-python3}" -m venv "$venv"
  pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check)
  if ! "${pip[@]}" --requirement "$requirements" >&2; then
    grep -v '^#' "$requirements" | while read -r requirement; do
      "${pip[@]}" "$requirement" >&2 || echo "can not be installed: $requirement" >&2
    done
  fi
  touch "$stamp"
fi
echo "$venv/bin/python"
