#!/usr/bin/env bash
# Build CPython 3.14 from the source in Debian's pool and print the interpreter's path.
#
#   tools/build_python.sh 3.14t    free-threaded
#   tools/build_python.sh 3.14     with the GIL
#
# The interpreter's absolute path is the only line on stdout; progress goes to stderr.
# A build takes 2-5 minutes and is kept in ${XDG_CACHE_HOME:-~/.cache}/lanekit/python,
# so the next call answers at once.  JOBS=n sets the number of parallel compilers.
set -euo pipefail

# To move to another release: change these two lines (the release is part of the cache key).
VERSION=3.14.7
SHA256=3b48dac8fb59f62eaa67ac83c1eb12bda1b7a08406dd286e252c11a66be27f81

SERIES=${VERSION%.*}
TARBALL=python${SERIES}_${VERSION}.orig.tar.xz
PACKAGES=(build-essential ca-certificates libbz2-dev libffi-dev liblzma-dev libreadline-dev
          libsqlite3-dev libssl-dev xz-utils zlib1g-dev)

exec 3>&1 1>&2 # fd 3 is the caller's stdout; whatever the tools print goes to stderr
say() { printf 'build_python: %s\n' "$*"; }
die() { say "error: $*"; exit 1; }

case "$#:${1-}" in
    "1:${SERIES}t") flavour=t gil=False gil_flag=--disable-gil ;;
    "1:${SERIES}") flavour='' gil=True gil_flag=--enable-gil ;;
    *) printf 'usage: %s %st|%s\n' "$0" "$SERIES" "$SERIES"; exit 2 ;;
esac

# The XDG specification says to ignore a relative XDG_CACHE_HOME.
cache=${XDG_CACHE_HOME-}
[[ $cache == /* ]] || cache=${HOME:?is not set: set HOME or XDG_CACHE_HOME}/.cache
cache=$cache/lanekit/python
prefix=$cache/$VERSION$flavour
python=$prefix/bin/python$SERIES$flavour
log=$prefix.log
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
case "$(realpath -m "$cache")/" in
    *[[:space:]]*) die "'$cache' has a space in it, which CPython's makefile can not install into: set XDG_CACHE_HOME to another directory" ;;
    "$checkout"/*) die "'$cache' lies inside the checkout: set XDG_CACHE_HOME to a directory outside it" ;;
esac

# Does this interpreter run, is it the flavour asked for, and has it all the modules we need?
# (-I: the caller's PYTHON* variables, PYTHON_GIL among them, must not change the answer.)
works() {
    [[ -x $1 ]] && "$1" -I -c "
import bz2, ctypes, lzma, pip, readline, sqlite3, ssl, sys, venv, zlib
assert sys.version.split()[0] == '$VERSION', sys.version
assert sys._is_gil_enabled() is $gil, 'wrong flavour: the GIL should be $gil'"
}

answer() { printf '%s\n' "$python" >&3; }

if works "$python" 2>/dev/null; then answer; exit; fi

tmp='' child=''
cleanup() {
    trap '' HUP INT TERM
    if [[ $child ]]; then
        # Wait (not for ever: nobody may be reaping) so that nothing writes into $tmp any more.
        kill -TERM -- "-$child" "$child" 2>/dev/null || true
        for _ in {1..50}; do kill -0 -- "-$child" 2>/dev/null || break; sleep 0.1; done
        kill -KILL -- "-$child" 2>/dev/null || true
    fi
    if [[ $tmp ]]; then rm -rf -- "$tmp"; fi
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Run a long step into the log.  In the background, because bash would act on a signal only after
# a foreground step had ended; in a process group of its own, so that cleanup ends all of it.
step() {
    say "$1"
    shift
    setsid "$@" >>"$log" 2>&1 </dev/null &
    child=$!
    local rc=0
    wait "$child" || rc=$?
    child=''
    return "$rc"
}
build_failed() { tail -n 25 -- "$log"; die "$1 failed; the end of its output is above, all of it in $log"; }

missing_packages() {
    local package
    for package in "${PACKAGES[@]}"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed* ]] ||
            printf '%s\n' "$package"
    done
}

install_packages() {
    local missing
    command -v apt-get >/dev/null ||
        die "there is no apt-get here: this script needs Debian, Ubuntu or a relative; on others give lanekit a CPython $SERIES of your own"
    mapfile -t missing < <(missing_packages)
    ((${#missing[@]})) || return 0
    # In the foreground: ending dpkg half-way would leave the machine in a bad state.
    "$(dirname "$0")/install_packages.sh" "${missing[@]}" || die "without these packages it can not be built; install them, then start this again"
}

verified() { [[ -f $1 ]] && sha256sum --quiet --check - <<<"$SHA256  $1" >/dev/null 2>&1; }

# The mirrors of this machine, in apt's order.  Asking apt instead of reading its files understands
# every format they come in, disabled entries and options too.
mirrors() { apt-get update --print-uris | sed -nE "s#^'(https?://[^']*)/dists/.*#\1#p" | awk '!seen[$0]++'; }

# Put the source into the cache; both flavours share it.
fetch_source() {
    local mirror uris
    if verified "$cache/$TARBALL"; then return 0; fi
    uris=$(mirrors) || die "apt can not read its own sources: see its message above"
    [[ $uris ]] || die "apt's sources on this machine name no http(s) mirror: add one, or put $TARBALL (sha256 $SHA256) into $cache"
    # Every mirror gets a try: which of them are Debian's own can not be told from their names, and
    # the checksum decides.  apt's downloader knows this machine's proxies and certificates.
    for mirror in $uris; do
        step "fetching $TARBALL" /usr/lib/apt/apt-helper -o APT::Sandbox::User=root \
            download-file "$mirror/pool/main/p/python$SERIES/$TARBALL" "$tmp/$TARBALL" || true
        if verified "$tmp/$TARBALL"; then
            mv -f -- "$tmp/$TARBALL" "$cache/$TARBALL"
            return 0
        fi
        rm -f -- "$tmp/$TARBALL"
        say "not there, or not with the right checksum"
    done
    tail -n 25 -- "$log"
    die "no mirror in apt's sources holds $TARBALL with sha256 $SHA256 (Ubuntu's may not; Debian's drop old releases): put that file into $cache, or change VERSION and SHA256 in $0 to a release they hold"
}

mkdir -p -- "$cache" || die "can not create $cache: set XDG_CACHE_HOME to a directory you may write to"

# One build at a time, whatever the flavour; our children hold the lock too, so even after a
# kill -9 nobody else gets it while a compiler still runs.
exec 9>"$cache/.lock"
if ! flock -n 9; then
    say "another build is running; waiting for it"
    setsid flock 9 & # in the background for the same reason as in step
    child=$!
    wait "$child"
    child=''
fi
if works "$python" 2>/dev/null; then answer; exit; fi # somebody else has built it in the meantime
rm -rf -- "$cache"/.build.* # left by a build that was killed with -9: we hold the lock
tmp=$(mktemp -d -- "$cache/.build.XXXXXX")
: >"$log"

install_packages
fetch_source

# An outer make or an active Python environment must not leak into the build.
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR PYTHONHOME PYTHONPATH
mkdir -- "$tmp/src"
tar -xJf "$cache/$TARBALL" -C "$tmp/src" --strip-components=1 --no-same-owner
cd -- "$tmp/src"
step "configuring $VERSION$flavour" ./configure -q -C "$gil_flag" --prefix="$prefix" \
    --disable-test-modules --with-ensurepip=install --without-static-libpython \
    CFLAGS="-O2 -g0" || build_failed configure
jobs=${JOBS:-$(nproc)}
step "compiling with $jobs jobs (some minutes; watch $log)" make -s -j"$jobs" || build_failed make
# Installed beside its place and renamed into it: nobody ever sees half an interpreter.
step "installing" make -s install DESTDIR="$tmp/root" || build_failed "make install"
cd -- "$cache"
works "$tmp/root$python" ||
    die "the interpreter was built but is not usable (see above; a module that is missing has its reason in $log)"
rm -rf -- "$prefix" # there is one only if it did not work
mv -T -- "$tmp/root$prefix" "$prefix"
say "built $prefix"
answer
