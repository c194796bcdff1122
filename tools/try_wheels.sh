#!/usr/bin/env bash
# Try wheels where nothing else is installed: imports, `lanekit doctor`, frames at full speed, and on
# this machine's own architecture a short demo.
#
# usage: tools/try_wheels.sh WHEEL ...
#
# A wheel for 64-bit ARM runs under qemu, in a Debian arm64 Python that is unpacked into the cache
# (needs root, mmdebstrap and qemu-user-static). That shows that ABI, alignment and assembly are right.
# It shows nothing about memory ordering: qemu runs on the host's. No registry has a free-threaded
# Python for ARM: of that wheel only names, links and architecture are looked at.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lanekit/aarch64
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Also where a version manager has it; its stand-in in the path may be there without its Python.
find_python() {
  local version=$1 candidate
  for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/"python$version"; do
    if "$candidate" -c '' 2>/dev/null; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

native() {
  local wheel=$1 python=$2
  rm -rf "$work/venv"
  "$python" -m venv "$work/venv"
  "$work/venv/bin/python" -m pip install --quiet "$wheel"
  (
    cd "$work" # not the checkout: its package must not be imported
    "$work/venv/bin/lanekit" doctor >doctor.txt || { cat doctor.txt >&2; exit 1; }
    "$work/venv/bin/python" "$here/tools/exercise_fast_lane.py"
    "$work/venv/bin/lanekit" demo --no-record --view terminal --seconds 2 --run-id "try-$$" >demo.txt 2>&1 ||
      { cat demo.txt >&2; exit 1; }
    "$work/venv/bin/python" -c 'import sys, lanekit
if "t" in sys.abiflags: assert not sys._is_gil_enabled(), "importing lanekit switched the GIL on"'
  )
  echo "works: $(basename "$wheel") in $("$python" --version)"
}

emulated_root() {
  if ! command -v mmdebstrap >/dev/null || ! command -v qemu-aarch64-static >/dev/null; then
    [ "$(id -u)" -eq 0 ] || { echo "error: needs mmdebstrap and qemu-user-static" >&2; exit 1; }
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y mmdebstrap qemu-user-static >/dev/null
  fi
  [ -e "$cache/root/usr/bin/python3" ] && return
  rm -rf "$cache/root" && mkdir -p "$cache/root"
  # shellcheck source=/dev/null
  suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
  mmdebstrap --quiet --mode=root --variant=extract --architectures=arm64 --include=python3,libstdc++6 \
    "$suite" "$cache/root"
}

emulated() {
  local wheel=$1 version
  emulated_root
  version=$(basename "$(readlink "$cache/root/usr/bin/python3")" | sed 's/python//')
  rm -rf "$work/site"
  python3 -m pip install --quiet --target "$work/site" --only-binary=:all: \
    --platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux_2_28_aarch64 \
    --implementation cp --python-version "$version" "$wheel"
  # Without this the emulator would first compile numpy's modules, one by one.
  python3 -m compileall -q "$work/site" >/dev/null || true
  in_emulation() {
    PYTHONPATH=$work/site PYTHONHOME=$cache/root/usr \
      qemu-aarch64-static -L "$cache/root" "$cache/root/usr/bin/python$version" "$@"
  }
  in_emulation -m lanekit doctor | sed 's/^/  /'
  in_emulation "$here/tools/exercise_fast_lane.py"
  echo "works: $(basename "$wheel") in an emulated Python $version"
}

looked_at() {
  local wheel=$1 files
  files=$(cd "$work" && rm -rf unpacked && python3 -m zipfile -e "$wheel" unpacked && find unpacked -name '*.so')
  for file in $files; do
    case $file in *cpython-314t-aarch64-linux-gnu.so) ;; *) echo "error: $file in $wheel" >&2; exit 1 ;; esac
    # 0xb7 in the header is AArch64.
    [ "$(od -An -j18 -N2 -tx1 "$work/$file" | tr -d ' ')" = b700 ] || { echo "error: $file is not for ARM" >&2; exit 1; }
  done
  [ "$(wc -w <<<"$files")" -eq 2 ] || { echo "error: extensions of $wheel: $files" >&2; exit 1; }
  echo "looked at, not run: $(basename "$wheel")"
}

for wheel in "$@"; do
  wheel=$(realpath "$wheel")
  case $(basename "$wheel") in
  *cp314t*aarch64.whl) looked_at "$wheel" ;;
  *aarch64.whl) emulated "$wheel" ;;
  *cp314t*) native "$wheel" "$("$here/tools/build_python.sh" 3.14t)" ;;
  *)
    tried=no
    for version in 3.11 3.12 3.13 3.14; do
      python=$(find_python $version) || continue
      native "$wheel" "$python"
      tried=yes
    done
    [ $tried = yes ] || { echo "error: no Python here to try $wheel in" >&2; exit 1; }
    ;;
  esac
done
