#!/usr/bin/env bash
# Run lanekit on a Ray cluster of several raylets on this machine: tests/cluster, in an environment of its own, which is
# made on the first run and when tests/cluster/requirements.txt changes. As root, the part between network namespaces
# runs too. Needs Python 3.11 and 1 GB of disk.
#
# usage: tools/test_cluster.sh [PYTEST ARGUMENT ...]        e.g. -k forwarder
set -euo pipefail
cd "$(dirname "$0")/.."
requirements=tests/cluster/requirements.txt
venv=.venv-cluster
python=$venv/bin/python
pip=("$python" -m pip install --quiet --disable-pip-version-check)
stamp=$venv/installed-$(sha256sum "$requirements" | cut -c1-16)
if [ ! -e "$stamp" ]; then
  rm -rf "$venv"
  "${PYTHON:-python3.11}" -m venv "$venv"
  "${pip[@]}" --requirement "$requirements"
  touch "$stamp"
fi
"${pip[@]}" --requirement "$requirements" --editable '.[ray,rl,remote,postgres,test]'
"$python" -c 'import ray; print("ray", ray.__version__)'
exec "$python" -m pytest tests/cluster "$@"
