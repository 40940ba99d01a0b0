package verbs

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/allocate"
	priod "slurmprio/priod/cli"
	"slurmprio/priod/report"
	"slurmprio/tests/papers/policies"
)

// allocateExample is an instance with two jobs.
const allocateExample = `{"gpu_types": {"a100": 1, "v100": 1}, "jobs": [{"id": "17", "speed": {"a100": 1, "v100": 0.9}}, {"id": "18", "speed": {"a100": 1, "v100": 0.3}}]}`

func allocateCommand() *cli.Command {
	return &cli.Command{
		Name: "allocate", Usage: "divide GPU types among jobs by a policy of Gavel's", ArgsUsage: "[FILE]",
		Description: "FILE, or standard input, is one JSON object: gpu_types, and for each of the jobs id and speed (steps per\n" +
			"second on each type). Nothing is read from Slurm or written to it.\n" +
			`    echo '{"gpu_types": {"a100": 1, "v100": 1}, "jobs": [{"id": "17", "speed": {"a100": 1, "v100": 0.9}},` + "\n" +
			`      {"id": "18", "speed": {"a100": 1, "v100": 0.3}}]}' | papers allocate --policy max-min`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "policy", Value: "max-min", Usage: "`NAME` is " + strings.Join(policies.Names(), ", ")},
			&cli.BoolFlag{Name: "agnostic", Usage: "as if all GPU types were equally fast"},
			&cli.BoolFlag{Name: "space-sharing", Usage: "pairs of jobs may share GPUs"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return usagef("allocate takes one file, and got %q, too", c.Args().Get(1))
			}
			if name := c.String("policy"); !slices.Contains(policies.Names(), name) {
				return usagef("--policy %.80q: want one of %s", name, strings.Join(policies.Names(), ", "))
			}
			name, text, err := readAll(c)
			if err != nil {
				return err
			}
			if len(bytes.TrimSpace(text)) == 0 {
				return usagef("%s is empty: allocate reads one JSON object of GPUs and speeds, such as %s; papers allocate --help shows a call; where priod's allocation fails, it keeps such a file and its log names it", name, allocateExample)
			}
			policy := policies.Policy{Name: c.String("policy"), Agnostic: c.Bool("agnostic"), Packed: c.Bool("space-sharing")}
			problem, notes, err := policies.ParseProblem(text, policy.Name)
			if err != nil {
				return usagef("%s: %w", name, err)
			}
			a, err := policy.Allocate(problem)
			switch {
			case allocate.Numeric(err):
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
		if info, failed := os.Stdin.Stat(); name == "" && failed == nil && info.Mode()&os.ModeCharDevice != 0 {
			return "standard input", nil, nil // a terminal: nothing was given
		}
		text, err = io.ReadAll(os.Stdin)
		return "standard input", text, err
	}
	if text, err = os.ReadFile(name); err != nil {
		return name, nil, priod.WrongUsage(err)
	}
	return name, text, nil
}

// sharedTime is the time of a pair.
type sharedTime struct {
	Jobs [2]string          `json:"jobs"`
	Time map[string]float64 `json:"time"`
}

// allocationView is an allocation as --json prints it.
type allocationView struct {
	Policy     string                        `json:"policy"`
	Agnostic   bool                          `json:"agnostic,omitempty"`
	Objective  *float64                      `json:"objective"`
	Bound      *float64                      `json:"bound"`
	Allocation map[string]map[string]float64 `json:"allocation"`
	Pairs      []sharedTime                  `json:"pairs,omitempty"`
	Rate       map[string]float64            `json:"effective_throughput"`
	Discount   map[string]float64            `json:"discount,omitempty"` // strategy-proof: what each job keeps
	GPUs       map[string]float64            `json:"gpus_used"`
	Notes      []string                      `json:"notes"`
}

func showAllocation(c *cli.Context, policy policies.Policy, p *policies.Problem, a *policies.Allocation) error {
	v := viewAllocation(policy, p, a)
	return answer(c, v, func(w io.Writer) {
		tableAllocation(w, p, a)
		if v.Objective != nil {
			fmt.Fprintf(w, "objective %.9g", *v.Objective)
			if v.Bound != nil {
				fmt.Fprintf(w, ", bound %.9g", *v.Bound)
			}
			fmt.Fprintln(w)
		}
		for _, n := range v.Notes {
			fmt.Fprintf(c.App.ErrWriter, "papers: note: %s\n", n)
		}
	})
}

func viewAllocation(policy policies.Policy, p *policies.Problem, a *policies.Allocation) *allocationView {
	number := func(v float64) *float64 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil // no objective, or nobody to reach it
		}
		return &v
	}
	v := &allocationView{
		Policy: policy.Name, Agnostic: policy.Agnostic, Objective: number(a.Objective), Bound: number(a.Bound),
		Allocation: map[string]map[string]float64{}, Rate: map[string]float64{}, GPUs: map[string]float64{}, Notes: append([]string{}, a.Notes...),
	}
	times := func(row []float64, gpus int) map[string]float64 {
		m := map[string]float64{}
		for t, x := range row {
			if x > 0 {
				m[p.Types[t].Name] = x
				v.GPUs[p.Types[t].Name] += x * float64(gpus)
			}
		}
		return m
	}
	for _, t := range p.Types {
		v.GPUs[t.Name] = 0
	}
	for i := range p.Jobs {
		v.Allocation[p.Jobs[i].ID] = times(a.Time[i], p.Jobs[i].GPUs)
		v.Rate[p.Jobs[i].ID] = a.Rate[i]
	}
	if a.Discount != nil {
		v.Discount = map[string]float64{}
		for i, d := range a.Discount {
			v.Discount[p.Jobs[i].ID] = d
		}
	}
	for _, s := range a.Pairs {
		v.Pairs = append(v.Pairs, sharedTime{[2]string{p.Jobs[s.A].ID, p.Jobs[s.B].ID}, times(s.Time, p.Jobs[s.A].GPUs)})
	}
	return v
}

// tableAllocation prints a row for each job and each pair, with its share of the time on each GPU type.
func tableAllocation(w io.Writer, p *policies.Problem, a *policies.Allocation) {
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
	report.Table(w, append(header, "STEPS/S"), rows)
}
