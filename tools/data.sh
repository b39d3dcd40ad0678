#!/usr/bin/env bash
# Puts the data of examples into build/data: digits.csv, 1,797 handwritten digits of 8 × 8 points (Alpaydin and Kaynak
# 1998, as scikit-learn ships them: Debian's python3-sklearn), and jargon.txt, a book in the public domain (the Jargon
# File 4.4.7: Debian's jargon-text). Nothing is installed. Silent when both are there.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=build/data
mkdir -p "$folder"

# Takes one file of a Debian package.
extract() {  # package, file in it, name in the folder
  [[ -s $folder/$3 ]] && return
  command -v apt-get >/dev/null || { echo "There is no apt-get: put $3 into $folder by other means." >&2; return 1; }
  echo "Getting $3 of $1"
  local work
  work=$(mktemp -d)
  trap 'rm -rf "$work"' RETURN
  get() { (cd "$work" && apt-get download "$1" >log 2>&1); }
  if ! get "$1"; then
    if [[ $(id -u) -eq 0 ]]; then apt-get update >/dev/null; else sudo -n apt-get update >/dev/null; fi
    get "$1" || { cat "$work/log" >&2; return 1; }
  fi
  dpkg-deb --fsys-tarfile "$work"/*.deb | tar --extract --to-stdout "./$2" | gunzip >"$work/data"
  mv "$work/data" "$folder/$3"
}

extract python3-sklearn usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz digits.csv
extract jargon-text usr/share/doc/jargon-text/jargon.txt.gz jargon.txt
