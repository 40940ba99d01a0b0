package virtual

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
)

// pool is how much the running jobs have that count together against a limit: of one TRES, or how many they are.
type pool struct{ used int }

// poolKey is a QOS, or an association by its account, user and partition, and which jobs of it count together.
type poolKey struct {
	qos, account, user, partition string
	of                            *scope
	tres                          string
}

// scope is which jobs count together against a limit, in words, and Slurm's reasons of one that waits for it: for GPUs, CPUs
// and jobs (common/job_state_reason.c).
type scope struct {
	words             string
	gpus, cpus, count string
}

var (
	eachJob       = &scope{words: "a job"}
	ofUser        = &scope{"a user", "QOSMaxGRESPerUser", "QOSMaxCpuPerUserLimit", "QOSMaxJobsPerUserLimit"}
	ofAccount     = &scope{"an account", "MaxGRESPerAccount", "MaxCpuPerAccount", "MaxJobsPerAccount"}
	ofAll         = &scope{"all jobs", "QOSGrpGRES", "QOSGrpCpuLimit", "QOSGrpJobsLimit"}
	ofAssociation = &scope{"all jobs", "AssocGrpGRES", "AssocGrpCpuLimit", "AssocGrpJobsLimit"}
	ofMember      = &scope{words: "a user", count: "AssocMaxJobsLimit"} // what an association says of a user's jobs, and of each
)

// claim is a limit that a job counts under.
type claim struct {
	*pool         // nil: of each job alone
	tres   string // cpu, gres/gpu, gres/gpu:TYPE or slurmplug.Jobs
	asks   int    // of that; 0: the limit does not hold the job back
	limit  int    // math.MaxInt: one that goes before it holds the job back
	reason string // Slurm's
	by     string // what allows no more
	of     *scope
}

// allows reports whether the limit lets one job more like this one start.
func (c *claim) allows() bool {
	return c.asks == 0 || c.limit == math.MaxInt || c.asks <= c.limit && (c.pool == nil || c.used+c.asks <= c.limit)
}

// holder is whose limits a job is under; user is "" where no limit is of a user.
type holder struct{ user, account, qos, gpuType string }

// limits are those of a cluster.
type limits struct {
	users        bool                               // some are of each user
	associations map[poolKey]*slurmplug.Association // by account, user and, in small letters, partition
	pools        map[poolKey]*pool
	holders      map[holder]*holder
	claims       map[claimsKey][]claim // once made
}

// claimsKey is what the claims of a job follow from.
type claimsKey struct {
	holder     *holder
	part       *queuePart
	gpus, cpus int
}

func newLimits(c *trace.Cluster) limits {
	l := limits{associations: map[poolKey]*slurmplug.Association{}, pools: map[poolKey]*pool{}, holders: map[holder]*holder{}, claims: map[claimsKey][]claim{}}
	for _, q := range c.QOS {
		l.users = l.users || len(q.User) > 0
	}
	for i := range c.Associations {
		a := &c.Associations[i]
		l.users = l.users || a.User != "" || len(a.Job) > 0
		l.associations[poolKey{account: a.Account, user: a.User, partition: strings.ToLower(a.Partition)}] = a
	}
	return l
}

// limited reports whether a cluster has limits of QOS or associations.
func (e *engine) limited() bool { return len(e.cluster.QOS)+len(e.cluster.Associations) > 0 }

// holderOf is whose limits a job is under; nil: nothing is limited.
func (e *engine) holderOf(j *trace.Job) *holder {
	if !e.limited() {
		return nil
	}
	h := holder{account: j.Account, gpuType: j.GPUType}
	if _, is := e.cluster.QOS[j.QOS]; is {
		h.qos = j.QOS
	}
	if e.limits.users {
		h.user = j.User
	}
	if e.limits.holders[h] == nil {
		e.limits.holders[h] = &h
	}
	return e.limits.holders[h]
}

// claims are the limits under which a job that asks for so much counts in a partition: those of the partition's QOS, of its own
// and of its associations. Where both QOS limit the same, the partition's does, unless the job's has the flag OverPartQOS; where
// one does, associations do not (slurmctld/acct_policy.c). Numbers of jobs come first: Slurm looks at them before it looks for nodes.
func (e *engine) claims(h *holder, p *queuePart, gpus, cpus int) []claim {
	if h == nil {
		return nil
	}
	k := claimsKey{h, p, gpus, cpus}
	all, made := e.limits.claims[k]
	if !made {
		all = e.makeClaims(h, p, gpus, cpus)
		e.limits.claims[k] = all
	}
	return all
}

// makeClaims makes the claims.
func (e *engine) makeClaims(h *holder, p *queuePart, gpus, cpus int) []claim {
	c := claims{limits: &e.limits, gpuType: h.gpuType, gpus: gpus, cpus: cpus, said: map[string]bool{}, ofQOS: true}
	for _, name := range e.qosIn(h, p) {
		l, by := e.cluster.QOS[name], "QOS "+name
		if name == "" {
			by = "its QOS"
		}
		c.add(l.All, ofAll, poolKey{qos: name}, by)
		c.add(l.Job, eachJob, poolKey{}, by)
		if h.account != "" {
			c.add(l.Account, ofAccount, poolKey{qos: name, account: h.account}, by)
		}
		if h.user != "" {
			c.add(l.User, ofUser, poolKey{qos: name, user: h.user}, by)
		}
	}
	c.ofQOS = false
	inherits := true // of what associations say of each job, that of the nearest counts
	a := e.limits.association(h, p.Name)
	for range e.cluster.Associations {
		if a == nil {
			break
		}
		k, by := poolKey{account: a.Account, user: a.User, partition: a.Partition}, "account "+a.Account
		c.add(a.All, ofAssociation, k, by)
		if inherits {
			c.add(a.Job, ofMember, poolKey{account: h.account, user: h.user, partition: a.Partition}, by)
			inherits = len(a.Job) == 0
		}
		a = e.limits.parent(a)
	}
	return c.all
}

// qosIn are the QOS of a job in a partition, that first whose limits go before those of the other.
func (e *engine) qosIn(h *holder, p *queuePart) []string {
	if h == nil {
		return nil
	}
	qos, own := []string{h.qos}, e.cluster.QOS[h.qos]
	if p.QOS != "" && p.QOS != h.qos {
		if qos = append(qos, p.QOS); !own.Has("OverPartQOS") {
			slices.Reverse(qos)
		}
	}
	return qos
}

// association is the nearest one of a job in a partition; nil: none is known.
func (l *limits) association(h *holder, partition string) *slurmplug.Association {
	of := func(user, partition string) *slurmplug.Association {
		return l.associations[poolKey{account: h.account, user: user, partition: partition}]
	}
	return cmp.Or(of(h.user, strings.ToLower(partition)), of(h.user, ""), of("", ""))
}

// parent is the association above one; nil: there is none.
func (l *limits) parent(a *slurmplug.Association) *slurmplug.Association {
	above := a.Account
	if a.User == "" {
		above = a.Parent
	}
	return l.associations[poolKey{account: above}]
}

// claims collects those of a job.
type claims struct {
	*limits
	gpuType    string
	gpus, cpus int
	said       map[string]bool // what QOS limit: the scope and the TRES
	ofQOS      bool            // what is added is
	all        []claim
	ofJobs     int // how many of these, the first, are limits of numbers of jobs
}

// add adds what a QOS or an association says of jobs.
func (c *claims) add(list slurmplug.TRES, of *scope, k poolKey, by string) {
	for _, t := range list {
		k, of := k, of
		if of == ofMember && t.Name != slurmplug.Jobs {
			of = eachJob
		}
		x := claim{of: of, tres: t.Name, limit: int(min(t.Count, math.MaxInt32)), by: by}
		gpuType, typed := strings.CutPrefix(t.Name, "gres/gpu:")
		switch {
		case typed && gpuType != c.gpuType: // counts, where it runs on such
		case typed, t.Name == "gres/gpu":
			x.asks, x.reason = c.gpus, of.gpus
		case t.Name == "cpu":
			x.asks, x.reason = c.cpus, of.cpus
		case t.Name == slurmplug.Jobs:
			x.asks, x.reason = 1, of.count
		default:
			continue
		}
		what := of.words + t.Name
		if c.said[what] || of == ofMember && c.said[ofAccount.words+t.Name] {
			x.limit = math.MaxInt
		}
		c.said[what] = c.said[what] || c.ofQOS
		if of != eachJob {
			k.of, k.tres = of, t.Name
			if x.pool = c.pools[k]; x.pool == nil {
				x.pool = &pool{}
				c.pools[k] = x.pool
			}
		}
		at := len(c.all)
		if t.Name == slurmplug.Jobs {
			at = c.ofJobs
			c.ofJobs++
		}
		c.all = slices.Insert(c.all, at, x)
	}
}

// count counts a job under its limits from when it has GPUs on, by 1, until it has them no more, by -1.
func (e *engine) count(j *job, by int) {
	for i := range j.claims {
		c := &j.claims[i]
		n := c.asks
		if gpuType, typed := strings.CutPrefix(c.tres, "gres/gpu:"); typed {
			if n = 0; e.types[e.nodes.Type(j.shares[0].Node)] == gpuType {
				n = j.GPUs
			}
		}
		if c.pool != nil {
			c.used += by * n
		}
	}
}

// admits reports whether limits let a job of the class start in the partition.
func (s *slot) admits() bool { return holdsBack(s.claims) == nil }

// holdsBack is the first limit that lets no such job start now; nil: none.
func holdsBack(claims []claim) *claim {
	for i := range claims {
		if !claims[i].allows() {
			return &claims[i]
		}
	}
	return nil
}
