package colocation

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"slurmprio/priod/workload"
	"slurmprio/tests/papers/traces"
)

// Pairs answers for co-location.
type Pairs struct{ speeds map[pairKey][2]float64 }

// Workloads are those that some pair is known of, in the table's order.
func (p *Pairs) Workloads() []workload.ID {
	seen := map[workload.ID]bool{}
	for k := range p.speeds {
		seen[k.a], seen[k.b] = true, true
	}
	return slices.Sorted(maps.Keys(seen))
}

type pairKey struct {
	gpuType string
	gpus    int
	a, b    workload.ID // a <= b
}

var pairColumns = []string{"gpu_type", "gpus", "workload", "other", "steps_per_s", "other_steps_per_s"}

// WritePairs writes pairs as CSV with a header, as ReadPairs reads them.
func WritePairs(w io.Writer, pairs []traces.Pair) error {
	out := csv.NewWriter(w)
	rows := [][]string{pairColumns}
	for _, p := range pairs {
		rows = append(rows, []string{p.GPUType, strconv.Itoa(p.GPUs), p.A, p.B, decimal(p.SpeedA), decimal(p.SpeedB)})
	}
	return out.WriteAll(rows)
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// LoadPairs reads a file of pairs.
func LoadPairs(path string, t *workload.Table) (*Pairs, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("pairs: %w", err)
	}
	defer f.Close()
	return ReadPairs(path, f, t)
}

// ReadPairs reads what WritePairs wrote, each pair once, whichever of the two
// comes first. name stands in errors, with the line.
func ReadPairs(name string, r io.Reader, t *workload.Table) (*Pairs, error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	header, err := in.Read()
	if err != nil || !slices.Equal(header, pairColumns) {
		return nil, fmt.Errorf("%s: want CSV with the header %s", name, strings.Join(pairColumns, ","))
	}
	p := &Pairs{speeds: map[pairKey][2]float64{}}
	types := map[string]string{}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return p, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		bad := func(column int, want string) error {
			line, _ := in.FieldPos(column)
			return fmt.Errorf("%s:%d: %s = %.80q: want %s", name, line, pairColumns[column], row[column], want)
		}
		k := pairKey{gpuType: types[row[0]]}
		if k.gpuType == "" {
			k.gpuType = strings.Clone(row[0])
			types[k.gpuType] = k.gpuType
		}
		if k.gpuType == "" {
			return nil, bad(0, "a GPU type")
		}
		if k.gpus, err = strconv.Atoi(row[1]); err != nil || k.gpus < 1 {
			return nil, bad(1, "a number of GPUs")
		}
		var ids [2]workload.ID
		var speeds [2]float64
		for i := range 2 {
			var known bool
			if ids[i], known = t.Lookup(row[2+i]); !known {
				return nil, bad(2+i, "a workload that is known")
			}
			if speeds[i], err = strconv.ParseFloat(row[4+i], 64); err != nil || !(speeds[i] >= 0) || math.IsInf(speeds[i], 1) {
				return nil, bad(4+i, "steps a second")
			}
		}
		for i := range 2 {
			if _, runs := t.Speed(ids[i], k.gpus, k.gpuType); !runs && speeds[0] > 0 && speeds[1] > 0 {
				return nil, bad(2+i, fmt.Sprintf("a workload with a speed alone on %d GPUs of type %.40q", k.gpus, k.gpuType))
			}
		}
		if ids[0] > ids[1] {
			ids[0], ids[1] = ids[1], ids[0]
			speeds[0], speeds[1] = speeds[1], speeds[0]
		}
		k.a, k.b = ids[0], ids[1]
		if _, twice := p.speeds[k]; twice {
			return nil, bad(3, "each pair once")
		}
		p.speeds[k] = speeds
	}
}

// Speed is how many steps a second two jobs of so many GPUs each make on the
// same GPUs. ok is false when nothing is known and when they do not run together.
func (p *Pairs) Speed(a, b workload.ID, gpus int, gpuType string) (stepsA, stepsB float64, ok bool) {
	swap := a > b
	if swap {
		a, b = b, a
	}
	s := p.speeds[pairKey{gpuType, gpus, a, b}]
	if swap {
		s[0], s[1] = s[1], s[0]
	}
	return s[0], s[1], s[0] > 0 && s[1] > 0
}
