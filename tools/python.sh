#!/usr/bin/env bash
# Installs the Python package, with what it needs from PyPI, into build/python/venv, as `pip install .` would elsewhere.
# PYTHON names the interpreter. With --test, runs its tests there; exits with 77 if PyPI could not be reached. The suite of
# the Array API standard is among them if SHOAL_ARRAY_API_TESTS names a checkout of it, here and there.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/python/venv
log=build/python/packages.log

if [[ ${1:-} == --test ]]; then
  if [[ ! -e $venv/ready ]]; then
    echo "The packages of PyPI that the Python package needs could not be installed:"
    tail -n 5 "$log" 2>/dev/null || echo "make python was not run"
    exit 77
  fi
  exec "$venv/bin/python" -m pytest -q -p no:cacheprovider python/tests
fi

mkdir -p build/python
rm -f "$venv/ready"
if ! { [[ -x $venv/bin/python ]] || "${PYTHON:-python3}" -m venv "$venv"; } >"$log" 2>&1 ||
  ! "$venv/bin/pip" install --quiet --disable-pip-version-check -r python/tests/requirements.txt \
    ${SHOAL_ARRAY_API_TESTS:+-r "$SHOAL_ARRAY_API_TESTS/requirements.txt"} >>"$log" 2>&1; then
  echo "The Python package is not built, because packages of PyPI could not be installed (see $log)." >&2
  exit 0
fi
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-build-isolation --no-deps .
touch "$venv/ready"
