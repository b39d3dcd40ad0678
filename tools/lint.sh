#!/usr/bin/env bash
# All checks of the sources that need no test run: formatting, layers, public headers that compile alone, clang-tidy.
#   tools/lint.sh [FILE...]    clang-tidy looks at these sources only
#   tools/lint.sh --format     formats all sources in place and checks nothing
set -euo pipefail
cd "$(dirname "$0")/.."

clang_format=clang-format-14  # one version, since each formats a little differently
clang_tidy=clang-tidy-19      # older ones do not know std::source_location
# What GCC alone knows, and what libstdc++ itself still uses.
clang_arguments=(--extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-deprecated-declarations
                 --extra-arg=-Wno-unknown-pragmas)
jobs=${JOBS:-$(nproc)}

# Those that are tracked or new, and not deleted.
sources() {
  git ls-files --cached --others --exclude-standard --deduplicate -- "$@" |
    while read -r file; do if [[ -e $file ]]; then echo "$file"; fi; done
}

if [[ ${1:-} == --format ]]; then
  sources '*.h' '*.cc' | xargs -r -P "$jobs" -n 32 "$clang_format" -i
  exit
fi

echo "Formatting"
sources '*.h' '*.cc' | xargs -r -P "$jobs" -n 32 "$clang_format" --dry-run -Werror

echo "Layers"
python3 tools/check_layers.py
python3 tools/check_op_names.py

echo "Public headers"
cmake --preset dev >build/lint.log 2>&1 || { cat build/lint.log; exit 1; }
cmake --build --preset dev -j "$jobs" --target all_verify_interface_header_sets

echo "clang-tidy"
# Not of plugins, which are full of others' names, nor of what only GCC's vectors compile.
if [[ $# -gt 0 ]]; then printf '%s\n' "$@"; else sources 'src/*.cc' | grep -vE '/plugin_|/loops/primitives\.cc$'; fi |
  xargs -r -P "$jobs" -n 1 "$clang_tidy" -p build/dev --quiet "${clang_arguments[@]}" 2> >(grep -vE '^[0-9]+ warnings? ' >&2)
