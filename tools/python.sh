#!/usr/bin/env bash
# Installs the Python package, with what it needs from PyPI, into build/python/venv. PYTHON names the interpreter. The
# suite of the Array API standard is among the packages if SHOAL_ARRAY_API_TESTS names a checkout of it, here and there.
#
#   python.sh                 installs; builds with the packages that are in the folder already, so that little is
#                             built again. Where SHOAL_REQUIRE_PYTHON is set pip gets what it builds with by itself, as
#                             for `pip install .` elsewhere, and it is a failure if PyPI cannot be reached.
#   python.sh --test          runs its tests there; exits with 77 if PyPI could not be reached
#   python.sh --clean PYTHON  `pip install .` by another interpreter into a folder with nothing in it, and a first program
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/python/venv
log=build/python/packages.log
pip=(-m pip install --quiet --disable-pip-version-check)

case ${1:-} in
  --test)
    if [[ ! -e $venv/ready ]]; then
      echo "The packages of PyPI that the Python package needs could not be installed:"
      tail -n 5 "$log" 2>/dev/null || echo "make python was not run"
      exit 77
    fi
    "$venv/bin/python" python/tests/first_program.py
    exec "$venv/bin/python" -m pytest -q -rs --no-fold-skipped -p no:cacheprovider python/tests
    ;;
  --clean)
    clean=$PWD/build/python/clean
    rm -rf "$clean"
    "$2" -m venv "$clean"
    "$clean/bin/python" "${pip[@]}" .
    exec "$clean/bin/python" python/tests/first_program.py
    ;;
esac

mkdir -p build/python
rm -f "$venv/ready"
if ! { [[ -x $venv/bin/python ]] || "${PYTHON:-python3}" -m venv "$venv"; } >"$log" 2>&1 ||
  ! "$venv/bin/python" "${pip[@]}" -r python/tests/requirements.txt \
    ${SHOAL_ARRAY_API_TESTS:+-r "$SHOAL_ARRAY_API_TESTS/requirements.txt"} >>"$log" 2>&1; then
  echo "The Python package is neither built nor tested, because packages of PyPI could not be installed (see $log)." >&2
  [[ -z ${SHOAL_REQUIRE_PYTHON:-} ]] && exit
  tail -n 20 "$log" >&2
  exit 1
fi
if [[ -n ${SHOAL_REQUIRE_PYTHON:-} ]]; then
  "$venv/bin/python" "${pip[@]}" .
else
  "$venv/bin/python" "${pip[@]}" --no-build-isolation --no-deps .
fi
touch "$venv/ready"
