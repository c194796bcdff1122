#!/usr/bin/env bash
# Generate the slow lane's protocol code from its .proto, into the package or into another folder.
#
# The generator has an environment of its own: code from this version runs on all newer runtimes, but the
# generator itself pins an old one.
#
# usage: tools/generate_protocol.sh [TARGET]       default: python
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-python}
venv=build/protocol-venv
stamp=$venv/$(sed -n '/^protocol = /p' pyproject.toml | sha256sum | cut -c1-16)
if [ ! -e "$stamp" ]; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  requirements=$(sed -n 's/^protocol = \[\(.*\)\]$/\1/p' pyproject.toml | tr -d '",')
  # shellcheck disable=SC2086 # a list of requirements
  "$venv/bin/python" -m pip install --quiet $requirements
  touch "$stamp"
fi
PATH="$PWD/$venv/bin:$PATH" python -m grpc_tools.protoc -I python \
  --python_out="$target" --grpc_python_out="$target" --mypy_out=quiet:"$target" \
  --mypy_grpc_out=quiet:"$target" python/lanekit/slow/proto/telemetry.proto
