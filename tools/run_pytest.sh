#!/usr/bin/env bash
# Run the Python tests with one interpreter. Tests of the core and the fast lane want the cores and look at
# all of /dev/shm: they run one after the other, in a /dev/shm of their own where the machine allows
# that. The others mostly wait for processes: they run three at a time, beside them.
#
# usage: tools/run_pytest.sh PYTHON
set -euo pipefail
set -m # without job control the shell lets background jobs ignore Ctrl-C, which tests send

python=$1
unset PYTHONDONTWRITEBYTECODE # or hundreds of short-lived processes compile the same modules anew
export OPENBLAS_NUM_THREADS=1 # numpy's threads, one a core in each process, only take turns here
waiting=(tests/slow tests/viewer tests/worker tests/integrations tests/engine tests/command tests/trajectory tests/docs)
log=build/tests-waiting.log
mkdir -p build

own_shm=(unshare --mount sh -c 'mount -t tmpfs -o size=50% tmpfs /dev/shm && exec "$@"' sh)
beside() { "$python" -m pytest "${waiting[@]}" --numprocesses 3 --dist loadfile; }
alone() { "$@" "$python" -m pytest "${waiting[@]/#/--ignore=}" --ignore=tests/web; } # make test-web

if ! "${own_shm[@]}" true 2>/dev/null; then
  alone env
  beside
  exit
fi

beside >"$log" 2>&1 &
trap 'kill -- -$! 2>/dev/null || true' EXIT
failed=0
alone "${own_shm[@]}" || failed=1
wait $! || failed=1
trap - EXIT
cat "$log"
exit $failed
