#!/usr/bin/env bash
# Installs what the lab and the build need, with the argument "browser" also what the
# tests of the pages need, and says what is missing where there is no apt. Nothing is
# started: the lab brings its own daemons.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"

declare -A package=(
  [gcc]=gcc [slurmctld]=slurmctld [slurmd]=slurmd [slurmdbd]=slurmdbd
  [squeue]=slurm-client [munged]=munge [mariadbd]=mariadb-server [git]=git [glpsol]=glpk-utils [python3]=python3 [promtool]=prometheus
)
[ "${1:-}" != browser ] || package[chromium]=chromium
missing=()
for binary in "${!package[@]}"; do
  command -v "$binary" >/dev/null || missing+=("${package[$binary]}")
done
# The C library's headers come beside the compiler, not with it.
[ -e /usr/include/stdlib.h ] || missing+=(libc6-dev)
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "missing: install what provides ${missing[*]} (Debian's names; Slurm 22.05 or newer), then run make again" >&2
  exit 1
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "missing: as root run: apt-get install ${missing[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
echo "installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# RUNLEVEL=1 keeps the packages from starting services of their own.
if ! { "${sudo[@]}" apt-get update &&
       "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
         apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  cat "$log" >&2
  echo "apt-get could not install ${missing[*]}" >&2
  exit 1
fi
