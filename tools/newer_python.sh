#!/usr/bin/env bash
# Prints the path of a CPython that is newer than Debian's 3.11: $SHOAL_NEWER_PYTHON, else one that is installed, else one
# that is built in build/cpython from the source package of the Debian release after this one, which takes minutes.
# Fails, and says why, where none can be had.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly version=3.13 release=trixie
readonly prefix=$PWD/build/cpython

# The newest of those that are installed, and pyenv's, which its commands in PATH do not start.
installed() {
  local python
  for python in ${SHOAL_NEWER_PYTHON:-python3.14 python3.13 python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python3} \
      "$prefix/bin/python3"; do
    if "$python" -c 'import ensurepip, ssl, sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
      command -v "$python"
      return
    fi
  done
  return 1
}

# Downloads the sources, which apt checks by Debian's keys, and builds and installs them.
build() {
  local work=$prefix/work
  mkdir -p "$work/lists/partial"
  tools/setup.sh --python
  local site
  site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Component: main' | head -n 1)
  echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $release main" >"$work/sources.list"
  local apt=(apt-get -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$work/lists"
    -o APT::Sandbox::User=root)
  "${apt[@]}" update
  (
    cd "$work"
    "${apt[@]}" source --download-only "python$version"
    tar -xf "python${version}"_*.orig.tar.xz
    cd Python-*/
    ./configure --prefix="$prefix" --quiet --disable-test-modules
    make -j "$(nproc)" --quiet
    make install --quiet
  )
  rm -rf "$work"
}

installed && exit
log=build/cpython.log
mkdir -p build
echo "Building CPython $version" >&2
if ! build >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "No CPython after 3.11 is installed, and it could not be built (see $log)." >&2
  exit 1
fi
installed
