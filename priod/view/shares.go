package view

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/evict"
	"slurmprio/priod/evict/preemption"
	"slurmprio/priod/guarantee"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

// Shares are what accounts with guaranteed GPUs had of a time, which begins with a whole hour.
type Shares struct {
	Since    time.Time      `json:"since"`
	Until    time.Time      `json:"until"`
	Accounts []ShareOf      `json:"accounts"`
	Missed   []MissedReturn `json:"missed_returns"` // the latest first

	members map[string]map[string]bool // accounts by their users
}

// ShareOf is the statement of one account, with the accounts below it. Used GPU-hours are as in accounting; all other figures
// count GPUs as Slurm allocates them: whole nodes, and those that CPUs and memory strand.
type ShareOf struct {
	Account    string   `json:"account"`
	Accounts   []string `json:"accounts"` // it and those below it, of jobs that were seen
	GPUs       float64  `json:"gpus"`     // guaranteed, in service when last seen
	Entitled   float64  `json:"entitled_gpu_h"`
	Used       float64  `json:"used_gpu_h"`
	Within     float64  `json:"within_gpu_h"` // used of the share
	Lent       float64  `json:"lent_gpu_h"`   // of the share, used by others
	Idle       float64  `json:"idle_gpu_h"`   // of the share, used by no job
	Wanted     float64  `json:"idle_while_wanted_gpu_h"`
	Borrowed   float64  `json:"borrowed_gpu_h"`
	Returns    int      `json:"returns"` // jobs within the share that waited, and started
	P50        *float64 `json:"return_p50_s"`
	P95        *float64 `json:"return_p95_s"`
	Worst      *float64 `json:"return_worst_s"`
	Waiting    int      `json:"waiting_jobs"` // within the share
	Missed     int      `json:"missed"`
	Evicted    *int     `json:"evicted_gpus"`     // of its jobs; null, in a simulation: not known
	EvictedFor *int     `json:"evicted_for_gpus"` // of jobs that left for its jobs

	took []float64
}

// MissedReturn is a job that was within its account's share and did not start in time.
type MissedReturn struct {
	Job     cluster.JobID `json:"job"`
	User    string        `json:"user"`
	Account string        `json:"account"` // that has the share
	GPUs    float64       `json:"gpus"`    // of one task
	Tasks   int           `json:"tasks"`
	Since   time.Time     `json:"since"` // within the share
	Waited  float64       `json:"waited_s"`
	Late    float64       `json:"late_s"`
	Became  string        `json:"became"` // started, waits, left
	Why     string        `json:"why"`    // it still waited when its time was over, in words
}

// whyLate is why an entitled job still waited when its time was over.
func whyLate(word string) string {
	switch why := preemption.Why(word); why {
	case "":
		return "not known"
	case guarantee.Paused:
		return "priod wrote nothing"
	case guarantee.Down:
		return "no room, and nodes of the share are out of service"
	case guarantee.GPUType:
		return "it left its GPU type to priod, and ends sooner on one that is not free"
	case preemption.Claimed, preemption.Evicts:
		return "jobs that leave for it were in their grace period, or its room was not yet whole"
	case preemption.Impossible:
		return "no nodes whose jobs may all leave had room for it"
	case preemption.Fits, preemption.Anyway:
		return "GPUs were free for it, or soon, and Slurm did not start it"
	default:
		return evict.Text(evict.ForTrial, why)
	}
}

// StatementOf sums up what was kept of shares. used are GPU-hours by account, of those below shares too, as accounting has
// them; nil: they are not known, and what was used is what cycles saw. The configured accounts are listed in any case.
func StatementOf(since, until time.Time, configured []string, hours []guarantee.Hour, returns []guarantee.Return, used map[string]float64) *Shares {
	v := &Shares{Since: since, Until: until, Missed: []MissedReturn{}, members: map[string]map[string]bool{}}
	all := map[string]*ShareOf{}
	of := func(account string) *ShareOf { return groupOf(all, account, ShareOf{Account: account}) }
	for _, account := range configured {
		of(account)
	}
	sums := map[string]*guarantee.Sums{}
	for i := range hours {
		h := &hours[i]
		x := of(h.Account)
		x.GPUs, x.Accounts = h.GPUs, append(x.Accounts, h.Accounts...)
		groupOf(sums, h.Account, guarantee.Sums{}).Add(&h.Sums, 1.0/3600)
	}
	for i := range returns {
		v.addReturn(of(returns[i].Account), &returns[i])
	}
	v.Accounts = []ShareOf{}
	for _, account := range slices.Sorted(maps.Keys(all)) {
		x := all[account]
		if s := sums[account]; s != nil {
			x.Entitled, x.Within, x.Lent, x.Idle, x.Wanted, x.Borrowed = s.Entitled, s.Within, s.Lent, s.Idle(), s.Wanted, s.Borrowed
		}
		x.Accounts = append(x.Accounts, account)
		slices.Sort(x.Accounts)
		x.Accounts = slices.Compact(x.Accounts)
		if x.Used = x.Within + x.Borrowed; used != nil {
			x.Used = 0
			for _, name := range x.Accounts {
				x.Used += used[name]
			}
		}
		x.Returns, x.P50, x.P95, x.Worst = len(x.took), percentile(x.took, 50), percentile(x.took, 95), percentile(x.took, 100)
		v.Accounts = append(v.Accounts, *x)
	}
	slices.SortStableFunc(v.Missed, func(a, b MissedReturn) int { return b.Since.Compare(a.Since) })
	return v
}

func (v *Shares) addReturn(x *ShareOf, r *guarantee.Return) {
	v.member(r.User, r.Account)
	tasks, took := max(r.Tasks, 1), r.Took(v.Until).Seconds()
	became := "waits"
	switch {
	case r.Started:
		became = "started"
		x.took = append(x.took, took)
	case !r.Until.IsZero():
		became = "left"
	default:
		x.Waiting += tasks
	}
	if !r.Late(v.Until) {
		return
	}
	x.Missed += tasks
	v.Missed = append(v.Missed, MissedReturn{r.Job, r.User, r.Account, r.GPUs, tasks, r.Since, took, took - r.Promise.Seconds(), became, whyLate(r.Why)})
}

func (v *Shares) member(user, account string) {
	if v.members[user] == nil {
		v.members[user] = map[string]bool{}
	}
	v.members[user][account] = true
}

// owner is the account with a share of an account at or below it; nil: there is none.
func (v *Shares) owner(account string) *ShareOf {
	for i := range v.Accounts {
		if slices.Contains(v.Accounts[i].Accounts, account) {
			return &v.Accounts[i]
		}
	}
	return nil
}

// ReadShares reads the statement of a time.
func ReadShares(ctx context.Context, cfg *config.Config, r *store.Reader, since, until time.Time) (*Shares, error) {
	since = since.Truncate(time.Hour)
	hours, err := r.ShareHours(ctx, since)
	if err != nil {
		return nil, err
	}
	returns, err := r.Returns(ctx, since)
	if err != nil {
		return nil, err
	}
	var configured []string
	for _, s := range cfg.Shares {
		configured = append(configured, s.Account)
	}
	if len(configured)+len(hours)+len(returns) == 0 {
		return StatementOf(since, until, nil, nil, nil, nil), nil
	}
	seen, err := r.Activity(ctx, since, week)
	if err != nil {
		return nil, err
	}
	used, users := map[string]float64{}, map[[2]string]bool{}
	for i := range seen.Stays {
		s := &seen.Stays[i]
		used[s.Account] += float64(s.GPUs) * max(cluster.Earlier(s.End, until).Sub(cluster.Later(s.Start, since)).Hours(), 0)
		users[[2]string{s.User, s.Account}] = true
	}
	v := StatementOf(since, until, configured, hours, returns, used)
	for x := range users {
		if owner := v.owner(x[1]); owner != nil {
			v.member(x[0], owner.Account)
		}
	}
	gone, err := r.EvictionsSince(ctx, since)
	v.addEvictions(gone)
	return v, err
}

func (v *Shares) addEvictions(gone []store.Eviction) {
	for i := range v.Accounts {
		v.Accounts[i].Evicted, v.Accounts[i].EvictedFor = new(int), new(int)
	}
	for i := range gone {
		x := &gone[i]
		if x.Left.IsZero() {
			continue
		}
		if owner := v.owner(x.VictimAccount); owner != nil {
			*owner.Evicted += x.GPUs
		}
		if owner := v.owner(x.ForAccount); owner != nil {
			*owner.EvictedFor += x.GPUs
		}
	}
}

func (a *Asked) statement(ctx context.Context) (shown, error) {
	return ReadShares(ctx, a.Config, a.Store, a.Last.Until.Add(-week), a.Last.Until)
}

// only leaves the accounts whose GPUs a user's jobs used or waited for, and the user's own jobs.
func (v *Shares) only(user string) {
	v.Accounts = slices.DeleteFunc(v.Accounts, func(x ShareOf) bool { return !v.members[user][x.Account] })
	v.Missed = slices.DeleteFunc(v.Missed, func(x MissedReturn) bool { return x.User != user })
}

// None says that no account had a share; "": one had.
func (v *Shares) None() string {
	if len(v.Accounts) > 0 {
		return ""
	}
	return "No account is guaranteed GPUs: priod.toml has no [[share]] table."
}

// Page shows the statement.
func (v *Shares) Page() *report.Page {
	p := &report.Page{Title: "Guaranteed shares"}
	if none := v.None(); none != "" {
		p.Words = []string{none}
		return p
	}
	p.Words = []string{fmt.Sprintf("%s, GPU-hours. USED is as in Slurm's accounting; the other columns count whole nodes, and GPUs that CPUs and memory strand.", report.Between(v.Since, v.Until))}
	p.Tables = v.Tables()
	return p
}

// Tables are the rows for people.
func (v *Shares) Tables() []report.PageTable {
	seconds := func(x *float64) string { return report.Known(x, report.Seconds) }
	count := func(x *int) string { return report.Known(x, strconv.Itoa) }
	return []report.PageTable{
		report.TableOf("", []string{"ACCOUNT", "GPUS", "ENTITLED", "USED", "BORROWED", "LENT", "IDLE", "IDLE, WANTED", "RETURNED", "P50", "P95", "WORST", "MISSED", "WAIT", "GPUS EVICTED", "FOR IT"}, v.Accounts, func(x *ShareOf) []any {
			return []any{
				x.Account, tenths(x.GPUs), tenths(x.Entitled), tenths(x.Used), tenths(x.Borrowed), tenths(x.Lent), tenths(x.Idle), tenths(x.Wanted),
				x.Returns, seconds(x.P50), seconds(x.P95), seconds(x.Worst), x.Missed, x.Waiting, count(x.Evicted), count(x.EvictedFor),
			}
		}),
		report.TableOf("Promises missed", []string{"JOB", "USER", "ACCOUNT", "GPUS", "TASKS", "SINCE", "WAITED", "LATE BY", "BECAME", "BECAUSE"}, v.Missed, func(x *MissedReturn) []any {
			return []any{x.Job.String(), x.User, x.Account, tenths(x.GPUs), x.Tasks, report.Clock(x.Since), report.Seconds(x.Waited), report.Seconds(x.Late), x.Became, cmp.Or(x.Why, "-")}
		}),
	}
}
