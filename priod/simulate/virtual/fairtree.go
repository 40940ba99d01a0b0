package virtual

import (
	"cmp"
	"math"
	"slices"

	"slurmprio/slurmplug"
)

// branch is the place of an account or a user in Slurm's Fair Tree (priority/multifactor/fair_tree.c).
type branch struct {
	below  []*account // users and accounts
	rest   *account   // of an account: its users of whom no job has come; nil: none is known
	users  int        // that it stands for: 1 for a user, 0 for an account
	level  float64    // its part of the shares of its siblings, of its part of their use
	factor float64    // of a user: its rank among all users, as a part of them
}

// add is another account below, or users.
func (a *account) add(users bool) *account {
	b := &account{shares: 1, up: a, tree: branch{factor: 1}}
	if users {
		b.tree.users = 1
	}
	a.tree.below = append(a.tree.below, b)
	return b
}

// each goes through all below, and the account itself.
func (a *account) each(do func(*account)) {
	do(a)
	for _, b := range a.tree.below {
		b.each(do)
	}
}

// grow makes the tree of the accounts of a Slurm. What is below one with fairshare=parent competes beside the siblings of it.
func (m *multifactor) grow(accounts []slurmplug.Account) {
	known := map[string]*slurmplug.Account{}
	for i := range accounts {
		known[accounts[i].Name] = &accounts[i]
	}
	var place func(name string) *account
	place = func(name string) *account {
		a := known[name]
		if b := m.accounts[name]; b != nil || a == nil {
			return cmp.Or(b, &m.all)
		}
		m.accounts[name] = &m.all // the root, or its parents go in a circle
		b := &m.all
		if a.Parent != "" {
			b = place(a.Parent)
		}
		if a.Parent != "" && !a.UseParent {
			b = b.add(false)
			b.shares = float64(a.Share)
		}
		if m.accounts[name] = b; a.Users > 0 && b.tree.rest == nil {
			b.tree.rest = b.add(true)
			b.tree.rest.tree.users = 0
		}
		if a.Users > 0 {
			b.tree.rest.tree.users += a.Users
		}
		return b
	}
	for i := range accounts {
		place(accounts[i].Name)
	}
}

// user is that of an account; one of whom no job has come yet has the factor of all such.
func (m *multifactor) user(name, user string) *account {
	u := m.users[[2]string{name, user}]
	if u == nil {
		a := m.of(name)
		u = a.add(true)
		m.users[[2]string{name, user}] = u
		if rest := a.tree.rest; rest != nil {
			u.tree.factor, rest.tree.users = rest.tree.factor, max(rest.tree.users-1, 0)
		}
	}
	return u
}

// rank gives users their factors, with Fair Tree: level by level from the root down those who have most shares for their use go first, with
// all below them.
func (m *multifactor) rank() {
	if !m.w.FairTree {
		return
	}
	r := ranking{}
	m.all.each(func(a *account) { r.users += a.tree.users })
	r.next, r.rank = r.users, r.users
	r.level(&m.all, false)
}

// ranking is under way: how many users there are, the rank of the next one, and that of the last.
type ranking struct{ users, next, rank int }

// level ranks what is below an account; tied: the first of it has the rank of the last user.
func (r *ranking) level(a *account, tied bool) {
	shares := 0.0
	for _, b := range a.tree.below {
		shares += b.shares * float64(max(b.tree.users, 1))
	}
	for _, b := range a.tree.below {
		switch used := b.use / a.use; {
		case b.shares == 0:
			b.tree.level = 0
		case !(b.use > 0):
			b.tree.level = math.Inf(1)
		default:
			b.tree.level = b.shares / shares / used
		}
	}
	slices.SortStableFunc(a.tree.below, func(x, y *account) int {
		if x.tree.level != y.tree.level {
			return -cmp.Compare(x.tree.level, y.tree.level)
		}
		return cmp.Compare(min(y.tree.users, 1), min(x.tree.users, 1)) // users before accounts
	})
	for i, b := range a.tree.below {
		if i > 0 {
			tied = a.tree.below[i-1].tree.level == b.tree.level
		}
		if b.tree.users == 0 && b != a.tree.rest {
			r.level(b, tied)
			continue
		}
		if !tied {
			r.rank = r.next
		}
		b.tree.factor = float64(r.rank) / float64(r.users)
		r.next -= b.tree.users
	}
}
