package allocate

import "encoding/json"

// Instance is a problem as JSON.
type Instance struct {
	GPUTypes map[string]int   `json:"gpu_types"`
	Jobs     []InstanceJob    `json:"jobs"`
	Entities []InstanceEntity `json:"entities,omitempty"`
}

// InstanceJob is a job of it; what is left out has a default.
type InstanceJob struct {
	ID      string             `json:"id"`
	Speed   map[string]float64 `json:"speed"`
	GPUs    *int               `json:"gpus"`
	Weight  *float64           `json:"weight"`
	Steps   *float64           `json:"steps_remaining"`
	Elapsed float64            `json:"elapsed_s"`
	Alone   float64            `json:"isolated_elapsed_s"`
	Arrival float64            `json:"arrival_s"`
	Entity  *string            `json:"entity,omitempty"`
}

// InstanceEntity is an entity of it; Policy is fairness or fifo.
type InstanceEntity struct {
	Name   string   `json:"name"`
	Weight *float64 `json:"weight"`
	Policy string   `json:"policy"`
}

// MarshalJSON writes a problem so that tests/papers reads it: what is left of
// one that the optimiser failed on.
func (p *Problem) MarshalJSON() ([]byte, error) { return json.Marshal(p.Instance()) }

// Instance is the problem as JSON.
func (p *Problem) Instance() Instance {
	in := Instance{GPUTypes: map[string]int{}}
	for _, t := range p.Types {
		in.GPUTypes[t.label()] = t.GPUs
	}
	for _, e := range p.Entities {
		policy := "fairness"
		if e.FIFO {
			policy = "fifo"
		}
		in.Entities = append(in.Entities, InstanceEntity{e.Name, &e.Weight, policy})
	}
	byName := func(row []float64) map[string]float64 {
		m := map[string]float64{}
		for t, v := range row {
			if v > 0 {
				m[p.Types[t].label()] = v
			}
		}
		return m
	}
	for i := range p.Jobs {
		j := &p.Jobs[i]
		one := InstanceJob{ID: j.ID, Speed: byName(j.Speed), GPUs: &j.GPUs, Weight: &j.Weight, Steps: &j.StepsLeft,
			Elapsed: j.Elapsed, Alone: j.IsolatedElapsed, Arrival: j.Arrival}
		if j.Entity != NoEntity {
			one.Entity = &p.Entities[j.Entity].Name
		}
		in.Jobs = append(in.Jobs, one)
	}
	return in
}
