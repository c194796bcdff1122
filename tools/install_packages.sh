#!/usr/bin/env bash
# Install Debian packages with apt-get, as root or with a passwordless sudo; otherwise say what to install.
# Waits while somebody else installs: a machine that was just started often does.
#
# usage: tools/install_packages.sh PACKAGE ...
set -euo pipefail

refuse() {
  echo "error: $1" >&2
  echo "       install them, e.g.: sudo apt-get install ${packages[*]}" >&2
  exit 1
}

packages=("$@")
command -v apt-get >/dev/null || refuse "missing on this machine, which has no apt-get: ${packages[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  sudo -n true 2>/dev/null ||
    refuse "missing on this machine, and this is neither root nor a user with a passwordless sudo: ${packages[*]}"
  as_root=(sudo -n)
fi
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600)

echo "installing: ${packages[*]}" >&2
# DPkg::Lock::Timeout is not for the lock on the package lists, which is held for seconds only.
for _ in {1..60}; do
  said=$("${apt[@]}" update 2>&1 </dev/null) && break
  [[ $said == *"Could not get lock"* ]] || break
  sleep 5
done
# A failed update is not the end: the lists may be good enough.
[ -z "$said" ] || printf '%s\n' "$said" >&2
"${apt[@]}" install -y "${packages[@]}" </dev/null >/dev/null ||
  refuse "apt-get could not install ${packages[*]}: see its messages above"
