package idle

import (
	"time"

	"slurmprio/priod/cluster"
)

// Programs are the longest spells of each program that ended by themselves.
type Programs map[string]time.Duration

// ProgramOf names what a job runs: a user's workload, or jobs of one name.
func ProgramOf(j *cluster.Job) string {
	if j.Tag.Workload != "" {
		return j.User + "\x00w\x00" + j.Tag.Workload
	}
	return j.User + "\x00n\x00" + j.Name
}

// learn takes in a spell that has ended.
func (p Programs) learn(s *Spell) {
	if s.How == Worked {
		p[s.Program] = max(p[s.Program], s.Lasted(s.End))
	}
}

// after is how long a job may show no work.
func (p Programs) after(program string, set *Settings) time.Duration {
	return max(set.After, time.Duration(float64(p[program])*set.Longer))
}

// teaches reports whether a spell of this length changes when later ones count, or did count.
func (s *Spell) teaches(set *Settings) bool {
	return !s.Found.IsZero() || s.How == Worked && float64(s.Lasted(s.End))*set.Longer > float64(set.After)
}
