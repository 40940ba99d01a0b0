package view

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"slurmprio/priod/config"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/speed"
)

// Learning scores the GPU types that jobs were given by what had been learned, by what is known since.
type Learning struct {
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
	Jobs     int       `json:"jobs"`   // completed on the type that they were given by a learned speed
	Better   int       `json:"better"` // than on the mean of the types
	Worse    int       `json:"worse"`  // than that: where others gained more from the faster types, or by a wrong guess
	Held     int       `json:"held"`   // guesses: the speed there is within a factor of what was believed
	Misled   int       `json:"misled"` // it is lower by more than that
	SavedGPU float64   `json:"saved_gpu_h"`
	Programs []Guessed `json:"programs"`
}

// Guessed are the jobs of one program that were given one type.
type Guessed struct {
	User     string  `json:"user"`
	Name     string  `json:"job_name"`
	GPUType  string  `json:"gpu_type"`
	Jobs     int     `json:"jobs"`
	Believed float64 `json:"believed"` // speed on the type over the mean of the types, by GPUs, when it was given
	Now      float64 `json:"now"`      // the same by what is known now
	SavedGPU float64 `json:"saved_gpu_h"`
}

// holds is the factor within which a guess holds: what one GPU type differs from the next by at least.
const holds = 1.25

// even is how far from the mean a speed is at least that counts as better or worse.
const even = 0.02

// Given is a completed run of a job that was given a type, with the speeds of then and of now.
type Given struct {
	store.TypeGiven
	Now []speed.Answer
}

// OfLearning scores runs. gpus is how many GPUs of each type the cluster has: a job that Slurm places by itself comes
// to lie on the types as they are there. Jobs whose speeds the tag or workloads.toml said are left out.
func OfLearning(since, until time.Time, runs []Given, gpus map[string]int) *Learning {
	l := &Learning{Since: since, Until: until, Programs: []Guessed{}}
	type key struct{ user, name, gpuType string }
	at := map[key]int{}
	for i := range runs {
		r := &runs[i]
		learned := slices.ContainsFunc(r.Types, func(t store.ShareOfType) bool {
			return t.GPUType == r.GPUType && (t.Source == speed.Past || t.Source == speed.Site)
		})
		then, now := over(r.Types, func(t *store.ShareOfType) (string, float64) { return t.GPUType, t.Speed }, r.GPUType, gpus),
			over(r.Now, func(a *speed.Answer) (string, float64) { return a.GPUType, a.Speed }, r.GPUType, gpus)
		if !learned || math.IsNaN(then+now) {
			continue
		}
		k := key{r.User, r.Name, r.GPUType}
		n, known := at[k]
		if !known {
			n = len(l.Programs)
			at[k], l.Programs = n, append(l.Programs, Guessed{User: r.User, Name: r.Name, GPUType: r.GPUType})
		}
		p := &l.Programs[n]
		saved := float64(r.GPUs) * r.End.Sub(r.Start).Hours() * (now - 1)
		l.Jobs++
		p.Jobs++
		p.Believed += then
		p.Now += now
		p.SavedGPU += saved
		l.SavedGPU += saved
		switch {
		case now < then/holds:
			l.Misled++
		case now <= then*holds:
			l.Held++
		}
		if now > 1+even {
			l.Better++
		} else if now < 1-even {
			l.Worse++
		}
	}
	for i := range l.Programs {
		p := &l.Programs[i]
		p.Believed /= float64(p.Jobs)
		p.Now /= float64(p.Jobs)
	}
	slices.SortFunc(l.Programs, func(a, b Guessed) int {
		return cmp.Or(cmp.Compare(a.SavedGPU, b.SavedGPU), cmp.Compare(a.User, b.User), cmp.Compare(a.Name, b.Name), cmp.Compare(a.GPUType, b.GPUType))
	})
	return l
}

// over is the speed on a type over the mean of those on all types, by GPUs; NaN: it has none.
func over[T any](all []T, of func(*T) (string, float64), gpuType string, gpus map[string]int) float64 {
	own, sum, n := math.NaN(), 0.0, 0.0
	for i := range all {
		name, speed := of(&all[i])
		if name == gpuType {
			own = speed
		}
		sum += speed * float64(gpus[name])
		n += float64(gpus[name])
	}
	return own / (sum / n)
}

// Page shows it, the most costly programs first.
func (l *Learning) Page() *report.Page {
	p := &report.Page{Title: "Whether GPU types chosen by learned speeds were right", Words: []string{
		fmt.Sprintf("%s: %s completed on the GPU type that a learned speed chose.", report.Between(l.Since, l.Until), report.Count(l.Jobs, "job"))}}
	if l.Jobs == 0 {
		return p
	}
	hundredths := report.Fixed(2)
	p.Words = append(p.Words,
		fmt.Sprintf("Against the mean of the types: %d faster, %d slower, %d the same; %s GPU-hours saved.", l.Better, l.Worse, l.Jobs-l.Better-l.Worse, hundredths(l.SavedGPU)),
		fmt.Sprintf("Speed there, known now: %d as believed, %d lower, %d higher.", l.Held, l.Misled, l.Jobs-l.Held-l.Misled))
	p.Tables = []report.PageTable{report.TableOf("", []string{"USER", "JOB NAME", "TYPE", "JOBS", "BELIEVED THEN", "KNOWN NOW", "GPU-HOURS SAVED"}, l.Programs, func(p *Guessed) []any {
		return []any{p.User, p.Name, p.GPUType, p.Jobs, hundredths(p.Believed), hundredths(p.Now), hundredths(p.SavedGPU)}
	})}
	return p
}

// ReadLearning scores the runs of a time, which the state folder has.
func ReadLearning(ctx context.Context, cfg *config.Config, r *store.Reader, table *workload.Table, since, until time.Time) (*Learning, error) {
	given, err := r.TypesGivenSince(ctx, since)
	lessons, err2 := r.Lessons(ctx, nil)
	types, err3 := r.GPUTypes(ctx)
	nodes, err4 := r.Nodes(ctx)
	if err := cmp.Or(err, err2, err3, err4); err != nil {
		return nil, err
	}
	gpus, set := map[string]int{}, cfg.SpeedSettings()
	for i := range nodes {
		gpus[nodes[i].GPUType] += nodes[i].GPUs
	}
	runs := make([]Given, len(given))
	for i := range given {
		job := speed.Job{Tag: given[i].Tag.Tag, User: given[i].User, Name: given[i].Name, GPUs: given[i].GPUs}
		runs[i] = Given{TypeGiven: given[i], Now: set.For(&job, types, table, lessons.Knowledge).Speeds}
	}
	return OfLearning(since, until, runs, gpus), nil
}
