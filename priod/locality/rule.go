package locality

import "slurmprio/priod/workload"

// Rule says how many switches a job accepts. Its times are in seconds.
type Rule struct {
	Costs   []float64 // of switches: see workload.SpreadLoss
	Wait    float64   // the weight of a second of waiting against one of running; 0: it waits as long as it may
	Others  float64   // the weight of the delay that its longer run is to those that wait
	Longest float64   // no job waits longer for switches
}

// Job is what the rule goes by.
type Job struct {
	Run          float64 // expected, on the fewest switches
	Fewest, Most int     // switches that hold it at all, and that it can come to lie on
	Delayed      float64 // jobs that wait, times the part of the cluster that this one takes
	Waited       float64 // while it could have started on more switches than it accepted
}

// longer is by how much a job's run is longer on so many switches.
func (r *Rule) longer(j *Job, switches int) float64 {
	lost := workload.SpreadLoss(r.Costs, float64(switches)/float64(j.Fewest))
	return j.Run * (1/(1-lost) - 1)
}

// cost is what lying on so many switches costs a job, in seconds of its waiting: its own
// longer run, and that of GPUs which others wait for.
func (r *Rule) cost(j *Job, switches int) float64 {
	longer := r.longer(j, switches) * (1 + r.Others*j.Delayed)
	if longer == 0 {
		return 0
	}
	return longer / r.Wait
}

// Budget is how long a job waits for switches at most: until it accepts any number.
func (r *Rule) Budget(j *Job) float64 {
	if j.Most <= j.Fewest {
		return 0
	}
	return min(r.cost(j, j.Most), r.Longest)
}

// Accepts is how many switches a job accepts now; 0: any number. It never falls as the job waits.
func (r *Rule) Accepts(j *Job) int {
	if j.Waited >= r.Budget(j) {
		return 0
	}
	accepts := j.Fewest
	for n := 2 * accepts; n < j.Most && r.cost(j, n) <= j.Waited; n *= 2 {
		accepts = n
	}
	return accepts
}

// waitedFor is how long a job has waited that accepts so many switches, at least.
func (r *Rule) waitedFor(j *Job, accepts int) float64 {
	if accepts <= j.Fewest {
		return 0
	}
	return min(r.cost(j, accepts), r.Longest)
}

// relaxes is how much longer a job waits until it accepts more.
func (r *Rule) relaxes(j *Job) float64 {
	at := r.Budget(j)
	if next := 2 * r.Accepts(j); next > 0 && next < j.Most {
		at = min(at, r.cost(j, next))
	}
	return max(at-j.Waited, 0)
}
