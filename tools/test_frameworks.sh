#!/usr/bin/env bash
# Train with every supported RL framework and watch it: tests/frameworks, in an environment of its own, which is
# made on the first run and when tests/frameworks/requirements.txt changes. Needs Python 3.11, for which
# all of them have wheels, and 4 GB of disk.
#
# usage: tools/test_frameworks.sh [PYTEST ARGUMENT ...]        e.g. -k sb3
set -euo pipefail
cd "$(dirname "$0")/.."
requirements=tests/frameworks/requirements.txt
venv=.venv-frameworks
python=$venv/bin/python
pip=("$python" -m pip install --quiet --disable-pip-version-check)
stamp=$venv/installed-$(sha256sum "$requirements" | cut -c1-16)
if [ ! -e "$stamp" ]; then
  rm -rf "$venv"
  "${PYTHON:-python3.11}" -m venv "$venv"
  # By itself torch comes as the build for the CPU; asked for together with others, with gigabytes of CUDA.
  "${pip[@]}" "$(grep '^torch==' "$requirements")"
  "${pip[@]}" --requirement "$requirements"
  # Its API server is all that is needed; the rest of it wants what language models need.
  "${pip[@]}" --no-deps atroposlib==0.4.0
  touch "$stamp"
fi
"${pip[@]}" --requirement "$requirements" --editable '.[slow,rl,test]'
"$python" -c 'import torch; print("torch", torch.__version__)'
exec "$python" -m pytest tests/frameworks "$@"
