#!/bin/sh
# Every figure of sizing.md, in its order: sizing.sh FOLDER [SEED...]
# FOLDER holds Synergy's traces. Each SEED is a run of 100 jobs on a real Slurm,
# some seven minutes; without them it takes a minute or two. priod is on the PATH.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
GO=${GO:-go}
data=${1:-}
traces="deploy_static_100job_6_3_1.csv deploy_dynamic_100job_srtf.csv
	sim_single_gpu_9jph_20_70_10_seed42.csv.gz sim_single_gpu_7jph_20_70_10_seed42.csv.gz"
for file in $traces; do
	if [ ! -f "$data/$file" ]; then
		echo "sizing.sh: nothing was measured: no $file in ${data:-the folder, which was not named}" >&2
		echo "  make evidence-sizing DATA=FOLDER, with Synergy's traces; docs/evidence/sizing.md says where they come from" >&2
		exit 1
	fi
done
data=$(CDPATH= cd -- "$data" && pwd)
shift

# measured WHAT-TO-SHOW COMMAND...: the command must not fail.
measured() {
	show=$1
	shift
	"$@" >"$work/out" 2>&1 || {
		cat "$work/out" >&2
		exit 1
	}
	grep -E "$show" "$work/out"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
(cd "$here/../.." && "$GO" build -o "$work/papers" ./tests/papers)
cd "$work"
for file in $traces; do
	ln -s "$data/$file" .
done
for day in static_100job_6_3_1 dynamic_100job_srtf; do
	for asks in 6 12 use share; do
		awk -v "asks=$asks" -f "$here/sizing_asks.awk" "deploy_$day.csv" >"asks_${asks}_${day%%_*}.csv"
	done
done

for study in deployment 9jph 7jph gangs slurm slurm-9jph slurm-7jph daemon gangs-slurm; do
	printf '\n== '
	sed -n 's/^title = "\(.*\)"$/\1/p' "$here/sizing-$study.toml"
	measured '_s|[0-9]/' "$work/papers" sweep --out "$study" "$here/sizing-$study.toml"
done

cd "$here/../.."
printf '\n== Equal to the references (skipped where they are not beside the repository)\n'
measured '^(---|ok)|_test.go' "$GO" test -count=1 -v ./priod/size ./priod/simulate -run 'Golden|Synergy|WaterfillRows|Sizing'
printf '\n== Cost: 10,000 pending jobs on 2,000 nodes\n'
measured ^Benchmark "$GO" test ./priod/size -run '^$' -bench Size
for seed in "$@"; do
	printf '\n== 100 jobs on a real Slurm, seed %s\n' "$seed"
	measured 'mean completion|^---' env SLURMPRIO_REQUIRE_LAB=1 SLURMPRIO_SIZING=1 SLURMPRIO_SEED="$seed" \
		"$GO" test ./tests -count=1 -timeout 1h -run 'TestSizingOnSlurm$' -v
done
