package view

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/live"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/workload/sensitivity"
	"slurmprio/slurmplug"
)

// Usage is what a span of time of accounting says of the GPUs: which users held them, and how
// their jobs ended. A run counts with the part of it that lies within the span.
type Usage struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`

	Runs     int     `json:"runs"` // with GPUs
	GPUHours float64 `json:"gpu_h"`
	Charged  float64 `json:"charged_gpu_h"` // of all runs, with the GPUs that their CPUs and memory stranded (cluster.Charges)

	ByType    []UsageOf `json:"by_type"`
	ByState   []UsageOf `json:"by_state"` // in which runs ended; RUNNING: they have not
	BySize    []UsageOf `json:"by_size"`
	ByUser    []UsageOf `json:"by_user"`
	ByAccount []UsageOf `json:"by_account"`

	Spread   []SpreadRun  `json:"spread"`       // that held more nodes than they needed, the largest first
	Idle     []IdleRun    `json:"idle"`         // that used hardly any CPU, the largest first
	Held     *WithoutWork `json:"without_work"` // nil: the state folder cannot be read
	Measured int          `json:"measured"`     // runs of which accounting says what they used
	Unread   []string     `json:"unread"`       // rows of accounting that are left out, and why
	Budgets  []BudgetOf   `json:"te_budgets"`
	Notes    []string     `json:"-"` // what the figures lack

	groups [5]map[string]*UsageOf
	types  map[string]gpuNodes
	hours  []map[string]float64 // GPU-hours by type, for each of plotParts parts of the span
}

// UsageOf is the part of one GPU type, state, size, user or account.
type UsageOf struct {
	Name     string   `json:"name"`
	Runs     int      `json:"runs"`
	GPUHours float64  `json:"gpu_h"`
	Charged  float64  `json:"charged_gpu_h"`         // runs without GPUs count for users and accounts alone
	Of       *float64 `json:"of_capacity,omitempty"` // of what the GPUs of a type, as they are now, could have given
}

// BudgetOf is a TE budget as it counts for jobs of one partition; 0 limits nothing.
type BudgetOf struct {
	Of         string   `json:"of"`                  // "each user", "account physics"
	Partition  string   `json:"partition,omitempty"` // "": any; a job of several has that of all their nodes
	GPUs       int      `json:"gpus"`                // at a time
	GPUHours   float64  `json:"gpu_h_per_day"`
	TimeLimitS float64  `json:"time_limit_s"`
	Keys       []string `json:"keys"` // of priod.toml, with their values and where these stand
}

// SpreadRun held more nodes than its GPUs need.
type SpreadRun struct {
	Job      cluster.JobID `json:"job"`
	User     string        `json:"user"`
	GPUType  string        `json:"gpu_type"`
	GPUs     int           `json:"gpus"`
	Nodes    int           `json:"nodes"`
	Need     int           `json:"need"` // full nodes of that type
	GPUHours float64       `json:"gpu_h"`
}

// IdleRun used hardly any CPU, as a program does that hangs, or waits for its user, or no GPU at any poll of slurmd.
type IdleRun struct {
	Job      cluster.JobID `json:"job"`
	User     string        `json:"user"`
	Name     string        `json:"job_name"`
	GPUs     int           `json:"gpus"`
	CPUs     float64       `json:"used_cpus"`                 // for each GPU, in the mean over its time
	GPUUse   *float64      `json:"gpu_use_percent,omitempty"` // largest sample of one task; left out: not measured
	GPUHours float64       `json:"gpu_h"`
}

// idleCPUs is how many CPUs for each GPU a run must have used so as not to be listed.
const idleCPUs = 0.05

// plotParts are the parts of the span in a plot.
const plotParts = 120

// gpuNodes are the nodes with GPUs of one type.
type gpuNodes struct{ most, gpus int } // of a node; of all

// NewUsage is one of a span of time without runs, on a cluster with these nodes.
func NewUsage(since, until time.Time, nodes []cluster.Node) *Usage {
	u := &Usage{Since: since, Until: until, Spread: []SpreadRun{}, Idle: []IdleRun{}, types: map[string]gpuNodes{}, hours: make([]map[string]float64, plotParts)}
	for i := range u.groups {
		u.groups[i] = map[string]*UsageOf{}
	}
	for i := range u.hours {
		u.hours[i] = map[string]float64{}
	}
	for i := range nodes {
		if n := &nodes[i]; n.GPUs > 0 && !n.MixedTypes {
			t := u.types[n.GPUType]
			u.types[n.GPUType] = gpuNodes{max(t.most, n.GPUs), t.gpus + n.GPUs}
		}
	}
	return u
}

// Add counts the runs of a part of the span, from its beginning to its end. A run that lies
// in several parts comes with each of them.
func (u *Usage) Add(from, to time.Time, runs []cluster.PastStay) {
	for i := range runs {
		r := &runs[i]
		start, end := cluster.Later(r.Start, from), to
		if !r.End.IsZero() && r.End.Before(to) {
			end = r.End
		}
		charged := r.Charged() * end.Sub(start).Hours()
		if charged == 0 || r.Start.IsZero() || !end.After(start) {
			continue
		}
		u.Charged += charged
		groupOf(u.groups[3], r.User, UsageOf{Name: r.User}).Charged += charged
		groupOf(u.groups[4], r.Account, UsageOf{Name: r.Account}).Charged += charged
		if r.GPUs == 0 {
			continue
		}
		first := 0 // it is counted as a run where it begins
		if !r.Start.Before(from) || from.Equal(u.Since) {
			first = 1
		}
		hours := end.Sub(start).Hours() * float64(r.GPUs)
		u.Runs, u.GPUHours = u.Runs+first, u.GPUHours+hours
		u.plot(r, start, end)
		state := r.State
		if !r.Closed {
			state = "RUNNING"
		}
		for k, name := range [...]string{r.GPUType, state, SizeClass(r.GPUs), r.User, r.Account} {
			of := groupOf(u.groups[k], name, UsageOf{Name: name})
			if of.Runs, of.GPUHours = of.Runs+first, of.GPUHours+hours; k < 3 {
				of.Charged += charged
			}
		}
		if r.Closed && end.Equal(r.End) {
			u.addSpread(r)
		}
	}
}

// plot adds the time of a run to the parts of the span that it lies in.
func (u *Usage) plot(r *cluster.PastStay, start, end time.Time) {
	part := u.Until.Sub(u.Since) / plotParts
	for k := max(0, int(start.Sub(u.Since)/part)); k < plotParts; k++ {
		from := u.Since.Add(time.Duration(k) * part)
		if !from.Before(end) {
			return
		}
		to := from.Add(part)
		if to.After(end) {
			to = end
		}
		u.hours[k][r.GPUType] += to.Sub(cluster.Later(from, start)).Hours() * float64(r.GPUs)
	}
}

// addSpread notes a run that held more nodes than its GPUs would fill.
func (u *Usage) addSpread(r *cluster.PastStay) {
	most := u.types[r.GPUType].most
	if most == 0 {
		return
	}
	need := (r.GPUs + most - 1) / most
	if hosts, err := slurmplug.ExpandHosts(r.NodeList); err == nil && len(hosts) > need {
		u.Spread = append(u.Spread, SpreadRun{r.Job, r.User, r.GPUType, r.GPUs, len(hosts), need, r.GPUSeconds() / 3600})
	}
}

// AddUsed notes the runs that used hardly any CPU, or no GPU.
func (u *Usage) AddUsed(stays []sensitivity.Stay) {
	for i := range stays {
		s := &stays[i]
		ran := s.Length().Seconds()
		if s.GPUs == 0 || ran <= 0 || s.CPUSeconds == 0 && s.GPUUse == nil { // not measured
			continue
		}
		u.Measured++
		used := s.CPUSeconds / ran / float64(s.GPUs)
		if s.CPUSeconds > 0 && used < idleCPUs || s.GPUUse != nil && *s.GPUUse == 0 {
			u.Idle = append(u.Idle, IdleRun{s.Job, s.User, s.Name, s.GPUs, used, s.GPUUse, s.GPUSeconds() / 3600})
		}
	}
}

// Sum sorts what was added, the largest first.
func (u *Usage) Sum() {
	for k, to := range []*[]UsageOf{&u.ByType, &u.ByState, &u.BySize, &u.ByUser, &u.ByAccount} {
		*to = []UsageOf{}
		for _, name := range slices.Sorted(maps.Keys(u.groups[k])) {
			*to = append(*to, *u.groups[k][name])
		}
		slices.SortStableFunc(*to, func(a, b UsageOf) int {
			return cmp.Or(cmp.Compare(b.GPUHours, a.GPUHours), cmp.Compare(b.Charged, a.Charged))
		})
	}
	for i := range u.ByType {
		if t := u.types[u.ByType[i].Name]; t.gpus > 0 {
			of := u.ByType[i].GPUHours / (float64(t.gpus) * u.Until.Sub(u.Since).Hours())
			u.ByType[i].Of = &of
		}
	}
	slices.SortStableFunc(u.Spread, func(a, b SpreadRun) int { return cmp.Compare(b.GPUHours, a.GPUHours) })
	slices.SortStableFunc(u.Idle, func(a, b IdleRun) int { return cmp.Compare(b.GPUHours, a.GPUHours) })
}

func (u *Usage) tables() []report.PageTable {
	var tables []report.PageTable
	for _, set := range []struct {
		title string
		of    []UsageOf
	}{{"GPU TYPE", u.ByType}, {"ENDED", u.ByState}, {"SIZE", u.BySize}, {"USER", u.ByUser}, {"ACCOUNT", u.ByAccount}} {
		t := report.PageTable{Header: []string{set.title, "RUNS", "GPU-HOURS", "%", "CHARGED"}}
		if set.title == "GPU TYPE" {
			t.Header = append(t.Header, "% OF ITS GPUS")
		}
		for _, of := range set.of {
			row := []any{cmp.Or(of.Name, "(none)"), of.Runs, tenths(of.GPUHours), tenths(100 * of.GPUHours / max(u.GPUHours, 1e-9)), tenths(of.Charged)}
			if set.title == "GPU TYPE" {
				capacity := ""
				if of.Of != nil {
					capacity = tenths(100 * *of.Of)
				}
				row = append(row, capacity)
			}
			t.Rows = append(t.Rows, row)
		}
		tables = append(tables, t)
	}
	return append(tables,
		report.TableOf("On more nodes than their GPUs fill", []string{"JOB", "USER", "GPU TYPE", "GPUS", "NODES", "WOULD FILL", "GPU-HOURS"}, u.Spread, func(s *SpreadRun) []any {
			return []any{s.Job.String(), s.User, cmp.Or(s.GPUType, "(none)"), s.GPUs, s.Nodes, s.Need, tenths(s.GPUHours)}
		}),
		report.TableOf("Hardly any CPU, or no GPU, used", []string{"JOB", "USER", "NAME", "GPUS", "CPUS USED FOR EACH", "LARGEST GPU USE", "GPU-HOURS"}, u.Idle, func(s *IdleRun) []any {
			use := "not measured"
			if s.GPUUse != nil {
				use = fmt.Sprintf("%.0f %%", *s.GPUUse)
			}
			return []any{s.Job.String(), s.User, s.Name, s.GPUs, fmt.Sprintf("%.3f", s.CPUs), use, tenths(s.GPUHours)}
		}),
		report.TableOf("TE budgets", []string{"OF", "PARTITION", "GPUS", "GPU-HOURS A DAY", "TIME LIMIT", "FROM"}, u.Budgets, func(b *BudgetOf) []any {
			limit := func(n float64, words func(float64) string) string {
				if n == 0 {
					return "any"
				}
				return words(n)
			}
			return []any{b.Of, cmp.Or(b.Partition, "any"), limit(float64(b.GPUs), report.Fixed(0)), limit(b.GPUHours, tenths), limit(b.TimeLimitS, report.Seconds), strings.Join(b.Keys, "; ")}
		}))
}

// Page shows the usage with a plot.
func (u *Usage) Page() *report.Page {
	p := &report.Page{Title: "GPU use", Tables: u.tables(), Notes: append(u.Notes, UnreadWords(u.Unread)...),
		Words: []string{fmt.Sprintf("%s: %s with GPUs, %.1f GPU-hours.", report.Between(u.Since, u.Until), report.Count(u.Runs, "run"), u.GPUHours)}}
	if p.Words = append(p.Words, u.Held.words()...); u.Held != nil && len(u.Held.Spells) > 0 {
		p.Tables = append(p.Tables, u.Held.table())
	}
	part := u.Until.Sub(u.Since).Hours() / plotParts
	f := report.Figure{Title: "GPUs in use", XLabel: "hours", YLabel: "GPUs", Steps: true}
	for _, of := range u.ByType {
		c := report.Curve{Name: cmp.Or(of.Name, "(none)")}
		for k := range u.hours {
			c.X, c.Y = append(c.X, float64(k)*part), append(c.Y, u.hours[k][of.Name]/part)
		}
		f.Curves = append(f.Curves, c)
	}
	p.Plot(f)
	return p
}

// eachDay reads accounting day by day: a month of it at once may be too large. A run of several days comes with each.
func eachDay(ctx context.Context, slurm *live.Cluster, since, until time.Time, add func(from, to time.Time, runs []cluster.PastStay)) error {
	for from := since; from.Before(until); {
		to := cluster.Earlier(from.Add(24*time.Hour), until)
		runs, err := slurm.Past(ctx, from, to)
		if err != nil {
			return err
		}
		add(from, to, runs)
		from = to
	}
	return nil
}

// ReadUsage reads what accounting says of GPUs. measured: also what the steps used.
func ReadUsage(ctx context.Context, cfg *config.Config, slurm *live.Cluster, since, until time.Time, measured bool) (*Usage, error) {
	nodes, err := slurm.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	u := NewUsage(since, until, nodes)
	if err := eachDay(ctx, slurm, since, until, u.Add); err != nil {
		return nil, err
	}
	if measured {
		set := cfg.SpeedSettings()
		used, err := slurm.Used(ctx, since, until, set.Today)
		if err != nil {
			return nil, err
		}
		if u.AddUsed(used.Stays); u.Measured == 0 && u.Runs > 0 {
			u.Notes = append(u.Notes, "Accounting says of no run with GPUs what it used: "+Unmeasured(ctx, slurm, nil, 0)+".")
		}
	}
	u.Sum()
	u.Budgets, u.Unread = budgetsOf(cfg, nodes), UnreadRows(slurm)
	return u, nil
}

// budgetsOf are the TE budgets: in each partition where they are a part of what a job reaches, else one for all.
func budgetsOf(cfg *config.Config, nodes []cluster.Node) []BudgetOf {
	set, all := cfg.Decide().Ranking, []BudgetOf{}
	add := func(of, name string, b plan.Budget) {
		partitions := map[string]bool{}
		for i := range nodes {
			for _, p := range nodes[i].Partitions {
				if b.Share+b.HourShare > 0 && set.Ranks(p) {
					partitions[p] = true
				}
			}
		}
		if len(partitions) == 0 {
			partitions[""] = true
		}
		for _, p := range slices.Sorted(maps.Keys(partitions)) {
			on := b.On(plan.ReachOf(nodes, p))
			x := BudgetOf{Of: strings.TrimSpace(of + " " + name), Partition: p, GPUs: on.GPUs, GPUHours: on.GPUHours, TimeLimitS: on.TimeLimit.Seconds(), Keys: []string{}}
			if name == "" {
				x.Of = "each " + of
			}
			for _, l := range []struct {
				limit   string
				allowed float64
			}{{"gpus", float64(on.GPUs)}, {"gpu_hours", on.GPUHours}, {"time_limit_s", x.TimeLimitS}} {
				if l.allowed > 0 {
					x.Keys = append(x.Keys, cfg.BudgetKey(of, name, l.limit))
				}
			}
			if on != (plan.Budget{}) {
				all = append(all, x)
			}
		}
	}
	add("user", "", set.User)
	add("account", "", set.Account)
	for _, of := range []struct {
		kind    string
		budgets map[string]plan.Budget
	}{{"user", set.Users}, {"account", set.Accounts}} {
		for _, name := range slices.Sorted(maps.Keys(of.budgets)) {
			add(of.kind, name, of.budgets[name])
		}
	}
	return all
}

// Unmeasured says why no run with GPUs counts for what it used; shortest is the least length of one that does.
func Unmeasured(ctx context.Context, slurm *live.Cluster, stays []sensitivity.Stay, shortest time.Duration) string {
	if n := shorter(stays, shortest); n > 0 {
		return fmt.Sprintf("%s measured, and runs shorter than %s are not counted", report.Plural(n, "run was", "runs were"), shortest)
	}
	if by, err := slurm.MeasuredBy(ctx); err == nil && by != "" {
		return fmt.Sprintf("none was measured by %s; runs shorter than its interval (JobAcctGatherFrequency) are not", by)
	}
	return "JobAcctGatherType must not be none"
}

// shorter counts the runs with GPUs that were measured, and were shorter.
func shorter(stays []sensitivity.Stay, shortest time.Duration) (n int) {
	for i := range stays {
		if s := &stays[i]; s.GPUs > 0 && s.CPUSeconds > 0 && s.Length() < shortest {
			n++
		}
	}
	return n
}

// UnreadRows are the rows that reads of accounting have left out, and why.
func UnreadRows(slurm *live.Cluster) []string {
	rows := []string{}
	for _, u := range slurm.Unread() {
		rows = append(rows, u.String())
	}
	return rows
}

// mostUnread is how many of them people are shown.
const mostUnread = 10

// UnreadWords name them.
func UnreadWords(rows []string) (words []string) {
	if len(rows) == 0 {
		return nil
	}
	words = append([]string{report.Plural(len(rows), "row of Slurm's", "rows of Slurm's") + " cannot be read, and left out:"}, rows[:min(len(rows), mostUnread)]...)
	if more := len(rows) - mostUnread; more > 0 {
		words = append(words, fmt.Sprintf("and %d more (--json)", more))
	}
	return words
}
