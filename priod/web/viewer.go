package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"slurmprio/priod/daemon"
	"slurmprio/priod/store"
)

// Sites hide users' jobs from each other (PrivateData of slurm.conf). Where their proxy names the user, each page shows the
// user's own jobs, and of the cluster what sinfo shows: nodes, GPUs in use, sums over all.

// shown is the data of a page.
type shown interface {
	// only takes away what is another user's.
	only(user string)
}

type viewerKey struct{}

// viewer is the user who sees only what is the user's own; "": all is seen.
func viewer(ctx context.Context) string {
	user, _ := ctx.Value(viewerKey{}).(string)
	return user
}

// viewer of a request; "": one who sees all. A header that stands twice has one from the browser: neither is believed.
func (p *Pages) viewer(r *http.Request) (string, error) {
	if p.UserHeader == "" {
		return "", nil
	}
	names := r.Header.Values(p.UserHeader)
	if len(names) != 1 || names[0] == "" {
		return "", fmt.Errorf("these pages are for users whom the site's proxy names once, in the header %s", p.UserHeader)
	}
	if slices.Contains(p.Operators, names[0]) {
		return "", nil
	}
	return names[0], nil
}

// asker is whose request waits: the viewer, or the user at the other end of the connection.
func asker(r *http.Request) string {
	if user := viewer(r.Context()); user != "" {
		return "viewer " + user
	}
	uid, known := daemon.Asker(r.Context())
	return strconv.FormatUint(uint64(uid), 10) + strconv.FormatBool(known)
}

var errOperators = errors.New("this page is for the operators of web.operators")

// view makes the data of one page, as its viewer may see it.
func (p *Pages) view(ctx context.Context, make view, r *store.Reader, last *store.Cycle, asked url.Values) (shown, error) {
	v, err := make(ctx, r, last, asked)
	if user := viewer(ctx); user != "" && err == nil {
		last.Notes = nil // they name jobs
		v.only(user)
	}
	return v, err
}

// most is how many rows are read for a page: more where only some of them are the viewer's.
func most(ctx context.Context, rows int) int {
	if viewer(ctx) != "" {
		rows *= 20
	}
	return rows
}

// anotherUser stands for names that are not the viewer's.
const anotherUser = "another user"

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

func (v *Overview) only(user string) {
	v.Evictions, v.Health = ownEvictions(v.Evictions, user), nil
	v.First = slices.DeleteFunc(v.First, func(j JobView) bool { return j.User != user })
	v.Writes = slices.DeleteFunc(v.Writes, func(w store.Write) bool { return w.User != user })
	v.Writes = v.Writes[:min(len(v.Writes), lastWrites)]
	v.Attention = slices.DeleteFunc(v.Attention, func(a Attention) bool { return a.Page == "health" || a.Page == "evictions" })
	if v.Value != nil {
		others := func(o store.ValueOwner) bool { return o.User != user }
		v.Value.Gained, v.Value.Lost = slices.DeleteFunc(v.Value.Gained, others), slices.DeleteFunc(v.Value.Lost, others)
	}
}

func (v *NodesView) only(user string) {
	for i := range v.Nodes {
		n := &v.Nodes[i]
		all := len(n.Holders)
		n.Holders = slices.DeleteFunc(n.Holders, func(h Held) bool { return h.User != user })
		n.More, n.For = n.More+all-len(n.Holders), ""
	}
}

func (v *MapView) only(user string) {
	for i := range v.Jobs {
		if j := &v.Jobs[i]; j.user != user {
			*j = MapJob{User: anotherUser, Account: anotherUser, Class: j.Class, GPUs: j.GPUs}
		}
	}
	for i := range v.Nodes {
		v.Nodes[i].For = ""
	}
}

func (v *QueueView) only(user string) {
	v.Jobs = slices.DeleteFunc(v.Jobs, func(j JobView) bool { return j.User != user })
	v.Schedule.Jobs = slices.DeleteFunc(v.Schedule.Jobs, func(s Scheduled) bool { return s.User != user })
}

func (v *Explained) only(string) {} // Explain knows no job of others

func (v *EvictionsView) only(user string) {
	v.Evictions = slices.DeleteFunc(v.Evictions, func(e EvictionView) bool { return e.ForUser != user && e.VictimUser != user })
	v.Evictions = v.Evictions[:min(len(v.Evictions), rowsOfPage)]
	for i := range v.Evictions {
		v.Evictions[i].Eviction = ownEvictions([]store.Eviction{v.Evictions[i].Eviction}, user)[0]
	}
}

func (v *AllocationView) only(user string) {
	v.Jobs = slices.DeleteFunc(v.Jobs, func(j store.JobShare) bool { return j.User != user })
	v.Owed = slices.DeleteFunc(v.Owed, func(o Owed) bool {
		return !slices.ContainsFunc(v.Jobs, func(j store.JobShare) bool { return j.Job.String() == o.Job })
	})
}

func (v *UsersView) only(user string) {
	v.Users = slices.DeleteFunc(v.Users, func(o Owner) bool { return o.Name != user })
	v.Accounts = []Owner{} // they have others' use in them
}

func (v *SeriesView) only(string) {} // sums over all

func (v *HealthView) only(string) {} // errOperators

// ownKeys are the waiting jobs of a user, and their places among all; user "": all of them.
func ownKeys(keys []store.WaitingKey, user string) (own []store.WaitingKey, places []int) {
	for i := range keys {
		if user == "" || keys[i].User == user {
			own, places = append(own, keys[i]), append(places, i+1)
		}
	}
	return own, places
}
