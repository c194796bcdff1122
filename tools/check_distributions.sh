#!/usr/bin/env bash
# Check sdist and wheels without running them: their metadata (twine), the platforms that the wheels
# claim (auditwheel), the licence files in them, and known vulnerabilities of what they depend on
# (pip-audit, where its service can be reached).
#
# usage: tools/check_distributions.sh DIRECTORY
set -euo pipefail

dist=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/pyproject.toml")

python3 -m venv "$work/venv"
python=$work/venv/bin/python
"$python" -m pip install --quiet --upgrade pip
"$python" -m pip install --quiet twine auditwheel pip-audit

"$python" -m twine check --strict "$dist"/*
for wheel in "$dist"/*.whl; do
  "$python" - "$wheel" "$version" <<'CHECK'
import sys, zipfile
wheel, version = sys.argv[1:]
names = zipfile.ZipFile(wheel).namelist()
for licence in ("LICENSE", "NOTICE"):
    assert f"lanekit-{version}.dist-info/licenses/{licence}" in names, f"{wheel} lacks {licence}"
CHECK
  found=$("$python" -m auditwheel show "$wheel" | tr '\n' ' ')
  case $found in
  *manylinux_2_17_*) echo "manylinux_2_17: $(basename "$wheel")" ;;
  *) echo "error: $found" >&2; exit 1 ;;
  esac
done

# The base install and the extras that most people take, as they would be resolved today.
printf '%s\n' numpy cffi grpcio grpcio-health-checking grpcio-reflection protobuf msgspec apsw av \
  gymnasium pettingzoo >"$work/requirements.txt"
if "$python" -m pip_audit --progress-spinner off -r "$work/requirements.txt" >"$work/audit.txt" 2>&1; then
  echo "pip-audit: $(tail -n 1 "$work/audit.txt")"
elif grep -qiE "connection|resolve|timed out|unreachable|ServiceError|Failed to (query|connect)|404|403" "$work/audit.txt"; then
  echo "pip-audit: not done, its service can not be reached from here: $(tail -n 1 "$work/audit.txt" | cut -c1-160)" >&2
else
  cat "$work/audit.txt" >&2
  exit 1
fi
