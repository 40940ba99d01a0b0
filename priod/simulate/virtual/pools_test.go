package virtual

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement"
	"slurmprio/priod/trace"
	"slurmprio/slurmplug"
)

func gpus(n int64) slurmplug.TRES { return slurmplug.TRES{{Name: "gres/gpu", Count: n}} }

func hasLimits(c trace.Cluster) bool { return len(c.QOS)+len(c.Associations) > 0 }

// qosOf are the QOS of a job in a partition as the naive model has them, "-" for none.
func (n *naive) qosOf(j *trace.Job, part string) (ofPart, own string) {
	ofPart = "-"
	for i := range n.cluster.Nodes {
		if g := &n.cluster.Nodes[i]; part == "with" && !n.cluster.Divided() && g.GPUs > 0 && len(g.Partitions) == 1 {
			part = g.Partitions[0]
		}
	}
	if p := n.cluster.Partition(part); p != nil && p.QOS != "" {
		ofPart = p.QOS
	}
	if _, is := n.cluster.QOS[j.QOS]; is {
		own = j.QOS
	}
	return ofPart, own
}

// beyond reports whether limits hold a job back in a partition: for each limit it adds up what the running jobs have that count
// together (src/slurmctld/acct_policy.c).
func (n *naive) beyond(j *naiveJob, part string) bool {
	if !hasLimits(n.cluster) {
		return false
	}
	has := func(r *naiveJob, tres string, runs bool) int64 {
		gpuType, typed := strings.CutPrefix(tres, "gres/gpu:")
		switch {
		case tres == "gres/gpu", typed && !runs && r.GPUType == gpuType, typed && runs && kindsOf(n.cluster).names[n.nodes.Type(r.shares[0].Node)] == gpuType:
			return int64(r.GPUs)
		case tres == "cpu" && r.GPUs == 0:
			return int64(max(r.CPUs, r.Nodes, 1))
		case tres == "cpu":
			return int64(r.CPUs)
		case tres == "jobs":
			return 1
		}
		return 0
	}
	exceeds := func(limit slurmplug.TRESCount, counts func(*naiveJob) bool) bool {
		sum := has(j, limit.Name, false)
		if sum == 0 {
			return false
		}
		for _, r := range n.running {
			if counts != nil && counts(r) {
				sum += has(r, limit.Name, true)
			}
		}
		return sum > limit.Count
	}
	ofPart, own := n.qosOf(&j.Job, part)
	order := []string{ofPart, own}
	if l := n.cluster.QOS[own]; l.Has("OverPartQOS") {
		order = []string{own, ofPart}
	}
	said := map[string]bool{}
	for _, name := range order {
		l := n.cluster.QOS[name]
		under := func(r *naiveJob) bool {
			a, b := n.qosOf(&r.Job, r.part)
			return a == name || b == name
		}
		for kind, list := range map[string]slurmplug.TRES{"all": l.All, "job": l.Job, "user": l.User, "account": l.Account} {
			for _, limit := range list {
				if what := kind + limit.Name; said[what] {
					continue
				} else if said[what] = true; exceeds(limit, map[string]func(*naiveJob) bool{
					"all":     under,
					"user":    func(r *naiveJob) bool { return under(r) && r.User == j.User },
					"account": func(r *naiveJob) bool { return under(r) && r.Account == j.Account },
				}[kind]) {
					return true
				}
			}
		}
	}
	return n.beyondAssociations(j, said, exceeds)
}

// above are the associations of a job from its own to the root.
func (n *naive) above(j *trace.Job) (all []*slurmplug.Association) {
	account, user := j.Account, j.User
	for range 2 * len(n.cluster.Associations) {
		for i := range n.cluster.Associations {
			if a := &n.cluster.Associations[i]; a.Account == account && a.User == user {
				all = append(all, a)
			}
		}
		if user != "" {
			user = ""
		} else if len(all) == 0 {
			break
		} else {
			account = all[len(all)-1].Parent
		}
	}
	return slices.Compact(all)
}

func (n *naive) beyondAssociations(j *naiveJob, said map[string]bool, exceeds func(slurmplug.TRESCount, func(*naiveJob) bool) bool) bool {
	own := false
	for _, a := range n.above(&j.Job) {
		for _, limit := range a.All {
			if !said["all"+limit.Name] && exceeds(limit, func(r *naiveJob) bool { return slices.Contains(n.above(&r.Job), a) }) {
				return true
			}
		}
		for _, limit := range a.Job {
			switch {
			case own:
			case limit.Name != "jobs":
				if !said["job"+limit.Name] && exceeds(limit, nil) {
					return true
				}
			case !said["userjobs"] && !said["accountjobs"] && exceeds(limit, func(r *naiveJob) bool { return r.User == j.User && r.Account == j.Account }):
				return true
			}
		}
		own = own || len(a.Job) > 0
	}
	return false
}

// drawLimits has some clusters have limits, and gives jobs users, accounts and QOS.
func drawLimits(t *rapid.T, c *trace.Cluster, jobs []trace.Job) {
	if !rapid.Bool().Draw(t, "limits") {
		return
	}
	list := rapid.Custom(func(t *rapid.T) (list slurmplug.TRES) {
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"gres/gpu", "gres/gpu", "gres/gpu:a", "cpu", "jobs", "node"}), 0, 2, rapid.ID[string]).Draw(t, "limited") {
			list = append(list, slurmplug.TRESCount{Name: name, Count: int64(rapid.IntRange(1, 6).Draw(t, "most"))})
		}
		return list
	})
	c.QOS = map[string]slurmplug.QOSLimits{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"", "short", "long", "part"}), 0, 3, rapid.ID[string]).Draw(t, "QOS") {
		l := slurmplug.QOSLimits{Job: list.Draw(t, "of a job"), User: list.Draw(t, "of a user"), Account: list.Draw(t, "of an account"), All: list.Draw(t, "of all")}
		if rapid.IntRange(0, 3).Draw(t, "over") == 0 {
			l.Flags = []string{"OverPartQOS"}
		}
		c.QOS[name] = l
	}
	for _, name := range []string{"x", "y", "z"} {
		if in := func(g trace.NodeGroup) bool { return slices.Contains(g.Partitions, name) }; slices.ContainsFunc(c.Nodes, in) {
			c.Partitions = append(c.Partitions, trace.Partition{Name: name, Tier: 1, JobFactor: 1, QOS: rapid.SampledFrom([]string{"", "part", "short", "unlimited"}).Draw(t, "QOS of a partition")})
		}
	}
	for _, a := range []slurmplug.Association{{Account: "root"}, {Account: "science", Parent: "root"}, {Account: "physics", Parent: "science"}, {Account: "physics", User: "ann"}, {Account: "science", User: "bob"}} {
		if rapid.Bool().Draw(t, "association") {
			a.All, a.Job = list.Draw(t, "of it"), list.Draw(t, "of each")
			c.Associations = append(c.Associations, a)
		}
	}
	for i := range jobs {
		j := &jobs[i]
		j.User, j.Account = rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user"), rapid.SampledFrom([]string{"science", "physics", "guests"}).Draw(t, "account")
		j.QOS = rapid.SampledFrom([]string{"", "short", "long", "other"}).Draw(t, "QOS")
	}
}

// Limits by Slurm's rules (https://slurm.schedmd.com/resource_limits.html): ann's third GPU waits for a limit of one, and blocks no other
// job, under whatever backfill; priod sees Slurm's reason.
func TestLimitsTogether(t *testing.T) {
	jobs := func(n int64) slurmplug.TRES { return slurmplug.TRES{{Name: slurmplug.Jobs, Count: n}} }
	for name, w := range map[string]struct {
		qos          map[string]slurmplug.QOSLimits
		associations []slurmplug.Association
		ann, other   float64 // starts of ann's second job, and of bob's in the same account
		reason       string
	}{
		"a user's GPUs":         {qos: map[string]slurmplug.QOSLimits{"q": {User: gpus(3)}}, ann: 100, other: 2, reason: "QOSMaxGRESPerUser"},
		"a user's of a type":    {qos: map[string]slurmplug.QOSLimits{"q": {User: slurmplug.TRES{{Name: "gres/gpu:a", Count: 3}}}}, ann: 100, other: 2, reason: "QOSMaxGRESPerUser"},
		"of another type":       {qos: map[string]slurmplug.QOSLimits{"q": {User: slurmplug.TRES{{Name: "gres/gpu:b", Count: 3}}}}, ann: 1, other: 2},
		"an account's":          {qos: map[string]slurmplug.QOSLimits{"q": {Account: gpus(3)}}, ann: 100, other: 200, reason: "MaxGRESPerAccount"},
		"all":                   {qos: map[string]slurmplug.QOSLimits{"q": {All: gpus(5)}}, ann: 1, other: 100, reason: "QOSGrpGRES"},
		"a user's jobs":         {qos: map[string]slurmplug.QOSLimits{"q": {User: jobs(1)}}, ann: 100, other: 2, reason: "QOSMaxJobsPerUserLimit"},
		"all jobs":              {qos: map[string]slurmplug.QOSLimits{"q": {All: jobs(2)}}, ann: 1, other: 100, reason: "QOSGrpJobsLimit"},
		"a user's CPUs":         {qos: map[string]slurmplug.QOSLimits{"q": {User: slurmplug.TRES{{Name: "cpu", Count: 5}}}}, ann: 100, other: 2, reason: "QOSMaxCpuPerUserLimit"},
		"another QOS":           {qos: map[string]slurmplug.QOSLimits{"p": {User: gpus(3)}}, ann: 1, other: 2},
		"a QOS without a table": {qos: map[string]slurmplug.QOSLimits{"": {User: gpus(3)}}, ann: 100, other: 2, reason: "QOSMaxGRESPerUser"},
		"the partition's":       {qos: map[string]slurmplug.QOSLimits{"part": {User: gpus(3)}, "q": {User: gpus(8)}}, ann: 100, other: 2, reason: "QOSMaxGRESPerUser"},
		"that goes before":      {qos: map[string]slurmplug.QOSLimits{"part": {User: gpus(8)}, "q": {User: gpus(3)}}, ann: 1, other: 2},
		"OverPartQOS":           {qos: map[string]slurmplug.QOSLimits{"part": {User: gpus(8)}, "q": {User: gpus(3), Flags: []string{"OverPartQOS"}}}, ann: 100, other: 2, reason: "QOSMaxGRESPerUser"},
		"an account above":      {associations: []slurmplug.Association{{Account: "physics", Parent: "science"}, {Account: "science", All: gpus(3)}}, ann: 100, other: 200, reason: "AssocGrpGRES"},
		"a QOS before it":       {qos: map[string]slurmplug.QOSLimits{"q": {All: gpus(8)}}, associations: []slurmplug.Association{{Account: "physics", All: gpus(3)}}, ann: 1, other: 2},
		"a user's association":  {associations: []slurmplug.Association{{Account: "physics", User: "ann", Job: jobs(1)}, {Account: "physics"}}, ann: 100, other: 2, reason: "AssocMaxJobsLimit"},
		"its account's":         {associations: []slurmplug.Association{{Account: "physics", Job: jobs(1)}}, ann: 100, other: 2, reason: "AssocMaxJobsLimit"},
	} {
		for _, b := range []Backfill{NoBackfill, EASY, Conservative} {
			c := trace.Cluster{
				Nodes:      []trace.NodeGroup{{Count: 2, GPUType: "a", GPUs: 4, CPUs: 16, Partitions: []string{"gpu"}}},
				Partitions: []trace.Partition{{Name: "gpu", Tier: 1, JobFactor: 1, QOS: "part"}}, QOS: w.qos, Associations: w.associations,
			}
			job := func(user string, at float64) trace.Job {
				return trace.Job{GPUs: 2, CPUs: 4, GPUType: "a", Submit: at, Duration: 100, Limit: 100, User: user, Account: "physics", QOS: "q", Partition: "gpu"}
			}
			reason := ""
			opt := Options{Order: Priod, Backfill: b, Placement: placement.Packed, Own: Own{Depth: 100, Multifactor: FIFOWeights}, Daemon: daemonOf(t, "", nil)}
			o := moments(t, c, numbered(job("ann", 0), job("ann", 1), job("bob", 2)), opt, func(e *engine) {
				s, err := e.slurm.Observe(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for i := range s.Jobs {
					if j := &s.Jobs[i]; j.State == cluster.Pending && e.now < 100 {
						reason = j.Reason
					}
				}
			}).outcomes
			if reason != w.reason {
				t.Errorf("%s, backfill %s: the reason is %q, want %q", name, b, reason, w.reason)
			}
			if o[0].Start != 0 || o[1].Start != w.ann || o[2].Start != w.other {
				t.Errorf("%s, backfill %s: starts at %v, %v and %v, want %v and %v", name, b, o[0].Start, o[1].Start, o[2].Start, w.ann, w.other)
			}
		}
	}
}
