package cli

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// setFlag is --set, on verbs that run cycles without the daemon.
func setFlag(category string) cli.Flag {
	return &cli.StringSliceFlag{Category: category, Name: "set", Usage: "`KEY=VALUE` of priod.toml, over the file, such as preemption.max_evictions=2; again for more"}
}

// moved says where a flag of simulate is that is gone.
func moved(flag string) string {
	if to, known := movedToSet[flag]; known {
		return strings.Replace(fmt.Sprintf("--%s is gone: use %s", flag, to), "use nothing: ", "", 1)
	}
	if movedToPapers[flag] {
		return fmt.Sprintf("--%s compares with the papers: use go run ./tests/papers simulate in a checkout", flag)
	}
	return ""
}

// aConstant takes the place of a flag whose value no site changes.
const aConstant = "nothing: it is a constant"

var movedToSet = map[string]string{
	"allocation": "--order priod --set allocation.policy=NAME --set steering.enabled=true", "sizing": "--order priod --set sizing.enabled=true",
	"round": "--order priod --set rounds.enabled=true --set rounds.length=TIME", "steering-cycle": "--set cycle.interval=TIME", "steering-wait": aConstant,
	"steering-depth": aConstant, "steering-busy": "nothing: it changed nothing", "lead": aConstant, "round-pay": aConstant,
	"defrag": "--set preemption.defrag=true", "max-evictions": "--set preemption.max_evictions=TIMES", "min-runtime": "--set preemption.min_run=TIME",
	"eviction-rise": aConstant, "urgency": "--set preemption.urgency=NUMBER", "min-gain": aConstant, "locality": "--set locality.enabled=true",
	"few-nodes": "nothing: jobs wait for few switches alone", "locality-wait": aConstant, "locality-others": aConstant,
	"locality-longest": "--set locality.max_wait=TIME", "locality-of-limit": aConstant, "fitgpp-s": aConstant,
	"fitgpp-fallback": aConstant, "evictions-at-once": aConstant, "evictions-per-hour": "--set preemption.max_per_hour=JOBS",
	"eviction-gpu-hours-per-day": "--set preemption.gpu_hours_per_day=HOURS", "switch-nodes": "--cluster FILE, with switch in its [[nodes]] tables",
	"waits": "--html, whose page has the causes of waiting", "sort": "nothing: traces are sorted", "skip-bad": "nothing: of accounting bad rows are left out",
}

var movedToPapers = map[string]bool{
	"generate": true, "jobs-per-hour": true, "pairs": true, "pairs-tried": true, "pair-references": true, "retry": true, "window": true, "engine": true, "las-queues": true,
	"slurm-order": true, "depth": true, "placement": true, "pool": true, "speeds": true, "history-jobs": true, "round-model": true, "first-round": true, "user-gpus": true,
	"account-gpus": true, "fitgpp-p": true, "grace": true, "epilog": true, "checkpoint": true, "node-costs": true,
}
