#!/usr/bin/env bash
# Run the Python tests on several CPythons. Those with a GIL all install one and the same
# limited-API wheel, which is what users get; free-threaded 3.14t gets its own, and is built from
# source (once, cached) where it is missing.
#
# Tests of the C core alone, and those marked `once`, are left to `make test`. Free-threaded 3.14t has no
# slow lane and draws nothing with pygame: neither grpcio nor pygame has a wheel for it.
#
# usage: tools/test_pythons.sh [VERSION ...]      default: 3.11 3.12 3.13 3.14 3.14t
# A version with a GIL that this machine lacks is reported and passed over, except when asked for.
set -euo pipefail

unset PYTHONDONTWRITEBYTECODE # or hundreds of short-lived processes compile the same modules anew
export OPENBLAS_NUM_THREADS=1 # numpy's threads, one a core in each process, only take turns here

asked=("$@")
[ $# -gt 0 ] || set -- 3.11 3.12 3.13 3.14 3.14t

find_python() {
  local version=$1 candidate
  for candidate in "$(command -v "python$version" || true)" \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/"python$version" \
    "${XDG_CACHE_HOME:-$HOME/.cache}"/lanekit/python/"$version".*/bin/"python$version"; do
    if [ -n "$candidate" ] && [ -x "$candidate" ] &&
      [ "$("$candidate" -c 'import sys; print("%d.%d%s" % (*sys.version_info[:2], sys.abiflags))' 2>/dev/null)" = "$version" ]; then
      echo "$candidate"
      return 0
    fi
  done
  [ "$version" != 3.14t ] || tools/build_python.sh 3.14t
}

rm -rf build/wheels
abi3=''
build_abi3() {
  [ -z "$abi3" ] || return 0
  python -m build --wheel --outdir build/wheels . >build/wheel.log 2>&1 || { cat build/wheel.log; exit 1; }
  abi3=$(echo build/wheels/*-cp311-abi3-*.whl)
  [ -f "$abi3" ] || { echo "error: no limited-API wheel was built: $(ls build/wheels)" >&2; exit 1; }
}

# Two suites at once, each with a /dev/shm of its own: tests of `lanekit ls` and `clean` look at all of it.
own_shm=(unshare --mount sh -c 'mount -t tmpfs -o size=50% tmpfs /dev/shm && exec "$@"' sh)
at_once=2
"${own_shm[@]}" true 2>/dev/null || { own_shm=() at_once=1; }

suite() {
  local version=$1 python=.venv-$1/bin/python
  "${own_shm[@]}" "$python" -m pytest -q -m "not core and not once" --ignore=tests/slow
  [ "$version" = 3.14t ] ||
    "$python" -m pytest -q -m "not core and not once" tests/slow -n 2 --dist loadfile
}

running=() results=() failed=0
finish_oldest() {
  local version=${running[0]%%:*}
  if wait "${running[0]#*:}"; then results+=("$version: passed"); else results+=("$version: FAILED") failed=1; fi
  echo "== Python tests, CPython $version"
  cat "build/tests-$version.log"
  running=("${running[@]:1}")
}
for version in "$@"; do
  interpreter=$(find_python "$version" || true)
  if [ -z "$interpreter" ]; then
    [ ${#asked[@]} -eq 0 ] || { echo "error: no CPython $version on this machine" >&2; exit 1; }
    results+=("$version: not on this machine")
    continue
  fi
  venv=.venv-$version
  rm -rf "$venv"
  "$interpreter" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --upgrade pip
  if [ "$version" = 3.14t ]; then
    # The tests of packaging look at these very files, and need not build their own.
    export LANEKIT_DISTRIBUTIONS=$PWD/build/wheels/3.14t
    "$venv/bin/python" -m pip install --quiet build
    "$venv/bin/python" -m build --outdir "$LANEKIT_DISTRIBUTIONS" . >build/wheel.log 2>&1 || { cat build/wheel.log; exit 1; }
    "$venv/bin/python" -m pip install --quiet "$(echo "$LANEKIT_DISTRIBUTIONS"/*.whl)[test]" gymnasium pettingzoo
  else
    unset LANEKIT_DISTRIBUTIONS
    build_abi3
    "$venv/bin/python" -m pip install --quiet "${abi3}[slow,remote,web,postgres,export,rl,test]"
  fi
  [ ${#running[@]} -lt $at_once ] || finish_oldest
  suite "$version" >"build/tests-$version.log" 2>&1 &
  running+=("$version:$!")
done
while [ ${#running[@]} -gt 0 ]; do finish_oldest; done
printf '%s\n' "${results[@]}"
exit $failed
