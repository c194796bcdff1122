#!/usr/bin/env bash
# Check sdist and wheels without running them: their metadata (twine), the platforms that the wheels
# claim (auditwheel), the licence files in them, and known vulnerabilities of what they depend on
# (pip-audit). Where pip-audit's service can not be reached, that is said, and is no failure.
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

# All that the wheel takes, with the extras that people take, as it would be resolved today.
wheel=$(echo "$dist"/*-cp311-abi3-*"$(uname -m)".whl)
[ -e "$wheel" ] || { echo "pip-audit: not done, there is no wheel for this machine" >&2; exit 0; }
echo "lanekit[all,postgres] @ file://$wheel" >"$work/requirements.txt"
# Its own status does not tell a vulnerability from a service that does not answer.
"$python" -m pip_audit --progress-spinner off --format json --output "$work/audit.json" \
  -r "$work/requirements.txt" >"$work/audit.txt" 2>&1 || true
"$python" - "$work/audit.json" "$work/audit.txt" <<'CHECK'
import json, pathlib, sys
report, said = map(pathlib.Path, sys.argv[1:])
if not report.exists() or not report.read_text():
    last = (said.read_text().strip().splitlines() or ["no word"])[-1]
    sys.exit(print(f"pip-audit: NOT DONE: {last[:200]}", file=sys.stderr))
found = [d for d in json.loads(report.read_text())["dependencies"] if d["name"] != "lanekit"]
skipped = [d["name"] for d in found if "skip_reason" in d]
for package in found:
    for problem in package.get("vulns", ()):
        fixed = ", ".join(problem["fix_versions"]) or "nowhere yet"
        print(f"error: {package['name']} {package['version']}: {problem['id']}, fixed in {fixed}")
if skipped:
    print(f"pip-audit: NOT DONE for {len(skipped)} of {len(found)}, of which its service says "
          f"nothing: {' '.join(skipped)}", file=sys.stderr)
else:
    print(f"pip-audit: {len(found)} packages looked up")
sys.exit(any(package.get("vulns") for package in found))
CHECK
