package retry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
)

// Do is what happens to a job that failed.
type Do string

// What can happen.
const (
	Elsewhere Do = "elsewhere" // requeued, on other nodes
	Later     Do = "later"     // requeued
	Hold      Do = "hold"      // put back into the queue, held
	Nothing   Do = "nothing"
)

// Why says in a word why a job is, or is not, requeued. Words puts it into a sentence.
type Why string

// The reasons.
const (
	ByClass    Why = "class"      // the class says so
	NotAsked   Why = "not-asked"  // its user did not agree
	Fragile    Why = "fragile"    // on this Slurm any update breaks its request
	NotMachine Why = "not-infra"  // --prio-retry infra, and the machine is not at fault
	NoRequeue  Why = "no-requeue" // Slurm may not requeue it
	Unsaved    Why = "unsaved"    // it does not save its state
	Repeated   Why = "repeated"   // the same again
	Quick      Why = "quick"      // it failed at once, twice
	Times      Why = "times"      // as often as the class allows
	PerJob     Why = "per-job"    // as often as is allowed for any job
	Site       Why = "site"       // as often as Slurm allows
	OnHold     Why = "on-hold"    // held while it ran
	Caps       Why = "caps"       // too many within the hour: tried again later
	TooLate    Why = "too-late"   // slurmctld no longer has its record
	Paused     Why = "paused"     // priod was told to write nothing
	Released   Why = "released"   // it was held once, and its user released it
	BySlurm    Why = "slurm"      // Slurm itself has put it back
	Cut        Why = "cut"        // the limit that ended it was priod's
)

// Verdict is what happens to a job, and why.
type Verdict struct {
	Do   Do
	Why  Why
	Wait time.Duration // before a requeued job may start
}

// Again reports whether the job goes back into the queue.
func (v Verdict) Again() bool { return v.Do == Elsewhere || v.Do == Later || v.Do == Hold }

// Settings say which jobs are requeued.
type Settings struct {
	Rules    *Rules
	Output   bool // the end of the output is read
	PerJob   int  // requeues of one job in its life, whatever its failures; 0: no limit, as below
	PerHour  int  // requeues within an hour
	PerUser  int  // requeues of one user's jobs within an hour
	PerCycle int  // jobs that one cycle looks at
	// Quick is how short a run is that failed at once: a second one in a row is the last.
	Quick time.Duration
	// Exclude is how many nodes priod adds at most to those that a job refuses.
	Exclude int
	// Users on one node with failures of one class within Within make it suspect.
	Users  int
	Within time.Duration
	// QuickUsers is how many are enough where each of the failures came within Early of its run's start.
	QuickUsers int
	Early      time.Duration
	Drain      bool // suspect nodes are drained
	// MaxDrained is how many nodes are drained within Within.
	MaxDrained int
}

// Case is a failure to be judged.
type Case struct {
	Finding
	Run        *Run
	Retry      string // what the tag says: never, infra, always or ""
	Fragile    bool   // as cluster.Job.Fragile
	Saves      bool   // the job saves its state: by itself, or when it gets a signal
	CanRequeue bool   // Slurm may requeue it
	OnHold     bool
	SiteMax    int       // restarts that Slurm allows; 0: any number
	Cut        bool      // the time limit that ended it was priod's
	Past       []Failure // earlier ones of the job, the oldest first
}

// Decide says what happens to a job that failed. It looks at no cap on all jobs.
func (set *Settings) Decide(c *Case) Verdict {
	class := c.Class
	no := func(do Do, why Why) Verdict { return Verdict{Do: do, Why: why} }
	switch {
	case c.Cut && !c.Fragile && c.CanRequeue && !c.OnHold:
		return no(Later, Cut)
	case c.Retry != "infra" && c.Retry != "always":
		return no(Nothing, NotAsked)
	case c.Fragile:
		return no(Nothing, Fragile)
	case class.Do == Nothing:
		return no(Nothing, ByClass)
	case c.Retry == "infra" && !class.Machine:
		return no(Nothing, NotMachine)
	case !c.CanRequeue:
		return no(Nothing, NoRequeue)
	case c.OnHold:
		return no(Nothing, OnHold)
	case class.SavesState && !c.Saves:
		return no(Nothing, Unsaved)
	case c.SiteMax > 0 && c.Run.Restarts >= c.SiteMax:
		return no(Nothing, Site)
	case slices.ContainsFunc(c.Past, func(f Failure) bool { return f.Do == Hold && !f.Requeued.IsZero() }):
		return no(Nothing, Released)
	case class.Do == Hold:
		return no(Hold, ByClass)
	}
	times, counted, repeated := 0, 0, false
	for i := range c.Past {
		p := &c.Past[i]
		if p.Requeued.IsZero() {
			continue
		}
		if p.Class == class.Name {
			times++
			repeated = repeated || p.Signature == c.Signature && !class.Free && !class.SavesState && !c.elsewhere(p)
		}
		if !p.Free {
			counted++
		}
	}
	quick := func(start, end time.Time) bool { return set.Quick > 0 && end.Sub(start) < set.Quick }
	last := len(c.Past) - 1
	switch {
	case times >= class.Times:
		return no(class.Then, Times)
	case repeated:
		return no(class.Then, Repeated)
	case set.PerJob > 0 && !class.Free && counted >= set.PerJob:
		return no(class.Then, PerJob)
	case set.PerJob > 0 && c.Run.Restarts >= set.PerJob+maxTimes:
		return no(class.Then, PerJob) // whatever was lost of its past
	case last >= 0 && !class.Free && quick(c.Run.Start, c.Run.End) && quick(c.Past[last].Start, c.Past[last].End):
		return no(class.Then, Quick)
	}
	return Verdict{Do: class.Do, Why: ByClass, Wait: class.Wait << min(times, 6)}
}

// elsewhere reports whether a failure of a class that blames nodes happened on nodes that
// an earlier one did not: then it is another node that failed, not the same failure.
func (c *Case) elsewhere(p *Failure) bool {
	return c.Class.Suspect && c.Class.Do == Elsewhere && len(c.Run.Nodes) > 0 &&
		!slices.ContainsFunc(c.Run.Nodes, func(n string) bool { return slices.Contains(p.Nodes, n) })
}

// words are the reasons as sentences without their ends.
var words = map[Why]string{
	ByClass: "another run would fail in the same way", NotAsked: "its user did not request it (--prio-retry)", Fragile: "on this Slurm any update would break its request",
	NotMachine: "--prio-retry infra is for failures of the machine", NoRequeue: "Slurm may not requeue it (--no-requeue, JobRequeue=0 or no batch job)",
	Unsaved: "no sign that it saves its state (--prio-ckpt or --prio-signal)", Repeated: "the same failure came again",
	Quick: "it failed at once, twice in a row", Times: "its class's limit of requeues is reached",
	PerJob: "it was requeued as often as a job may be", Site: "MaxBatchRequeue is reached",
	OnHold: "held while it ran", Caps: "as many jobs as may be in an hour were requeued, in all or of its user",
	TooLate: "slurmctld no longer has its record (MinJobAge)", Paused: "priod was paused", Released: "it was held once before, and failed again after its user had released it", BySlurm: "Slurm itself put it back into the queue", Cut: "the time limit that ended it was priod's, not its own",
}

// Words are the reason as a sentence without its end.
func (w Why) Words() string {
	if text := words[w]; text != "" {
		return text
	}
	return string(w)
}

// Exclusion is what a job that failed refuses from now on: its user's own nodes and those at fault, as long as enough others are
// left for it; nil when nothing is to be added. j is the job as it was before it ran, as far as that is known.
func (set *Settings) Exclusion(s *cluster.Snapshot, j *cluster.Job, own, fault []string) []string {
	added := 0
	all := slices.Clone(own)
	for _, n := range fault {
		if !slices.Contains(all, n) {
			all = append(all, n)
			added++
		}
	}
	if added == 0 || added > set.Exclude {
		return nil
	}
	if !leaves(s, j, all) {
		return nil
	}
	slices.Sort(all)
	return all
}

// leaves reports whether usable nodes are left for a job beside some that it refuses.
func leaves(s *cluster.Snapshot, j *cluster.Job, refused []string) bool {
	left := 0
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Usable && !slices.Contains(refused, n.Name) && fits(n, j) {
			left++
		}
	}
	return left >= max(j.Nodes, 1)
}

// noneLeft reports whether a job waits because it refuses nodes. Of a job in several partitions Slurm says that of one.
func noneLeft(s *cluster.Snapshot, j *cluster.Job, refused string) bool {
	if hosts, err := slurmplug.ExpandHosts(refused); err == nil && j.InSeveral() && s.SeesNodes() {
		return !leaves(s, j, hosts)
	}
	return j.Unsatisfied() || slurmplug.NotAvailable(j.Reason)
}

// fits reports whether a node has, when it is empty, what a job asks for of each node, as far as that is known.
func fits(n *cluster.Node, j *cluster.Job) bool {
	gpus := j.Node.GPUs
	if gpus == 0 {
		gpus = (j.GPUs + max(j.Nodes, 1) - 1) / max(j.Nodes, 1)
	}
	return gpus <= n.GPUs && (j.GPUType == "" || gpus == 0 || n.GPUType == j.GPUType || n.MixedTypes) &&
		j.Node.CPUs <= n.CPUs && j.Node.MemMB <= n.MemMB && (len(n.Partitions) == 0 || n.In(j.Partition)) && hasFeatures(n, j.Features)
}

// Fault are the nodes that a failure is blamed on: those of the run that are not usable
// now, or its only one. Of several that all are, which one it was is not known.
func Fault(s *cluster.Snapshot, c *Class, nodes []string) (fault []string) {
	if !c.Suspect && c.Do != Elsewhere {
		return nil
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; !n.Usable && slices.Contains(nodes, n.Name) {
			fault = append(fault, n.Name)
		}
	}
	if len(fault) == 0 && len(nodes) == 1 {
		return nodes
	}
	return fault
}

// Advice is what a job's user can do, "" when there is nothing to say.
func Advice(f *Finding, run *Run) string {
	switch {
	case f.Class.Name == "memory" && run.AskedMB > 0:
		more := max(run.AskedMB, run.PeakMB) * 3 / 2
		gb := max((more+1023)/1024, 1)
		said := fmt.Sprintf("asked %s", size(run.AskedMB))
		if run.PeakMB > 0 {
			said += fmt.Sprintf(", killed at %s", size(run.PeakMB))
		}
		return fmt.Sprintf("%s: try --mem=%dG", said, gb)
	case f.Class.Name == "memory":
		return "ask for more memory (--mem)"
	case f.Class.Name == "time" && run.Limit > 0:
		return fmt.Sprintf("it ran its whole limit of %s: a longer --time, or --prio-ckpt with --prio-retry always when it saves its state", run.Limit.Round(time.Second))
	}
	return f.Class.Advice
}

// size is an amount of memory for people.
func size(mb int64) string {
	if mb < 1024 {
		return fmt.Sprintf("%d MB", mb)
	}
	if mb%1024 == 0 {
		return fmt.Sprintf("%d GB", mb/1024)
	}
	return fmt.Sprintf("%.1f GB", float64(mb)/1024)
}

// hasFeatures reports whether a node satisfies a constraint. One that is more than names joined by & is not looked into.
func hasFeatures(n *cluster.Node, constraint string) bool {
	if constraint == "" {
		return true
	}
	for f := range strings.SplitSeq(constraint, "&") {
		if !slices.Contains(n.Features, f) {
			return false
		}
	}
	return true
}
