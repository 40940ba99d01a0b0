#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other:
#
#   tests/fuzz.sh [COUNT [PATTERN]]    COUNT inputs each (10000000x), targets that match PATTERN
#
# The first crash ends it with status 1; its input stays in the package's
# testdata/fuzz and is a test from then on.
#
# go test -fuzz counts the branches of every package that a test binary holds,
# the lab's and the standard library's too, and reads all counters after each
# input. Here only our own packages are counted, and those libraries whose
# branches are our formats: five times as many inputs in a second.
set -euo pipefail
cd "$(dirname "$0")/.."
count=${1:-10000000x} pattern=${2:-}
go=${GO:-go}
module=$("$go" list -m)
counted=()
for p in "$module/..." strconv net/url github.com/BurntSushi/toml; do
  counted+=("-gcflags=$p=-d=libfuzzer")
done
cache=$("$go" env GOCACHE)/fuzz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '%-45s %12s %8s %10s\n' target inputs seconds inputs/s
while IFS=$'\t' read -r package dir; do
  grep -qs '^func Fuzz' "$dir"/*_test.go || continue
  "$go" test -c "${counted[@]}" -o "$work/fuzz.test" "$package"
  cd "$dir"
  for target in $("$work/fuzz.test" -test.list '^Fuzz'); do
    [[ $package.$target =~ $pattern ]] || continue
    start=$(date +%s%N)
    "$work/fuzz.test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$count" -test.fuzzminimizetime 100x \
      -test.fuzzcachedir "$cache/$package" </dev/null >"$work/log" 2>&1 ||
      { cat "$work/log"; echo "$package.$target failed" >&2; exit 1; }
    ms=$((($(date +%s%N) - start) / 1000000 + 1))
    inputs=$(grep -o 'execs: [0-9]*' "$work/log" | tail -1)
    inputs=${inputs#execs: }
    printf '%-45s %12d %8d %10d\n' "${package#"$module"/}.$target" "${inputs:-0}" $((ms / 1000)) $((${inputs:-0} * 1000 / ms))
  done
  cd - >/dev/null
done < <("$go" list -f '{{.ImportPath}}{{"\t"}}{{.Dir}}' ./...)
