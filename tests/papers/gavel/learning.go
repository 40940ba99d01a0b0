package gavel

import (
	"slurmprio/priod/workload/speed"
	"slurmprio/tests/papers/rounds"
)

// learner is a site whose jobs say nothing of speeds: what it knows comes from
// the jobs that have completed. A job's name is what the trace calls its
// workload.
type learner struct {
	settings  speed.Settings
	steps     bool // whether a completed job's work is known
	most      int  // completed jobs to learn from; 0: all
	history   speed.History
	knowledge *speed.Knowledge
	types     []string
	known     map[speed.Program][]float64
	seen      int // completed jobs in history
	taught    int // of those, in knowledge
}

// Learner learns from the first so many completed jobs, 0: all, whose steps it knows or
// not, and uses what it knows more surely than that all types are equally fast.
func Learner(steps bool, most int) rounds.Estimator {
	return &learner{steps: steps, most: most, known: map[speed.Program][]float64{}}
}

func job(a *rounds.Active) speed.Job {
	return speed.Job{User: a.Job.User, Name: a.Job.Workload, GPUs: a.Job.GPUs}
}

// Completed takes in what accounting has of a job, and its steps if they are known.
func (l *learner) Completed(a *rounds.Active, types []rounds.Type) {
	if l.most > 0 && l.seen == l.most {
		return
	}
	j := job(a)
	run := speed.Run{Program: j.Program(nil), Seconds: map[string]float64{}}
	for i, s := range a.RanOn {
		run.Seconds[types[i].Name] = s
	}
	if l.steps {
		run.Work = a.Total()
	}
	l.history.Add(run)
	l.seen++
}

// Learned learns whenever there is a tenth more to learn from.
func (l *learner) Learned() bool {
	if l.seen == l.taught || l.seen < l.taught+max(1, l.taught/10) && l.seen != l.most {
		return false
	}
	l.knowledge, l.taught = l.history.Learn(), l.seen
	clear(l.known)
	return true
}

// Estimate is what priod would say of the job.
func (l *learner) Estimate(a *rounds.Active, types []rounds.Type) []float64 {
	if l.types == nil {
		for _, t := range types {
			l.types = append(l.types, t.Name)
		}
	}
	j := job(a)
	p := j.Program(nil)
	speeds, known := l.known[p]
	if !known {
		for _, answer := range l.settings.For(&j, l.types, nil, l.knowledge).Speeds {
			speeds = append(speeds, answer.Speed)
		}
		l.known[p] = speeds
	}
	return speeds
}
