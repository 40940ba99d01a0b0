package web

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

// JobView is a waiting job in a list.
type JobView struct {
	Place     int           `json:"place"` // among all that wait
	Job       cluster.JobID `json:"job"`
	Tasks     string        `json:"tasks,omitempty"`
	User      string        `json:"user"`
	Account   string        `json:"account"`
	Partition string        `json:"partition"`
	Class     string        `json:"class"` // te, be, or - when it is left alone
	Nodes     int           `json:"nodes"`
	GPUs      int           `json:"gpus"`
	GPUType   string        `json:"gpu_type,omitempty"`
	Features  string        `json:"features,omitempty"`
	WaitS     int64         `json:"wait_s"`
	Priority  int64         `json:"priority"` // when it last changed in another way than by age
	Value     int64         `json:"value"`    // that priod adds
	Why       string        `json:"why"`
	Words     string        `json:"words"` // the reason as a sentence
	Steer     string        `json:"steer,omitempty"`
	Unmoved   string        `json:"unmoved,omitempty"`
	Reason    string        `json:"slurm_reason"`
	Cause     string        `json:"cause,omitempty"`      // why it waits now: a cause of priod report waits
	CauseText string        `json:"cause_text,omitempty"` // what is short, and with what it would start sooner
	RoomFor   bool          `json:"room_is_made,omitempty"`

	Start *store.ExpectedStart `json:"expected_start,omitempty"` // nil: not known
	Bar   *Bar                 `json:"-"`
}

// Bar is an expected start from the median to nine of ten, on a line of barWidth from now to the last one of the list.
type Bar struct{ X, Width int }

const barWidth = 100

// drawBars gives each job whose start is known its bar.
func drawBars(jobs []JobView) {
	last := time.Minute
	for i := range jobs {
		if s := jobs[i].Start; s != nil && !s.P90.IsZero() {
			last = max(last, time.Until(s.P90))
		}
	}
	for i := range jobs {
		if s := jobs[i].Start; s != nil && !s.P90.IsZero() {
			at := func(t time.Time) int { return int(barWidth * max(time.Until(t), 0) / last) }
			x := min(at(s.Median), barWidth-2)
			jobs[i].Bar = &Bar{x, max(at(s.P90)-x, 2)}
		}
	}
}

// Starts says when it is expected to start; "" when that is not known.
func (v *JobView) Starts() string {
	if v.Start == nil {
		return ""
	}
	text := report.Starts(v.Start.At, v.Start.Median, v.Start.P90)
	if moved := report.Moved(v.Start); moved != "" {
		text += "; " + moved
	}
	return text
}

// Short says why it waits in a few words.
func (v *JobView) Short() string {
	if v.RoomFor {
		return "others leave for it"
	}
	return report.CauseWords(v.Cause)
}

// StartsShort is when it is expected to start, in half and in nine of ten cases; "": not known.
func (v *JobView) StartsShort() string { return report.StartsShort(v.Start) }

// WaitSeconds is the wait as templates take it.
func (v *JobView) WaitSeconds() float64 { return float64(v.WaitS) }

// jobViews are waiting jobs; places are theirs among all that wait, for those with room on the way room is true.
func jobViews(page []store.Waiting, places []int, room map[cluster.JobID]bool) []JobView {
	views := make([]JobView, len(page))
	for i := range page {
		j, d := &page[i].Job, page[i].Decision
		v := JobView{
			Place: places[i], Job: j.ID, Tasks: j.Tasks, User: j.User, Account: j.Account, Partition: j.Partition, Class: "-", Nodes: j.Nodes, GPUs: j.GPUs,
			GPUType: j.GPUType, Features: j.Features, Priority: j.Priority, Reason: j.Reason, Start: page[i].Start, RoomFor: room[j.ID],
		}
		if now := page[i].Now; now != nil {
			v.Cause, v.CauseText = string(now.Cause), now.Words
		}
		since := j.Eligible
		if d != nil {
			v.Value, v.Why, v.Words, v.Steer, v.Unmoved = d.Value, d.Why, report.Reason(d.Why), d.Steer, d.Unmoved
			if d.Ranked {
				v.Class = d.Class.String()
			}
			if !d.Since.IsZero() {
				since = d.Since
			}
		}
		if !since.IsZero() {
			v.WaitS = max(int64(time.Since(since).Seconds()), 0)
		}
		views[i] = v
	}
	return views
}

// Filter leaves the jobs that have all of this; "": any.
type Filter struct {
	User      string `json:"user,omitempty"`
	Account   string `json:"account,omitempty"`
	Partition string `json:"partition,omitempty"`
	Class     string `json:"class,omitempty"`
	Cause     string `json:"cause,omitempty"`
	GPUType   string `json:"type,omitempty"`
}

func filterOf(asked url.Values) Filter {
	return Filter{asked.Get("user"), asked.Get("account"), asked.Get("partition"), asked.Get("class"), asked.Get("cause"), asked.Get("type")}
}

// valid refuses a class, a cause or a GPU type that does not exist; types are those of waiting jobs. A user, an account or a partition may have no job that waits.
func (f *Filter) valid(ctx context.Context, r *store.Reader, types []Choice) error {
	if classes := []string{"", "te", "be", "-"}; !slices.Contains(classes, f.Class) {
		return usagef("class=%.20q: want te, be or -", f.Class)
	}
	if f.Cause != "" && !slices.Contains(plan.Causes, plan.Cause(f.Cause)) {
		return usagef("cause=%.20q: want one of %s", f.Cause, strings.Trim(fmt.Sprint(plan.Causes), "[]"))
	}
	if f.GPUType == "" || f.GPUType == "any" || slices.ContainsFunc(types, func(c Choice) bool { return c.Value == f.GPUType }) {
		return nil
	}
	all, err := r.Nodes(ctx)
	if err == nil && !slices.ContainsFunc(all, func(n cluster.Node) bool { return report.Safe(n.GPUType) == f.GPUType }) {
		return usagef("type=%.40q: no node has it; any: jobs that name no GPU type", f.GPUType)
	}
	return err
}

func (f *Filter) fits(k *store.WaitingKey) bool {
	is := func(want, got string) bool { return want == "" || want == got || want == report.Safe(got) }
	in := f.Partition == ""
	for p := range strings.SplitSeq(k.Partition, ",") { // as squeue -p has it
		in = in || is(f.Partition, p)
	}
	return in && is(f.User, k.User) && is(f.Account, k.Account) && is(f.Class, k.Class) && is(f.Cause, string(k.Cause)) && is(f.GPUType, cmp.Or(k.GPUType, "any"))
}

// Choice is one value of a filter, with what it would leave.
type Choice struct {
	Value string `json:"value"`
	Jobs  int    `json:"jobs"` // records: an array that is not split is one
	GPUs  int    `json:"gpus"`
}

// mostChoices of a filter are listed: those with the most jobs.
const mostChoices = 60

func choices(keys []store.WaitingKey, of func(k *store.WaitingKey) string) []Choice {
	by := map[string]*Choice{}
	for i := range keys {
		name := report.Safe(of(&keys[i]))
		c := by[name]
		if c == nil {
			c = &Choice{Value: name}
			by[name] = c
		}
		c.Jobs++
		c.GPUs += keys[i].GPUs
	}
	all := make([]Choice, 0, len(by))
	for _, name := range slices.Sorted(maps.Keys(by)) {
		all = append(all, *by[name])
	}
	slices.SortStableFunc(all, func(a, b Choice) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return all[:min(len(all), mostChoices)]
}

// QueueView is the page of the queue.
type QueueView struct {
	Filter
	Turn
	Jobs       []JobView `json:"jobs"`
	Users      []Choice  `json:"by_user"`
	Accounts   []Choice  `json:"by_account"`
	Partitions []Choice  `json:"by_partition"` // a job counts in each of its own
	Classes    []Choice  `json:"by_class"`
	Causes     []Choice  `json:"by_cause"`
	Types      []Choice  `json:"by_type"`
	Schedule   Schedule  `json:"schedule"`
}

// Chosen is a filter of the form.
type Chosen struct {
	Name, Label, Value string
	Choices            []Choice
	Words              func(string) string
}

// Text is a choice in words.
func (c Chosen) Text(x Choice) string {
	return fmt.Sprintf("%s (%d)", name(c.Words(x.Value)), x.Jobs)
}

// Filters are those of the form.
func (v *QueueView) Filters() []Chosen {
	same := func(s string) string { return s }
	classes := func(s string) string {
		return map[string]string{"te": "trial (TE)", "be": "best-effort (BE)", "-": "not ranked"}[s]
	}
	return []Chosen{
		{"user", "user", v.User, v.Users, same}, {"account", "account", v.Account, v.Accounts, same}, {"partition", "partition", v.Partition, v.Partitions, same},
		{"class", "class", v.Class, v.Classes, classes}, {"cause", "waits because", v.Cause, v.Causes, report.CauseWords}, {"type", "GPU type", v.GPUType, v.Types, same},
	}
}

// waiting holds by what the queue is filtered, read again at most every fiftieth part of the time that it takes.
type waiting struct {
	mu    sync.Mutex
	of    string // the cycle
	made  time.Time
	took  time.Duration
	keys  []store.WaitingKey
	whole QueueView // with the choices
}

func (w *waiting) read(ctx context.Context, r *store.Reader, cycle string) ([]store.WaitingKey, QueueView, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == cycle || w.of != "" && time.Since(w.made) < 50*w.took {
		return w.keys, w.whole, nil
	}
	began := time.Now()
	keys, err := r.PendingKeys(ctx)
	if err != nil {
		return nil, QueueView{}, err
	}
	w.keys, w.whole = keys, choicesOf(keys)
	w.of, w.made, w.took = cycle, time.Now(), time.Since(began)
	return w.keys, w.whole, nil
}

// choicesOf is the page without jobs. A job counts in each of its partitions.
func choicesOf(keys []store.WaitingKey) QueueView {
	in := make([]store.WaitingKey, 0, len(keys))
	for _, k := range keys {
		for p := range strings.SplitSeq(k.Partition, ",") {
			k.Partition = p
			in = append(in, k)
		}
	}
	return QueueView{
		Users:    choices(keys, func(k *store.WaitingKey) string { return k.User }),
		Accounts: choices(keys, func(k *store.WaitingKey) string { return k.Account }), Partitions: choices(in, func(k *store.WaitingKey) string { return k.Partition }),
		Classes: choices(keys, func(k *store.WaitingKey) string { return k.Class }), Causes: choices(keys, func(k *store.WaitingKey) string { return string(k.Cause) }),
		Types: choices(keys, func(k *store.WaitingKey) string { return cmp.Or(k.GPUType, "any") }),
	}
}

func (p *Pages) queue(ctx context.Context, r *store.Reader, last *store.Cycle, asked url.Values) (shown, error) {
	if _, _, err := partOf(url.Values{"page": asked["page"]}, 1<<40); err != nil {
		return nil, err
	}
	keys, v, err := p.waiting.read(ctx, r, stamp(last))
	if err != nil {
		return nil, err
	}
	keys, all := ownKeys(keys, viewer(ctx))
	if viewer(ctx) != "" {
		v = choicesOf(keys)
	}
	v.Filter = filterOf(asked)
	if err := v.valid(ctx, r, v.Types); err != nil {
		return nil, err
	}
	var left []store.WaitingKey
	var places []int
	for i := range keys {
		if v.fits(&keys[i]) {
			left, places = append(left, keys[i]), append(places, all[i])
		}
	}
	part, skip, err := partOf(asked, len(left))
	if err != nil {
		return nil, err
	}
	v.Turn = Turn{part, "queue", asked}
	shown := left[skip:min(skip+rowsOfPage, len(left))]
	page, err := r.PendingOf(ctx, shown)
	if err != nil {
		return nil, err
	}
	open, err := openEvictions(ctx, r)
	if err != nil {
		return nil, err
	}
	v.Jobs = jobViews(page, places[skip:], roomFor(open))
	drawBars(v.Jobs)
	v.Schedule, err = scheduleOf(ctx, r, last.Until, &v.Filter, v.Jobs, open)
	return &v, err
}

const (
	runningRows = 14 // of a schedule
	waitingRows = 26
	longest     = 24 * time.Hour // that a schedule looks ahead
)

// Scheduled is a job in the schedule: times are zero where they are not known.
type Scheduled struct {
	Job       cluster.JobID `json:"job"`
	User      string        `json:"user"`
	Class     string        `json:"class"`
	GPUs      int           `json:"gpus"`
	GPUType   string        `json:"gpu_type,omitempty"`
	Nodes     int           `json:"nodes"`
	Start     time.Time     `json:"start"` // of one that waits, as half of such jobs start
	StartP90  time.Time     `json:"start_p90,omitzero"`
	End       time.Time     `json:"end"` // as half of such jobs end; by its time limit where nothing is known of them
	EndP90    time.Time     `json:"end_p90,omitzero"`
	Running   bool          `json:"running"`
	LeavesFor string        `json:"leaves_for,omitempty"` // the job for which it was signalled
	Room      time.Time     `json:"room_is_made_since,omitzero"`
}

// Schedule is what is expected of the next hours: the running jobs that end first, the waiting ones that start first.
type Schedule struct {
	Now          time.Time                   `json:"now"`
	Jobs         []Scheduled                 `json:"jobs"`
	Reservations []slurmplug.NodeReservation `json:"reservations"` // of Slurm, that have not ended
}

func scheduleOf(ctx context.Context, r *store.Reader, now time.Time, f *Filter, waiting []JobView, open []store.Eviction) (s Schedule, err error) {
	s = Schedule{Now: now, Jobs: []Scheduled{}, Reservations: []slurmplug.NodeReservation{}}
	holders, err := r.Holders(ctx)
	if err != nil {
		return s, err
	}
	last, err := r.LastSample(ctx)
	if err != nil {
		return s, err
	}
	for _, x := range last.Reservations {
		if x.End.After(now) {
			s.Reservations = append(s.Reservations, x)
		}
	}
	leaves, room := leaving(open), map[cluster.JobID][2]time.Time{}
	for i := range open {
		if x := &open[i]; x.ClaimEnded.IsZero() {
			room[x.For] = [2]time.Time{x.Recorded, x.Recorded.Add(time.Duration(x.WaitS * float64(time.Second)))}
		}
	}
	for i := range holders {
		h := &holders[i]
		k := store.WaitingKey{User: h.User, Account: h.Account, Partition: h.Partition, GPUType: h.GPUType, Class: cmp.Or(h.Class, "-"), Cause: ""}
		here := *f
		here.Cause = "" // of those that wait
		if h.GPUs == 0 || !here.fits(&k) {
			continue
		}
		x := Scheduled{Job: h.Job, User: h.User, Class: h.Class, GPUs: h.GPUs, GPUType: h.GPUType, Nodes: nodeCount(h.Nodes), Start: h.Start, End: h.End.Median, EndP90: h.End.P90, Running: true, LeavesFor: leaves[h.Job]}
		if x.End.IsZero() && h.Limit > 0 {
			x.End = h.Start.Add(h.Limit)
		}
		s.Jobs = append(s.Jobs, x)
	}
	slices.SortStableFunc(s.Jobs, func(a, b Scheduled) int {
		return cmp.Or(cmp.Compare(b.LeavesFor, a.LeavesFor), compareKnown(a.End, b.End))
	})
	s.Jobs = s.Jobs[:min(len(s.Jobs), runningRows)]
	running := len(s.Jobs)
	for i := range waiting {
		v := &waiting[i]
		if made, is := room[v.Job]; is {
			s.Jobs = append(s.Jobs, Scheduled{Job: v.Job, User: v.User, Class: v.Class, GPUs: v.GPUs, GPUType: v.GPUType, Nodes: v.Nodes, Start: cluster.Later(made[1], now), End: made[1], Room: made[0]})
			continue
		}
		if v.Start == nil {
			continue
		}
		x := Scheduled{Job: v.Job, User: v.User, Class: v.Class, GPUs: v.GPUs, GPUType: v.GPUType, Nodes: v.Nodes, Start: v.Start.Median, StartP90: v.Start.P90}
		if x.Start.IsZero() {
			x.Start, x.StartP90 = v.Start.At, v.Start.At
		}
		x.Start, x.StartP90 = cluster.Later(x.Start, now), cluster.Later(x.StartP90, now)
		x.End = x.Start.Add(time.Duration(v.Start.RunS * float64(time.Second)))
		s.Jobs = append(s.Jobs, x)
	}
	slices.SortStableFunc(s.Jobs[running:], func(a, b Scheduled) int { return a.Start.Compare(b.Start) })
	s.Jobs = s.Jobs[:min(len(s.Jobs), running+waitingRows)]
	return s, nil
}

func compareKnown(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return cmp.Compare(len(clock(b)), len(clock(a)))
	}
	return a.Compare(b)
}

// Figure draws the schedule; "": there is nothing to draw.
func (s *Schedule) Figure() (template.HTML, error) {
	if len(s.Jobs)+len(s.Reservations) == 0 {
		return "", nil
	}
	line := report.Timeline{Title: "The next hours", Now: s.Now.Unix()}
	from, until := s.Now.Add(-10*time.Minute), s.Now.Add(time.Hour)
	for i := range s.Jobs {
		x := &s.Jobs[i]
		for _, t := range []time.Time{x.End, x.EndP90, x.StartP90} {
			until = cluster.Later(until, t.Add(5*time.Minute))
		}
	}
	for _, x := range s.Reservations {
		until = cluster.Later(until, x.Start.Add(30*time.Minute))
	}
	until = cluster.Earlier(until, s.Now.Add(longest))
	line.From, line.Until = from.Unix(), until.Unix()
	for i := range s.Jobs {
		line.Rows = append(line.Rows, s.Jobs[i].row(from, until))
	}
	for _, x := range s.Reservations {
		a, b := cluster.Later(x.Start, from), cluster.Earlier(x.End, until)
		row := report.TimelineRow{Label: name(x.Name), Bars: []report.TimelineBar{}}
		if !b.Before(a) {
			row.Bars = append(row.Bars, report.TimelineBar{From: a.Unix(), Until: b.Unix(), Kind: "reserved", Words: "reservation of " + cmp.Or(x.Nodes, "no node")})
		}
		line.Rows = append(line.Rows, row)
	}
	return line.HTML()
}

func (x *Scheduled) row(from, until time.Time) report.TimelineRow {
	row := report.TimelineRow{Label: fmt.Sprintf("%s %s", x.Job, name(x.User)), Job: x.Job.String()}
	what := counted(x.GPUs, "GPU")
	if x.GPUType != "" {
		what += " " + x.GPUType
	}
	if x.Nodes > 1 {
		what += fmt.Sprintf(", gang of %d nodes", x.Nodes)
	}
	kind := "be"
	if x.Class == cluster.TE.String() {
		kind = "te"
	}
	add := func(a, b time.Time, kind, words string) {
		a, b = cluster.Later(a, from), cluster.Earlier(b, until)
		if !b.Before(a) {
			row.Bars = append(row.Bars, report.TimelineBar{From: a.Unix(), Until: b.Unix(), Kind: kind, Words: words + ", " + what})
		}
	}
	end := x.End
	if end.IsZero() {
		end = until
	}
	switch {
	case !x.Room.IsZero():
		add(x.Room, x.Start, "room", "others leave for it")
	case x.LeavesFor != "":
		add(x.Start, end, "left", "evicted for job "+x.LeavesFor)
	case x.Running:
		add(x.Start, end, kind, "runs")
		if x.EndP90.After(end) {
			add(end, x.EndP90, "tail", "one of ten such jobs still runs")
		}
	default:
		add(x.Start, x.StartP90, "start", "expected to start")
		if x.End.After(x.Start) {
			add(x.StartP90, x.StartP90.Add(x.End.Sub(x.Start)), "next-"+kind, "expected run")
		}
	}
	return row
}

// None is the filter that leaves all.
func (v *QueueView) None() Filter { return Filter{} }
