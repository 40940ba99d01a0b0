package chaos

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// Explanation is what priod explain --json says of a job.
type Explanation struct {
	store.Story
	Own   map[slurmplug.Lever]string `json:"own_request"` // of its user, where priod has written
	Waits []struct {
		Submit time.Time
		Until  time.Time
		Ended  string
		Spans  []struct {
			Wait  float64 `json:"wait_s"`
			Cause plan.Cause
		}
	}
}

// Explained are the errors in the explanation of a pending record, by what Slurm shows of it:
// its state, its class, the value that it is to have, what was written, what was chosen, why it
// waits. factor is its SiteFactor, nil where Slurm does not list it.
func (r *Run) Explained(s *Seen, factor *int64, x *Explanation, at time.Time) (all []Breach) {
	n := r.Number(s.Shown)
	if n < 0 {
		return nil
	}
	wrong := func(format string, args ...any) {
		all = append(all, Breach{"explanations are right", fmt.Sprintf("%s (%s)", r.Jobs[n].Name, s.Shown), fmt.Sprintf(format, args...)})
	}
	same := func(what, explained, slurm string) {
		if explained != slurm {
			wrong("its %s is explained as %q, and Slurm says %q", what, explained, slurm)
		}
	}
	j := &x.Job
	same("state", strings.ToUpper(j.State), s.State)
	same("partition", j.Partition, s.Partition)
	same("QOS", j.QOS, s.QOS)
	same("constraint", j.Features, s.Features)
	same("Nice", strconv.FormatInt(j.Nice, 10), s.Nice)
	same("number of restarts", strconv.Itoa(j.Restarts), strconv.Itoa(s.Restarts))
	if x.Decision == nil {
		wrong("it has no decision")
		return all
	}
	r.explainedClass(s, x, wrong)
	if d := x.Decision; d.Ranked && d.Unmoved == "" && factor != nil && *factor != d.Value {
		wrong("it is to have the value %d, and its SiteFactor is %d", d.Value, *factor)
	}
	r.explainedWrites(n, s, factor, x, wrong)
	r.explainedChoices(n, s, x, at, wrong)
	r.explainedWait(n, s, x, wrong)
	return all
}

// explainedClass: of the jobs that are ranked, who counts as TE said so, by his tag or else by his
// QOS, and who said so counts as that or is above a budget. A job that is held or waits for another
// one is decided about as that.
func (r *Run) explainedClass(s *Seen, x *Explanation, wrong func(string, ...any)) {
	said := s.QOS
	word, _, _ := strings.Cut(s.Comment, " ")
	if tag, err := jobtag.Parse(word); err == nil && tag.Type != "" {
		said = tag.Type
	}
	d := x.Decision
	above := d.Why == string(plan.OverBudget) || d.Why == string(plan.Overrun)
	if te := d.Class == cluster.TE; d.Ranked && te != (said == "te") && (te || !above) {
		wrong("it counts as %s (%s), and its user said %q", d.Class, d.Why, said)
	}
	for why, reasons := range map[string][]string{"held": {"JobHeldUser", "JobHeldAdmin"}, "dependency": {"Dependency"}} {
		if (d.Why == why) != slices.Contains(reasons, s.Reason) && s.Partition == "gpu" {
			wrong("it is decided about as %q, and Slurm's reason is %s", d.Why, s.Reason)
		}
	}
}

// explainedWrites: what was last written into each field is what stands there, unless its user
// has set the field since. What was written into some tasks alone stands in their records.
func (r *Run) explainedWrites(n int, s *Seen, factor *int64, x *Explanation, wrong func(string, ...any)) {
	fields := s.kept()
	fields["MinCPUsNode"], fields["MinMemoryNode"] = s.MinCPUs, s.Mem
	if factor != nil {
		fields["SiteFactor"] = strconv.FormatInt(*factor, 10)
	}
	seen := map[string]bool{}
	for i := range x.Writes { // the latest first
		w := &x.Writes[i]
		if w.Part && !sharesTask(s.Shown, w.Tasks) {
			continue
		}
		if w.Status != slurmplug.Applied {
			if w.Status != slurmplug.Raced {
				seen[string(w.Lever)] = true // what stands there now, nobody knows
			}
			continue
		}
		if slices.ContainsFunc(r.Done, func(d Done) bool {
			return d.Job == n && d.Do == string(w.Lever) && d.Failed == "" && d.Until.After(w.At)
		}) {
			seen[string(w.Lever)] = true
		}
		if w.Lever == slurmplug.Size {
			for word := range strings.FieldsSeq(w.After.String()) {
				key, value, _ := strings.Cut(word, "=")
				compareWrite(key, value, fields, seen, wrong)
			}
			continue
		}
		compareWrite(string(w.Lever), w.After.String(), fields, seen, wrong)
	}
}

// sharesTask reports whether a record, "7_[1-3]" or "7_1", has one of some tasks.
func sharesTask(record, tasks string) bool {
	_, list, _ := strings.Cut(record, "_")
	own, err := slurmplug.ExpandTasks(strings.Trim(list, "[]"))
	return err == nil && slices.ContainsFunc(own, func(task int32) bool {
		has, err := slurmplug.HasTask(tasks, task)
		return err == nil && has
	})
}

func compareWrite(key, value string, fields map[string]string, seen map[string]bool, wrong func(string, ...any)) {
	is, known := fields[key]
	if !known || seen[key] {
		return
	}
	seen[key] = true
	switch key {
	case "MinMemoryNode":
		is = strconv.FormatInt(megabytes(is), 10)
	case "Switches":
		is, _, _ = strings.Cut(is, "@")
		value, _, _ = strings.Cut(value, "@")
	case "ReqNodeList", "ExcNodeList":
		is, value = hosts(is), hosts(value)
	}
	if is != value {
		wrong("%s=%s was written last, and Slurm says %q", key, value, is)
	}
}

// hosts is a list of nodes in one order.
func hosts(list string) string {
	names, err := slurmplug.ExpandHosts(list)
	if err != nil {
		return list
	}
	return strings.Join(slices.Sorted(slices.Values(names)), ",")
}

// megabytes is an amount of memory as squeue prints it; 0 for what is none.
func megabytes(text string) int64 {
	digits := strings.TrimRight(text, "MGT")
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0
	}
	return int64(n * map[string]float64{"": 1, "M": 1, "G": 1024, "T": 1 << 20}[text[len(digits):]])
}

// explainedChoices: a job that is bound to a type or to nodes, waits for few switches or
// refuses nodes does so by a choice of priod's or by its user's own words, and what its user
// asked for is known.
func (r *Run) explainedChoices(n int, s *Seen, x *Explanation, at time.Time, wrong func(string, ...any)) {
	c, own := &x.Decision.Choices, r.constraint(n, at)
	if t := c.GPUType; t != nil && t.GPUType != "" && !strings.Contains(s.Features, t.GPUType) {
		wrong("it is bound to %s, and asks for %q", t.GPUType, s.Features)
	}
	was, known := x.Own[slurmplug.Features]
	// No Slurm tells apart what priod wrote and what a user set to the same.
	if s.Features != own && (!known || was != own) && !r.overwritten(n, "Features") && !r.stood(s.Shown, n, "Features", at) {
		wrong("it asks for %q, its user for %q, and this is explained as %q (known: %v)", s.Features, own, was, known)
	}
	if was, known := x.Own[slurmplug.ReqNodeList]; s.ReqNodes != "" && (!known && x.Own[slurmplug.Size] == "" || was != "") {
		wrong("it has to run on %s, which its user did not ask for, and this is explained as %q (known: %v)", s.ReqNodes, was, known)
	}
	if was, known := x.Own[slurmplug.ExcNodeList]; s.ExcNodes != "" && (!known || was != "") {
		wrong("it refuses %s, which its user did not ask for, and this is explained as %q (known: %v)", s.ExcNodes, was, known)
	}
	if p := c.Switches; p != nil && p.Accepts > 0 && !strings.HasPrefix(s.Switches, strconv.Itoa(p.Accepts)+"@") {
		wrong("it accepts %d switches, and Slurm says %s", p.Accepts, s.Switches)
	}
	if f := c.Refused; f != nil && hosts(f.Nodes) != hosts(s.ExcNodes) {
		wrong("it refuses %s, and Slurm says %q", f.Nodes, s.ExcNodes)
	}
}

// explainedWait: the causes of its wait sum to it, and agree with Slurm's reason.
func (r *Run) explainedWait(n int, s *Seen, x *Explanation, wrong func(string, ...any)) {
	if len(x.Waits) == 0 {
		wrong("why it waits is not explained")
		return
	}
	w := &x.Waits[0]
	if w.Ended != "" || len(w.Spans) == 0 {
		wrong("its wait has ended: %q", w.Ended)
		return
	}
	sum := 0.0
	for _, p := range w.Spans {
		sum += p.Wait
	}
	if waited := w.Until.Sub(w.Submit).Seconds(); math.Abs(sum-waited) > 0.01 {
		wrong("the causes of its wait sum to %.3f s of %.3f", sum, waited)
	}
	if r.Jobs[n].Tasks == 0 && w.Submit.Sub(s.Submit).Abs() > time.Second && s.Restarts == 0 {
		wrong("it waits since %s, and Slurm says %s", w.Submit, s.Submit)
	}
	cause := w.Spans[len(w.Spans)-1].Cause
	want := map[string]plan.Cause{"JobHeldUser": plan.HeldBack, "JobHeldAdmin": plan.HeldBack, "Dependency": plan.AfterJob, "BeginTime": plan.BeforeTime, "JobArrayTaskLimit": plan.AtLimit}[s.Reason]
	if cmp.Or(want, cause) != cause {
		wrong("it waits for %s, and Slurm's reason is %s", cause, s.Reason)
	}
}
