#!/usr/bin/env bash
# Install what the fast and the trajectory lane are measured beside, into the environment of a Python. What can not be
# installed here is named and left out; the benchmark lists it as missing.
#
# usage: tools/frame_peers.sh PYTHON
set -euo pipefail
cd "$(dirname "$0")/.."
pip=("$1" -m pip install --quiet --disable-pip-version-check)
"${pip[@]}" --editable '.[bench-peers]' >&2 && exit
packages=$("$1" -c 'import tomllib
extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
print(*(name for extra in ("bench-trajectory", "bench-peers") for name in extras[extra] if "lanekit[" not in name))')
for package in $packages; do
  "${pip[@]}" "$package" >&2 || echo "can not be installed: $package" >&2
done
