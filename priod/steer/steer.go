package steer

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// Settings say whether pending jobs get their GPU type written into their
// constraint, and how.
type Settings struct {
	Enabled   bool
	Policy    Rule
	Features  map[string]string // by GPU type: the node feature, where it is not the type's name
	MaxWrites int               // for one cycle; 0: no limit
}

// Feature is the node feature that stands for a GPU type.
func (set *Settings) Feature(gpuType string) string {
	return cmp.Or(set.Features[gpuType], gpuType)
}

// slices of one GPU (MIG), as NVML and sites name them (1g.10gb, a100_1g.5gb,
// mig_1g_5gb): a job gets less than it asks for there.
var mig = regexp.MustCompile(`(?i)(^|[^0-9])[0-9]+[gc][._-][0-9]+gb|(^|[^a-z])mig([^a-z]|$)`)

// Unsteerable says, for each GPU type of the nodes, why no job can be steered to
// it; "" when jobs can, to those of its nodes that have its feature. lacking are the
// names of the others. Nodes with several types count for none.
func (set *Settings) Unsteerable(nodes []cluster.Node) (why map[string]string, lacking map[string][]string) {
	why, lacking = map[string]string{}, map[string][]string{}
	found := map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		t, f := n.GPUType, set.Feature(n.GPUType)
		if t == "" || n.MixedTypes || n.GPUs == 0 {
			continue
		}
		switch {
		case mig.MatchString(t):
			why[t] = "it is a slice of a GPU (MIG)"
		case !slurmplug.ValidFeature(f):
			why[t] = fmt.Sprintf("%q cannot be the name of a node feature", f)
		case !slices.Contains(n.Features, f):
			lacking[t] = append(lacking[t], n.Name)
		default:
			found[t], why[t] = true, ""
		}
	}
	for t := range lacking {
		if !found[t] {
			why[t] = "none of its nodes has the feature " + set.Feature(t)
		}
	}
	for i := range nodes {
		n := &nodes[i]
		for t := range why {
			if why[t] == "" && n.GPUs > 0 && (n.GPUType != t || n.MixedTypes) && slices.Contains(n.Features, set.Feature(t)) {
				why[t] = fmt.Sprintf("node %s has the feature %s and other GPUs", n.Name, set.Feature(t))
			}
		}
	}
	return why, lacking
}

// Lacks says that some nodes have no feature, and names a few of them.
func Lacks(nodes []string, feature string) string {
	const few = 4
	text, have := slurmplug.CompactHosts(nodes[:min(len(nodes), few)]), "they have"
	switch n := len(nodes) - few; {
	case n > 0:
		text += fmt.Sprintf(" and %d more", n)
	case len(nodes) == 1:
		have = "it has"
	}
	return fmt.Sprintf("%s: %s no feature %s", text, have, feature)
}

// Helm is what steering remembers of jobs from one cycle to the next. The zero
// Helm knows nothing; what was written into jobs is in History.
type Helm struct {
	jobs map[cluster.JobID]*course
	poll uint32
}

// course is one job's.
type course struct {
	given  float64       // of its time on the type that it was steered to, then
	ready  int           // cycles in which it could have started there and did not
	rest   int           // cycles for which it is left alone
	alone  string        // why
	open   time.Time     // its type was taken back
	place  cluster.Place // what it says of nodes, when it was last asked
	asked  int           // for how many more cycles that is not asked again
	last   Verdict
	bad    int    // how often Slurm would not have what was written
	barred string // what closed said with it
	told   string // what last says, in the words of the cycle that first said it
	poll   uint32
}

// refused leaves a job alone for a while, for longer each time: what Slurm looks at
// and no poll shows, such as its sockets or licences, is not going to change soon.
func (c *course) refused(why string, cycles int) {
	if c.alone = why; c.rest == 0 {
		c.rest = cycles << min(c.bad, 10)
		c.bad++
	}
}

// Refused takes in that Slurm did not take what was written into a job.
func (x *Helm) Refused(id cluster.JobID, why string, cycles int) {
	if c := x.jobs[id]; c != nil {
		c.refused(fmt.Sprintf("left alone: %.200s", why), cycles)
	}
}

// helps tells whether a GPU can end what Slurm says that a job waits for. Of a job
// that priod bound, nodes that are down can be those of its type.
func helps(j *cluster.Job, ours bool) bool {
	switch slurmplug.WaitsFor(j.Reason) {
	case slurmplug.ForRoom:
		return true
	case slurmplug.ForNodes:
		return ours || !slurmplug.NotAvailable(j.Reason) // Resources, in more words
	}
	return false
}

// reasked is how many jobs one cycle asks again what they say of their nodes.
const reasked = 10

// Why a job is not steered, beside steering's own.
const (
	consent   = "its tag gives no speed or workload: it may not be steered"
	typed     = "it asks for a GPU type itself"
	component = "it is part of a heterogeneous job"
	prefers   = "it prefers nodes itself (--prefer), and Slurm then forgets what else it asks for"
	claimed   = "room is being made for it"
	edited    = "its constraint was changed after priod had written it: that stays as it is"
	named     = "it names its nodes itself"
	nowhere   = "no GPU type has nodes for it that are up"
	unknown   = "nobody knows how fast it is on any GPU type: it starts on the first that is free"
	reopened  = "left open: its type was taken back a short while ago"
	sized     = "its size names its nodes for now"
)

// Steered is what one cycle's steering comes to.
type Steered struct {
	Actions []plan.Action
	to      []int32 // the type that each of Actions binds to; Open: it takes back

	helm   *Helm
	s      *cluster.Snapshot
	h      *cluster.History
	plan   *plan.Plan
	shares *plan.Shares
	set    *Settings

	jobs     []*cluster.Job // of plan.Decisions
	features []string       // by type of shares; "": nobody is steered there
	barred   []string       // by type of shares: why nobody is; "": somebody may be
	apart    []int32        // types of shares some of whose nodes lack their feature: those nodes are types of their own, after all others
	words    vocabulary
	kinds    *nodemap.Map
	lie      []placement.Types // by type, kinds of nodes
	gpus     int               // of all nodes
	up       *placement.Nodes  // nothing on them
	fits     map[wish]placement.Types
	without  struct { // up without the nodes of a host list, the last one asked for
		hosts string
		up    *placement.Nodes
	}
	held int // writes beyond the limit

	berths   []berth
	verdicts []Verdict                // of berths
	again    map[cluster.JobID]uint32 // jobs that are asked again what they say of nodes, by Slurm's own id
}

// narrows is j by what it says of its nodes.
func narrows(p *cluster.Place, j *cluster.Job) cluster.Job {
	b, n := &p.Bounds, *j
	if n.Nodes = max(n.Nodes, 1); b.TasksPerNode > 0 {
		n.Nodes = max(n.Nodes, (b.Tasks+b.TasksPerNode-1)/b.TasksPerNode)
	}
	if j.Node.GPUs > 0 && j.GPUs == j.Node.GPUs*max(j.Nodes, 1) { // by node
		n.GPUs = j.Node.GPUs * n.Nodes
	}
	n.CPUs = max(j.CPUs, b.CPUs*n.Nodes, b.CPUsPerGPU*n.GPUs)
	if b.Most > 0 {
		n.Node.GPUs = max(n.Node.GPUs, (n.GPUs+b.Most-1)/b.Most)
		n.Node.CPUs = (n.CPUs + b.Most - 1) / b.Most
	}
	n.Node.CPUs = max(n.Node.CPUs, b.CPUs, b.CPUsPerGPU*n.Node.GPUs)
	n.Node.MemMB = b.MemMB
	return n
}

// narrowed is j by what it says of its nodes. A job of one task is not spread over
// nodes where one could hold it: --ntasks=1 and no --ntasks look the same, and with the
// former Slurm would find no place.
func (d *Steered) narrowed(j *cluster.Job, p *cluster.Place) cluster.Job {
	n := narrows(p, j)
	whole := cluster.Least{GPUs: n.GPUs, CPUs: n.CPUs, MemMB: n.MemMB}
	if p.Bounds.Tasks == 1 && n.Nodes == 1 && d.holds(j, whole) {
		n.Node = whole
	}
	return n
}

// holds tells whether a node that a job's own constraint allows has so much.
func (d *Steered) holds(j *cluster.Job, l cluster.Least) bool {
	c := d.constraint(j)
	for i := range d.s.Nodes {
		n := &d.s.Nodes[i]
		if n.GPUs >= l.GPUs && n.CPUs >= l.CPUs && n.MemMB >= l.MemMB && c.Allows(n.Features) {
			return true
		}
	}
	return false
}

// Steer says which writes bind pending jobs to GPU types and which take that
// back, and notes in the plan's decisions why. Jobs stand in the plan's order.
// What is to be carried out is what Vet leaves.
func (x *Helm) Steer(s *cluster.Snapshot, h *cluster.History, p *plan.Plan, shares *plan.Shares, set Settings) *Steered {
	if x.jobs == nil {
		x.jobs = map[cluster.JobID]*course{}
	}
	x.poll++
	if !set.Enabled && len(h.Requests) == 0 {
		clear(x.jobs)
		return &Steered{}
	}
	d := &Steered{
		helm: x, s: s, h: h, plan: p, shares: shares, set: &set, words: newVocabulary(s.Nodes), fits: map[wish]placement.Types{}, again: map[cluster.JobID]uint32{},
	}
	d.match()
	switch {
	case !set.Enabled:
		d.leave("steering is off")
	case shares == nil:
		d.leave("nothing is allocated")
	default:
		d.look()
		d.steer()
	}
	for id, c := range x.jobs {
		if c.poll != x.poll {
			delete(x.jobs, id)
		}
	}
	return d
}

// match finds the jobs that the plan decided about: both go by the snapshot's
// order.
func (d *Steered) match() {
	d.jobs = make([]*cluster.Job, 0, len(d.plan.Decisions))
	for i := range d.s.Jobs {
		if n := len(d.jobs); n < len(d.plan.Decisions) && d.plan.Decisions[n].Job == d.s.Jobs[i].ID {
			d.jobs = append(d.jobs, &d.s.Jobs[i])
		}
	}
}

// ours tells whether a job's constraint is one that priod wrote.
func (d *Steered) ours(j *cluster.Job) bool {
	r, known := d.h.Requests[j.ID][slurmplug.Features]
	return known && r.Ours(j.Features)
}

// leave takes back every type that a pending job was given.
func (d *Steered) leave(why string) {
	for at, j := range d.jobs {
		if d.ours(j) {
			d.open(at, why)
		}
	}
	d.note()
}

// look reads the nodes.
func (d *Steered) look() {
	why, lacking := d.set.Unsteerable(d.s.Nodes)
	var closed, without []string
	for i, t := range d.shares.Types {
		f := d.set.Feature(t)
		problem, known := why[t]
		if problem != "" || !known {
			f = ""
		}
		if problem != "" {
			closed = append(closed, fmt.Sprintf("%s: %s", t, problem))
		}
		if f != "" && len(lacking[t]) > 0 {
			without = append(without, "on "+Lacks(lacking[t], f))
			if len(d.shares.Types)+len(d.apart) < placement.MaxTypes {
				d.apart = append(d.apart, int32(i))
			}
		}
		d.features, d.barred = append(d.features, f), append(d.barred, problem)
	}
	if len(closed) > 0 {
		d.plan.Notes = append(d.plan.Notes, "no job is steered to "+strings.Join(closed, "; ")+" (priod check)")
	}
	if len(without) > 0 {
		d.plan.Notes = append(d.plan.Notes, "steered jobs do not run "+strings.Join(without, "; ")+" (priod check)")
	}
	for i := range d.s.Nodes {
		d.gpus += d.s.Nodes[i].GPUs
	}
	d.kinds = nodemap.New(d.s)
	d.up = d.kinds.Up()
	for i := range d.s.Nodes {
		if at, known := d.kinds.Index[d.s.Nodes[i].Name]; known && d.keeps(&d.s.Nodes[i]) {
			d.up.SetDown(at, false)
		}
	}
	d.lie = make([]placement.Types, len(d.shares.Types)+len(d.apart))
	for k, n := range d.kinds.Kinds {
		if t, known := d.of(n); known {
			d.lie[t] |= 1 << uint(k)
		}
	}
}

// reservedFor is how long a node counts as in use, s, that priod has reserved for a claim.
const reservedFor = 60

// keeps tells whether a node starts nothing else only because priod has reserved it for
// a claim: that is soon over, and no reason to give a job another type.
func (d *Steered) keeps(n *cluster.Node) bool {
	return d.h.Reserved[n.Name] && n.Usable && !n.MixedTypes
}

// of is a node's type: one of shares, or behind them one of apart.
func (d *Steered) of(n *cluster.Node) (t int32, known bool) {
	i, known := slices.BinarySearch(d.shares.Types, n.GPUType)
	if !known || d.features[i] == "" || slices.Contains(n.Features, d.features[i]) {
		return int32(i), known
	}
	i, known = slices.BinarySearch(d.apart, int32(i))
	return int32(len(d.shares.Types) + i), known
}

// berth is a place in the queue: that of a job, or of a task of an array.
type berth struct {
	at    int // of plan.Decisions
	id    cluster.JobID
	tasks int // of the record, that have a berth
	alone string
	kept  *course
	fits  placement.Types // on which it may run, also where nobody is steered
	out   placement.Types // on which it may not, by what it says of its nodes
	Job
}

// steer asks the policy about the jobs at the head of the queue, and takes types
// off jobs that may not have one any more.
func (d *Steered) steer() {
	var berths []berth
	snap := d.snapshot()
	for _, at := range d.queue() {
		j, n := d.jobs[at], 1
		if j.Tasks != "" {
			n = d.width(j)
		}
		if d.set.Policy.Depth > 0 {
			n = min(n, d.set.Policy.Depth-len(berths))
		}
		if n <= 0 {
			if held, _ := d.since(j); d.ours(j) && !d.h.Claiming[j.ID] && held >= d.set.Policy.Away {
				d.open(at, string(Far))
			}
			continue
		}
		for _, id := range places(j, n) {
			berths = append(berths, d.berth(at, id, n))
			snap.Jobs = append(snap.Jobs, berths[len(berths)-1].Job)
		}
	}
	verdicts := Decide(snap, d.set.Policy)
	for i := range verdicts {
		d.follow(&berths[i], &verdicts[i])
	}
	d.berths, d.verdicts = berths, verdicts
	for i := 0; i < len(berths); {
		n := i + 1
		for n < len(berths) && berths[n].at == berths[i].at {
			n++
		}
		d.bind(berths[i:n], verdicts[i:n])
		i = n
	}
	d.note()
}

// queue is the decisions about jobs that a GPU would start, by priority. From
// the others the type is taken that they may not have.
func (d *Steered) queue() (queue []int) {
	for at, j := range d.jobs {
		dec, why := &d.plan.Decisions[at], d.alone(j)
		if j.GPUs > 0 && why != consent {
			dec.Steer = why
		}
		waits := dec.Ranked && helps(j, d.ours(j)) || (dec.Ranked || dec.Why == string(plan.NotYet)) && j.Begins(d.s.At)
		if waits && j.GPUs > 0 && d.shares.Jobs[j.ID] != nil {
			queue = append(queue, at)
			continue
		}
		if !d.ours(j) {
			continue
		}
		if j.Unsatisfied() {
			why = "no node satisfies it (BadConstraints)"
			for _, id := range places(j, d.width(j)) {
				d.course(id).refused(fmt.Sprintf("left open: no node satisfied %.80q (BadConstraints)", j.Features), d.set.Policy.Cycles)
			}
			if dec.Steer == "" {
				dec.Steer = why
			}
		}
		if why == "" && (dec.Why == string(plan.Foreign) || dec.Why == string(plan.Reserved)) {
			why = dec.Why
		}
		if why != "" && why != claimed {
			d.open(at, why)
		}
	}
	slices.SortStableFunc(queue, func(a, b int) int {
		return cmp.Or(cmp.Compare(d.priority(b), d.priority(a)), d.jobs[a].ID.Compare(d.jobs[b].ID))
	})
	return queue
}

// priority is what Slurm will order a job by.
func (d *Steered) priority(at int) int64 {
	dec := &d.plan.Decisions[at]
	if d.plan.Mode == slurmplug.Priority && dec.Value != 0 {
		return dec.Value
	}
	return dec.Own + dec.Value
}

// alone says why a job is not steered, whatever the allocation is.
func (d *Steered) alone(j *cluster.Job) string {
	if j.TagErr != "" || len(j.Tag.Speed) == 0 && j.Tag.Workload == "" {
		return consent
	}
	r, written := d.h.Requests[j.ID][slurmplug.Features]
	own := d.h.Own(j, slurmplug.Features)
	c, err := slurmplug.ParseConstraint(own)
	if err == nil {
		_, err = c.With("x")
	}
	switch {
	case j.GPUType != "":
		return typed
	case j.HetLeader != 0:
		return component
	case j.Prefer != "":
		return prefers
	case written && r.Theirs(j.Features):
		return edited
	case err != nil:
		return fmt.Sprintf("its constraint %.80q is left alone: %v", own, err)
	case d.h.Claiming[j.ID]:
		return claimed
	}
	return ""
}

func (d *Steered) constraint(j *cluster.Job) slurmplug.Constraint {
	c, _ := slurmplug.ParseConstraint(d.h.Own(j, slurmplug.Features)) // alone knows of the error
	return c
}

// course is what is remembered of a job.
func (d *Steered) course(id cluster.JobID) *course {
	c := d.helm.jobs[id]
	if c == nil {
		c = &course{last: Verdict{Type: Open}}
		d.helm.jobs[id] = c
	}
	c.poll = d.helm.poll
	return c
}

// width is for how many tasks of an array there is a berth: as many as the
// cluster could run at once.
func (d *Steered) width(j *cluster.Job) int {
	return max(min(j.TaskCount, d.gpus/max(j.GPUs, 1)), 1)
}

// places are the first tasks of an array, or the job itself.
func places(j *cluster.Job, n int) []cluster.JobID {
	if j.Tasks == "" {
		return []cluster.JobID{j.ID}
	}
	first, err := slurmplug.FirstTasks(j.Tasks, n)
	if err != nil {
		return []cluster.JobID{j.ID}
	}
	return plan.Action{Job: j.ID, Tasks: first, Part: true}.Jobs()
}

// berth is what the policy has to know of a job.
func (d *Steered) berth(at int, id cluster.JobID, tasks int) berth {
	j := d.jobs[at]
	share, c := d.shares.Jobs[j.ID], d.course(id)
	b := berth{at: at, id: id, tasks: tasks, kept: c, alone: d.alone(j)}
	if b.alone == "" && d.h.Claiming[id] {
		b.alone = claimed // the first task of an array, before it has a record of its own
	}
	if b.alone == "" && c.rest > 0 {
		b.alone = c.alone
		c.rest--
	}
	if since := d.s.At.Sub(c.open); b.alone == "" && since >= 0 && since.Seconds() < d.set.Policy.Away {
		b.alone = reopened
	}
	types, asks := d.fit(j, ""), *j
	if c.asked--; c.place != (cluster.Place{}) {
		asks = d.narrowed(j, &c.place)
		narrowed := types & d.fit(&asks, c.place.Excluded) & d.typesOf(c.place.Required)
		b.out, types = types&^narrowed, narrowed
		if c.place.Required != "" && b.alone == "" {
			b.alone = named
		}
		if c.asked <= 0 && len(d.again) < reasked {
			d.again[j.ID] = j.RawID
		}
	}
	b.Job = Job{
		Run: share.Run, Time: share.Time, Received: share.Received, Steered: Open, Given: c.given, Ready: c.ready,
		Now: d.isTrial(at),
	}
	switch b.alone {
	case claimed:
		if t := d.steeredTo(j); t != Open {
			types &= 1 << uint(t)
		}
	case "":
		b.fits = types
		for t, f := range d.features {
			if f == "" {
				types &^= 1 << uint(t)
			}
		}
		b.Steered = d.steeredTo(j)
		b.Held, b.Left = d.since(j)
		if b.Steered == Open {
			b.Ready, c.ready = 0, 0
		} else if c.given == 0 && share.Time != nil { // priod was started since
			c.given = share.Time[b.Steered]
			b.Given = c.given
		}
		if types == 0 {
			b.alone = cmp.Or(d.closed(b.fits), d.among(j), nowhere)
		} else if share.Unknown() {
			b.alone = unknown
		}
	}
	b.Consent = b.alone == ""
	b.Request = d.kinds.Request(&asks, d.on(types))
	b.Request.Types = types
	return b
}

// isTrial tells whether a job is not to wait for a type: it counts as TE, or will once its
// user's budget has room again.
func (d *Steered) isTrial(at int) bool {
	dec := &d.plan.Decisions[at]
	return dec.Class == cluster.TE || dec.Why == string(plan.OverBudget)
}

// steeredTo is the type that a job's constraint holds because priod wrote it.
func (d *Steered) steeredTo(j *cluster.Job) int32 {
	if !d.ours(j) {
		return Open
	}
	own, c := d.h.Own(j, slurmplug.Features), d.constraint(j)
	for t, f := range d.features {
		if f == "" {
			continue
		}
		whole, err := c.With(f) // also where Slurm would not take all of it any more
		text, _ := d.words.with(own, f)
		if err == nil && (whole == j.Features || text == j.Features) {
			return int32(t)
		}
	}
	return Open
}

// since is for how long a job has had its type, s, and which types it may have left
// since less than steering.Settings.Away.
func (d *Steered) since(j *cluster.Job) (held float64, left placement.Types) {
	r, written := d.h.Requests[j.ID][slurmplug.Features]
	if held = d.s.At.Sub(r.At).Seconds(); !written || held < 0 || held >= d.set.Policy.Away {
		return math.Abs(held), 0 // a clock that was set back holds nobody
	}
	for t, f := range d.features {
		text, err := d.words.with(r.Was, f)
		if f != "" && err == nil && text != j.Features && slices.Contains(r.Older, text) {
			left |= 1 << uint(t)
		}
	}
	return held, left
}

// on is the kinds of nodes of these types.
func (d *Steered) on(types placement.Types) (kinds placement.Types) {
	for t, lie := range d.lie {
		if types.Has(int32(t)) {
			kinds |= lie
		}
	}
	return kinds
}

// wish is all that fit goes by.
type wish struct {
	gpuType, features, partition string
	nodes, gpus, cpus            int
	memMB                        int64
	node                         cluster.Least
	excluded                     string
}

// fit is the types that have nodes for a job that are up, by its own constraint, beside
// those that it refuses.
func (d *Steered) fit(j *cluster.Job, excluded string) placement.Types {
	w := wish{
		gpuType: j.GPUType, features: d.h.Own(j, slurmplug.Features), partition: j.Partition, nodes: j.Nodes, gpus: j.GPUs, cpus: j.CPUs, memMB: j.MemMB, node: j.Node,
		excluded: excluded,
	}
	types, known := d.fits[w]
	if !known {
		nodes := d.beside(excluded)
		for t := range d.lie {
			if nodes != nil && d.fitsOn(j, t, nodes) {
				types |= 1 << uint(t)
			}
		}
		d.fits[w] = types
	}
	return types
}

// typesOf are the types of the nodes of a host list; all for none.
func (d *Steered) typesOf(hosts string) (types placement.Types) {
	names, err := slurmplug.ExpandHosts(hosts)
	if hosts == "" || err != nil {
		return ^types
	}
	for _, name := range names {
		at, known := d.kinds.Index[name]
		for t := range d.lie {
			if known && d.lie[t].Has(d.kinds.Nodes.Type(at)) {
				types |= 1 << uint(t)
			}
		}
	}
	return types
}

// beside is the nodes that are up without those of a host list; nil when it cannot be
// read.
func (d *Steered) beside(excluded string) *placement.Nodes {
	switch x := &d.without; {
	case excluded == "":
		return d.up
	case x.hosts != excluded:
		x.hosts, x.up = excluded, nil
		hosts, err := slurmplug.ExpandHosts(excluded)
		if err != nil {
			return nil
		}
		x.up = d.up.Clone()
		for _, h := range hosts {
			if at, known := d.kinds.Index[h]; known {
				x.up.SetDown(at, true)
			}
		}
	}
	return d.without.up
}

// fitsOn tells whether a job, by its own constraint, fits on nodes of one type.
// One that is not understood keeps it from none.
func (d *Steered) fitsOn(j *cluster.Job, t int, nodes *placement.Nodes) bool {
	own := *j
	own.Features = d.h.Own(j, slurmplug.Features)
	kinds, understood := d.kinds.Types(&own)
	if !understood {
		own.Features = ""
		kinds, _ = d.kinds.Types(&own)
	}
	kinds &= d.lie[t]
	if kinds == 0 || j.GPUs < j.Nodes { // a node without a GPU of its own: nobody knows where
		return false
	}
	_, fits := nodes.Fit(d.kinds.Request(&own, kinds), nil)
	return fits
}

// snapshot is the nodes and who holds them.
func (d *Steered) snapshot() *Snapshot {
	index := map[string]int32{}
	var sizes []placement.Node
	var used []placement.Share
	var down []int32
	var reserved []Running
	for i := range d.s.Nodes {
		n := &d.s.Nodes[i]
		t, known := d.of(n)
		if !known || n.GPUs == 0 || n.MixedTypes {
			continue
		}
		at := int32(len(sizes))
		index[n.Name] = at
		sizes = append(sizes, placement.Node{Type: t, Amount: placement.Amount{GPUs: int32(n.GPUs), CPUs: int32(n.CPUs), MemMB: n.MemMB}})
		if d.keeps(n) && strings.Contains(n.State, "RESERVED") {
			used = append(used, placement.Share{Node: at, Amount: sizes[at].Amount})
			free := []placement.Share{{Node: at, Amount: placement.Amount{GPUs: int32(n.GPUs - n.GPUsUsed)}}}
			reserved = append(reserved, Running{Shares: free, End: reservedFor})
			continue
		}
		used = append(used, placement.Share{Node: at, Amount: placement.Amount{GPUs: int32(n.GPUsUsed), CPUs: int32(n.CPUsUsed), MemMB: n.MemUsedMB}})
		if k, known := d.kinds.Index[n.Name]; !known || d.kinds.Nodes.Down(k) {
			down = append(down, at)
		}
	}
	nodes := placement.New(placement.Packed, sizes)
	nodes.Take(used)
	for _, at := range down {
		nodes.SetDown(at, true)
	}
	snap := &Snapshot{Nodes: nodes, Types: len(d.shares.Types), Apart: d.apart, Running: reserved}
	for i := range d.s.Jobs {
		if j := &d.s.Jobs[i]; j.GPUs > 0 && (j.State == cluster.Running || j.State == cluster.Completing) {
			snap.Running = append(snap.Running, d.running(j, index)...)
		}
	}
	return snap
}

// running is what a job holds, and until when. How its GPUs lie on several nodes
// no poll tells: evenly.
func (d *Steered) running(j *cluster.Job, index map[string]int32) []Running {
	hosts := []string{j.NodeList}
	if _, one := index[j.NodeList]; !one {
		var err error
		if hosts, err = slurmplug.ExpandHosts(j.NodeList); err != nil || len(hosts) == 0 {
			return nil
		}
	}
	r := Running{End: math.Inf(1)}
	if j.TimeLimit != slurmplug.Unlimited {
		r.End = max(j.Start.Add(j.TimeLimit).Sub(d.s.At).Seconds(), 0)
	}
	for k, h := range hosts {
		at, known := index[h]
		if !known {
			continue
		}
		gpus := j.GPUs / len(hosts)
		if k < j.GPUs%len(hosts) {
			gpus++
		}
		r.Shares = append(r.Shares, placement.Share{Node: at, Amount: placement.Amount{GPUs: int32(gpus)}})
	}
	if t, known := slices.BinarySearch(d.shares.Types, j.GPUType); known && d.shares.Jobs[j.ID] != nil {
		r.End = min(r.End, d.shares.Jobs[j.ID].Run[t])
	}
	return []Running{r}
}

// follow remembers a verdict, and tells it in the decision about the job. Words
// stay while only the figures in them change.
func (d *Steered) follow(b *berth, v *Verdict) {
	c, barred := b.kept, ""
	switch v.Why {
	case NoTime:
		barred = d.closed(d.timed(b))
	case OneType, NoRoom:
		barred = cmp.Or(d.closed(b.fits), d.beyond(b.fits), d.among(d.jobs[b.at]))
	}
	if b.alone != "" {
		c.told = b.alone
	} else if barred != "" {
		c.told = barred
	} else if c.barred != "" || v.Type != c.last.Type || v.Why != c.last.Why || v.Back != c.last.Back || c.told == "" {
		c.told = v.Explain(func(t int32) string { return d.shares.Types[t] })
	}
	c.last, c.barred = *v, barred
	switch {
	case v.Why == Stuck:
		c.rest, c.alone = d.set.Policy.Cycles, c.told
	case v.Type == Open:
		c.given, c.ready = 0, 0
	case v.Type != b.Steered:
		c.given, c.ready = b.Time[v.Type], 0
	case v.Start == 0 && !d.jobs[b.at].Begins(d.s.At):
		c.ready++
	}
	dec := &d.plan.Decisions[b.at]
	if dec.Steer == "" && b.alone != consent { // of an array, its first task
		dec.Steer = c.told
	}
}

// closed says of the first of these types to which nobody is steered why that is;
// "" when there is none.
func (d *Steered) closed(types placement.Types) string {
	for t, why := range d.barred {
		if why != "" && types.Has(int32(t)) {
			return fmt.Sprintf("left open: it could run on %s, to which no job is steered: %s", d.shares.Types[t], why)
		}
	}
	return ""
}

// beyond says of the first type of which a job could run only on nodes that lack the
// feature that this is so; "" when there is none.
func (d *Steered) beyond(types placement.Types) string {
	for i, t := range d.apart {
		if !types.Has(t) && types.Has(int32(len(d.shares.Types)+i)) {
			return fmt.Sprintf("left open: on %s it could run only on nodes without the feature %s, where steered jobs do not run", d.shares.Types[t], d.features[t])
		}
	}
	return ""
}

// among says of the first node with several GPU types on which a job could run that it
// is not steered there; "" when there is none.
func (d *Steered) among(j *cluster.Job) string {
	for i := range d.s.Nodes {
		n := &d.s.Nodes[i]
		if n.MixedTypes && n.Usable && j.Nodes <= 1 && n.GPUs >= j.GPUs && n.CPUs >= j.CPUs && d.constraint(j).Allows(n.Features) &&
			slices.ContainsFunc(strings.Split(j.Partition, ","), func(p string) bool { return slices.Contains(n.Partitions, p) }) {
			return fmt.Sprintf("left open: it could run on %s, which has several GPU types: no job is steered there", n.Name)
		}
	}
	return ""
}

// timed are the types on which a job may run and has time.
func (d *Steered) timed(b *berth) (types placement.Types) {
	for t := range d.shares.Types {
		if b.fits.Has(int32(t)) && b.Time != nil && b.Time[t] >= max(d.set.Policy.Least, 1e-9) {
			types |= 1 << uint(t)
		}
	}
	return types
}
