package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/simulate/virtual"
	"slurmprio/priod/trace"
)

// Spec says how the virtual Slurm schedules, and whether priod runs beside it. Times are in seconds.
type Spec struct {
	Order       string // fifo, multifactor, and with shares fair-share, quotas, owners: Slurm's own; priod: its cycles beside these
	SlurmOrder  string // of order priod: Slurm's own, to which priod adds; "": multifactor
	Backfill    string // what may start before the head of the queue; "" with order priod: easy where priod steers, sizes or places
	Own         virtual.Own
	Placement   string // packed ("": the same), consolidated
	Preemption  string // "", slurm-qos: Slurm's own by QOS, without priod
	Retry       string // what jobs that do not say count as sent with: never, infra, always; "": nothing
	Waits       bool   // find the causes of waiting, too; needs order priod
	Window      *metrics.Window
	Seed        uint64
	Overheads   Overheads
	NodeCosts   []float64 // what jobs lose on 2, 4, 8 ... times as many nodes as they need; see workload.SpreadLoss
	SpreadCosts []float64 // what jobs lose on 2, 4, 8 ... times as many leaf switches as they need; see workload.SpreadLoss
	Trial       string    // priod on and off in blocks, as trial.Parse reads it; off: always off; "": always on
}

// Overheads are what moving a job costs on a real cluster; zero costs nothing.
type Overheads struct {
	Grace      float64 // to leave, for jobs that do not say
	Requeue    float64 // from leaving to being eligible again: 121 on Slurm by default
	Prolog     float64
	Epilog     float64
	Checkpoint float64 // between checkpoints, for jobs that do not say
	Hold       float64 // until a job begins that may be steered or sized, as sbatchwrap submits it
	Restart    float64 // of each later run, without progress
	MTBF       float64 // mean time between failures of one node; 0: none fails
	Repair     float64 // until a failed node is back
}

// SlurmQOS is Slurm's own preemption, by QOS.
const SlurmQOS = "slurm-qos"

// Choice is a flag with few values, of which the first is the default.
type Choice struct {
	Flag string
	Have []string
}

// The choices.
var (
	Orders      = Choice{"order", []string{"fifo", "multifactor", FairShare, Quotas, Owners, "priod"}}
	SlurmOrders = Choice{"slurm-order", []string{"multifactor", "fifo"}}
	Backfills   = Choice{"backfill", []string{"none", "easy", "conservative"}}
	Placements  = Choice{"placement", []string{"packed", "consolidated"}}
)

// Values lists what the flag takes, for its help.
func (c Choice) Values() string { return strings.Join(c.Have, ", ") }

// Check fills in the default and refuses an unknown value.
func (c Choice) Check(value *string) error {
	if *value == "" {
		*value = c.Have[0]
	}
	if slices.Contains(c.Have, *value) {
		return nil
	}
	return fmt.Errorf("--%s %q: want one of %s", c.Flag, *value, c.Values())
}

// Check fills in defaults and refuses what does not go together.
func (s *Spec) Check() error {
	for _, d := range []struct {
		choice Choice
		value  *string
		open   bool // decided later
	}{
		{Orders, &s.Order, false}, {SlurmOrders, &s.SlurmOrder, false}, {Placements, &s.Placement, false}, {Backfills, &s.Backfill, s.Backfill == "" && s.Priod()},
	} {
		if d.open {
			continue
		}
		if err := d.choice.Check(d.value); err != nil {
			return err
		}
	}
	switch {
	case s.Retry != "" && !slices.Contains(trace.Retries, s.Retry):
		return fmt.Errorf("--retry %q: want one of %s", s.Retry, strings.Join(trace.Retries, ", "))
	case s.Retry != "" && !s.Priod():
		return errors.New("--retry is about priod's requeues: it belongs to --order priod")
	case s.Trial != "" && !s.Priod():
		return errors.New("--trial has priod on and off: add --order priod")
	case s.Waits && !s.Priod():
		return errors.New("--waits needs priod's cycles: add --order priod")
	case s.Preemption != "" && s.Preemption != SlurmQOS:
		return fmt.Errorf("--preemption %q: want %s", s.Preemption, SlurmQOS)
	case s.Preemption != "" && s.Order == Owners:
		return fmt.Errorf("--preemption %s is by QOS, --order %s by partition: a Slurm has one of them", s.Preemption, Owners)
	case s.Preemption != "" && s.Priod():
		return fmt.Errorf("--preemption %s is Slurm's own, without priod: want --order multifactor or fifo beside it", s.Preemption)
	}
	for flag, costs := range map[string][]float64{"spread-costs": s.SpreadCosts, "node-costs": s.NodeCosts} {
		if !slices.IsSorted(costs) || len(costs) > 0 && !(costs[0] >= 0 && costs[len(costs)-1] < 1) {
			return fmt.Errorf("--%s: want parts of a job's speed from 0 to below 1, rising", flag)
		}
	}
	return nil
}

// Priod reports whether the daemon's own cycles run.
func (s *Spec) Priod() bool { return s.Order == "priod" }

// String names the policy in the words of the flags, for a page's head.
func (s Spec) String() string {
	var words []string
	for _, d := range []struct{ flag, value, none string }{
		{"order", s.Order, ""}, {"backfill", s.Backfill, "none"}, {"placement", s.Placement, "packed"}, {"preemption", s.Preemption, ""}, {"retry", s.Retry, ""},
	} {
		if d.value != d.none {
			words = append(words, d.flag+" "+d.value)
		}
		if d.flag == "backfill" && d.value != d.none && s.Own.Interval > 0 {
			words[len(words)-1] += fmt.Sprintf(" every %v s", s.Own.Interval)
		}
	}
	if s.Window != nil {
		words = append(words, fmt.Sprintf("jobs %d to %d", s.Window.First, s.Window.Last))
	}
	return strings.Join(append(words, fmt.Sprintf("seed %d", s.Seed)), ", ")
}
