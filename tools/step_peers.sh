#!/usr/bin/env bash
# Install what the step lane is measured beside, in an environment of its own, and print its Python. What can not
# be installed here is named and left out; the benchmark lists it as missing. Needs Python 3.11 and 3 GB of disk.
#
# usage: LANEKIT_BENCH_STEPPERS=$(tools/step_peers.sh) python -m bench step
set -euo pipefail
cd "$(dirname "$0")/.."
requirements=bench/peers/steppers/requirements.txt
venv=build/step-peers-venv
stamp=$venv/installed-$(sha256sum "$requirements" | cut -c1-16)
if [ ! -e "$stamp" ]; then
  rm -rf "$venv"
  "${PYTHON:-python3.11}" -m venv "$venv"
  pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check)
  # By itself torch comes as the build for the CPU; asked for together with others, with gigabytes of CUDA.
  "${pip[@]}" "$(grep '^torch==' "$requirements")" >&2 || echo "can not be installed: torch" >&2
  if ! "${pip[@]}" --requirement "$requirements" >&2; then
    grep -v '^#' "$requirements" | while read -r requirement; do
      "${pip[@]}" "$requirement" >&2 || echo "can not be installed: $requirement" >&2
    done
  fi
  # PufferLib's build fetches games and a compiler's worth of libraries; its vectorisation is plain Python.
  if ! { "${pip[@]}" --no-deps gym==0.26.2 gym_notices >&2 && "$venv/bin/python" tools/unpack_sources.py pufferlib 3.0.0 >&2; }; then
    echo "can not be installed: pufferlib" >&2
  fi
  touch "$stamp"
fi
echo "$PWD/$venv/bin/python"
