#!/usr/bin/env bash
# Tests on the Slurm of other Debians, in the roots of root.sh:
#
#   versions.sh roots   only builds these
#   versions.sh smoke   the demo and some live tests, in all of them at once
#   versions.sh test    the whole suite, in one after the other
#
# SUITES names the roots ("trixie sid"), RUN the tests as go test -run does, PACKAGES
# where these are; every other variable reaches the tests, too. All programs are built
# here, where the C library is the older one, and only run there.
set -euo pipefail
cd "$(dirname "$0")/.."
export SLURMPRIO_REQUIRE_LAB=1 GO=${GO:-go} SUITES=${SUITES:-trixie sid}

# Together with the demo these run each command that priod runs: squeue of all jobs, of
# one and of its steps, scontrol show and ping, updates on standard input and single ones,
# requeue, reservations, scancel, srun, sprio, sdiag, sacct of runs, of command lines and
# of steps, sacctmgr, sbatch. Some are among the long ones.
smoke_tests='^Test(LiveReads|LiveRights|LiveLevers|Submissions|EvictionMakesRoom|EvictionInParts|Steering|SizesGivenBack|SpeedsFromAccounting|UsageFromAccounting|Profile)$'

# on runs a tier in one root and says in one line how it went.
on() {
  local tier=$1 suite=$2 log=$SLURMPRIO_BUILT/$2.log status=0 timeout=20m slurm began=$SECONDS
  slurm=$(tests/root.sh slurm "$suite")
  if [ "$tier" = smoke ]; then
    if [ "${slurm%.*}" = "$(tests/root.sh slurm | cut -d. -f1,2)" ]; then
      echo "Slurm $slurm ($suite): as on this machine, where all tests run"
      return
    fi
    # shellcheck disable=SC2016
    tests/root.sh run "$suite" -- sh -c 'PATH=$SLURMPRIO_BUILT:$PATH && exec lab run -- tests/demo.sh' >"$log" 2>&1 ||
      { cat "$log"; echo "Slurm $slurm ($suite): the demo failed"; status=1; }
    export SLURMPRIO_LONG=1
    RUN=$smoke_tests PACKAGES='./slurmplug ./sbatchwrap ./tests'
  fi
  [ "${SLURMPRIO_LONG:-}" != 1 ] || timeout=3h
  # -count=1: a result that go test kept would be one of another Slurm.
  # shellcheck disable=SC2086
  "$GO" test -v -count=1 -vet=off -parallel 4 -timeout $timeout -exec "$PWD/tests/root.sh run $suite --" \
    -run "${RUN:-}" ${PACKAGES:-./...} >"$log" 2>&1 || status=1
  [ $status -eq 0 ] || grep -vE '^(=== |ok |PASS$| *--- (PASS|SKIP))|no test' "$log" || true
  count() { grep -c "^--- $1" "$log" || true; }
  echo "Slurm $slurm ($suite): $(count PASS) passed, $(count FAIL) failed, $(count SKIP) skipped, $((SECONDS - began)) s"
  return $status
}

case ${1:-} in
  on) on "$2" "$3"; exit ;;
  roots) ;;
  smoke) at_once=0 ;; # all
  test) at_once=1 ;;
  *) echo "versions.sh: roots, smoke or test?" >&2; exit 2 ;;
esac
if why=$(tests/root.sh unable); then
  printf '\n*** NOT TESTED on other Slurms than this machine has: %s ***\n\n' "$why" >&2
  [ "$1" != test ]
  exit
fi
# xargs and not &, with which Ctrl-C would not reach them.
xargs -P 0 -n 1 tests/root.sh build <<<"$SUITES"
[ "$1" != roots ] || exit 0

SLURMPRIO_BUILT=$(mktemp -d)
export SLURMPRIO_BUILT
trap 'rm -rf "$SLURMPRIO_BUILT"' EXIT
chmod 755 "$SLURMPRIO_BUILT" # other users run them, too
"$GO" build -ldflags "-X slurmprio/priod/config.Settable=yes" -o "$SLURMPRIO_BUILT/" ./priod ./tests/lab/cmd/lab ./tests/shim/cmd/shim ./tests/training/cmd/training
CGO_ENABLED=0 "$GO" build -o "$SLURMPRIO_BUILT/" ./sbatchwrap ./sbatchwrap/testdata/record
xargs -P "$at_once" -n 1 tests/versions.sh on "$1" <<<"$SUITES"
