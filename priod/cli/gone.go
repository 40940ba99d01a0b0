package cli

// gone are verbs that priod had, and what stands for each; a year after the release without one its line may leave, too.
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
}

// goneAs says what stands for a verb that is gone; nil: it is not.
func goneAs(verb string) error {
	if gone[verb] == "" {
		return nil
	}
	return usagef("%s is gone: %s", verb, gone[verb])
}
