#!/usr/bin/env bash
# The version of a checkout, for RELEASE: RELEASE itself where HEAD has its tag and nothing is changed, else with the revision,
# as slurmplug/prio/version.go has it of a plain go build. Without git, RELEASE.
set -euo pipefail
cd "$(dirname "$0")/../.."
release=$1
revision=$(git rev-parse --short=12 HEAD 2>/dev/null) || { echo "$release"; exit; }
dirty=""
[ -z "$(git status --porcelain --untracked-files=no)" ] || dirty=.dirty
if [ -z "$dirty" ] && git tag --points-at HEAD | grep -qxF "v$release"; then
  echo "$release"
else
  echo "$release+g$revision$dirty"
fi
