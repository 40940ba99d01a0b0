// Package consent is what a site decides for jobs that do not say it themselves: class rules make them TE or
// BE, consent tables let priod evict them, choose their GPU type, size them, have them wait for few switches
// or requeue them. A job's own tag counts before both, and type=none in it takes the job out of both.
package consent

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// Match says which jobs are meant. Empty lists mean all; of a job that names several partitions each must be
// listed, of several QOS one.
type Match struct {
	Partitions, QOS, Accounts []string
}

// Class is a rule that makes a job TE or BE; the first one that fits counts.
type Class struct {
	Name string
	Type string // "te" or "be"
	Match
	MaxTime     time.Duration  // longest time limit, 0: any; a job without a limit fits none
	MaxGPUs     int            // 0: any
	Interactive bool           // srun and salloc alone
	JobName     *regexp.Regexp // nil: any
}

// Table is what jobs agree to; the first one that fits counts.
type Table struct {
	Match
	Evict                            bool
	Grace                            time.Duration // of those that name none; 0: preemption.grace
	Signal                           string        // the same; "": TERM
	GPUType, Size, Switches, Requeue bool
	AnyOf                            string // "a100,v100": steering may have jobs run in any of these partitions; "": in their own alone
}

// Rules are a site's; the zero value says nothing.
type Rules struct {
	Classes []Class
	Tables  []Table
}

// Apply completes the jobs of a snapshot. A job that a class rule made TE leaves for others only while it counts as BE,
// beyond its budget, as the history knows: else a rule that makes all jobs TE would let none leave.
func (r *Rules) Apply(s *cluster.Snapshot, h *cluster.History) {
	if len(r.Classes)+len(r.Tables) == 0 {
		return
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		list := j.Partition
		j.Partition = h.Own(j, slurmplug.PartitionList).String() // steering may have left a part of it
		r.Complete(j)
		if j.Partition = list; j.Site != nil && j.Site.Evict && j.Tag.Type == "te" && h.ClassOf(j) == cluster.TE {
			j.Site.Evict = false
		}
	}
}

// Complete adds to a job what its tag leaves open. A job whose tag is not valid or says type=none stays as it is.
func (r *Rules) Complete(j *cluster.Job) {
	if j.State == cluster.Unread || j.Site != nil || j.TagErr != "" || j.Tag.Type == jobtag.None || j.GPUs == 0 {
		return
	}
	site := cluster.Site{}
	if j.Tag.Type == "" {
		for i := range r.Classes {
			if c := &r.Classes[i]; c.fits(j) {
				j.Tag.Type, site.Class = c.Type, c.Name
				break
			}
		}
	}
	for i := range r.Tables {
		if t := &r.Tables[i]; t.Match.fits(j) {
			t.give(j, &site)
			break
		}
	}
	if site != (cluster.Site{}) {
		j.Site = &site
	}
}

// give adds what a table agrees to.
func (t *Table) give(j *cluster.Job, site *cluster.Site) {
	site.Consent = t.Match.Words()
	if t.Evict && !j.Interactive && (j.Tag.Type == "" || site.Class != "") {
		site.Evict, site.Signal = true, t.Signal
		if j.Tag.Grace == 0 {
			j.Tag.Grace = t.Grace
		}
	}
	site.GPUType, site.Size, site.Switches, site.AnyOf = t.GPUType, t.Size, t.Switches, t.AnyOf
	if t.Requeue && j.Tag.Retry == "" && !j.Interactive {
		j.Tag.Retry = "infra"
	}
}

// Words are for explain: "partition gpu".
func (m *Match) Words() string {
	var parts []string
	for _, p := range []struct {
		what  string
		names []string
	}{{"partition", m.Partitions}, {"QOS", m.QOS}, {"account", m.Accounts}} {
		if len(p.names) > 0 {
			parts = append(parts, p.what+" "+strings.Join(p.names, ", "))
		}
	}
	if len(parts) == 0 {
		return "all jobs"
	}
	return strings.Join(parts, ", ")
}

func (m *Match) fits(j *cluster.Job) bool {
	if len(m.Accounts) > 0 && !slices.Contains(m.Accounts, j.Account) {
		return false
	}
	if len(m.Partitions) > 0 {
		for p := range strings.SplitSeq(j.Partition, ",") {
			if !slices.Contains(m.Partitions, p) {
				return false
			}
		}
	}
	if len(m.QOS) == 0 {
		return true
	}
	for qos := range slurmplug.EachQOS(j.QOS) {
		if slices.Contains(m.QOS, qos) {
			return true
		}
	}
	return false
}

func (c *Class) fits(j *cluster.Job) bool {
	switch {
	case !c.Match.fits(j), c.MaxGPUs > 0 && j.GPUs > c.MaxGPUs, c.Interactive && !j.Interactive:
		return false
	case c.MaxTime > 0 && (j.TimeLimit == slurmplug.Unlimited || j.TimeLimit > c.MaxTime):
		return false
	}
	return c.JobName == nil || c.JobName.MatchString(j.Name)
}

// Words are a rule in one line, as priod check shows it.
func (c *Class) Words() string {
	words := []string{c.Match.Words()}
	if c.MaxTime > 0 {
		words = append(words, "time limit at most "+c.MaxTime.String())
	}
	if c.MaxGPUs > 0 {
		words = append(words, fmt.Sprintf("at most %d GPUs", c.MaxGPUs))
	}
	if c.Interactive {
		words = append(words, "srun and salloc")
	}
	if c.JobName != nil {
		words = append(words, fmt.Sprintf("job names %q", c.JobName.String()))
	}
	return strings.ToUpper(c.Type) + ": " + strings.Join(words, ", ")
}

// Words are a table in one line.
func (t *Table) Words() string {
	var gives []string
	for _, g := range []struct {
		is   bool
		what string
	}{{t.Evict, "eviction"}, {t.GPUType, "a GPU type"}, {t.AnyOf != "", "any of these partitions"}, {t.Size, "CPUs and memory"}, {t.Switches, "few switches"}, {t.Requeue, "requeue after failures of the machine"}} {
		if g.is {
			gives = append(gives, g.what)
		}
	}
	return t.Match.Words() + ": " + strings.Join(gives, ", ")
}
