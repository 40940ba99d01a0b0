#!/usr/bin/env bash
# The tour of make demo. It runs inside a lab (tests/lab/lab.sh run --), which
# set SLURM_CONF and removes the cluster afterwards.
set -euo pipefail
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
export PRIOD_CONFIG=$state/priod.toml
cat >"$PRIOD_CONFIG" <<TOML
[slurm]
partitions = ["gpu"]
[state]
dir = "$state/state"
[log]
level = "warn"
TOML
mkdir "$state/state"

bold=$'\033[1m' dim=$'\033[2m' plain=$'\033[0m'
[ -t 1 ] || bold='' dim='' plain=''
title() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
show() { printf '%s$ %s%s\n' "$dim" "$*" "$plain"; "$@"; }
# Slurm's own view: pending jobs, highest priority first.
slurm_queue() { show squeue --noheader --states=PENDING --sort=-p,i --format="%.6i %.10Q %.9u %.12r  %k"; }
submit() { sbatchwrap --parsable --output=/dev/null --time=30 "$@"; }

title "A real Slurm with fake GPUs"
show sinfo -N -p gpu -o '%N %G %t'
show priod check

title "Best-effort (BE) jobs fill the cluster, and more wait"
for _ in $(seq 8); do submit --prio-type be --gres=gpu:4 --job-name=train --wrap 'sleep 300' >/dev/null; done
for _ in $(seq 40); do [ "$(squeue -h -t RUNNING | wc -l)" -ge 8 ] && break; sleep 0.25; done
for _ in 1 2 3 4; do submit --prio-type be --gres=gpu:4 --job-name=train --wrap 'sleep 300' >/dev/null; done
submit --gres=gpu:2 --job-name=untagged --comment="no tag here" --wrap 'sleep 300' >/dev/null

title "Three people try something out: trial-and-error (TE) jobs, submitted last"
for _ in 1 2 3; do
  trial=$(submit --prio-type te --time=5 --gres=gpu:1 --job-name=try --comment="quick look" --wrap 'sleep 60')
  sleep 1
done
first=$((trial - 2))
echo "sbatchwrap --prio-type te --gres=gpu:1 ...  ->  jobs $first to $trial"

title "Before: Slurm would start the trials last"
slurm_queue

title "What priod would write, and then writes"
show priod run --dry-run
show priod run --once

title "After: the trials stand first, in Slurm's own eyes"
slurm_queue
show sprio --format='%.8i %.10Y %.10S %.6A %.6F'
show priod queue
title "Why?"
show priod explain "$first"

title "One training ends: the first trial starts at once"
victim=$(squeue -h -t RUNNING -o %i | head -n 1)
show scancel "$victim"
for _ in $(seq 60); do [ "$(squeue -h -j "$first" -o %T)" = RUNNING ] && break; sleep 0.25; done
show squeue --jobs="$first" --format='%.6i %.8T %.6M %N'
[ "$(squeue -h -j "$first" -o %T)" = RUNNING ] || { echo "the trial did not start" >&2; exit 1; }

title "Taking it all back"
show priod reset
left=$(sprio -h -o %S | awk '$1 != 0' | wc -l)
echo "jobs with a SiteFactor left in Slurm: $left"
[ "$left" -eq 0 ]

title "On the right GPU: two programs that leave the type open and say how fast they are on each"
priod resume >/dev/null
scancel --user="$(id -un)"
for _ in $(seq 40); do [ -z "$(squeue -h)" ] && break; sleep 0.25; done
cat >>"$PRIOD_CONFIG" <<TOML
[allocation]
policy = "max-min"
[steering]
enabled = true
TOML
open() { submit --begin=now+8 --prio-type be --gres=gpu:4 --job-name="$1" --prio-speed "$2" --wrap 'sleep 300'; }
for _ in 1 2 3 4 5 6; do language=$(open language a100:1,v100:0.3,t4:0.1); done
for _ in 1 2 3 4 5 6; do open game a100:1,v100:0.9,t4:0.8 >/dev/null; done
show priod run --once
show squeue --noheader --sort=j,i --format='%.6i %10j %.9T  %f'
show priod explain "$language"
for _ in $(seq 60); do [ "$(squeue -h -t RUNNING | wc -l)" -ge 7 ] && break; sleep 0.25; done
show squeue --noheader --sort=j,i --format='%.6i %10j %.9T  %N'
show priod reset
[ -z "$(squeue -h -t PENDING -o %f | grep -v null)" ] || { echo "a GPU type is left in a job" >&2; exit 1; }
