#!/usr/bin/env bash
# Make sure that this machine can build a Python extension: a C compiler, Python's headers and its
# venv module; with --developer also what linters, examples and tests take, with --cross that it can build and
# emulate for 64-bit ARM, with --qt that Qt and MuJoCo can draw without a screen and Qt on a virtual one, with
# --window that Qt can on a real one, with --instructions that it can count instructions, with --postgres that
# it can start a PostgreSQL server, with --browser that there is a browser to test the page with, with --screen
# that there is a virtual screen, and a Vulkan driver that computes.
# Installs what is missing with apt-get when it may; otherwise says what to install.
#
# usage: tools/system_packages.sh [--developer] [--cross] [--qt] [--window] [--instructions] [--postgres] [--browser] [--screen] [PYTHON]
set -euo pipefail

developer=no cross=no qt=no window=no instructions=no postgres=no browser=no screen=no python=python3
for word in "$@"; do
  case $word in
  --developer) developer=yes ;;
  --cross) cross=yes ;;
  --qt) qt=yes ;;
  --window) window=yes ;;
  --instructions) instructions=yes ;;
  --postgres) postgres=yes ;;
  --browser) browser=yes ;;
  --screen) screen=yes ;;
  -*) echo "error: $word is no option; see the head of $0" >&2; exit 2 ;;
  *) python=$word ;;
  esac
done
command -v "$python" >/dev/null || { echo "error: no $python here; install Python 3.11 or newer" >&2; exit 1; }

"$python" - <<'CHECK' || exit 1
import sys
if sys.version_info < (3, 11):
    sys.exit(f"error: lanekit needs Python 3.11 or newer, this is {sys.version.split()[0]}; "
             "name another one: make PYTHON=python3.12 ...")
CHECK

# Whether a program runs, under this name and wherever on PATH: a rustup shim without a toolchain does not.
runs() {
  local program
  while read -r program; do
    "$program" --version >/dev/null 2>&1 </dev/null && return
  done < <(type -aP "$1")
  return 1
}

missing=()
runs cc || runs gcc || missing+=(build-essential)
# Distributions split Python: the headers and ensurepip come in packages of their own.
"$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' \
  || missing+=("$(basename "$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')")-dev")
"$python" -c 'import ensurepip, venv' 2>/dev/null \
  || missing+=("$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')")

if [ $developer = yes ]; then
  runs c++ || missing+=(g++) # for examples
  runs mcs || missing+=(mono-mcs)
  runs mono || missing+=(mono-runtime)
  runs git || missing+=(git) # pre-commit asks git which files there are
  runs zsh || missing+=(zsh) # the completion is tried in real shells
  runs fish || missing+=(fish)
fi

if [ $cross = yes ]; then
  runs aarch64-linux-gnu-gcc || missing+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
  runs qemu-aarch64-static || missing+=(qemu-user-static)
fi

if [ $instructions = yes ]; then
  runs valgrind || missing+=(valgrind)
fi

if [ $postgres = yes ]; then
  # The server's programs are in no PATH: Debian has a directory for each version.
  runs initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
fi

if [ $browser = yes ]; then
  runs chromium || missing+=(chromium)
fi

if [ $qt = yes ]; then
  read -ra libraries <<<"$("$python" "$(dirname "$0")/../python/lanekit/viewer/qt_platform.py" offscreen xcb)"
  missing+=("${libraries[@]}")
  command -v Xvfb >/dev/null || missing+=(xvfb)
  fc-list 2>/dev/null | grep . >/dev/null || missing+=(fontconfig fonts-dejavu-core)
  # MuJoCo draws through EGL; without a graphics card Mesa computes the pictures.
  /sbin/ldconfig -p 2>/dev/null | grep libEGL_mesa >/dev/null || missing+=(libegl1 libegl-mesa0 libgl1-mesa-dri)
fi

if [ $window = yes ]; then
  read -ra libraries <<<"$("$python" "$(dirname "$0")/../python/lanekit/viewer/qt_platform.py" xcb)"
  missing+=("${libraries[@]}")
fi

if [ $screen = yes ]; then
  command -v Xvfb >/dev/null || missing+=(xvfb)
  compgen -G '/usr/share/vulkan/icd.d/*' >/dev/null || missing+=(mesa-vulkan-drivers)
fi

[ ${#missing[@]} -eq 0 ] || "$(dirname "$0")/install_packages.sh" "${missing[@]}"

# Rust takes 400 MB for one example, so a machine that may not have it does without.
if [ $developer = yes ] && ! runs rustc; then
  "$(dirname "$0")/install_packages.sh" rustc || echo 'going on without a Rust compiler: examples/engine.rs is not tested here' >&2
fi
