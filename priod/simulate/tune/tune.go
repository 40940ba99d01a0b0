// Package tune chooses settings by what each made of the same jobs, in blocks of time: some blocks choose, the others say what
// the choice is worth.
//
// It is pure: what each setting made of each block in, a choice with its doubt out. Doubt is a bootstrap over blocks (Efron and
// Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13): jobs that wait at one time wait for the same reasons, so
// that not jobs but blocks count as independent.
package tune

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"slurmprio/priod/cluster"
	"slurmprio/priod/simulate/metrics"
	"slurmprio/priod/trace"
)

// Goal is a figure of which less is better.
type Goal string

// The goals.
const (
	Completion Goal = "completion" // mean time from submission to end, h
	TEP95      Goal = "te-p95"     // 95th percentile of the slowdown of TE jobs, mean of the blocks
	WorstUser  Goal = "worst-user" // mean slowdown of the jobs of the worst user with five, mean of the blocks
	Lost       Goal = "lost"       // GPU-hours of work that was lost in a block: evictions, failures, restarts
)

// Goals are all of them.
var Goals = []Goal{Completion, TEP95, WorstUser, Lost}

// Sum is what a block adds to a figure: the figure is the sum of Sum over that of N.
type Sum struct{ Sum, N float64 }

// Block is what one setting made of the jobs that were submitted in one part of the time.
type Block map[Goal]Sum

// Setting is a list of assignments KEY=VALUE over the present priod.toml, and what came of it.
type Setting struct {
	Set    []string
	Blocks []Block // nil: it could not be simulated
}

// Name is the assignments; "now" without any.
func (s *Setting) Name() string {
	if len(s.Set) == 0 {
		return "now"
	}
	return strings.Join(s.Set, " ")
}

// fewJobs of a user say nothing of what the user gets.
const fewJobs = 5

// Measure is what became of jobs, by blocks of so many seconds. Jobs without GPUs count in none.
func Measure(jobs []trace.Job, outcomes []metrics.Outcome, blocks int, length float64) []Block {
	all := make([]Block, blocks)
	te, users := make([][]float64, blocks), make([]map[string]*Sum, blocks)
	for i := range all {
		all[i], users[i] = Block{}, map[string]*Sum{}
	}
	add := func(b int, g Goal, x, n float64) {
		s := all[b][g]
		all[b][g] = Sum{s.Sum + x, s.N + n}
	}
	for i := range jobs {
		j, o := metrics.JobOf(&jobs[i]), &outcomes[i]
		if j.GPUs == 0 {
			continue
		}
		b := min(int(j.Submit/length), blocks-1)
		slowdown := metrics.Slowdown(&j, o)
		add(b, Completion, (o.End-j.Submit)/3600, 1)
		add(b, Lost, (o.Wasted+o.Lost*float64(j.GPUs))/3600, 0)
		if j.Class == cluster.TE {
			te[b] = append(te[b], slowdown)
		}
		u := users[b][jobs[i].User]
		if u == nil {
			u = &Sum{}
			users[b][jobs[i].User] = u
		}
		u.Sum, u.N = u.Sum+slowdown, u.N+1
	}
	for b := range all {
		add(b, Lost, 0, 1)
		if len(te[b]) > 0 {
			slices.Sort(te[b])
			add(b, TEP95, metrics.Percentile(te[b], 95), 1)
		}
		worst := 0.0
		for _, u := range users[b] {
			if u.N >= fewJobs {
				worst = max(worst, u.Sum/u.N)
			}
		}
		if worst > 0 {
			add(b, WorstUser, worst, 1)
		}
	}
	return all
}

// Flat are blocks as names and numbers.
func Flat(blocks []Block) map[string]float64 {
	flat := map[string]float64{}
	for i, b := range blocks {
		for g, s := range b {
			flat[fmt.Sprintf("%d %s sum", i, g)], flat[fmt.Sprintf("%d %s n", i, g)] = s.Sum, s.N
		}
	}
	return flat
}

// Unflat reads what Flat wrote.
func Unflat(flat map[string]float64) []Block {
	blocks := []Block{}
	for _, key := range slices.Sorted(maps.Keys(flat)) {
		parts := strings.Fields(key)
		i, err := strconv.Atoi(parts[0])
		if err != nil || len(parts) != 3 || i < 0 || i > 10_000 {
			continue
		}
		for len(blocks) <= i {
			blocks = append(blocks, Block{})
		}
		g := Goal(parts[1])
		s := blocks[i][g]
		if parts[2] == "n" {
			s.N = flat[key]
		} else {
			s.Sum = flat[key]
		}
		blocks[i][g] = s
	}
	return blocks
}

// Value is a figure of some blocks; NaN: none of them has it.
func Value(blocks []Block, g Goal, which []int) float64 {
	sum, n := 0.0, 0.0
	for _, i := range which {
		sum, n = sum+blocks[i][g].Sum, n+blocks[i][g].N
	}
	return sum / n
}

// Change is how a figure of one setting differs from that of another in the same blocks.
type Change struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
	Low  float64 `json:"low"` // To - From lies between these with 90 % confidence
	High float64 `json:"high"`
}

// Wins reports whether less is certain.
func (c Change) Wins() bool { return c.High < 0 }

// Part is a difference as a part of From; NaN where that is 0.
func (c Change) Part(difference float64) float64 {
	if c.From == 0 {
		return math.NaN()
	}
	return difference / c.From
}

const resamples = 2000

// Between is the change of a figure from one setting to another in some blocks.
func Between(from, to []Block, g Goal, which []int) Change {
	c := Change{From: Value(from, g, which), To: Value(to, g, which)}
	r := rand.New(rand.NewPCG(uint64(len(which)), 1))
	all, again := make([]float64, resamples), make([]int, len(which))
	for k := range all {
		for i := range again {
			again[i] = which[r.IntN(len(which))]
		}
		if all[k] = Value(to, g, again) - Value(from, g, again); math.IsNaN(all[k]) {
			all[k] = 0 // none of them has the figure
		}
	}
	slices.Sort(all)
	c.Low, c.High = all[resamples/20], all[resamples-1-resamples/20]
	return c
}

// Split are the blocks that choose and those that say what the choice is worth, in turn.
func Split(blocks int) (choose, report []int) {
	for i := range blocks {
		if i%2 == 0 {
			choose = append(choose, i)
		} else {
			report = append(report, i)
		}
	}
	return choose, report
}

// Aim is what settings are chosen for.
type Aim struct {
	Goal   Goal
	Bounds map[Goal]float64 // figures that may not be exceeded
	Now    []Block          // what the present setting made: completion, trials and users without a bound may not be worse off beyond doubt
}

// within reports whether a setting keeps the bounds in some blocks. A figure that no block has breaks none.
func (a *Aim) within(s *Setting, which []int) bool {
	for _, g := range []Goal{Completion, TEP95, WorstUser} {
		if _, bound := a.Bounds[g]; g != a.Goal && !bound && a.Now != nil && Between(a.Now, s.Blocks, g, which).Low > 0 {
			return false
		}
	}
	for g, most := range a.Bounds {
		if Value(s.Blocks, g, which) > most {
			return false
		}
	}
	return true
}

// Best is the setting with the least goal of those within the bounds, in some blocks; nil: none is.
func (a *Aim) Best(all []*Setting, which []int) (best *Setting) {
	for _, s := range all {
		if s.Blocks == nil || !a.within(s, which) {
			continue
		}
		if v := Value(s.Blocks, a.Goal, which); !math.IsNaN(v) && (best == nil || v < Value(best.Blocks, a.Goal, which)) {
			best = s
		}
	}
	return best
}

// Winners are the settings that win against one within the bounds, the best first.
func (a *Aim) Winners(all []*Setting, against *Setting, which []int) (winners []*Setting) {
	for _, s := range all {
		if s.Blocks != nil && s != against && a.within(s, which) && Between(against.Blocks, s.Blocks, a.Goal, which).Wins() {
			winners = append(winners, s)
		}
	}
	slices.SortStableFunc(winners, func(x, y *Setting) int {
		return cmp.Compare(Value(x.Blocks, a.Goal, which), Value(y.Blocks, a.Goal, which))
	})
	return winners
}

// Choice is one setting to change to, or why none.
type Choice struct {
	Setting *Setting `json:"-"`
	Why     string   `json:"why,omitempty"` // none is recommended
	Chosen  Change   `json:"chosen_by"`     // the change of the goal in the blocks that chose it
	Worth   Change   `json:"worth"`         // in the others
}

// Choose takes the best setting if it wins by more than its doubt in the blocks that choose, and is no worse than now in the others.
func (a *Aim) Choose(all []*Setting, now *Setting, choose, report []int) (c Choice) {
	best := a.Best(all, choose)
	switch {
	case now.Blocks == nil:
		return Choice{Why: "the present settings could not be simulated"}
	case best == nil:
		return Choice{Why: "no setting keeps the bounds"}
	case best == now:
		return Choice{Why: "no setting does better than the present one"}
	}
	c.Chosen, c.Worth = Between(now.Blocks, best.Blocks, a.Goal, choose), Between(now.Blocks, best.Blocks, a.Goal, report)
	switch {
	case !c.Chosen.Wins() && a.within(now, choose):
		c.Why = "no setting wins by more than its doubt: the best would be " + best.Name()
	case !(c.Worth.To < c.Worth.From) && a.within(now, choose):
		c.Why = best.Name() + " wins in the blocks that chose it, and not in the others"
	default:
		c.Setting = best
	}
	return c
}

// Front are the settings that no other one beats in one goal without being worse in another (Pareto), by the means of all blocks.
func Front(all []*Setting) (front []*Setting) {
	value := func(s *Setting, g Goal) float64 {
		v := Value(s.Blocks, g, every(len(s.Blocks)))
		if math.IsNaN(v) {
			return 0
		}
		return v
	}
	for _, s := range all {
		beaten := s.Blocks == nil
		for _, o := range all {
			better, worse := false, false
			for _, g := range Goals {
				if o.Blocks == nil || beaten {
					break
				}
				a, b := value(o, g), value(s, g)
				better, worse = better || a < b, worse || a > b
			}
			beaten = beaten || better && !worse
		}
		if !beaten {
			front = append(front, s)
		}
	}
	return front
}

// every is all of so many blocks.
func every(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// All is a figure of all blocks.
func (s *Setting) All(g Goal) float64 { return Value(s.Blocks, g, every(len(s.Blocks))) }
