package policies

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"slurmprio/priod/allocate"
)

// instance is a problem as JSON: that of package allocate, with prices, deadlines, the last times and pairs.
type instance struct {
	GPUTypes map[string]int            `json:"gpu_types"`
	Prices   map[string]float64        `json:"price_per_h,omitempty"`
	Jobs     []instanceJob             `json:"jobs"`
	Entities []allocate.InstanceEntity `json:"entities,omitempty"`
	Pairs    []pair                    `json:"pairs,omitempty"`
}

type instanceJob struct {
	allocate.InstanceJob
	Deadline *float64           `json:"deadline_s,omitempty"`
	Previous map[string]float64 `json:"previous,omitempty"`
}

type pair struct {
	Jobs  []string              `json:"jobs"`
	Speed map[string][2]float64 `json:"speed"`
}

// defaultSteps is what a job has left that does not say.
const defaultSteps = 30000

func or[T any](p *T, other T) T {
	if p == nil {
		return other
	}
	return *p
}

// ParseProblem reads a problem as JSON, as priod allocate takes it; notes say
// what was assumed, of entities when the policy is hierarchical.
func ParseProblem(text []byte, policy string) (*Problem, []string, error) {
	var in instance
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, nil, fmt.Errorf("not the JSON that allocate reads: %w", err)
	}
	if d.More() {
		return nil, nil, errors.New("something follows the JSON object")
	}
	var notes []string
	p := &Problem{}
	place := map[string]int{}
	for t, name := range slices.Sorted(maps.Keys(in.GPUTypes)) {
		place[name] = t
		p.Types = append(p.Types, allocate.GPUType{Name: name, GPUs: in.GPUTypes[name]})
	}
	var err error
	if p.PerHour, err = byPlace(place, in.Prices); err != nil {
		return nil, nil, fmt.Errorf("price_per_h: %w", err)
	}
	entity := map[string]int{}
	for i, e := range in.Entities {
		if _, twice := entity[e.Name]; twice || e.Name == "" {
			return nil, nil, fmt.Errorf("entity %d (%.80q): want a name, and each once", i+1, e.Name)
		}
		if e.Policy != "" && e.Policy != "fairness" && e.Policy != "fifo" {
			return nil, nil, fmt.Errorf("entity %.80q: policy %.40q: want fairness or fifo", e.Name, e.Policy)
		}
		entity[e.Name] = i
		p.Entities = append(p.Entities, allocate.Entity{Name: e.Name, Weight: or(e.Weight, 1), FIFO: e.Policy == "fifo"})
	}
	index := map[string]int{}
	members := make([]int, len(p.Entities))
	for i, j := range in.Jobs {
		if _, twice := index[j.ID]; twice || j.ID == "" {
			return nil, nil, fmt.Errorf("job %d (%.80q): want an id, and each once", i+1, j.ID)
		}
		index[j.ID] = i
		one, previous, err := asked(&j, place, entity)
		if err != nil {
			return nil, nil, fmt.Errorf("job %.80q: %w", j.ID, err)
		}
		switch {
		case one.Entity != allocate.NoEntity:
			members[one.Entity]++
		case policy == "hierarchical":
			notes = append(notes, fmt.Sprintf("job %.80q has no entity: it shares in one of weight 1", j.ID))
		}
		p.Jobs = append(p.Jobs, one)
		p.Deadlines, p.Previous = append(p.Deadlines, or(j.Deadline, math.Inf(1))), append(p.Previous, previous)
	}
	for e, n := range members {
		if n == 0 {
			notes = append(notes, fmt.Sprintf("entity %.80q has no jobs: its share goes to the others", p.Entities[e].Name))
		}
	}
	for i, s := range in.Pairs {
		if len(s.Jobs) != 2 {
			return nil, nil, fmt.Errorf("pair %d: want two jobs", i+1)
		}
		a, okA := index[s.Jobs[0]]
		b, okB := index[s.Jobs[1]]
		if !okA || !okB {
			return nil, nil, fmt.Errorf("pair %d: %.80q: want ids of two jobs", i+1, s.Jobs)
		}
		speed, err := byPlace(place, s.Speed)
		if err != nil {
			return nil, nil, fmt.Errorf("pair %d: %w", i+1, err)
		}
		p.Pairs = append(p.Pairs, Pair{A: a, B: b, Speed: speed})
	}
	return p, notes, nil
}

// byPlace brings values by the name of a GPU type into the order of the types.
func byPlace[V any](place map[string]int, values map[string]V) ([]V, error) {
	row := make([]V, len(place))
	for name, v := range values {
		t, ok := place[name]
		if !ok {
			return nil, fmt.Errorf("%.80q is none of the gpu_types", name)
		}
		row[t] = v
	}
	return row, nil
}

// asked is a job as the problem has it, and its times in the last allocation.
func asked(j *instanceJob, place, entity map[string]int) (job allocate.ProblemJob, previous []float64, err error) {
	job = allocate.ProblemJob{
		ID: j.ID, GPUs: or(j.GPUs, 1), Weight: or(j.Weight, 1), StepsLeft: or(j.Steps, defaultSteps),
		Elapsed: j.Elapsed, IsolatedElapsed: j.Alone, Arrival: j.Arrival, Entity: allocate.NoEntity,
	}
	if job.Speed, err = byPlace(place, j.Speed); err != nil {
		return job, nil, fmt.Errorf("speed: %w", err)
	}
	if j.Previous != nil {
		if previous, err = byPlace(place, j.Previous); err != nil {
			return job, nil, fmt.Errorf("previous: %w", err)
		}
	}
	if j.Entity != nil {
		e, ok := entity[*j.Entity]
		if !ok {
			return job, nil, fmt.Errorf("%.80q is none of the entities", *j.Entity)
		}
		job.Entity = e
	}
	return job, previous, nil
}

// MarshalJSON writes a problem so that ParseProblem reads it again: what is left
// of one that the optimiser failed on. Together is written as pairs.
func (p *Problem) MarshalJSON() ([]byte, error) {
	alone := p.Instance()
	in := instance{GPUTypes: alone.GPUTypes, Entities: alone.Entities, Prices: p.byName(p.PerHour)}
	for i := range alone.Jobs {
		one := instanceJob{InstanceJob: alone.Jobs[i], Previous: p.byName(p.before(i))}
		if d := p.deadline(i); !math.IsInf(d, 1) {
			one.Deadline = &d
		}
		in.Jobs = append(in.Jobs, one)
	}
	add := func(a, b int, speed func(t int) [2]float64) {
		two := pair{Jobs: []string{p.Jobs[a].ID, p.Jobs[b].ID}, Speed: map[string][2]float64{}}
		for t := range p.Types {
			if s := speed(t); s[0] > 0 && s[1] > 0 {
				two.Speed[p.Types[t].Name] = s
			}
		}
		if len(two.Speed) > 0 {
			in.Pairs = append(in.Pairs, two)
		}
	}
	for _, s := range p.Pairs {
		add(s.A, s.B, func(t int) [2]float64 { return s.Speed[t] })
	}
	for a := range p.Jobs {
		for b := a + 1; p.Together != nil && b < len(p.Jobs); b++ {
			if p.Jobs[a].GPUs == p.Jobs[b].GPUs {
				add(a, b, func(t int) [2]float64 {
					first, second := p.Together(a, b, t)
					return [2]float64{first, second}
				})
			}
		}
	}
	return json.Marshal(in)
}

// byName are the values above 0 of a row by GPU type.
func (p *Problem) byName(row []float64) map[string]float64 {
	m := map[string]float64{}
	for t, v := range row {
		if v > 0 {
			m[p.Types[t].Name] = v
		}
	}
	return m
}
