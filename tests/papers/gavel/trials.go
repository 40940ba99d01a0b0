package gavel

import (
	"math"
	"math/rand/v2"
	"slices"

	"slurmprio/priod/trace"
	"slurmprio/tests/papers/colocation"
)

// trials is a site that has tried some programs in parallel before, the
// references, and of each job that comes tries a part of its pairs with them.
// The job is then taken for the reference that it resembles most (package
// colocation).
type trials struct {
	pairs Pairs
	speed func(job *trace.Job, gpuType string) float64
	types []string
	tried float64 // chance that a pair of a new job is tried
	draw  *rand.Rand
	names []string            // workloads of the references
	known map[int]*references // by GPUs of a job
}

// references are the ratios of speed beside a partner to speed alone.
type references struct {
	*colocation.References
	rows [][]float64 // a row for each, a column for each GPU type and partner
}

func newTrials(opt *Options) *trials {
	t := &trials{
		pairs: opt.Pairs, speed: opt.Speed, tried: opt.Tried, draw: rand.New(rand.NewPCG(opt.Seed, 0)),
		names: slices.Clone(opt.Workloads), known: map[int]*references{}, types: opt.Types,
	}
	t.draw.Shuffle(len(t.names), func(i, j int) { t.names[i], t.names[j] = t.names[j], t.names[i] })
	if n := opt.References; n > 0 {
		t.names = t.names[:min(n, len(t.names))]
	}
	return t
}

// ratio is what a job keeps of its speed beside a reference, 0 where the two do
// not run together.
func (t *trials) ratio(j *trace.Job, reference int, gpuType string) float64 {
	alone := t.speed(j, gpuType)
	if alone == 0 {
		return 0
	}
	beside, _ := t.pairs(j, &trace.Job{Workload: t.names[reference], GPUs: j.GPUs}, gpuType)
	return min(beside/alone, 1)
}

func (t *trials) row(j *trace.Job) (ratios []float64) {
	for _, gpuType := range t.types {
		for r := range t.names {
			ratios = append(ratios, t.ratio(j, r, gpuType))
		}
	}
	return ratios
}

func (t *trials) references(gpus int) *references {
	if r := t.known[gpus]; r != nil {
		return r
	}
	r := &references{}
	for _, name := range t.names {
		r.rows = append(r.rows, t.row(&trace.Job{Workload: name, GPUs: gpus}))
	}
	r.References, _ = colocation.New(r.rows) // nil where nothing can be said: like is then chance
	t.known[gpus] = r
	return r
}

// none is in place of a reference for a job that runs beside no reference.
const none = -1

// like is the reference that a job is taken for, after its trials; by chance when
// they say nothing, as published.
func (t *trials) like(j *trace.Job) int {
	row := t.row(j)
	if !slices.ContainsFunc(row, func(ratio float64) bool { return ratio > 0 }) { // no pair is known of its program: published ones have some
		return none
	}
	for i := range row {
		if t.draw.Float64() >= t.tried {
			row[i] = math.NaN()
		}
	}
	if r := t.references(j.GPUs); r.References != nil {
		if like, ok := r.Like(row); ok {
			return like
		}
	}
	return t.draw.IntN(len(t.names))
}

// estimate is how fast a job is taken to be beside another, by the references
// that the two are taken for; 0: not together.
func (t *trials) estimate(j *trace.Job, like, partner int, gpuType string) float64 {
	if like == none || partner == none {
		return 0
	}
	column := slices.Index(t.types, gpuType)*len(t.names) + partner
	return t.references(j.GPUs).rows[like][column] * t.speed(j, gpuType)
}
