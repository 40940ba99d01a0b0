package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"slurmprio/priod/evict/preemption"
	site "slurmprio/priod/simulate"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
	"slurmprio/tests/papers/policies"
	"slurmprio/tests/papers/preempt"
)

// Spec says which policy runs: one field for each dimension, named as the flags
// of simulate are. Times are in seconds.
type Spec struct {
	Engine         string    // slurm, rounds, pool
	Order          string    // who goes first
	LASQueues      []float64 // borders between las's queues, GPU-seconds attained
	SlurmOrder     string    // where priod runs: Slurm's own, to which priod adds
	Backfill       string    // who may go before; "" where priod runs: easy if it steers, else none
	Placement      string    // where
	Allocation     string    // which share of which GPU type
	Preemption     string    // who has to leave for whom
	Eviction       preempt.Settings
	Retry          string  // what jobs that do not say count as sent with: never, infra, always; "": nothing
	Speeds         string  // where the allocation has speeds from
	HistoryJobs    int     // speeds from history: so many completed jobs are learned from; 0: all
	PairsTried     float64 // chance that a pair of a new job and a reference is tried, which pairs are estimated from; 0: all pairs are known
	PairReferences int     // how many workloads are references; 0: all that pairs are known of
	Sizing         string  // with how many CPUs and how much memory
	RoundModel     string  // of engine rounds: gavel, synergy, gavel-published (with the faults of its scheduler)
	Round          float64 // of engine rounds, 0: the model's own; where priod runs, 0: as it is configured
	FirstRound     float64 // of round model synergy; the published simulator says 1 for static traces
	Waits          bool    // find the causes of waiting, too; needs Order priod
	Window         *metrics.Window
	Seed           uint64
	Overheads      site.Overheads
	NodeCosts      []float64 // what jobs lose on 2, 4, 8 ... times as many nodes as they need; see workload.SpreadLoss
	SpreadCosts    []float64 // what jobs lose on 2, 4, 8 ... times as many leaf switches as they need; see workload.SpreadLoss
	UserGPUs       int       // at once, for each user; 0: no limit
	AccountGPUs    int       // at once, for each account; 0: no limit
}

// leastLoss is priod's own policy of preemption.
const leastLoss = "least-loss"

// The dimensions.
var (
	Engines     = site.Choice{Flag: "engine", Have: []string{"slurm", "rounds", "pool"}}
	Orders      = site.Choice{Flag: "order", Have: []string{"fifo", "sjf", "srtf", "las", "ftf", "multifactor", "priod", "owed"}}
	SlurmOrders = site.SlurmOrders
	Backfills   = site.Choice{Flag: "backfill", Have: []string{"none", "easy", "conservative", "skip"}}
	Placements  = site.Placements
	Allocations = site.Choice{Flag: "allocation", Have: append([]string{"none"}, policies.Names()...)}
	Preemptions = site.Choice{Flag: "preemption", Have: []string{"none", "te-first", "lrtp", "random", "fitgpp", site.SlurmQOS, leastLoss}}
	Sizings     = site.Choice{Flag: "sizing", Have: []string{"request", "proportional", "greedy", "tune", "tune-best-fit", "waterfill", "opt"}}
	Speeds      = site.Choice{Flag: "speeds", Have: []string{"known", "history", "run-times"}}
	RoundModels = site.Choice{Flag: "round-model", Have: []string{"gavel", "synergy", "gavel-published"}}
)

// check fills in the default and refuses an unknown value.
func check(c site.Choice, value *string) error {
	if *value == "" {
		*value = c.Have[0]
	}
	name, _, _ := strings.Cut(*value, ":") // max-min:agnostic:packed
	switch {
	case *value == c.Have[0]:
		return nil
	case c.Flag == "allocation" && slices.Contains(c.Have, name):
		if _, err := policies.ParsePolicy(*value); err != nil {
			return fmt.Errorf("--allocation: %w", err)
		}
		return nil
	case slices.Contains(c.Have, *value):
		return nil
	}
	return fmt.Errorf("--%s %q: want one of %s", c.Flag, *value, c.Values())
}

// Check fills in defaults and refuses what does not go together.
func (s *Spec) Check() error {
	if err := s.shortForms(); err != nil {
		return err
	}
	for _, d := range []struct {
		choice site.Choice
		value  *string
	}{
		{Engines, &s.Engine}, {Orders, &s.Order}, {SlurmOrders, &s.SlurmOrder}, {Allocations, &s.Allocation},
		{Preemptions, &s.Preemption}, {Sizings, &s.Sizing}, {Speeds, &s.Speeds},
	} {
		if err := check(d.choice, d.value); err != nil {
			return err
		}
	}
	if s.Retry != "" && !slices.Contains(trace.Retries, s.Retry) {
		return fmt.Errorf("--retry %q: want one of %s", s.Retry, strings.Join(trace.Retries, ", "))
	}
	if s.Retry != "" && !s.Priod() {
		return errors.New("--retry is about priod's requeues: it belongs to --order priod")
	}
	if s.Backfill != "" || !s.Priod() {
		if err := check(Backfills, &s.Backfill); err != nil {
			return err
		}
	}
	if s.HistoryJobs != 0 && (s.Speeds == "known" || s.HistoryJobs < 0) {
		return errors.New("--history-jobs is a number of jobs from 1, for --speeds history or run-times")
	}
	switch s.Engine {
	case "rounds":
		return s.checkRounds()
	case "pool":
		return s.checkPool()
	}
	if err := check(Placements, &s.Placement); err != nil {
		return err
	}
	switch {
	case slices.Contains([]string{"sjf", "srtf", "las", "ftf"}, s.Order):
		return fmt.Errorf("--order %s is no order of a Slurm: --engine pool and --engine rounds have it", s.Order)
	case s.Backfill == "conservative" || s.Backfill == "skip":
		return fmt.Errorf("--backfill %s belongs to --engine pool", s.Backfill)
	case s.Pairs():
		return fmt.Errorf("--allocation %s needs --engine rounds: on a Slurm no jobs share GPUs", s.Allocation)
	case s.Round != 0 && !s.Priod() || s.RoundModel != "" || s.FirstRound != 0:
		return errors.New("--round-model and --first-round belong to --engine rounds, --round to it or to --allocation")
	case s.Speeds != "known":
		return fmt.Errorf("--speeds %s needs --engine rounds", s.Speeds)
	case !slices.IsSorted(s.SpreadCosts) || len(s.SpreadCosts) > 0 && !(s.SpreadCosts[0] >= 0 && s.SpreadCosts[len(s.SpreadCosts)-1] < 1):
		return errors.New("--spread-costs: want parts of a job's speed from 0 to below 1, rising")
	case !slices.IsSorted(s.NodeCosts) || len(s.NodeCosts) > 0 && !(s.NodeCosts[0] >= 0 && s.NodeCosts[len(s.NodeCosts)-1] < 1):
		return errors.New("--node-costs: want parts of a job's speed from 0 to below 1, rising")
	case len(s.LASQueues) > 0:
		return errors.New("--las-queues belongs to --engine pool with --order las")
	case s.sizes() && s.Sizing != "waterfill":
		return fmt.Errorf("--sizing %s needs --engine rounds: on a Slurm nothing resizes a running job, so that each free GPU must keep its share", s.Sizing)
	case s.evicts() && s.Preemption != site.SlurmQOS && !s.Priod():
		s.Eviction.Policy, s.Eviction.Seed = preemption.Policy(s.Preemption), s.Seed
		return s.Eviction.Check()
	}
	return nil
}

// sizes reports whether priod gives jobs on a Slurm other CPUs and memory.
func (s *Spec) sizes() bool {
	return !s.GPUsOnly() && s.Sizing != "" && s.Sizing != "request" && s.Sizing != "proportional"
}

// GPUsOnly reports whether GPUs alone are counted, and jobs without them have no place in it.
func (s *Spec) GPUsOnly() bool { return s.Engine == "rounds" || s.Engine == "pool" }

// Priod reports whether the daemon's own cycles run, of a Spec that has passed Check.
func (s *Spec) Priod() bool {
	return !s.GPUsOnly() && (s.Order == "priod" || s.Order == "owed")
}

// shortForms makes order priod, beside the order that Slurm has, of flags that stand for
// features of priod's: --allocation, --preemption least-loss, --sizing and --order owed.
func (s *Spec) shortForms() error {
	short := ""
	switch {
	case s.GPUsOnly() || s.Order == "priod":
		return nil
	case s.Allocation != "" && s.Allocation != "none":
		short = "--allocation " + s.Allocation
	case s.Preemption == leastLoss:
		short = "--preemption " + leastLoss
	case s.sizes():
		short = "--sizing " + s.Sizing
	case s.Order != "owed":
		return nil
	}
	switch s.Order {
	case "", "owed":
		s.Order, s.SlurmOrder = cmp.Or(s.Order, "priod"), cmp.Or(s.SlurmOrder, "fifo")
	case "fifo", "multifactor":
		s.Order, s.SlurmOrder = "priod", s.Order
	default:
		return fmt.Errorf("%s is short for --order priod, which stands before what Slurm itself orders by: fifo or multifactor, not %s", short, s.Order)
	}
	return nil
}

// Pairs reports whether jobs may run in pairs.
func (s *Spec) Pairs() bool {
	policy, err := policies.ParsePolicy(s.Allocation)
	return err == nil && policy.Pairs()
}

// evicts reports whether anybody has to leave.
func (s *Spec) evicts() bool { return s.Preemption != "none" && s.Preemption != "te-first" }

// checkPool is Check for engine pool.
func (s *Spec) checkPool() error {
	switch {
	case s.Order == "multifactor" || s.Order == "priod" || s.Order == "owed":
		return fmt.Errorf("--order %s belongs to --engine slurm", s.Order)
	case len(s.LASQueues) > 0 && s.Order != "las":
		return errors.New("--las-queues belongs to --order las")
	case s.Placement != "" || s.Preemption != "none" || s.Overheads != site.Overheads{} || len(s.SpreadCosts) > 0 || len(s.NodeCosts) > 0 || s.UserGPUs != 0 || s.AccountGPUs != 0:
		return errors.New("placement, preemption, overheads, failures and limits belong to --engine slurm: in a pool GPUs are counted")
	case s.Allocation != "none" || s.Sizing != "request" || s.Round != 0 || s.RoundModel != "" || s.FirstRound != 0 || s.Speeds != "known":
		return errors.New("--allocation, --sizing, --round, --round-model, --first-round and --speeds belong to other engines than pool")
	}
	return nil
}

func (s *Spec) checkRounds() error {
	if s.RoundModel == "" && s.Sizing != "request" {
		s.RoundModel = "synergy"
	}
	if err := check(RoundModels, &s.RoundModel); err != nil {
		return err
	}
	switch {
	case s.Placement != "" || s.Backfill != "none":
		return errors.New("--placement and --backfill belong to --engine slurm: in a round every job may be moved")
	case s.Order == "multifactor" || s.Order == "priod" || s.Order == "owed":
		return fmt.Errorf("--order %s belongs to --engine slurm", s.Order)
	case len(s.LASQueues) > 0:
		return errors.New("--las-queues belongs to --engine slurm; rounds order by the GPU time itself")
	case s.Preemption != "none":
		return fmt.Errorf("--preemption %s belongs to --engine slurm", s.Preemption)
	case s.Overheads != site.Overheads{} || len(s.SpreadCosts) > 0 || len(s.NodeCosts) > 0 || s.UserGPUs != 0 || s.AccountGPUs != 0:
		return errors.New("overheads, failures and limits belong to --engine slurm: rounds are the papers' ideal")
	case s.RoundModel == "synergy" && s.Allocation != "none":
		return fmt.Errorf("--allocation %s needs --round-model gavel", s.Allocation)
	case s.RoundModel == "gavel-published" && s.Pairs():
		return fmt.Errorf("--allocation %s needs --round-model gavel: pairs do not run as published", s.Allocation)
	case s.RoundModel != "synergy" && s.Sizing != "request":
		return fmt.Errorf("--sizing %s needs --round-model synergy", s.Sizing)
	case s.Pairs() && s.Speeds != "known":
		return fmt.Errorf("--speeds %s goes with allocations without space sharing: the work of each job of a pair is unknown", s.Speeds)
	case s.PairsTried != 0 && !s.Pairs():
		return errors.New("--pairs-tried belongs to --allocation gandiva or POLICY:packed")
	case !(s.PairsTried >= 0 && s.PairsTried <= 1):
		return errors.New("--pairs-tried: want a part from 0 (all pairs are known) to 1")
	case s.PairReferences != 0 && s.PairsTried == 0:
		return errors.New("--pair-references belongs to --pairs-tried")
	case s.PairReferences < 0:
		return errors.New("--pair-references: want a number from 1, or 0 for all workloads")
	case s.RoundModel == "synergy" && s.Speeds != "known":
		return fmt.Errorf("--speeds %s needs --round-model gavel", s.Speeds)
	case s.FirstRound != 0 && s.RoundModel != "synergy":
		return errors.New("--first-round belongs to --round-model synergy")
	}
	return nil
}

// String names the policy in the words of the flags, for a page's head.
func (s Spec) String() string {
	words := []string{"engine " + s.Engine}
	for _, d := range []struct{ flag, value, none string }{
		{"order", s.Order, ""}, {"backfill", s.Backfill, "none"}, {"placement", s.Placement, ""}, {"allocation", s.Allocation, "none"},
		{"preemption", s.Preemption, "none"}, {"sizing", s.Sizing, "request"}, {"retry", s.Retry, ""}, {"speeds", s.Speeds, "known"}, {"round-model", s.RoundModel, ""},
	} {
		if d.value != d.none && d.value != "" {
			words = append(words, d.flag+" "+d.value)
		}
	}
	if s.Round != 0 {
		words = append(words, fmt.Sprintf("rounds of %v s", s.Round))
	}
	if s.Window != nil {
		words = append(words, fmt.Sprintf("jobs %d to %d", s.Window.First, s.Window.Last))
	}
	return strings.Join(append(words, fmt.Sprintf("seed %d", s.Seed)), ", ")
}
