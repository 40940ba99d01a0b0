package tests

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// roomy lets every trial in: which of them a budget admits could differ from run
// to run.
const roomy = "[te_budget.user]\ngpus = 0\n"

// queue is a site whose users act by a seed: two queues of one seed get the same
// jobs, by name, and the same changes, step by step.
type queue struct {
	*site
	seed  uint64
	names []string          // pending jobs, in order of submission
	ids   map[string]string // by name
	held  map[string]bool
	steps int
}

// newQueue clears the site and fills it for a first time.
func newQueue(s *site, seed uint64) *queue {
	s.Helper()
	q := &queue{site: s, seed: seed, ids: map[string]string{}, held: map[string]bool{}}
	q.fill()
	for range 2 {
		q.add("--prio-type=te")
	}
	q.add("--prio-type=be", "--nice=500")
	q.add("--prio-type=te", "--array=1-3")
	q.add("--comment=mine", "--nice=1000")
	q.add("--prio-type=te", "--hold")
	q.add("--hold")
	return q
}

// add submits a job under the next name and waits until Slurm calls it
// eligible, so that the order of submission is the order of waiting in every run.
func (q *queue) add(args ...string) {
	q.Helper()
	name := fmt.Sprintf("job%d", len(q.ids))
	id := q.submit(append([]string{"--job-name=" + name, "--gres=gpu:1", "--time=5", "--wrap", "sleep 600"}, args...)...)
	q.names, q.ids[name] = append(q.names, name), id
	if slices.Contains(args, "--hold") {
		q.held[name] = true
		return
	}
	q.wait("job "+id+" to be eligible", func() bool {
		return strings.Contains(q.slurm("sprio", "--noheader", "--format=%i,", "--jobs="+id), id)
	})
}

// step does what users do between two cycles: always something that makes
// priod write several values.
func (q *queue) step() {
	q.Helper()
	q.steps++
	r := rand.New(rand.NewPCG(q.seed, uint64(q.steps)))
	some := func() string { return q.names[r.IntN(len(q.names))] }
	for len(q.names) > 9 {
		q.drop(some())
	}
	switch name := some(); r.IntN(4) {
	case 0:
		q.slurm("scontrol", "update", "JobId="+q.ids[name], "Nice="+strconv.Itoa(500*r.IntN(10)))
	case 1:
		if !q.held[name] {
			q.held[name] = true
			q.slurm("scontrol", "hold", q.ids[name])
		}
	case 2:
		q.add("--prio-type=be", "--nice="+strconv.Itoa(500*r.IntN(10)))
	}
	q.add("--prio-type=te")
	if r.IntN(3) == 0 {
		q.add("--prio-type=te", "--array=1-"+strconv.Itoa(2+r.IntN(3)))
	} else {
		q.add("--prio-type=te", "--nice=500")
	}
}

func (q *queue) drop(name string) {
	q.Helper()
	q.slurm("scancel", q.ids[name])
	q.names = slices.DeleteFunc(q.names, func(n string) bool { return n == name })
}

// undisturbed plays the seed's first steps with a priod to which nothing
// happens and returns the state after each. What also, if set, does comes after
// a step and before priod sees it.
func undisturbed(s *site, seed uint64, steps int, also func(q *queue, step int)) []endState {
	s.Helper()
	q := newQueue(s, seed)
	q.settle()
	states := []endState{q.endState()}
	for i := range steps {
		q.step()
		if also != nil {
			also(q, i)
		}
		q.settle()
		states = append(states, q.endState())
	}
	return states
}

// comment is a job's, tag and all.
func (s *site) comment(id string) string {
	s.Helper()
	return strings.TrimSpace(s.slurm("squeue", "--noheader", "--jobs="+id, "--Format=Comment:"))
}
