package cli

import (
	"strings"
)

// What stands for a flag whose value no site changes, and for one that compares with the papers.
const (
	aConstant    = "it is a constant"
	throughSlurm = "use sbatch --wrap='priod tune ...': a study takes minutes"
	inPapers     = "it compares with the papers: use go run ./tests/papers simulate in a checkout"
)

// gone are verbs, and flags behind theirs, that priod had, and what stands for each; a year after the release without one its line
// may leave, too.
var gone = map[string]string{
	"advise":           "use priod eta SCRIPT, or priod eta -- SBATCH-OPTIONS SCRIPT",
	"diff":             "use priod run --dry-run",
	"defrag":           "use priod explain --victims, or priod explain --victims JOBID for one gang",
	"evict":            "use priod explain --victims JOBID",
	"history":          "use priod report history, or priod explain --history JOBID for one job",
	"sweep":            "use priod tune, with --try for settings of your own; grids are go run ./tests/papers sweep FILE in a checkout",
	"top":              "use priod queue, or priod queue --watch --stored on a terminal",
	"allocate":         "to see what the optimiser makes of an instance, go run ./tests/papers allocate FILE in a checkout",
	"trace":            "the papers' generators are go run ./tests/papers generate in a checkout",
	"workloads import": "use go run ./tests/papers import in a checkout",

	"simulate --allocation":     "use --order priod --set allocation.policy=NAME --set steering.enabled=true",
	"simulate --sizing":         "use --order priod --set sizing.enabled=true",
	"simulate --round":          "use --order priod --set rounds.enabled=true --set rounds.length=TIME",
	"simulate --steering-cycle": "use --set cycle.interval=TIME", "simulate --steering-wait": aConstant, "simulate --steering-depth": aConstant,
	"simulate --steering-busy": "it changed nothing", "simulate --lead": aConstant, "simulate --round-pay": aConstant,
	"simulate --defrag": "use --set preemption.defrag=true", "simulate --max-evictions": "use --set preemption.max_evictions=TIMES",
	"simulate --min-runtime": "use --set preemption.min_run=TIME", "simulate --eviction-rise": aConstant,
	"simulate --urgency": "use --set preemption.urgency=NUMBER", "simulate --min-gain": aConstant,
	"simulate --locality": "use --set locality.enabled=true", "simulate --few-nodes": "jobs wait for few switches alone",
	"simulate --locality-wait": aConstant, "simulate --locality-others": aConstant, "simulate --locality-longest": aConstant,
	"simulate --locality-of-limit": aConstant, "simulate --fitgpp-s": aConstant, "simulate --fitgpp-fallback": aConstant,
	"simulate --evictions-at-once": aConstant, "simulate --evictions-per-hour": "use --set preemption.max_per_hour=JOBS",
	"simulate --eviction-gpu-hours-per-day": "use --set preemption.loss_share=PART",
	"simulate --switch-nodes":               "use --cluster FILE, with switch in its [[nodes]] tables",
	"simulate --waits":                      "use --html, whose page has the causes of waiting", "simulate --sort": "traces are sorted",
	"simulate --skip-bad": "of accounting bad rows are left out",

	"tune --grid": "use --try; grids are go run ./tests/papers sweep FILE in a checkout", "tune --show": "priod tune shows existing results",
	"tune --sbatch": throughSlurm, "tune --part": throughSlurm, "tune --tasks": throughSlurm,

	"simulate --generate": inPapers, "simulate --jobs-per-hour": inPapers, "simulate --pairs": inPapers, "simulate --pairs-tried": inPapers,
	"simulate --pair-references": inPapers, "simulate --retry": inPapers, "simulate --window": inPapers, "simulate --engine": inPapers,
	"simulate --las-queues": inPapers, "simulate --slurm-order": inPapers, "simulate --depth": inPapers, "simulate --placement": inPapers,
	"simulate --pool": inPapers, "simulate --speeds": inPapers, "simulate --history-jobs": inPapers, "simulate --round-model": inPapers,
	"simulate --first-round": inPapers, "simulate --user-gpus": inPapers, "simulate --account-gpus": inPapers, "simulate --fitgpp-p": inPapers,
	"simulate --grace": inPapers, "simulate --epilog": inPapers, "simulate --checkpoint": inPapers, "simulate --node-costs": inPapers,
}

// goneAs says what stands for the words of a command line that are gone; nil: they are not.
func goneAs(words ...string) error {
	name := strings.Join(words, " ")
	if gone[name] == "" {
		return nil
	}
	return usagef("%s is gone: %s", name[max(strings.Index(name, "--"), 0):], gone[name])
}
