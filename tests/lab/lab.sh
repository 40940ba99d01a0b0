#!/bin/sh
# A Slurm cluster with fake GPUs on this machine: lab.sh start|stop|run|shell.
# Builds cmd/lab and becomes it; the binary's file is gone before it runs.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
bin=$(mktemp)
trap 'rm -f "$bin"' EXIT INT TERM
(cd "$here" && go build -o "$bin" ./cmd/lab)
exec 9<"$bin"
rm -f "$bin"
exec /proc/self/fd/9 "$@"
