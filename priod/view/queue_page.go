package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// Filter leaves the jobs that have all of this; "": any.
type Filter struct {
	User      string `json:"user,omitempty"`
	Account   string `json:"account,omitempty"`
	Partition string `json:"partition,omitempty"`
	Class     string `json:"class,omitempty"`
	Cause     string `json:"cause,omitempty"`
	GPUType   string `json:"type,omitempty"`
}

// valid refuses a class, a cause or a GPU type that does not exist; types are those of waiting jobs. A user, an account or a partition may have no job that waits.
func (f *Filter) valid(ctx context.Context, r *store.Reader, types []Choice) error {
	if classes := []string{"", "te", "be", "-"}; !slices.Contains(classes, f.Class) {
		return wrongf("class=%.20q: want te, be or -", f.Class)
	}
	if f.Cause != "" && !slices.Contains(plan.Causes, plan.Cause(f.Cause)) {
		return wrongf("cause=%.20q: want one of %s", f.Cause, strings.Trim(fmt.Sprint(plan.Causes), "[]"))
	}
	if f.GPUType == "" || f.GPUType == "any" || slices.ContainsFunc(types, func(c Choice) bool { return c.Value == f.GPUType }) {
		return nil
	}
	all, err := r.Nodes(ctx)
	if err == nil && !slices.ContainsFunc(all, func(n cluster.Node) bool { return report.Safe(n.GPUType) == f.GPUType }) {
		return wrongf("type=%.40q: no node has it; any: jobs that name no GPU type", f.GPUType)
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
		c := groupOf(by, name, Choice{Value: name})
		c.Jobs++
		c.GPUs += keys[i].GPUs
	}
	all := ranked(by, func(c *Choice) float64 { return float64(c.Jobs) })
	return all[:min(len(all), mostChoices)]
}

// QueuePage is the page of the queue.
type QueuePage struct {
	Filter
	Part
	Jobs       []Job    `json:"jobs"`
	Users      []Choice `json:"by_user"`
	Accounts   []Choice `json:"by_account"`
	Partitions []Choice `json:"by_partition"` // a job counts in each of its own
	Classes    []Choice `json:"by_class"`
	Causes     []Choice `json:"by_cause"`
	Types      []Choice `json:"by_type"`
	Schedule   Schedule `json:"schedule"`
}

// Chosen is a filter of the form.
type Chosen struct {
	Name, Label, Value string
	Choices            []Choice
	Words              func(string) string
}

// Text is a choice in words.
func (c Chosen) Text(x Choice) string {
	return fmt.Sprintf("%s (%d)", report.Name(c.Words(x.Value)), x.Jobs)
}

// Filters are those of the form.
func (v *QueuePage) Filters() []Chosen {
	same := func(s string) string { return s }
	classes := func(s string) string {
		return map[string]string{"te": "trial (TE)", "be": "best-effort (BE)", "-": "not ranked"}[s]
	}
	return []Chosen{
		{"user", "user", v.User, v.Users, same}, {"account", "account", v.Account, v.Accounts, same}, {"partition", "partition", v.Partition, v.Partitions, same},
		{"class", "class", v.Class, v.Classes, classes}, {"cause", "waits because", v.Cause, v.Causes, CauseWords}, {"type", "GPU type", v.GPUType, v.Types, same},
	}
}

// waiting holds by what the queue is filtered, read again at most every fiftieth part of the time that it takes.
type waiting struct {
	mu    sync.Mutex
	of    string // the cycle
	made  time.Time
	took  time.Duration
	keys  []store.WaitingKey
	whole QueuePage // with the choices
}

// waiting is by what the queue is filtered, and its page without jobs.
func (a *Asked) waiting(ctx context.Context) ([]store.WaitingKey, QueuePage, error) {
	return a.Kept.waiting.read(ctx, a.Store, fmt.Sprint(a.Last.Number, a.Last.Until.UnixMilli()))
}

func (w *waiting) read(ctx context.Context, r *store.Reader, cycle string) ([]store.WaitingKey, QueuePage, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == cycle || w.of != "" && time.Since(w.made) < 50*w.took {
		return w.keys, w.whole, nil
	}
	began := time.Now()
	keys, err := r.PendingKeys(ctx)
	if err != nil {
		return nil, QueuePage{}, err
	}
	w.keys, w.whole = keys, choicesOf(keys)
	w.of, w.made, w.took = cycle, time.Now(), time.Since(began)
	return w.keys, w.whole, nil
}

// choicesOf is the page without jobs. A job counts in each of its partitions.
func choicesOf(keys []store.WaitingKey) QueuePage {
	in := make([]store.WaitingKey, 0, len(keys))
	for _, k := range keys {
		for p := range strings.SplitSeq(k.Partition, ",") {
			k.Partition = p
			in = append(in, k)
		}
	}
	return QueuePage{
		Users:    choices(keys, func(k *store.WaitingKey) string { return k.User }),
		Accounts: choices(keys, func(k *store.WaitingKey) string { return k.Account }), Partitions: choices(in, func(k *store.WaitingKey) string { return k.Partition }),
		Classes: choices(keys, func(k *store.WaitingKey) string { return k.Class }), Causes: choices(keys, func(k *store.WaitingKey) string { return string(k.Cause) }),
		Types: choices(keys, func(k *store.WaitingKey) string { return cmp.Or(k.GPUType, "any") }),
	}
}

func (a *Asked) queue(ctx context.Context) (shown, error) {
	if _, _, err := a.part("queue", 1<<40); err != nil {
		return nil, err
	}
	keys, v, err := a.waiting(ctx)
	if err != nil {
		return nil, err
	}
	keys, all := ownKeys(keys, a.User)
	if a.User != "" {
		v = choicesOf(keys)
	}
	v.Filter = Filter{a.Values.Get("user"), a.Values.Get("account"), a.Values.Get("partition"), a.Values.Get("class"), a.Values.Get("cause"), a.Values.Get("type")}
	if err := v.valid(ctx, a.Store, v.Types); err != nil {
		return nil, err
	}
	var left []store.WaitingKey
	var places []int
	for i := range keys {
		if v.fits(&keys[i]) {
			left, places = append(left, keys[i]), append(places, all[i])
		}
	}
	var skip int
	if v.Part, skip, err = a.part("queue", len(left)); err != nil {
		return nil, err
	}
	shown := left[skip:min(skip+rowsOfPage, len(left))]
	page, err := a.Store.PendingOf(ctx, shown)
	if err != nil {
		return nil, err
	}
	open, err := openEvictions(ctx, a.Store)
	if err != nil {
		return nil, err
	}
	v.Jobs = jobsOf(page, places[skip:], roomFor(open))
	v.Schedule, err = scheduleOf(ctx, a.Store, a.Last.Until, &v.Filter, v.Jobs, open)
	return &v, err
}

// None is the filter that leaves all.
func (v *QueuePage) None() Filter { return Filter{} }

func (v *QueuePage) only(user string) {
	v.Jobs = slices.DeleteFunc(v.Jobs, func(j Job) bool { return j.User != user })
	v.Schedule.Jobs = slices.DeleteFunc(v.Schedule.Jobs, func(s Scheduled) bool { return s.User != user })
}

// ownKeys are the waiting jobs of a user, and their places among all; user "": all of them.
func ownKeys(keys []store.WaitingKey, user string) (own []store.WaitingKey, places []int) {
	for i := range keys {
		if user == "" || keys[i].User == user {
			own, places = append(own, keys[i]), append(places, i+1)
		}
	}
	return own, places
}
