#!/bin/sh
# Records the output of Slurm's commands anew, into a folder named after the
# version of the Slurm that is installed: starts a lab, fills its queue with a
# job of each kind, reads everything once. Host names and paths are scrubbed.
# Times and processor loads differ from one recording to the next.
set -eu
cd "$(dirname "$0")/.."
exec go test -count=1 -run '^TestRecord(Asked|Usage|Signals)?$' . -record -v
