package slurmplug

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sacctmgr reads one of its lists, in lines of fields with a | between.
func (c *Client) sacctmgr(ctx context.Context, list string, words ...string) (string, error) {
	out, err := c.readLines(ctx, "sacctmgr", append([]string{"--noheader", "--parsable2", "show", list}, words...)...)
	return string(out), err
}

// eachRow hands on the lines of a list of sacctmgr's, cut into so many fields, the first
// not empty. One that cannot be read is left out.
func (t *table) eachRow(out string, fields int, do func(f []string) error) error {
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		if len(f) != fields || f[0] == "" {
			t.row(string(firstLine([]byte(line))), fmt.Errorf("%d fields, want %d, the first not empty", len(f), fields))
			continue
		}
		t.row(f[0], do(f))
	}
	return t.read()
}

// QOS lists the names of every quality of service. Without slurmdbd it is an
// error.
func (c *Client) QOS(ctx context.Context) ([]string, error) {
	out, err := c.sacctmgr(ctx, "qos", "format=Name")
	if err != nil {
		return nil, err
	}
	t := table{name: "sacctmgr show qos"}
	all, err := parseQOS(out, &t)
	c.leave(&t, err)
	return all, err
}

func parseQOS(out string, t *table) (all []string, err error) {
	err = t.eachRow(out, 1, func(f []string) error {
		if slices.Contains(all, f[0]) {
			return fmt.Errorf("%.40q comes twice", f[0])
		}
		all = append(all, f[0])
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// QOSLimits are what a QOS allows of TRES, and of running jobs, which stand among these under Jobs.
type QOSLimits struct {
	Node    TRES          `toml:"-"`       // of each node of a job
	Job     TRES          `toml:"job"`     // of a job
	User    TRES          `toml:"user"`    // of a user's jobs together
	Account TRES          `toml:"account"` // of an account's
	All     TRES          `toml:"all"`     // of all
	MaxTime time.Duration `toml:"max_time"`
	Flags   []string      `toml:"flags"`
}

// Jobs is the name under which running jobs are counted among TRES.
const Jobs = "jobs"

// Has reports whether the QOS has a flag, such as PartitionTimeLimit.
func (l *QOSLimits) Has(flag string) bool {
	return slices.ContainsFunc(l.Flags, func(f string) bool { return strings.EqualFold(f, flag) })
}

// QOSLimits reads the limits of all QOS, by their names; those without any are left out. Of a QOS whose limits are per
// cent (Relative) only those of each node count. Without slurmdbd it is an error.
func (c *Client) QOSLimits(ctx context.Context) (map[string]QOSLimits, error) {
	out, err := c.sacctmgr(ctx, "qos", "format=Name,MaxTRESPerNode,MaxTRES,MaxTRESPU,MaxTRESPA,GrpTRES,MaxWall,Flags,MaxJobsPU,MaxJobsPA,GrpJobs")
	if err != nil {
		return nil, err
	}
	t := table{name: "sacctmgr show qos"}
	limits, err := parseQOSLimits(out, &t)
	c.leave(&t, err)
	return limits, err
}

func parseQOSLimits(out string, t *table) (map[string]QOSLimits, error) {
	limits := map[string]QOSLimits{}
	err := t.eachRow(out, 11, func(f []string) (err error) {
		var l QOSLimits
		for i, into := range []*TRES{&l.Node, &l.Job, &l.User, &l.Account, &l.All} {
			jobs := ""
			if i > 1 {
				jobs = f[i+6]
			}
			tres, unread := withJobs(f[i+1], jobs)
			err = cmp.Or(err, unread)
			*into = tres
		}
		if l.Flags = listOf(f[7]); l.Has("Relative") {
			l = QOSLimits{Node: l.Node, Flags: l.Flags}
		}
		limit, unread := ParseTimeLimit(f[6])
		l.MaxTime, err = max(limit, 0), cmp.Or(err, unread)
		if len(l.Node)+len(l.Job)+len(l.User)+len(l.Account)+len(l.All)+len(l.Flags) > 0 || l.MaxTime > 0 {
			limits[f[0]] = l
		}
		return err
	})
	return limits, err
}

// withJobs is a list of TRES with a number of running jobs among them; "": any number.
func withJobs(list, jobs string) (TRES, error) {
	tres, err := ParseTRES(list)
	if n, unread := parseCount(jobs); jobs != "" && unread == nil {
		tres = append(tres, TRESCount{Jobs, n})
	} else if jobs != "" {
		err = cmp.Or(err, unread)
	}
	return tres, err
}

// Association is what an account may have at once, or a user in it, perhaps in one partition.
type Association struct {
	Account   string `toml:"account"`
	User      string `toml:"user"`
	Partition string `toml:"partition"`
	Parent    string `toml:"parent"` // of an account
	All       TRES   `toml:"all"`    // GrpTRES and GrpJobs: with all below it together
	Job       TRES   `toml:"job"`    // MaxTRES of each job, and MaxJobs of a user's together
}

// Associations reads those of a cluster, but users' without a limit. Without slurmdbd it is an error.
func (c *Client) Associations(ctx context.Context, cluster string) ([]Association, error) {
	out, err := c.sacctmgr(ctx, "assoc", "cluster="+cluster, "format=Account,User,Partition,ParentName,GrpTRES,GrpJobs,MaxTRES,MaxJobs")
	if err != nil {
		return nil, err
	}
	t := table{name: "sacctmgr show assoc"}
	all, err := parseAssociations(out, &t)
	c.leave(&t, err)
	return all, err
}

func parseAssociations(out string, t *table) (all []Association, err error) {
	err = t.eachRow(out, 8, func(f []string) error {
		a := Association{Account: f[0], User: f[1], Partition: f[2], Parent: f[3]}
		var unread [2]error
		a.All, unread[0] = withJobs(f[4], f[5])
		a.Job, unread[1] = withJobs(f[6], f[7])
		if a.User == "" || len(a.All)+len(a.Job) > 0 {
			all = append(all, a)
		}
		return cmp.Or(unread[0], unread[1])
	})
	return all, err
}

// listOf splits at commas; nil for "".
func listOf(s string) []string {
	if isUnset(s) {
		return nil
	}
	return strings.Split(s, ",")
}

// EachQOS goes through the QOS of a job, of which a pending one may have several since
// 24.11: "te,normal".
func EachQOS(list string) iter.Seq[string] { return strings.SplitSeq(list, ",") }

// Accounts reads the accounts of a cluster and their fairshare from its
// associations. Without slurmdbd it is an error.
func (c *Client) Accounts(ctx context.Context, cluster string) ([]Account, error) {
	out, err := c.sacctmgr(ctx, "assoc", "cluster="+cluster, "format=Account,ParentName,User,Partition,Fairshare")
	if err != nil {
		return nil, err
	}
	t := table{name: "sacctmgr show assoc"}
	all, err := parseAccounts(out, &t)
	c.leave(&t, err)
	return all, err
}

// parseAccounts counts the associations of users. The root has no parent. A share that cannot be read
// is taken for 1, Slurm's default: without the account its siblings would have more.
func parseAccounts(out string, t *table) (all []Account, err error) {
	seen, users := map[string]bool{}, map[string]int{}
	err = t.eachRow(out, 5, func(f []string) (odd error) {
		if f[2] != "" {
			users[f[0]]++
			return nil
		}
		if seen[f[0]] {
			return fmt.Errorf("account %.40q comes twice", f[0])
		}
		a := Account{Name: f[0], Parent: f[1], UseParent: f[4] == "parent"}
		if !a.UseParent {
			share, err := parseUint(f[4], math.MaxUint32)
			if a.Share = int64(share); err != nil {
				a.Share, odd = 1, fmt.Errorf("field Fairshare: %w", err)
			}
		}
		seen[a.Name] = true
		all = append(all, a)
		return odd
	})
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Users = users[all[i].Name]
	}
	return all, nil
}

// OwnRights says what Slurm lets this process do. Slurm trusts root and
// SlurmUser with everything (conf says who that is); others have the AdminLevel
// that sacctmgr shows, which needs slurmdbd.
func (c *Client) OwnRights(ctx context.Context, conf Config) (Rights, error) {
	return c.rightsOf(ctx, conf, os.Geteuid())
}

func (c *Client) rightsOf(ctx context.Context, conf Config, uid int) (Rights, error) {
	r := Rights{User: strconv.Itoa(uid), Level: Administrator}
	if u, err := user.LookupId(r.User); err == nil {
		r.User = u.Username
	}
	if _, slurmUID, ok := conf.SlurmUser(); ok && uint32(uid) == slurmUID {
		r.Why = "SlurmUser"
		return r, nil
	}
	if uid == 0 {
		r.Why = "uid 0"
		return r, nil
	}
	r.Level, r.Why = NoAdmin, "sacctmgr"
	out, err := c.sacctmgr(ctx, "user", "name="+r.User, "format=User,AdminLevel")
	if err != nil {
		return r, err
	}
	r.Level, err = parseAdminLevel(out, r.User)
	return r, err
}

// parseAdminLevel finds a user in lines "USER|LEVEL"; one that accounting does
// not know has no rights.
func parseAdminLevel(out, name string) (AdminLevel, error) {
	var odd error
	for line := range strings.Lines(out) {
		who, level, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "|")
		if !ok {
			odd = cmp.Or(odd, doubtful("sacctmgr show user", "%q is not USER|LEVEL", firstLine([]byte(line))))
		}
		if who != name {
			continue
		}
		switch l := AdminLevel(level); l {
		case NoAdmin, Operator, Administrator:
			return l, nil
		}
		return NoAdmin, fmt.Errorf("sacctmgr show user: AdminLevel %q of %q is not known", level, name)
	}
	return NoAdmin, odd
}
