package slurmplug

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Limits are what associations and QOS allow of CPUs and memory. An operator's
// update of a job's CPUs or memory lifts the limit on them from that job without a
// word (ADMIN_SET_LIMIT, slurmctld/acct_policy.c), so a program that changes
// a job's size has to observe them.
type Limits struct {
	assoc map[association]bound
	qos   map[string]bound
}

// Limit is one limit on CPUs and memory.
type Limit struct {
	What        string // for people: "QOS te limits it: MaxTRES=cpu=4"
	CPUs, MemMB int64  // Endless where it says nothing
	// Shared names those whose jobs count together; "" where each job counts alone.
	Shared string
}

// Endless is more than there is, and can still be added to.
const Endless = math.MaxInt64 / 2

// Allowance is what a limit leaves to a job, or to several that hold the same one.
type Allowance struct {
	Limit       string // for people
	CPUs, MemMB int64
	Each        bool // to each job that holds it
}

// association is an account, or a user in it, perhaps in one partition, all in small
// letters: so slurmdbd keeps accounts, QOS and the partitions of associations, and
// users unless told otherwise, and slurmctld looks them up whatever their case
// (assoc_mgr.c).
type association struct{ account, user, partition string }

func associationOf(account, user, partition string) association {
	return association{strings.ToLower(account), strings.ToLower(user), strings.ToLower(partition)}
}

// bound is what an association or a QOS says, and the account above.
type bound struct {
	limits []Limit // What is the name and the value yet, Shared the scope
	fixed  string  // in words: a limit of which it is not known what it leaves
	factor bool    // a QOS that multiplies its associations' limits
	parent string
}

// join is what binds where two have one name but for its case.
func (b bound) join(o bound) bound {
	return bound{append(b.limits, o.limits...), cmp.Or(b.fixed, o.fixed), b.factor || o.factor, cmp.Or(b.parent, o.parent)}
}

// Scopes of limits, by their names. Of those that are not here it is not known what
// they leave of a job's size: minutes depend on time and decay, MinTRES is a floor.
const (
	eachJob    = "job"
	together   = "together"
	perUser    = "user"
	perAccount = "account"
)

var limitScopes = map[string]string{
	"GrpTRES": together, "MaxTRES": eachJob, "MaxTRESPerNode": eachJob, // sized jobs have one node
	"MaxTRESPU": perUser, "MaxTRESPA": perAccount,
}

var (
	assocLimits = []string{"GrpTRES", "GrpTRESMins", "GrpTRESRunMins", "MaxTRES", "MaxTRESPerNode", "MaxTRESMins"}
	qosLimits   = []string{
		"GrpTRES", "GrpTRESMins", "GrpTRESRunMins", "MaxTRES", "MaxTRESPerNode", "MaxTRESMins", "MaxTRESPU", "MaxTRESPA",
		"MaxTRESRunMinsPU", "MaxTRESRunMinsPA", "MinTRES",
	}
)

// Limits reads the limits of all associations of this cluster and of all QOS.
// Without slurmdbd it is an error.
func (c *Client) Limits(ctx context.Context, cluster string) (*Limits, error) {
	assoc, err := c.sacctmgr(ctx, "assoc", "cluster="+cluster, "format=Account,User,Partition,ParentName,"+strings.Join(assocLimits, ","))
	if err != nil {
		return nil, err
	}
	qos, err := c.sacctmgr(ctx, "qos", "format=Name,"+strings.Join(qosLimits, ",")+",LimitFactor,Flags")
	if err != nil {
		return nil, err
	}
	t := [2]table{{name: "sacctmgr show assoc"}, {name: "sacctmgr show qos"}}
	l, err := parseLimits(assoc, qos, &t)
	c.leave(&t[0], err)
	c.leave(&t[1], err)
	return l, err
}

// parseLimits reads associations and QOS. One whose limits cannot be read is one of which it is not known what
// it leaves.
func parseLimits(assoc, qos string, t *[2]table) (*Limits, error) {
	l := &Limits{map[association]bound{}, map[string]bound{}}
	err := t[0].eachRow(assoc, 4+len(assocLimits), func(f []string) error {
		b, err := onSize(assocLimits, f[4:])
		b.parent = f[3]
		key := associationOf(f[0], f[1], f[2])
		l.assoc[key] = l.assoc[key].join(b)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = t[1].eachRow(qos, 3+len(qosLimits), func(f []string) error {
		b, err := onSize(qosLimits, f[1:len(f)-2])
		b.factor = f[len(f)-2] != ""
		if flags := strings.Split(strings.ToLower(f[len(f)-1]), ","); slices.Contains(flags, "relative") && len(b.limits) > 0 {
			b.fixed = cmp.Or(b.fixed, b.limits[0].What+" per cent (Relative)") // of what its partitions have (23.11 and later)
		}
		name := strings.ToLower(f[0])
		l.qos[name] = l.qos[name].join(b)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// onSize are the limits that grow or shrink with a job's CPUs or memory.
func onSize(names, values []string) (b bound, err error) {
	for i, value := range values {
		tres, err := ParseTRES(value)
		if err != nil {
			err = fmt.Errorf("%s: %w", names[i], err)
			return bound{fixed: err.Error()}, err
		}
		limit := Limit{What: names[i] + "=" + value, CPUs: Endless, MemMB: Endless, Shared: limitScopes[names[i]]}
		cpus, onCPUs := tres.Get("cpu")
		memMB, onMem := tres.Get("mem")
		_, onBilling := tres.Get("billing") // CPUs and memory by the weights of a partition
		switch {
		case onBilling || limit.Shared == "" && (onCPUs || onMem):
			b.fixed = cmp.Or(b.fixed, limit.What)
		case onCPUs || onMem:
			if onCPUs {
				limit.CPUs = cpus
			}
			if onMem {
				limit.MemMB = memMB
			}
			b.limits = append(b.limits, limit)
		}
	}
	return b, nil
}

// Of are the limits on CPUs and memory that a job is under: its QOS's, its
// association's, and those of the accounts above. The QOS may be a partition's, or
// several with commas. Of several Slurm may apply only one: the least is safe. fixed
// says why it is not known what they leave, "" when it is; what was made since the
// limits were read may have one. A job that runs counts under limits all the same.
func (l *Limits) Of(user, account, partition string, qos ...string) (limits []Limit, fixed string) {
	scaled := false
	for _, list := range qos {
		for q := range strings.SplitSeq(list, ",") {
			if isUnset(q) {
				continue
			}
			q = strings.ToLower(q)
			b, known := l.qos[q]
			if !known {
				fixed = cmp.Or(fixed, fmt.Sprintf("QOS %.40s is not known", q))
			}
			who := "QOS " + q
			scaled = scaled || b.factor
			fixed = b.add(&limits, fixed, who+" limits it: ", map[string]string{
				together: who, perUser: who + ", user " + user, perAccount: who + ", account " + account,
			})
		}
	}
	as := associationOf(account, user, partition)
	account = as.account
	a, known := l.assoc[as]
	if !known {
		as.partition = ""
		a, known = l.assoc[as]
	}
	if !known {
		fixed = cmp.Or(fixed, fmt.Sprintf("user %.40s in account %.40s is not known", user, account))
	}
	ofQOS := len(limits)
	fixed = a.add(&limits, fixed, fmt.Sprintf("user %s has a limit in account %s: ", user, account), map[string]string{
		together: strings.Join([]string{"user", as.user, as.account, as.partition}, " "),
	})
	for range len(l.assoc) { // accounts are a tree, however odd the output
		a, known = l.assoc[association{account, "", ""}]
		if !known && account != "" {
			fixed = cmp.Or(fixed, fmt.Sprintf("account %.40s is not known", account))
		}
		if !known { // above the root
			break
		}
		a.limits = slices.DeleteFunc(slices.Clone(a.limits), func(l Limit) bool {
			return l.Shared == eachJob // its users' associations have inherited it, or have their own
		})
		fixed = a.add(&limits, fixed, fmt.Sprintf("account %s has a limit: ", account), map[string]string{together: "account " + account})
		account = strings.ToLower(a.parent)
	}
	if scaled && len(limits) > ofQOS {
		fixed = cmp.Or(fixed, "its QOS multiplies by LimitFactor: "+limits[ofQOS].What)
	}
	return limits, fixed
}

// add adds the limits to a list, each with the scope that its kind of scope stands
// for, and says what is fixed.
func (b *bound) add(limits *[]Limit, fixed, says string, scopes map[string]string) string {
	for _, limit := range b.limits {
		limit.What, limit.Shared = says+limit.What, scopes[limit.Shared]
		*limits = append(*limits, limit)
	}
	if b.fixed != "" {
		fixed = cmp.Or(fixed, says+b.fixed)
	}
	return fixed
}

// Of is what the limit leaves to a job that waits with so many CPUs and so much
// memory, which an Allowance for several has been told of by Take.
func (l *Allowance) Of(cpus int, memMB int64) (mostCPUs, mostMB int64) {
	if l.Each {
		return l.CPUs, l.MemMB
	}
	return l.CPUs + int64(cpus), l.MemMB + memMB
}

// Take counts what a job will hold that will start.
func (l *Allowance) Take(cpus int, memMB int64) {
	if !l.Each {
		l.CPUs -= int64(cpus)
		l.MemMB -= memMB
	}
}
