#!/usr/bin/env bash
# Installs the Debian (bookworm) packages that the build needs and that are missing; silent when none is.
# With --lint, those that `make lint` and `make format` need.
set -euo pipefail

packages=(g++ cmake ninja-build python3 libfmt-dev libhwy-dev nlohmann-json3-dev libboost1.81-dev libgtest-dev
  libgmock-dev libbenchmark-dev libcli11-dev
  pkg-config llvm-19-dev libzstd-dev zlib1g-dev libopenblas-pthread-dev libdnnl-dev libsodium-dev libxxhash-dev
  libopenmpi-dev openmpi-bin clang-19 libclang-rt-19-dev)
if [[ ${1:-} == --lint ]]; then
  packages=(clang-format-14 clang-tidy-19)
fi

command -v dpkg-query >/dev/null || exit 0  # not Debian: CMake says what it does not find

missing=()
installed=$(dpkg-query --show --showformat='${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
for package in "${packages[@]}"; do
  grep -qxF "$package installed" <<<"$installed" || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

install=(apt-get install --yes --no-install-recommends "${missing[@]}")
if [[ $(id -u) -eq 0 ]]; then
  run=(env)
elif sudo -n true 2>/dev/null; then
  run=(sudo -n env)
else
  echo "Shoal needs packages that are not installed. As root, run:" >&2
  echo "  apt-get update && ${install[*]}" >&2
  exit 1
fi

echo "Installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${run[@]}" apt-get update && "${run[@]}" DEBIAN_FRONTEND=noninteractive "${install[@]}"; } >"$log" 2>&1; then
  cat "$log" >&2
  echo "Installing ${missing[*]} failed." >&2
  exit 1
fi
