// Package runtimes learns from past runs how long a job will run: a distribution, whose intervals are calibrated on the
// site's own past.
//
// A job is predicted from the last runs of the same program, user, size and time limit, and where these are few from
// wider groups. Unfinished runs count as well, as at least that long (Kaplan and Meier 1958): of a hundred jobs
// that were submitted together, the first to end are the short ones. Intervals are those that held lately for other jobs
// (conformal prediction, Vovk, Gammerman and Shafer 2005), with unfinished runs again as at least that long.
//
// model.go takes in runs, and calibrates; distribution.go is the answer.
package runtimes

import (
	"fmt"
	"time"
)

// Kind is what is known of a job when it is submitted.
type Kind struct {
	User    string
	Program string        // workload or job name; "": not known
	GPUs    int           // of the whole job
	CPUs    int           // of the whole job; 0: not known
	Limit   time.Duration // 0: none
}

// groups are the names of those that a job belongs to, the narrowest first; "": none.
func (k *Kind) groups() (names [groups]string) {
	size, limit := fmt.Sprintf("%d/%d", k.GPUs, k.CPUs), k.Limit.String()
	names = [groups]string{
		"0\x00" + k.User + "\x00" + k.Program + "\x00" + size + "\x00" + limit,
		"1\x00" + k.User + "\x00" + k.Program,
		"2\x00" + k.User + "\x00" + size + "\x00" + limit,
		"3\x00" + k.User + "\x00" + limit,
		"4\x00" + k.User,
		"5\x00" + size + "\x00" + limit,
		"6",
	}
	if k.Program == "" {
		clear(names[:2])
	}
	if k.User == "" {
		clear(names[:5])
	}
	return names
}

// groups that a job belongs to; the first are of one user.
const (
	groups    = 7
	ofOneUser = 5
)

// words name a group for people.
var words = [groups]string{
	"this program of the user, of the same size and limit", "this program of the user", "the user's jobs of the same size and limit",
	"the user's jobs of the same limit", "the user's jobs", "all jobs of the same size and limit", "all jobs, by their limits",
}

// Run is one run of a job.
type Run struct {
	Kind
	Submit, Start time.Time
	End           time.Time // zero: unfinished
	// Cut says that it would have run longer: its time limit, an eviction or a node ended it. A user who cancels a job
	// ends it as the program does: its GPUs are free then.
	Cut bool
}
