package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"slurmprio/priod/report"
	"slurmprio/priod/trace"
)

// unrunnable are the jobs of a trace that these nodes cannot run.
type unrunnable struct {
	jobs     int
	gpuHours float64
	named    []trace.LeftOut // the first, trace.MostNamed at most
	by       map[string]int  // how many, by why
}

// leaveOut counts a job that the nodes cannot run; with --strict it ends the replay.
func (s *Simulated) leaveOut(j *trace.Job, why string) error {
	if s.strict {
		return usagef("job %s cannot run on these nodes: %s (without --strict it is left out)", j.ID, why)
	}
	l := &s.left
	if l.by == nil {
		l.by = map[string]int{}
	}
	hours := float64(j.GPUs) * j.Ran / 3600
	l.jobs, l.gpuHours = l.jobs+1, l.gpuHours+hours
	l.by[why]++
	if len(l.named) < trace.MostNamed {
		l.named = append(l.named, trace.LeftOut{Job: j.ID, Why: why, GPUHours: hours})
	}
	return nil
}

// leftOutJSON is what a replay left out.
type leftOutJSON struct {
	BadRows  int             `json:"bad_rows"`
	Jobs     int             `json:"jobs"`      // that these nodes cannot run
	GPUHours float64         `json:"gpu_hours"` // of these
	By       map[string]int  `json:"jobs_by_reason"`
	Named    []trace.LeftOut `json:"named"` // the first bad rows and the first such jobs
}

func (s *Simulated) leftOut() *leftOutJSON {
	if s.Stats.Bad+s.left.jobs == 0 {
		return nil
	}
	return &leftOutJSON{s.Stats.Bad, s.left.jobs, s.left.gpuHours, s.left.by, append(slices.Clone(s.Stats.Left), s.left.named...)}
}

// leftOutWords count the jobs whose list of partitions is not known, and what was left out, by reason, and name the first.
func (s *Simulated) leftOutWords() (words []string) {
	if n := s.Stats.Unlisted; s.divided && n > 0 {
		words = append(words, fmt.Sprintf("jobs whose list of partitions is not known, and that wait for the one in which they ran: %d (SubmitLine names none, and accounting keeps no script)", n))
	}
	l := s.leftOut()
	if l == nil {
		return words
	}
	say := func(format string, args ...any) {
		words = append(words, "left out: "+report.Safe(fmt.Sprintf(format, args...)))
	}
	if l.BadRows > 0 {
		say("%s", report.Plural(l.BadRows, "bad row", "bad rows"))
	}
	if l.Jobs > 0 {
		say("%s (%.1f GPU-hours) that these nodes cannot run", report.Plural(l.Jobs, "job", "jobs"), l.GPUHours)
	}
	for _, why := range slices.Sorted(maps.Keys(l.By)) {
		say("%d: %s", l.By[why], why)
	}
	for _, x := range l.Named {
		say("job %s (%.1f GPU-hours): %s", cmp.Or(x.Job, "unknown"), x.GPUHours, x.Why)
	}
	return words
}
