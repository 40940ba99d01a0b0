package slurmplug

import (
	"context"
	"fmt"
	"strings"
)

// Limits are what associations and QOS allow of CPUs and memory. An operator's
// update of a job's CPUs or memory lifts the limit on them from that job without a
// word (ADMIN_SET_LIMIT, slurmctld/acct_policy.c), so a job with such a limit is
// best left alone.
type Limits struct {
	assoc map[association]bound
	qos   map[string]string
}

// association is an account, or a user in it, perhaps in one partition.
type association struct{ account, user, partition string }

// bound is a limit in words, "" for none, and the account above.
type bound struct{ limit, parent string }

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
	list := func(what string, words ...string) ([]byte, error) {
		return c.readLines(ctx, "sacctmgr", append([]string{"--noheader", "--parsable2", "show", what}, words...)...)
	}
	assoc, err := list("assoc", "cluster="+cluster, "format=Account,User,Partition,ParentName,"+strings.Join(assocLimits, ","))
	if err != nil {
		return nil, err
	}
	qos, err := list("qos", "format=Name,"+strings.Join(qosLimits, ","))
	if err != nil {
		return nil, err
	}
	return parseLimits(string(assoc), string(qos))
}

func parseLimits(assoc, qos string) (*Limits, error) {
	l := &Limits{map[association]bound{}, map[string]string{}}
	for line := range strings.Lines(assoc) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		if len(f) != 4+len(assocLimits) || f[0] == "" {
			return nil, doubtful("sacctmgr show assoc", "%q: %d fields, want %d, the first not empty", firstLine([]byte(line)), len(f), 4+len(assocLimits))
		}
		limit, err := onSize(assocLimits, f[4:])
		if err != nil {
			return nil, doubtful("sacctmgr show assoc", "%q: %w", firstLine([]byte(line)), err)
		}
		l.assoc[association{f[0], f[1], f[2]}] = bound{limit, f[3]}
	}
	for line := range strings.Lines(qos) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		if len(f) != 1+len(qosLimits) || f[0] == "" {
			return nil, doubtful("sacctmgr show qos", "%q: %d fields, want %d, the first not empty", firstLine([]byte(line)), len(f), 1+len(qosLimits))
		}
		limit, err := onSize(qosLimits, f[1:])
		if err != nil {
			return nil, doubtful("sacctmgr show qos", "%q: %w", firstLine([]byte(line)), err)
		}
		l.qos[f[0]] = limit
	}
	return l, nil
}

// onSize is the first limit that grows or shrinks with a job's CPUs or memory.
func onSize(names, values []string) (string, error) {
	for i, value := range values {
		tres, err := ParseTRES(value)
		if err != nil {
			return "", fmt.Errorf("%s: %w", names[i], err)
		}
		for _, name := range []string{"cpu", "mem", "billing"} {
			if _, limited := tres.Get(name); limited {
				return names[i] + "=" + value, nil
			}
		}
	}
	return "", nil
}

// Of says which limit on CPUs or memory a job is under, "" for none: its QOS's, its
// association's, or that of an account above. The QOS may be a partition's, or
// several with commas. What was made since the limits were read may have one.
func (l *Limits) Of(user, account, partition string, qos ...string) string {
	for _, list := range qos {
		for q := range strings.SplitSeq(list, ",") {
			switch limit, known := l.qos[q]; {
			case !known && !isUnset(q):
				return fmt.Sprintf("QOS %.40s is not known", q)
			case limit != "":
				return fmt.Sprintf("QOS %s limits it: %s", q, limit)
			}
		}
	}
	var a bound
	known := false
	for _, as := range []association{ // slurmdbd keeps names in small letters, unless told otherwise
		{account, user, partition}, {account, user, ""}, {account, strings.ToLower(user), partition}, {account, strings.ToLower(user), ""},
	} {
		if a, known = l.assoc[as]; known {
			break
		}
	}
	switch {
	case !known:
		return fmt.Sprintf("user %.40s in account %.40s is not known", user, account)
	case a.limit != "":
		return fmt.Sprintf("user %s has a limit in account %s: %s", user, account, a.limit)
	}
	for range len(l.assoc) { // accounts are a tree, however odd the output
		a, known = l.assoc[association{account, "", ""}]
		switch {
		case !known && account != "":
			return fmt.Sprintf("account %.40s is not known", account)
		case !known: // above the root
			return ""
		case a.limit != "":
			return fmt.Sprintf("account %s has a limit: %s", account, a.limit)
		}
		account = a.parent
	}
	return ""
}
