// Package advise says on which GPU types a job that is not submitted yet would
// start when, and end when, given the queue as it is now: a shadow schedule of
// the running jobs, up to their time limits, and of those that wait before it.
//
// The schedule is that of package forecast. Where past runs are known, it is drawn many times with run times in place of
// limits (forecast.go).
//
// It is pure: the cluster as a user sees it, a request and its speeds in, an
// answer for each GPU type out. What Slurm alone knows it does not: limits of a
// QOS or an association, reservations, licences, who submits what next.
package advise

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/forecast"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
)

// Answer is what is to be expected on one GPU type.
type Answer struct {
	speed.Answer
	Nodes int `json:"nodes"` // that are up and that the job may use
	GPUs  int `json:"gpus"`  // of them
	Free  int `json:"free_gpus"`

	Fits bool   `json:"fits"`
	Why  string `json:"why,omitempty"` // it does not

	Start Seconds `json:"start_s"` // from now; null when it is not known or the job does not fit
	Run   Seconds `json:"run_s"`   // at most; null when there is no time limit
	End   Seconds `json:"end_s"`   // from now
	Rough bool    `json:"rough"`   // the queue was too long to plan all of it

	Expected *Expected `json:"expected,omitempty"` // by what past jobs ran; nil: not enough is known
	steps    bool      // Run follows from the job's steps
}

// starts and ends are what is expected, else what time limits say.
func (t *Answer) starts() Seconds {
	if t.Expected != nil {
		return t.Expected.Start
	}
	return t.Start
}

func (t *Answer) ends() Seconds {
	switch {
	case t.Expected == nil:
		return t.End
	case t.steps:
		return t.Expected.Start + t.Run
	}
	return t.Expected.End
}

// Seconds is a time from now, s; infinite when it is not known, null in JSON.
type Seconds float64

// Known is false for an infinite time.
func (s Seconds) Known() bool { return !math.IsInf(float64(s), 1) }

// MarshalJSON writes whole seconds.
func (s Seconds) MarshalJSON() ([]byte, error) {
	if !s.Known() {
		return []byte("null"), nil
	}
	return fmt.Appendf(nil, "%.0f", float64(s)), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	if *s = Seconds(math.Inf(1)); string(text) == "null" {
		return nil
	}
	return json.Unmarshal(text, (*float64)(s))
}

// Advice is what is to be expected of a job.
type Advice struct {
	Types []Answer `json:"types"` // the best first; those on which it does not fit last
	Best  *Answer  `json:"-"`     // nil when it fits nowhere
	// Open are the types on which a job that leaves the type open would start
	// first, all at the same time; nil when the job names one.
	Open []*Answer `json:"-"`

	Partitions []string      `json:"partitions"`
	open       []string      // of these, where it may start now; all where it may start in none
	Limit      time.Duration `json:"-"`        // of time; slurmplug.Unlimited
	Behind     int           `json:"behind"`   // jobs that wait before it for nodes that it reaches, tasks of arrays counted
	Hidden     int           `json:"-"`        // GPUs held by jobs hidden from the user
	Notes      []string      `json:"notes"`    // what was not looked into
	LeftOut    int           `json:"left_out"` // nodes with several GPU types, or of too many kinds
}

// Types are the GPU types of the site's nodes, sorted; "" for untyped GPUs.
func Types(site *Site) []string {
	var types []string
	for i := range site.Snapshot.Nodes {
		if n := &site.Snapshot.Nodes[i]; n.GPUs > 0 && !n.MixedTypes {
			types = append(types, n.GPUType)
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// Give answers for a request. speeds are those on Types(site), in that order;
// rate says how many steps a second the job makes on a type, where that is
// known. The error is a request that this cluster could not have: a partition
// that there is not.
func Give(site *Site, r *Request, speeds []speed.Answer, rate func(gpuType string) (stepsPerS float64, known bool)) (*Advice, error) {
	g, err := newGiver(site, r)
	if err != nil {
		return nil, err
	}
	a := g.Advice
	g.plan(forecast.Limits{}, forecast.Effort)
	a.Types = make([]Answer, len(speeds))
	a.Behind, a.LeftOut = g.behind(), len(site.Snapshot.Nodes)-g.nodes.Nodes.Len()
	requests := make([]placement.Request, len(speeds))
	for i, s := range speeds {
		a.Types[i].Answer = s
		requests[i], a.Types[i].Why = g.request(s)
		a.Types[i].Fits = a.Types[i].Why == ""
	}
	g.run(rate)
	for i := range a.Types {
		g.start(&a.Types[i], requests[i])
	}
	for t, n := range g.schedule.Hidden {
		if slices.ContainsFunc(a.Types, func(x Answer) bool { return x.GPUType == t }) {
			a.Hidden += max(n, 0)
		}
	}
	a.choose(r.GPUType == "")
	return a, nil
}

// newGiver finds the nodes and the jobs ahead of a request.
func newGiver(site *Site, r *Request) (*giver, error) {
	a := &Advice{Notes: append([]string{}, r.Notes...)}
	if err := a.where(site, r); err != nil {
		return nil, err
	}
	class := cluster.BE
	if site.Ranking != nil && site.Ranking.Ranks(strings.Join(a.Partitions, ",")) {
		class = site.Ranking.Class(r.Tag.Type, r.QOS)
	}
	if _, err := slurmplug.ParseConstraint(r.Features); err != nil {
		a.Notes = append(a.Notes, fmt.Sprintf("--constraint %.80q is not looked into: %v", r.Features, err))
	}
	g := &giver{Advice: a, site: site, r: r, nodes: nodemap.New(mark(site, r), append(slices.Concat(slices.Collect(slurmplug.FeaturesIn(r.Features)), a.Partitions), chosen)...)}
	g.ahead = site.before(site.tier(strings.Join(a.open, ",")), class, r.Job)
	return g, nil
}

// plan plans the jobs ahead.
func (g *giver) plan(lengths forecast.Lengths, effort int) {
	g.schedule = forecast.New(g.site.Snapshot, g.nodes, g.site.Memory, lengths, effort)
	for _, j := range g.ahead {
		g.schedule.Plan(j)
	}
}

// behind counts the tasks ahead that may start on nodes of the job's partitions; others wait for other nodes.
func (g *giver) behind() (n int) {
	open, shares := strings.Join(g.open, ","), map[string]bool{}
	nodes := slices.DeleteFunc(slices.Clone(g.site.Snapshot.Nodes), func(n cluster.Node) bool { return !n.In(open) })
	for _, j := range g.ahead {
		same, known := shares[j.Partition]
		if !known {
			same = slices.ContainsFunc(nodes, func(n cluster.Node) bool { return n.In(j.Partition) })
			shares[j.Partition] = same
		}
		if same {
			n += j.TaskCount
		}
	}
	return n
}

// where finds the partitions and the time limit of a job.
func (a *Advice) where(site *Site, r *Request) error {
	a.Partitions = r.Partitions
	if len(a.Partitions) == 0 {
		for _, p := range site.Partitions {
			if p.Default {
				a.Partitions = append(a.Partitions, p.Name)
			}
		}
	}
	if len(a.Partitions) == 0 {
		return fmt.Errorf("this cluster has no default partition: name one by --partition")
	}
	most := time.Duration(0)
	a.Limit = r.Limit
	for _, name := range a.Partitions {
		p := site.partition(name)
		if p == nil {
			names := make([]string, len(site.Partitions))
			for i := range names {
				names[i] = site.Partitions[i].Name
			}
			return fmt.Errorf("--partition %.80q: there is none; there are %s", name, strings.Join(names, ", "))
		}
		longest := cmp.Or(p.MaxTime, slurmplug.Unlimited)
		switch waits := r.Job != (cluster.JobID{}); {
		case p.State != "UP" && !(waits && p.State == "DRAIN"): // that one lets the jobs start that it has
			a.Notes = append(a.Notes, fmt.Sprintf("partition %s is %s: nothing starts there now", p.Name, p.State))
		case longest != slurmplug.Unlimited && (r.Limit > longest || r.Limit == slurmplug.Unlimited):
			a.Notes = append(a.Notes, fmt.Sprintf("partition %s allows %s at most: it does not start there", p.Name, slurmplug.FormatTimeLimit(longest)))
		default:
			a.open = append(a.open, name)
		}
		limit := cmp.Or(p.DefaultTime, p.MaxTime, slurmplug.Unlimited)
		if r.Limit == 0 && a.Limit != slurmplug.Unlimited {
			if a.Limit = max(a.Limit, limit); limit == slurmplug.Unlimited {
				a.Limit = limit
			}
		}
		if most != slurmplug.Unlimited {
			if most = max(most, longest); longest == slurmplug.Unlimited {
				most = longest
			}
		}
	}
	if most != slurmplug.Unlimited && (r.Limit > most || r.Limit == slurmplug.Unlimited) {
		return fmt.Errorf("--time %s: partition %s allows %s at most", slurmplug.FormatTimeLimit(r.Limit), strings.Join(a.Partitions, ","), slurmplug.FormatTimeLimit(most))
	}
	if len(a.open) == 0 {
		a.open = a.Partitions
	}
	return nil
}

// chosen is a feature that no node can have: of those that --nodelist and
// --exclude leave.
const chosen = "\x01"

// mark is the snapshot as nodemap should see it: nodes with several GPU types
// left out, and only the features that are asked for, which keeps the
// number of kinds of nodes small.
func mark(site *Site, r *Request) *cluster.Snapshot {
	asked := map[string]bool{}
	lists := map[string]bool{}
	take := func(list string) {
		if list == "" || lists[list] {
			return
		}
		lists[list] = true
		for f := range slurmplug.FeaturesIn(list) {
			asked[f] = true
		}
	}
	take(r.Features)
	for i := range site.Snapshot.Jobs {
		take(site.Snapshot.Jobs[i].Features)
	}
	on, not := set(r.On), set(r.Not)
	s := *site.Snapshot
	s.Nodes = make([]cluster.Node, 0, len(site.Snapshot.Nodes))
	for _, n := range site.Snapshot.Nodes {
		if n.MixedTypes {
			continue
		}
		var kept []string
		for _, f := range n.Features {
			if asked[f] {
				kept = append(kept, f)
			}
		}
		if (len(on) == 0 || on[n.Name]) && !not[n.Name] {
			kept = append(kept, chosen)
		}
		n.Features = kept
		if !site.Memory {
			n.MemMB, n.MemUsedMB = placement.Plenty, 0
		}
		s.Nodes = append(s.Nodes, n)
	}
	return &s
}

func set(names []string) map[string]bool {
	s := make(map[string]bool, len(names))
	for _, n := range names {
		s[n] = true
	}
	return s
}

type giver struct {
	*Advice
	site     *Site
	r        *Request
	nodes    *nodemap.Map
	ahead    []*cluster.Job
	schedule *forecast.Schedule
}

// request is the job's on one GPU type, or why it cannot run there.
func (g *giver) request(s speed.Answer) (r placement.Request, why string) {
	in, featured, left := placement.Types(0), placement.Types(0), placement.Types(0)
	partition := strings.Join(g.open, ",")
	all, _ := g.nodes.Types(&cluster.Job{Partition: partition})
	fit, understood := g.nodes.Types(&cluster.Job{Partition: partition, Features: g.r.Features})
	if !understood {
		fit = all
	}
	for i, kind := range g.nodes.Kinds {
		bit := placement.Types(1) << uint(i)
		if kind.GPUType != s.GPUType || kind.GPUs == 0 {
			continue
		}
		in |= all & bit
		featured |= fit & bit
		if slices.Contains(kind.Features, chosen) {
			left |= fit & bit
		}
	}
	switch {
	case s.Speed == 0:
		return r, "it does not run there, says " + s.Source.Words()
	case g.r.GPUType != "" && g.r.GPUType != s.GPUType:
		return r, "the job asks for " + g.r.GPUType
	case in == 0:
		return r, "no node of partition " + partition + " has it"
	case featured == 0:
		return r, fmt.Sprintf("none of its nodes has the features %.80s", g.r.Features)
	case left == 0:
		return r, "--nodelist and --exclude leave none of its nodes"
	}
	r = g.amounts(left)
	return r, g.room(r)
}

// amounts is what the job takes on some kinds of nodes.
func (g *giver) amounts(types placement.Types) placement.Request {
	r := placement.Request{Types: types, Nodes: int32(g.r.Nodes), Amount: placement.Amount{GPUs: int32(g.r.GPUs), CPUs: int32(g.r.CPUs), MemMB: g.r.MemMB}}
	whole := g.r.Whole
	if g.site.Memory && r.MemMB == 0 && !whole {
		d := g.site.Defaults
		switch {
		case d.PerCPU > 0:
			r.MemMB = d.PerCPU * int64(r.CPUs)
		case d.PerNode > 0:
			r.MemMB = d.PerNode * int64(max(r.Nodes, 1))
		default:
			whole = true // Slurm gives such a job all memory of its nodes
		}
		r.MemMB = min(r.MemMB, mostMB)
	}
	if whole { // all GPUs of each node, and with them its share of the rest: everything
		largest := int32(1)
		for kind := range g.nodes.Kinds {
			if types.Has(int32(kind)) {
				largest = max(largest, g.nodes.Nodes.Largest(int32(kind)))
			}
		}
		nodes := max(r.Nodes, (r.GPUs+largest-1)/largest)
		r.Nodes, r.Amount = nodes, placement.Amount{GPUs: nodes * largest}
	}
	return r
}

// room says why a job has no room on a type even when all others are gone.
func (g *giver) room(r placement.Request) string {
	empty := g.nodes.Empty()
	up := empty.Clone()
	nodes, most := 0, placement.Amount{}
	for node := range g.nodes.Names {
		at := int32(node)
		up.SetDown(at, g.nodes.Nodes.Down(at))
		if r.Types.Has(empty.Type(at)) {
			nodes++
			size := empty.Size(at)
			most = placement.Amount{GPUs: max(most.GPUs, size.GPUs), CPUs: max(most.CPUs, size.CPUs), MemMB: max(most.MemMB, size.MemMB)}
		}
	}
	if _, fits := empty.Fit(r, nil); !fits {
		memory := ""
		if g.site.Memory {
			memory = fmt.Sprintf(", %d MB", most.MemMB)
		}
		there := "1 node"
		if nodes != 1 {
			there = fmt.Sprintf("%d nodes", nodes)
		}
		return fmt.Sprintf("too large: %s there, of up to %d GPUs, %d CPUs%s", there, most.GPUs, most.CPUs, memory)
	}
	if _, fits := up.Fit(r, nil); !fits {
		return "its nodes are down, drained or reserved"
	}
	return ""
}

// run fills in how long the job runs on each type: as its steps and its rate
// say, where both are known; else the time limit on the slowest type on which it
// may run, and less on faster ones.
func (g *giver) run(rate func(string) (float64, bool)) {
	limit := Seconds(math.Inf(1))
	if g.Limit != slurmplug.Unlimited {
		limit = Seconds(g.Limit.Seconds())
	}
	perSpeed, slowest := 0.0, math.Inf(1) // steps a second at speed 1
	for _, t := range g.Types {
		if stepsPerS, known := rate(t.GPUType); known && t.Speed > 0 && perSpeed == 0 {
			perSpeed = stepsPerS / t.Speed
		}
		if t.Fits {
			slowest = min(slowest, t.Speed)
		}
	}
	for i := range g.Types {
		t := &g.Types[i]
		t.Run, t.Start, t.End = Seconds(math.Inf(1)), Seconds(math.Inf(1)), Seconds(math.Inf(1))
		if !t.Fits {
			continue
		}
		t.Run = limit * Seconds(slowest/t.Speed)
		if g.r.Tag.Steps == 0 || perSpeed == 0 {
			continue
		}
		t.Run, t.steps = Seconds(g.r.Tag.Steps/perSpeed/t.Speed), true
		if stepsPerS, known := rate(t.GPUType); known {
			t.Run = Seconds(g.r.Tag.Steps / stepsPerS)
		}
		if t.Run > limit {
			t.Fits, t.Why = false, fmt.Sprintf("its steps take %s there, and the time limit is %s", span(t.Run), span(limit))
		}
	}
}

func span(s Seconds) string {
	return slurmplug.FormatTimeLimit(time.Duration(min(float64(s), 1e9)) * time.Second)
}

// start looks for the first place on one type.
func (g *giver) start(t *Answer, r placement.Request) {
	for node := range g.nodes.Names {
		at := int32(node)
		if r.Types.Has(g.nodes.Nodes.Type(at)) && !g.nodes.Nodes.Down(at) {
			t.Nodes++
			t.GPUs += int(g.nodes.Nodes.Size(at).GPUs)
			t.Free += int(g.nodes.Nodes.FreeOn(at).GPUs)
		}
	}
	if !t.Fits {
		return
	}
	length := math.Inf(1)
	if g.Limit != slurmplug.Unlimited {
		length = g.Limit.Seconds()
	}
	start, rough, ok := g.schedule.Earliest(r, length)
	switch {
	case ok:
		t.Start, t.End, t.Rough = Seconds(start), Seconds(start)+t.Run, rough
	case g.schedule.Hidden[t.GPUType] > 0:
		t.Why = "not before jobs end that you may not see"
	default:
		t.Why = "not before jobs end that have no time limit"
	}
}

// Expect takes in what is expected on the types by what past jobs ran; open: the job names no type.
func (a *Advice) Expect(all []Expected, open bool) {
	for i := range a.Types {
		t := &a.Types[i]
		at := slices.IndexFunc(all, func(e Expected) bool { return e.GPUType == t.GPUType })
		if t.Expected = nil; at >= 0 && t.Fits && all[at].Start.Known() {
			t.Expected = &all[at]
			t.Expected.End = t.ends()
		}
	}
	a.choose(open)
}

// choose orders the answers and finds the best, and where Slurm would go first.
func (a *Advice) choose(open bool) {
	a.Best, a.Open = nil, nil
	order := func(x, y Answer) int {
		last := func(t *Answer) int {
			switch {
			case !t.Fits:
				return 2
			case !t.starts().Known():
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(last(&x), last(&y)), cmp.Compare(x.ends(), y.ends()), cmp.Compare(x.starts(), y.starts()), cmp.Compare(y.Speed, x.Speed))
	}
	slices.SortStableFunc(a.Types, order)
	for i := range a.Types {
		t := &a.Types[i]
		if !t.Fits || !t.starts().Known() {
			continue
		}
		if a.Best == nil {
			a.Best = t
		}
		switch {
		case !open || a.Open != nil && t.starts() > a.Open[0].starts():
		case a.Open != nil && t.starts() == a.Open[0].starts():
			a.Open = append(a.Open, t)
		default:
			a.Open = []*Answer{t}
		}
	}
}

// Typed reports whether a job that leaves the type open has to name it to be sure
// to end as soon as it can.
func (a *Advice) Typed() bool {
	return a.Best != nil && a.Best.GPUType != "" && slices.ContainsFunc(a.Open, func(t *Answer) bool { return t.ends() > a.Best.ends() })
}
