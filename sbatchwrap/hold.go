package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"slurmprio/slurmplug/jobtag"
	"slurmprio/slurmplug/prio"
	"slurmprio/slurmplug/sbatch"
)

// siteHold is the site's file; tests have another one.
var siteHold = prio.HoldFile

// holdBack is the option that has a job begin later; none where the site wants
// none. Slurm starts the job by itself then, whether or not priod is there.
func holdBack() []string {
	by, text := prio.HoldVariable, os.Getenv(prio.HoldVariable)
	if text == "" {
		content, err := os.ReadFile(siteHold)
		if err != nil {
			return nil
		}
		by, text = siteHold, string(content)
	}
	d, err := prio.ParseHold(text)
	switch {
	case err != nil:
		warn("%s says %v; the job is not held back", by, err)
		return nil
	case d == 0:
		return nil
	}
	return []string{fmt.Sprintf("--begin=now+%d", d/time.Second)}
}

// Options by which a job says itself when or where it starts, or that it does not.
var ownStart = []string{"begin", "hold", "dependency", "deadline", "reservation", "test-only", "external", "nodelist", "nodefile", "prefer"}

// Options that ask for GPUs.
var gpuOptions = []string{"gres", "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "tres-per-task"}

// waits reports whether priod may give a submission its GPU type or another size, as far
// as the submission itself shows.
func waits(tag jobtag.Tag, jobs []sbatch.Job) bool {
	steers, sizes := tag.AllowsSteering(), len(tag.CPU)+len(tag.Mem) > 0
	// A TE job is to start at once; parts of heterogeneous jobs are left alone.
	if !steers && !sizes || tag.Type == "te" || len(jobs) != 1 {
		return false
	}
	set := jobs[0].Set
	for _, name := range ownStart {
		if _, own := set[name]; own {
			return false
		}
	}
	some := false
	for _, name := range gpuOptions {
		ask, given := set[name]
		if !given {
			continue
		}
		asks, typed := gpus(name, ask.Value)
		steers, some = steers && !typed, some || asks || typed
	}
	return some && (steers && extensible(set["constraint"].Value) || sizes && sizable(set))
}

// sizable reports whether priod may change the size of a job: one that wants its nodes
// alone, or several, keeps it.
func sizable(set map[string]sbatch.Setting) bool {
	_, alone := set["exclusive"]
	return !alone && slices.Contains([]string{"", "1", "1-1"}, set["nodes"].Value)
}

// gpus reports whether the value of an option asks for GPUs, and whether it names
// their type.
func gpus(option, value string) (asks, typed bool) {
	for item := range strings.SplitSeq(value, ",") {
		if strings.HasPrefix(option, "gpus") {
			item = "gpu:" + item
		}
		item = strings.TrimPrefix(strings.TrimPrefix(item, "gres:"), "gres/")
		words := strings.FieldsFunc(item, func(r rune) bool { return r == ':' || r == '=' })
		switch {
		case len(words) == 0 || words[0] != "gpu":
		case len(words) > 2 || len(words) == 2 && !isCount(words[1]):
			typed = true
		case len(words) == 1 || strings.ContainsAny(words[1], "123456789"):
			asks = true
		}
	}
	return asks, typed
}

// isCount tells a number, such as 8 or 1K, from a GPU type.
func isCount(s string) bool {
	if n := len(s) - 1; n > 0 && strings.IndexByte("KMGTPE", s[n]) >= 0 {
		s = s[:n]
	}
	return strings.Trim(s, "0123456789") == ""
}

// extensible reports whether one more feature can be added to a constraint: none
// can beside parentheses, counts, or & and | at once.
func extensible(constraint string) bool {
	mixed := strings.Contains(constraint, "|") && strings.ContainsAny(constraint, "&,")
	return !mixed && !strings.ContainsAny(constraint, "()[]*")
}
