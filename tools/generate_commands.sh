#!/usr/bin/env bash
# Generate the command lane's Python classes from its FlatBuffers schema, into the package or into another
# folder.
#
# flatc reads the schema and judges it; tools/emit_messages.py writes Python from what flatc makes of it. No
# Python package brings flatc, so it can not come with the build: what it makes is checked in. Where the machine
# has none, Debian's is unpacked into a cache directory, with the headers that a test compares our reader with.
#
# usage: tools/generate_commands.sh [--flatc] [TARGET]       default: python/lanekit/command
#        --flatc: only print how flatc is started here
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/lanekit/flatc
flatc=$(command -v flatc || echo "$cache/flatc")

if [ ! -x "$flatc" ]; then
  { command -v apt-get && command -v dpkg; } >/dev/null ||
    { echo "error: no flatc here; install FlatBuffers' compiler, or put it at $flatc" >&2; exit 1; }
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/unpack.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  echo "installing: flatc into $cache" >&2
  (cd "$work" && apt-get -o APT::Sandbox::User=root download -qq flatbuffers-compiler libflatbuffers2 libflatbuffers-dev) >&2 ||
    { echo "error: could not fetch flatc from the machine's Debian mirror; is there a network?" >&2; exit 1; }
  for package in "$work"/*.deb; do dpkg -x "$package" "$work/root"; done
  rm -rf "$cache/root"
  mv "$work/root" "$cache/root"
  cat >"$work/flatc" <<'START'
#!/bin/sh
# Starts flatc with its own library.
root=$(dirname "$(readlink -f "$0")")/root
for library in "$root"/usr/lib/*/libflatbuffers.so.2; do
  LD_LIBRARY_PATH=$(dirname "$library") exec "$root/usr/bin/flatc" "$@"
done
START
  chmod +x "$work/flatc"
  mv "$work/flatc" "$flatc"
fi

if [ "${1:-}" = --flatc ]; then
  echo "$flatc"
  exit 0
fi

target=${1:-python/lanekit/command}
schema=$(mktemp -d)
trap 'rm -rf "$schema" ${work:+"$work"}' EXIT
"$flatc" --binary --schema --bfbs-comments --bfbs-builtins -o "$schema" python/lanekit/command/schema/command.fbs
PYTHONPATH=python "${PYTHON:-python3}" tools/emit_messages.py "$schema/command.bfbs" "$target"
