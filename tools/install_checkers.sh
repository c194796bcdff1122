#!/usr/bin/env bash
# Make sure that this machine has the memory-model checkers that tests/models needs: Relacy with a
# C++ compiler, the cross compiler for aarch64, and herd7. Prints nothing when all of it is there.
#
# Relacy and the compilers come from the distribution's own packages. herd7 comes from Debian's
# development suite, which no machine should be switched to for one program: so it is unpacked
# beside its own C library into a cache directory, and started through that library's loader.
#
# usage: tools/install_checkers.sh
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/lanekit/checkers
herd=$cache/herd7

fail() {
  echo "error: $1" >&2
  exit 1
}

missing=()
[ -e /usr/include/relacy/relacy.hpp ] || missing+=(relacy-dev)
command -v g++ >/dev/null || missing+=(g++)
command -v aarch64-linux-gnu-gcc >/dev/null || missing+=(gcc-aarch64-linux-gnu)
if [ ${#missing[@]} -gt 0 ]; then
  "$(dirname "$0")/install_packages.sh" "${missing[@]}"
fi

[ -x "$herd" ] && exit 0
{ command -v apt-get && command -v dpkg; } >/dev/null \
  || fail "herd7 is taken from Debian packages, and this machine has no apt-get; put herd7 at $herd"

# The mirror is the one that this machine uses already, the key the distribution's own.
# shellcheck disable=SC2016  # apt expands it
uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
  | awk '/\/debian\/?$/ && !uri { uri = $0 } END { print uri }') || uri=
[ -n "$uri" ] || fail "no Debian mirror among this machine's apt sources; put herd7 at $herd"
key=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$key" ] || key=

mkdir -p "$cache"
work=$(mktemp -d "$cache/unpack.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/packages" "$work/root"
echo "deb ${key:+[signed-by=$key] }$uri sid main" >"$work/sid.list"
options=(-o "Dir::Etc::sourcelist=$work/sid.list" -o Dir::Etc::sourceparts=-
  -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work" -o APT::Sandbox::User=root)
echo "installing: herd7 into $cache" >&2
(
  cd "$work/packages"
  apt-get "${options[@]}" update -qq
  apt-get "${options[@]}" download -qq herdtools7 libc6 libgmp10 libgcc-s1
) || fail "could not fetch herd7 from the machine's Debian mirror; is there a network?"
for package in "$work"/packages/*.deb; do
  dpkg -x "$package" "$work/root"
done

rm -rf "$cache/herd7-root"
mv "$work/root" "$cache/herd7-root"
cat >"$work/herd7" <<'START'
#!/bin/sh
# Starts herd7 with the C library it was built for.
root=$(dirname "$(readlink -f "$0")")/herd7-root
for loader in "$root"/usr/lib/*/ld-linux-*.so.*; do
  exec "$loader" --library-path "$(dirname "$loader")" "$root/usr/bin/herd7" \
    -set-libdir "$root/usr/share/herdtools7/herd" "$@"
done
START
chmod +x "$work/herd7"
mv "$work/herd7" "$herd"
"$herd" -version >/dev/null || { rm -f "$herd"; fail "herd7 was unpacked but does not start"; }
