// Package view is what can be asked: each answer as a struct that is made in one place, from the state folder, priod.toml and
// where it is asked for from Slurm, and rendered by verbs, pages, /api/v1 and --json alike.
//
//	explain.go, explain_*.go   one job: why it waits or what became of it, when it starts, what helps
//	eta.go, forecast.go        when jobs start, waiting or not yet submitted
//	queue.go, job.go           the queue; queue_page.go with filters, schedule.go the next hours
//	clustermap.go, gputypes.go nodes, each GPU, what there is of each GPU type
//	evictions.go, history.go   evictions; what became of one job
//	users.go, series.go        users and accounts; curves over time
//	overview.go, health.go, allocation.go   the other pages; asked.go what all pages share
//	classes.go, failures.go, learning.go, nodes.go, past.go, preemptions.go, promises.go, shares.go, sizing.go, usage.go, value.go, waiting.go
//	                           reports
//	reasons.go, starts.go      words
package view

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/store"
)

// Asked is a question that pages and /api/v1 put: what answers it, what is asked for and by whom.
type Asked struct {
	Config *config.Config
	Store  *store.Reader
	Last   *store.Cycle
	Health *daemon.State // the daemon's own word; nil where answers are served without it
	Values url.Values
	User   string // sees what is this user's own; "": all is seen
	Kept   *Kept
}

// Kept is what several answers share.
type Kept struct {
	Hold time.Duration // for which first starts of a week hold

	waiting   waiting
	starts    cached[[]store.FirstStart] // of the last week
	forecasts Forecasts
	times     RunTimes
}

// shown is an answer.
type shown interface {
	// only takes away what is another user's. Sites hide users' jobs from each other (PrivateData of slurm.conf): a user
	// sees the user's own jobs, and of the cluster what sinfo shows: nodes, GPUs in use, sums over all.
	only(user string)
}

// answers by the names under which /api/v1 has them.
var answers = map[string]func(a *Asked, ctx context.Context) (shown, error){
	"overview": (*Asked).overview, "nodes": (*Asked).nodes, "map": (*Asked).clusterMap, "queue": (*Asked).queue, "job": (*Asked).job, "evictions": (*Asked).evictions,
	"allocation": (*Asked).allocation, "users": (*Asked).users, "shares": (*Asked).statement, "series": (*Asked).series, "health": (*Asked).health,
}

// Answer is the one of a name, as the user who asks may see it.
func (a *Asked) Answer(ctx context.Context, name string) (any, error) {
	v, err := answers[name](a, ctx)
	if err == nil && a.User != "" {
		a.Last.Notes = nil // they name jobs
		v.only(a.User)
	}
	return v, err
}

// most is how many rows are read for an answer: more where only some of them are the user's.
func (a *Asked) most(rows int) int {
	if a.User != "" {
		rows *= 20
	}
	return rows
}

// anotherUser stands for names that are not the asker's.
const anotherUser = "another user"

// ownEvictions are those of jobs of a user, without the names of others.
func ownEvictions(all []store.Eviction, user string) []store.Eviction {
	own := []store.Eviction{}
	for _, e := range all {
		if e.ForUser != user && e.VictimUser != user {
			continue
		}
		if e.ForUser != user {
			e.ForUser, e.ForAccount = anotherUser, ""
		}
		if e.VictimUser != user {
			e.VictimUser, e.VictimAccount, e.VictimTag = anotherUser, "", ""
		}
		own = append(own, e)
	}
	return own
}

// cached is a value that is read again once it is older than an age.
type cached[T any] struct {
	mu    sync.Mutex
	made  time.Time
	value T
}

func (c *cached[T]) get(age time.Duration, read func() (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.made.IsZero() && time.Since(c.made) < age {
		return c.value, nil
	}
	value, err := read()
	if err == nil {
		c.made, c.value = time.Now(), value
	}
	return value, err
}

// rowsOfPage are shown of a long list at a time.
const rowsOfPage = 100

// Part is one page of a longer list.
type Part struct {
	Page int `json:"page"` // 1 is the first
	Of   int `json:"of"`
	All  int `json:"all"` // rows

	path  string
	asked url.Values
}

// part is the page of a list that is asked for, and how many rows are before it; path is where the list is shown.
func (a *Asked) part(path string, all int) (p Part, skip int, err error) {
	p = Part{Page: 1, Of: max(1, (all+rowsOfPage-1)/rowsOfPage), All: all, path: path, asked: a.Values}
	if text := a.Values.Get("page"); text != "" {
		if p.Page, err = strconv.Atoi(text); err != nil || p.Page < 1 {
			return p, 0, wrongf("page=%.20q: want a number, 1 or more", text)
		}
	}
	p.Page = min(p.Page, p.Of)
	return p, (p.Page - 1) * rowsOfPage, nil
}

// link is the address of another page; "": there is none.
func (p Part) link(page int) string {
	if page < 1 || page > p.Of {
		return ""
	}
	q := url.Values{}
	for key, values := range p.asked {
		if key != "page" && key != "format" && cmp.Or(values...) != "" {
			q[key] = slices.Clone(values)
		}
	}
	q.Set("page", strconv.Itoa(page))
	return p.path + "?" + q.Encode()
}

// Before is the address of the page before this one; "": it is the first.
func (p Part) Before() string { return p.link(p.Page - 1) }

// Next is the address of the page after this one; "": it is the last.
func (p Part) Next() string { return p.link(p.Page + 1) }
