package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/policy/allocation"
	"slurmprio/priod/report"
)

func allocateCommand() *cli.Command {
	return &cli.Command{
		Name: "allocate", Usage: "divide GPU types among jobs by a policy of Gavel's", ArgsUsage: "[FILE]",
		Description: "FILE, or standard input, is one JSON object: gpu_types, and for each of the jobs id and speed (steps per\n" +
			"second on each type). Nothing is read from Slurm or written to it.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "policy", Value: "max-min", Usage: "`NAME` is " + strings.Join(allocation.Names(), ", ")},
			&cli.BoolFlag{Name: "agnostic", Usage: "as if all GPU types were equally fast"},
			&cli.BoolFlag{Name: "space-sharing", Usage: "pairs of jobs may share GPUs"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return usagef("allocate takes one file, and got %q, too", c.Args().Get(1))
			}
			name, text, err := readAll(c)
			if err != nil {
				return err
			}
			policy := allocation.Policy{Name: c.String("policy"), Agnostic: c.Bool("agnostic"), Packed: c.Bool("space-sharing")}
			problem, notes, err := parseProblem(text, policy.Name)
			if err != nil {
				return usagef("%s: %w", name, err)
			}
			a, err := policy.Allocate(problem)
			switch {
			case allocation.Numeric(err):
				return fmt.Errorf("%w; %s", err, kept(text))
			case err != nil:
				return usagef("%s: %w", name, err)
			}
			a.Notes = append(notes, a.Notes...)
			return showAllocation(c, policy, problem, a)
		},
	}
}

// readAll reads the file of the arguments, or standard input.
func readAll(c *cli.Context) (name string, text []byte, err error) {
	if name = c.Args().First(); name == "" || name == "-" {
		text, err = io.ReadAll(os.Stdin)
		return "standard input", text, err
	}
	if text, err = os.ReadFile(name); err != nil {
		return name, nil, usageError{err}
	}
	return name, text, nil
}

// kept writes an instance that the optimiser failed on to a file.
func kept(text []byte) string {
	f, err := os.CreateTemp("", "priod-allocate-*.json")
	if err != nil {
		return fmt.Sprintf("and the instance could not be written: %v", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Sprintf("and the instance could not be written: %v", err)
	}
	return "the instance is in " + f.Name()
}

// instance is a problem as JSON.
type instance struct {
	GPUTypes map[string]int     `json:"gpu_types"`
	Prices   map[string]float64 `json:"price_per_h"`
	Jobs     []instanceJob      `json:"jobs"`
	Entities []struct {
		Name   string   `json:"name"`
		Weight *float64 `json:"weight"`
		Policy string   `json:"policy"`
	} `json:"entities"`
	Pairs []struct {
		Jobs  []string              `json:"jobs"`
		Speed map[string][2]float64 `json:"speed"`
	} `json:"pairs"`
}

type instanceJob struct {
	ID       string             `json:"id"`
	Speed    map[string]float64 `json:"speed"`
	GPUs     *int               `json:"gpus"`
	Weight   *float64           `json:"weight"`
	Steps    *float64           `json:"steps_remaining"`
	Elapsed  float64            `json:"elapsed_s"`
	Alone    float64            `json:"isolated_elapsed_s"`
	Arrival  float64            `json:"arrival_s"`
	Deadline *float64           `json:"deadline_s"`
	Entity   *string            `json:"entity"`
	Previous map[string]float64 `json:"previous"`
}

// defaultSteps is what a job has left that does not say.
const defaultSteps = 30000

func or[T any](p *T, other T) T {
	if p == nil {
		return other
	}
	return *p
}

// parseProblem reads an instance; notes say what was assumed.
func parseProblem(text []byte, policy string) (*allocation.Problem, []string, error) {
	var in instance
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, nil, fmt.Errorf("not the JSON that allocate reads: %w", err)
	}
	if d.More() {
		return nil, nil, errors.New("something follows the JSON object")
	}
	var notes []string
	p := &allocation.Problem{}
	place := map[string]int{}
	for t, name := range slices.Sorted(maps.Keys(in.GPUTypes)) {
		place[name] = t
		p.Types = append(p.Types, allocation.GPUType{Name: name, GPUs: in.GPUTypes[name], Price: in.Prices[name]})
	}
	known := func(name string) error {
		if _, ok := place[name]; !ok {
			return fmt.Errorf("%.80q is none of the gpu_types", name)
		}
		return nil
	}
	for name := range in.Prices {
		if err := known(name); err != nil {
			return nil, nil, fmt.Errorf("price_per_h: %w", err)
		}
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
		p.Entities = append(p.Entities, allocation.Entity{Name: e.Name, Weight: or(e.Weight, 1), FIFO: e.Policy == "fifo"})
	}
	index := map[string]int{}
	members := make([]int, len(p.Entities))
	for i, j := range in.Jobs {
		if _, twice := index[j.ID]; twice || j.ID == "" {
			return nil, nil, fmt.Errorf("job %d (%.80q): want an id, and each once", i+1, j.ID)
		}
		index[j.ID] = i
		job, err := j.job(len(p.Types), place, entity)
		if err != nil {
			return nil, nil, fmt.Errorf("job %.80q: %w", j.ID, err)
		}
		switch {
		case job.Entity != allocation.NoEntity:
			members[job.Entity]++
		case policy == "hierarchical":
			notes = append(notes, fmt.Sprintf("job %.80q has no entity: it shares in one of weight 1", j.ID))
		}
		p.Jobs = append(p.Jobs, job)
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
		pair := allocation.Pair{A: a, B: b, Speed: make([][2]float64, len(p.Types))}
		for name, v := range s.Speed {
			if err := known(name); err != nil {
				return nil, nil, fmt.Errorf("pair %d: %w", i+1, err)
			}
			pair.Speed[place[name]] = v
		}
		p.Pairs = append(p.Pairs, pair)
	}
	return p, notes, nil
}

func (j *instanceJob) job(types int, place, entity map[string]int) (allocation.Job, error) {
	job := allocation.Job{
		ID: j.ID, Speed: make([]float64, types), GPUs: or(j.GPUs, 1), Weight: or(j.Weight, 1), StepsLeft: or(j.Steps, defaultSteps),
		Elapsed: j.Elapsed, IsolatedElapsed: j.Alone, Arrival: j.Arrival, Deadline: or(j.Deadline, math.Inf(1)), Entity: allocation.NoEntity,
	}
	for name, v := range j.Speed {
		t, ok := place[name]
		if !ok {
			return job, fmt.Errorf("speed: %.80q is none of the gpu_types", name)
		}
		job.Speed[t] = v
	}
	if j.Previous != nil {
		job.Previous = make([]float64, types)
		for name, v := range j.Previous {
			t, ok := place[name]
			if !ok {
				return job, fmt.Errorf("previous: %.80q is none of the gpu_types", name)
			}
			job.Previous[t] = v
		}
	}
	if j.Entity != nil {
		e, ok := entity[*j.Entity]
		if !ok {
			return job, fmt.Errorf("%.80q is none of the entities", *j.Entity)
		}
		job.Entity = e
	}
	return job, nil
}

// sharedTime is the time of a pair.
type sharedTime struct {
	Jobs [2]string          `json:"jobs"`
	Time map[string]float64 `json:"time"`
}

func showAllocation(c *cli.Context, policy allocation.Policy, p *allocation.Problem, a *allocation.Allocation) error {
	number := func(v float64) *float64 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil // no objective, or nobody to reach it
		}
		return &v
	}
	out := struct {
		Policy     string                        `json:"policy"`
		Agnostic   bool                          `json:"agnostic,omitempty"`
		Objective  *float64                      `json:"objective"`
		Bound      *float64                      `json:"bound"`
		Allocation map[string]map[string]float64 `json:"allocation"`
		Pairs      []sharedTime                  `json:"pairs,omitempty"`
		Rate       map[string]float64            `json:"effective_throughput"`
		GPUs       map[string]float64            `json:"gpus_used"`
		Notes      []string                      `json:"notes"`
	}{
		Policy: policy.Name, Agnostic: policy.Agnostic, Objective: number(a.Objective), Bound: number(a.Bound),
		Allocation: map[string]map[string]float64{}, Rate: map[string]float64{}, GPUs: map[string]float64{}, Notes: append([]string{}, a.Notes...),
	}
	times := func(row []float64, gpus int) map[string]float64 {
		m := map[string]float64{}
		for t, x := range row {
			if x > 0 {
				m[p.Types[t].Name] = x
				out.GPUs[p.Types[t].Name] += x * float64(gpus)
			}
		}
		return m
	}
	for _, t := range p.Types {
		out.GPUs[t.Name] = 0
	}
	for i := range p.Jobs {
		out.Allocation[p.Jobs[i].ID] = times(a.Time[i], p.Jobs[i].GPUs)
		out.Rate[p.Jobs[i].ID] = a.Rate[i]
	}
	for _, s := range a.Pairs {
		out.Pairs = append(out.Pairs, sharedTime{[2]string{p.Jobs[s.A].ID, p.Jobs[s.B].ID}, times(s.Time, p.Jobs[s.A].GPUs)})
	}
	if c.Bool("json") {
		return report.JSON(c.App.Writer, out)
	}
	header := []string{"JOB"}
	for _, t := range p.Types {
		header = append(header, strings.ToUpper(report.Safe(t.Name)))
	}
	var rows [][]any
	add := func(id string, row []float64, rate any) {
		cells := []any{report.Safe(id)}
		for _, x := range row {
			cells = append(cells, fmt.Sprintf("%.4f", x))
		}
		rows = append(rows, append(cells, rate))
	}
	for i := range p.Jobs {
		add(p.Jobs[i].ID, a.Time[i], fmt.Sprintf("%.6g", a.Rate[i]))
	}
	for _, s := range a.Pairs {
		add(p.Jobs[s.A].ID+" + "+p.Jobs[s.B].ID, s.Time, "")
	}
	report.Table(c.App.Writer, append(header, "STEPS/S"), rows)
	if out.Objective != nil {
		fmt.Fprintf(c.App.Writer, "objective %.9g", *out.Objective)
		if out.Bound != nil {
			fmt.Fprintf(c.App.Writer, ", bound %.9g", *out.Bound)
		}
		fmt.Fprintln(c.App.Writer)
	}
	for _, n := range out.Notes {
		fmt.Fprintf(c.App.ErrWriter, "priod: note: %s\n", n)
	}
	return nil
}
