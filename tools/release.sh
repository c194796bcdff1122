#!/usr/bin/env bash
# Make a release of the version that pyproject.toml names: check the tree and the changelog, build and
# try everything, and tag. Nothing is uploaded without --upload.
#
# usage: tools/release.sh [--upload] [--no-tag]
#
# 1. the tree is clean, the tag is new, CHANGELOG.md has an entry with a date for this version
# 2. wheels and sdist are built (tools/build_wheels.sh), checked (twine, pip-audit) and tried (tools/try_wheels.sh)
# 3. the tag vVERSION is made; `git push origin vVERSION` is left to you
# 4. --upload: twine sends dist/VERSION to the registry that ~/.pypirc or TWINE_* name
set -euo pipefail
cd "$(dirname "$0")/.."

upload=no tag=yes
for option in "$@"; do
  case $option in
  --upload) upload=yes ;;
  --no-tag) tag=no ;;
  *) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
[ "$upload$tag" != yesno ] || { echo "error: what is uploaded is tagged: leave --no-tag out" >&2; exit 2; }

version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
dist=dist/$version
fail() { echo "error: $1" >&2; echo "       $2" >&2; exit 1; }

[ -n "$version" ] || fail "pyproject.toml names no version" 'it needs a line: version = "1.2.3"'
[ -z "$(git status --porcelain)" ] || fail "the tree is not clean" "commit or stash first: git status"
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null ||
  fail "v$version is tagged already" "raise the version in pyproject.toml"
grep -qE "^## \[${version//./\\.}\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md ||
  fail "CHANGELOG.md has no entry for $version" "it needs a line: ## [$version] - $(date +%F)"
[ ! -e "$dist" ] || fail "$dist exists" "remove what an earlier try left: rm -r $dist"

tools/build_wheels.sh "$dist"
tools/check_distributions.sh "$dist"
tools/try_wheels.sh "$dist"/*.whl

if [ $tag = yes ]; then
  git tag -a "v$version" -m "lanekit $version"
  echo "tagged v$version; publish the tag with: git push origin v$version"
fi
if [ $upload = yes ]; then
  python3 -m venv build/twine && build/twine/bin/python -m pip install --quiet twine
  build/twine/bin/python -m twine upload "$dist"/*
else
  echo "nothing was uploaded; $dist holds it all, tools/release.sh --upload sends it"
fi
