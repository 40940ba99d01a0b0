package chaos

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// constraint is the user's own at some moment: what he last set by then, or asked for.
func (r *Run) constraint(n int, at time.Time) string {
	own := ""
	for _, o := range r.Jobs[n].Options {
		if c, ok := strings.CutPrefix(o, "--constraint="); ok {
			own = c
		}
	}
	for _, d := range r.Done {
		if d.Job == n && d.Do == "Features" && !d.From.After(at) && d.Failed == "" {
			own = d.Value
		}
	}
	return own
}

// NotThrashed: no constraint is written back to what it was within a minute, but for
// the job's own change, which is its user's or that it started, or its nodes'.
func NotThrashed(r *Run) (all []Breach) {
	type stay struct {
		value string
		since time.Time
	}
	was := map[string][]stay{}
	for _, v := range r.Views {
		for _, s := range v.Queue {
			n := r.Number(s.Shown)
			if n < 0 || strings.Contains(s.Shown, "[") {
				continue
			}
			anew := len(was[s.Shown]) > 0 && !v.At.Before(r.Reset.At.Add(-slack)) && was[s.Shown][0].since.Before(r.Reset.At) // the reset of the run took all back
			h := was[s.Shown]
			touched := len(h) > 0 && slices.ContainsFunc(r.Done, func(d Done) bool { // whatever he changed: what he may have follows
				return d.Job == n && !d.From.After(v.At) && d.Until.After(h[len(h)-1].since.Add(-slack))
			})
			// A slurmctld that was killed may show an older value, and from then on counts some
			// GPUs as in use that are not (22.05.8), so that a type has no room for a gang.
			killed := slices.ContainsFunc(r.Faults, func(f Happened) bool {
				return (f.What == "kill slurmctld" || f.What == ControllerEnded) && f.At.Before(v.At)
			})
			if s.State != "PENDING" || anew || touched || killed || did(r.Done, n, v.At, "Features") {
				delete(was, s.Shown)
				continue
			}
			if len(h) > 0 && h[len(h)-1].value == s.Features {
				continue
			}
			if len(h) > 1 && h[len(h)-2].value == s.Features && v.At.Sub(h[len(h)-1].since) < time.Minute-look && !r.wentDown(h[len(h)-1].value, h[len(h)-1].since, v.At) && !r.filled(n, &s, h[len(h)-1].value, &v) {
				all = append(all, Breach{"no constraint written back", fmt.Sprintf("%s (%s)", r.Jobs[n].Name, s.Shown),
					fmt.Sprintf("%q, then %q at %s, and back %s later; it waits for %s", s.Features, h[len(h)-1].value, h[len(h)-1].since.Format("15:04:05"), v.At.Sub(h[len(h)-1].since).Round(time.Second), s.Reason)})
			}
			was[s.Shown] = append(h, stay{s.Features, v.At})
		}
	}
	return all
}

// look is from one look at the queue to the next, at most; a value may be older by that.
const look = 2 * time.Second

// filled reports whether a TE job is left to its own constraint since others took the room
// that it was bound to: it is not to wait for that.
func (r *Run) filled(n int, s *Seen, gpuType string, v *View) bool {
	return r.Jobs[n].Class == "te" && s.Features == r.constraint(n, v.At) && !slices.ContainsFunc(v.Nodes, func(x Node) bool {
		return x.Up && strings.HasPrefix(x.Name, gpuType) && x.GPUs-x.Used >= r.Jobs[n].GPUs
	})
}

// wentDown reports whether a node of a type was not up meanwhile.
func (r *Run) wentDown(gpuType string, from, to time.Time) bool {
	return slices.ContainsFunc(r.Views, func(v View) bool {
		return !v.At.Before(from) && !v.At.After(to) && slices.ContainsFunc(v.Nodes, func(n Node) bool { return !n.Up && strings.HasPrefix(n.Name, gpuType) })
	})
}

// waitsForRoom reports whether a pending job waits for nothing but room.
func (s *Seen) waitsForRoom() bool {
	return s.State == "PENDING" && s.Dependency == "" && (s.Reason == "Resources" || s.Reason == "Priority" || s.Reason == "None" || s.Reason == "BadConstraints" || strings.HasPrefix(s.Reason, "ReqNodeNotAvail"))
}

// takes reports whether a job may run on a node by its user's own words.
func (r *Run) takes(n int, node string, at time.Time) bool {
	own := r.constraint(n, at)
	return strings.HasPrefix(node, r.Jobs[n].Type) && (own == "" || slices.ContainsFunc(strings.Split(own, "|"), func(t string) bool { return strings.HasPrefix(node, t) }))
}

// bound reports whether a job waits for less than its user asked for: it was given a
// type or nodes.
func (r *Run) bound(n int, s *Seen, at time.Time) bool {
	return s.ReqNodes != "" || s.Features != r.constraint(n, at)
}

// amply reports whether a job of one node finds much more than it needs on some node
// that it may run on.
func (r *Run) amply(n int, v *View) bool {
	j := &r.Jobs[n]
	exclusive := slices.Contains(j.Options, "--exclusive")
	return j.Nodes == 1 && !j.Het && slices.ContainsFunc(v.Nodes, func(x Node) bool {
		return x.Up && r.takes(n, x.Name, v.At) && x.GPUs-x.Used >= j.GPUs && x.FreeCPUs >= 8 && x.FreeMB >= 20000 && !(exclusive && x.Used > 0)
	})
}

// Free: the job at the head of the queue that priod has bound does not stand there
// while it would find room, for longer than its budget; and none that is TE waits
// bound to a type while a BE job starts where it could.
func Free(r *Run) (all []Breach) {
	since, said := map[string]time.Time{}, map[string]bool{}
	var before map[string]Seen
	for k := range r.Views {
		v := &r.Views[k]
		all = append(all, r.overtaken(v, before, said)...)
		head, before2 := (*Seen)(nil), map[string]Seen{}
		for i := range v.Queue {
			s := &v.Queue[i]
			before2[s.Shown] = *s
			if s.waitsForRoom() && (head == nil || s.Priority > head.Priority) {
				head = s
			}
		}
		before = before2
		for shown := range since {
			if head == nil || head.Shown != shown {
				delete(since, shown)
			}
		}
		if head == nil {
			continue
		}
		n := r.Number(head.Shown)
		if n < 0 || !r.bound(n, head, v.At) || !r.amply(n, v) {
			delete(since, head.Shown)
			continue
		}
		if since[head.Shown].IsZero() {
			since[head.Shown] = v.At
		}
		if waits := v.At.Sub(since[head.Shown]); waits > r.Budget && !said[head.Shown] {
			said[head.Shown] = true
			all = append(all, Breach{"nobody waits with room for it", fmt.Sprintf("%s (%s, %s)", r.Jobs[n].Name, head.Shown, r.Jobs[n].Class),
				fmt.Sprintf("is first in the queue with features %q and nodes %q since %s, and %s later could start by its user's own words", head.Features, head.ReqNodes, since[head.Shown].Format("15:04:05"), waits.Round(time.Second))})
		}
	}
	return all
}

// overtaken are the TE jobs bound to a type at the last look, after which a BE job
// that came in no earlier started on a node that they could have had, with as many GPUs.
func (r *Run) overtaken(v *View, before map[string]Seen, said map[string]bool) (all []Breach) {
	for i := range v.Queue {
		be := &v.Queue[i]
		b, was := r.Number(be.Shown), before[be.Shown]
		if v.At.Sub(r.Reset.At).Abs() < slack { // which took back what priod had just written
			break
		}
		if b < 0 || be.State != "RUNNING" || was.State != "PENDING" || r.Jobs[b].Class != "be" || r.Jobs[b].Nodes > 1 || slices.Contains(r.Jobs[b].Options, "--exclusive") {
			continue
		}
		for shown, te := range before {
			n := r.Number(shown)
			if n < 0 || said[shown] || r.Jobs[n].Class != "te" || r.turned(n, v.At) || !te.waitsForRoom() || te.Features == r.constraint(n, v.At) || te.Features == "" || te.ReqNodes != "" || v.At.Sub(te.Submit) < slack {
				continue
			}
			j := &r.Jobs[n]
			if j.Nodes == 1 && j.GPUs <= r.Jobs[b].GPUs && !r.unanswered(n, v.At) && !r.startsSoon(shown, v.At) && r.takes(n, be.Nodes, v.At) && !strings.HasPrefix(be.Nodes, te.Features) && te.Partition == be.Partition && !strings.Contains(be.Nodes, "[") {
				said[shown] = true
				all = append(all, Breach{"no TE job bound while a BE job starts", fmt.Sprintf("%s (%s, te)", j.Name, shown),
					fmt.Sprintf("waited for %q when %s (%s) started on %s at %s", te.Features, r.Jobs[b].Name, be.Shown, be.Nodes, v.At.Format("15:04:05"))})
			}
		}
	}
	return all
}

// turned reports whether a job's user has just done something to it.
func (r *Run) turned(n int, at time.Time) bool {
	return slices.ContainsFunc(r.Done, func(d Done) bool {
		return d.Job == n && !d.From.After(at) && d.Until.Add(slack).After(at)
	})
}

// overwritten reports whether priod wrote a field of a job just after its user had: the
// value that it read, and gives back, may be the one before the user's.
func (r *Run) overwritten(n int, key string) bool {
	for line := range strings.Lines(r.Words) {
		w := wrote.FindStringSubmatch(line)
		if w == nil || w[3] != key || r.Number(w[2]) != n {
			continue
		}
		at, err := time.Parse(time.RFC3339, w[1])
		if err == nil && slices.ContainsFunc(r.Done, func(d Done) bool {
			return d.Job == n && d.Do == key && d.From.Before(at) && at.Before(d.Until.Add(slack/2))
		}) {
			return true
		}
	}
	return false
}

// startsSoon reports whether a job, or a task of an array, runs a moment later: the type that it
// was bound to had room for it, too.
func (r *Run) startsSoon(shown string, at time.Time) bool {
	array, _, unsplit := strings.Cut(shown, "_[")
	return slices.ContainsFunc(r.Views, func(v View) bool {
		return !v.At.Before(at) && v.At.Sub(at) < slack && slices.ContainsFunc(v.Queue, func(s Seen) bool {
			return s.State == "RUNNING" && (s.Shown == shown || unsplit && strings.HasPrefix(s.Shown, array+"_") && !s.Start.Before(at.Add(-look)))
		})
	})
}

// unanswered reports whether a write to a job was under way for which scontrol gave no answer:
// Slurm may have its type for seconds before its priority.
func (r *Run) unanswered(n int, at time.Time) bool {
	for line := range strings.Lines(r.Words) {
		w := noAnswer.FindStringSubmatch(line)
		if w == nil || r.Number(w[2]) != n {
			continue
		}
		if until, err := time.Parse(time.RFC3339, w[1]); err == nil && at.After(until.Add(-commandTimeout-slack)) && at.Before(until.Add(slack)) {
			return true
		}
	}
	return false
}

// commandTimeout is after how long priod gives a command up in the harness.
const commandTimeout = 3 * time.Second

// noAnswer is what priod's log says of a write whose outcome is not known: when, the job.
var noAnswer = regexp.MustCompile(`^(\S+) .*priod: not written: cycle=\d+ job=(\S+) .* status=unknown `)

// stood reports whether a field of a job, or of the array that its task still was a part
// of, held already what its user set last, by priod's hand: nothing tells the two apart.
// Nor can priod for a while after it has written the next value, because a slurmctld that
// was killed may come back with the one before.
func (r *Run) stood(shown string, n int, key string, by time.Time) (before bool) {
	array, _, _ := strings.Cut(shown, "_")
	for i := range r.Done {
		d := &r.Done[i]
		if d.Job != n || d.Do != key || d.Failed != "" || d.From.After(by) {
			continue
		}
		before = false // what he set last counts
		for k := range r.Views {
			for q := range r.Views[k].Queue {
				x, ago := &r.Views[k].Queue[q], d.From.Sub(r.Views[k].At)
				if (x.Shown == shown || strings.HasPrefix(x.Shown, array+"_[")) && ago > 0 && ago < savedAfter+2*slack && x.kept()[key] == d.Value {
					before = true
				}
			}
		}
	}
	return before
}

// savedAfter is how long after a write priod takes into account the value before it (priod/cluster).
const savedAfter = 15 * time.Second

// wrote is what priod's log says of a write: when, the job, the field.
var wrote = regexp.MustCompile(`^(\S+) .*priod: wrote: cycle=\d+ job=(\S+) lever=(\S+) `)

// kept are the fields of a request that priod writes and reset gives back, by the
// word that a user changes them with.
func (s *Seen) kept() map[string]string {
	return map[string]string{"Features": s.Features, "ReqNodeList": s.ReqNodes, "ExcNodeList": s.ExcNodes, "MinCPUs": s.MinCPUs, "MinMemory": s.Mem, "Nice": s.Nice, "TimeLimit": s.Limit, "Switches": s.Switches, "Comment": s.Comment}
}

// Undone: after a reset each job asks for what its user last asked for, as the same
// job does in the queue without priod, and nothing else of priod is left.
func Undone(r *Run) (all []Breach) {
	for _, l := range r.Left {
		all = append(all, Breach{"reset leaves nothing", "all", l})
	}
	if r.Off == nil {
		return all
	}
	first := map[int]Seen{}
	for _, v := range r.Off.Views {
		for _, s := range v.Queue {
			n := r.Off.Number(s.Shown)
			if _, known := first[n]; n >= 0 && !known && !strings.HasSuffix(s.Shown, "+1") && s.State == "PENDING" {
				first[n] = s
			}
		}
	}
	for _, s := range r.Reset.Queue {
		n := r.Number(s.Shown)
		own, known := first[n]
		if n < 0 || !known || s.State != "PENDING" || strings.HasSuffix(s.Shown, "+1") {
			continue
		}
		want := own.kept()
		for key, is := range s.kept() {
			if key == "MinMemory" && slices.ContainsFunc(r.Jobs[n].Options, func(o string) bool { return strings.HasPrefix(o, "--mem-per-gpu") }) {
				continue // Slurm itself shows 0 and 1G in turns, while it looks for a place (seen on 22.05.8 without priod)
			}
			if key == "TimeLimit" || did(r.Off.Done, n, time.Now(), key) && key != "Features" && key != "Nice" && key != "Comment" {
				continue
			}
			value, set := last(r.Done, n, key, r.Reset.At)
			switch {
			case set:
				want[key] = value
			case did(r.Done, n, time.Now(), key) || did(r.Off.Done, n, time.Now(), key):
				continue // refused in one of the two
			}
			if set && (r.overwritten(n, key) || r.stood(s.Shown, n, key, r.Reset.At)) {
				continue // no Slurm has a name for it: docs/evidence/reliability.md
			}
			if is != want[key] {
				all = append(all, Breach{"reset leaves nothing", fmt.Sprintf("%s (%s)", r.Jobs[n].Name, s.Shown), fmt.Sprintf("%s is %q and its user's is %q", key, is, want[key])})
			}
		}
	}
	slices.SortFunc(all, func(a, b Breach) int { return cmp.Compare(a.Job, b.Job) })
	return all
}

// Answered: priod's verbs answer for each job, and what the store calls an end of an
// eviction is one of a run in accounting.
func Answered(r *Run) (all []Breach) {
	for _, a := range r.Answers {
		all = append(all, Breach{"priod's verbs answer", "all", a})
	}
	starts := map[string]int{}
	for _, p := range r.Parts() {
		starts[p.ID] = count(r.Logs[p.Name], "start")
	}
	for _, x := range r.Journal {
		if id := x.Victim.String(); len(r.Ran[id]) < starts[id] {
			continue // slurmdbd has lost a run: it keeps one of two that begin before it has heard of the first
		}
		if x.Left.IsZero() || x.State != "done" || r.faulted("stop slurmdbd", x.Left) {
			continue
		}
		if !slices.ContainsFunc(r.Ran[x.Victim.String()], func(run Ran) bool {
			return run.End.Sub(x.Left).Abs() < slack+time.Duration(x.GraceS)*time.Second
		}) {
			all = append(all, Breach{"evictions as accounting has them", x.Victim.String(), fmt.Sprintf("the store says that it left at %s (%s); accounting: %v", x.Left.Local().Format("15:04:05"), x.How, r.Ran[x.Victim.String()])})
		}
	}
	return all
}

// faulted reports whether a fault came within the minute before a moment, or just after.
func (r *Run) faulted(what string, at time.Time) bool {
	return slices.ContainsFunc(r.Faults, func(f Happened) bool {
		return f.What == what && at.Sub(f.At) < time.Minute && f.At.Sub(at) < slack
	})
}

var digits = regexp.MustCompile(`[0-9]+`)

// troubled reports whether a fault came within the minute before a moment, or just after.
func (r *Run) troubled(at time.Time) bool {
	return slices.ContainsFunc(r.Faults, func(f Happened) bool { return at.Sub(f.At) < time.Minute && f.At.Sub(at) < slack })
}

// Quiet: the daemon holds no more and more, and says no warning again and again: three times
// in ten minutes. A fault may be said twice: when it comes, and once it is over.
func Quiet(r *Run) (all []Breach) {
	for _, g := range r.Grown {
		all = append(all, Breach{"nothing grows", "daemon", g})
	}
	lines, example := map[string]int{}, map[string]string{}
	for line := range strings.Lines(r.Words) {
		at, said, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(said, "[WARN]") && !strings.HasPrefix(said, "[ERROR]") {
			continue
		}
		key := digits.ReplaceAllString(said, "#")
		lines[key]++
		example[key] = at + " " + said
	}
	for key, n := range lines {
		if n > 3*max(1, int(r.Size.Length/(10*time.Minute)))+2*(len(r.Faults)+len(r.Weather)) {
			all = append(all, Breach{"no error repeats", "daemon", fmt.Sprintf("%d times, at last %s", n, example[key])})
		}
	}
	return all
}

// wait is how long a part was pending before it first ran; false if it never ran, or
// waited for something else than room: another job, its user, its array's own limit.
func (r *Run) wait(p Part) (time.Duration, bool) {
	runs := r.Ran[p.ID]
	own := p.Job.After >= 0 || p.Job.Held || p.Job.Limit > 0 || slices.ContainsFunc(r.Done, func(d Done) bool { return d.Job == p.N })
	if own || len(runs) == 0 || runs[0].Start.IsZero() || len(r.Logs[p.Name]) == 0 {
		return 0, false
	}
	return max(0, runs[0].Start.Sub(r.Begun.Add(p.Job.At))), true
}

// Waited: a TE job does not wait longer than without priod by more than the budget,
// unless users held it, changed it, it waits for others by its own words, or nodes changed
// meanwhile: the two labs have different jobs on them.
func Waited(r *Run) (all []Breach) {
	if r.Off == nil || len(r.Faults)+len(r.Weather) > 0 {
		return nil
	}
	for _, p := range r.Parts() {
		if p.Job.Class != "te" {
			continue
		}
		on, ok := r.wait(p)
		other := p
		other.ID = strings.Replace(p.ID, r.IDs[p.N], r.Off.IDs[p.N], 1)
		off, ok2 := r.Off.wait(other)
		if ok && ok2 && on > off+r.Budget {
			all = append(all, p.breach("no longer than without priod", "waited %s, and %s without priod", on.Round(time.Second), off.Round(time.Second)))
		}
	}
	return all
}

// Figures are a run's row of a table: makespan, mean completion, waits by class, GPUs
// in use while jobs arrive.
func (r *Run) Figures() string {
	var end time.Time
	var took float64
	waits := map[string][]float64{}
	n := 0
	for _, p := range r.Parts() {
		runs := r.Ran[p.ID]
		if len(runs) == 0 || runs[len(runs)-1].State != "COMPLETED" || p.Job.Crashes > 0 {
			continue // who crashes runs again with priod only
		}
		last := runs[len(runs)-1].End
		if last.After(end) {
			end = last
		}
		took += last.Sub(r.Begun.Add(p.Job.At)).Seconds()
		n++
		if w, ok := r.wait(p); ok {
			waits[p.Job.Class] = append(waits[p.Job.Class], w.Seconds())
		}
	}
	used, gpus := 0, 0
	for _, v := range r.Views {
		if at := v.At.Sub(r.Begun); at < r.Size.Length/10 || at > r.Size.Length {
			continue
		}
		for _, x := range v.Nodes {
			used, gpus = used+x.Used, gpus+x.GPUs
		}
	}
	return fmt.Sprintf("%d | %.0f | %.1f | %s | %s | %.1f", n, end.Sub(r.Begun).Seconds(), took/float64(max(n, 1)), quantiles(waits["te"]), quantiles(waits["be"]), 100*float64(used)/float64(max(gpus, 1)))
}

// FiguresHead is what Figures' columns are.
const FiguresHead = "| seed | | completed | makespan (s) | mean completion (s) | TE wait p50, p95 (s) | BE wait p50, p95 (s) | GPUs busy (%) |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"

func quantiles(all []float64) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	at := func(q float64) string { return strconv.FormatFloat(all[int(q*float64(len(all)-1))], 'f', 1, 64) }
	return at(0.5) + ", " + at(0.95)
}
