package retry

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"slurmprio/priod/cluster"
)

// MaxOutput is how much of a job's output counts: its end.
const MaxOutput = 64 << 10

// Run is one run of a job that has ended, as far as Slurm and its output tell.
type Run struct {
	Job                  cluster.JobID
	RawID                uint32
	User                 string
	State                string // Slurm's: "FAILED"
	Reason               string // Slurm's: "NonZeroExitCode"
	ExitCode, Signal     int    // of the batch script
	StepCode, StepSignal int    // the highest of a step: Slurm's derived exit code
	Nodes                []string
	GPUs                 int
	Start, End           time.Time
	Restarts             int
	Limit                time.Duration
	AskedMB, PeakMB      int64  // memory of a node, and what the job used of it; 0: not known
	Output               []byte // the end of it; nil: not read
}

// Failed reports whether a run that ended so failed. One that was cancelled, by whomever, did not.
func Failed(state string) bool { return slices.Contains(finals, state) }

// Finding is what a run's end means.
type Finding struct {
	Class *Class
	Rule  string
	Line  string // what in the output says so, made printable; "" when it was not the output
	// Signature is the same for two failures that are alike: the rule, with the line or the exit status without its numbers.
	Signature string
}

// Classify gives a run that failed its class.
func (r *Rules) Classify(run *Run) Finding {
	one, line := r.first(run)
	f := Finding{Class: one.class, Rule: one.name, Line: line}
	what := alike(line)
	if line == "" {
		what = clean([]byte(run.State)) + " " + strconv.Itoa(run.ExitCode) + ":" + strconv.Itoa(run.Signal)
	}
	f.Signature = one.name + ": " + what
	return f
}

// first is the first rule that matches, and the line of the output that it matches; the last rule matches all.
func (r *Rules) first(run *Run) (*rule, string) {
	t := linesOf(run.tail())
	for i := range r.rules {
		if line, matches := r.rules[i].match(run, &t); matches {
			return &r.rules[i], line
		}
	}
	return &r.rules[len(r.rules)-1], ""
}

// match reports whether all conditions hold, and where the output says so: "" for a rule that does not ask.
func (r *rule) match(run *Run, t *text) (line string, matches bool) {
	if len(r.states) > 0 && !slices.Contains(r.states, run.State) ||
		len(r.exit) > 0 && !slices.Contains(r.exit, run.ExitCode) && !slices.Contains(r.exit, run.StepCode) ||
		len(r.signal) > 0 && !slices.ContainsFunc(run.signals(), func(n int) bool { return slices.Contains(r.signal, n) }) ||
		r.reason != nil && !r.reason.MatchString(run.Reason[:min(len(run.Reason), maxLineBytes)]) ||
		r.used > 0 && run.used() < r.used {
		return "", false
	}
	if r.output == nil {
		return "", true
	}
	found, at := r.find(t)
	if found == nil {
		return "", false
	}
	if at > maxLine/2 { // else what matters may not be in what is kept
		found = found[at:]
	}
	return clean(found), true
}

// signals are those that ended the script, a step, or a program of which a shell says so.
func (run *Run) signals() (all []int) {
	for _, n := range []int{run.Signal, run.StepSignal, run.ExitCode - 128, run.StepCode - 128} {
		if n > 0 && n <= 64 {
			all = append(all, n)
		}
	}
	return all
}

// used is the part of its memory that the run used; 0 where that is not known.
func (run *Run) used() float64 {
	if run.AskedMB <= 0 || run.PeakMB <= 0 {
		return 0
	}
	return float64(run.PeakMB) / float64(run.AskedMB)
}

// tail is the end of the output that counts.
func (run *Run) tail() []byte { return run.Output[max(0, len(run.Output)-MaxOutput):] }

// maxLine is how many characters of a line are kept.
const maxLine = 200

// clean is text of a user's, safe for a terminal and a page, and short.
func clean(text []byte) string {
	var b strings.Builder
	for n := 0; len(text) > 0 && n < maxLine; n++ {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			r = ' '
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}

// alike is a line without what differs from one run to the next: numbers, addresses and names that have digits in them.
func alike(line string) string {
	words := strings.Fields(line)
	for i, w := range words {
		if strings.ContainsAny(w, "0123456789") {
			words[i] = "#"
		}
	}
	return strings.Join(slices.CompactFunc(words, func(a, b string) bool { return a == "#" && b == "#" }), " ")
}
