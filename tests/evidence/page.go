package main

import (
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// page is docs/evidence/all-four.md.
func (m *matrix) page() string {
	var b strings.Builder
	list, _ := programs() // read before
	at := typicalLoad(m.o.loads)
	var alone [2]float64
	for seed := range m.o.seeds {
		proportional, best := bounds(generate(list, uint64(seed+1), m.o.jobs, at, 6))
		alone[0], alone[1] = alone[0]+proportional/3600/float64(m.o.seeds), alone[1]+best/3600/float64(m.o.seeds)
	}
	fmt.Fprintf(&b, `# All four at once

Made by `+"`make evidence`"+` (tests/evidence) in %s: %d seeds of %d jobs each, all through the daemon's own cycles in virtual
time. Every figure is the mean of the seeds; in brackets the least and the greatest seed.

![mean completion and trials' slowdown by load](../pages/all-four.png)

## The workload

144 GPUs: six nodes each of V100, P100 and K80 with 8 GPUs, 24 CPUs and 500 GB, three to a leaf switch. Jobs draw one of Gavel's %d
programs with its measured speed on each type, a curve of Synergy's for CPUs and memory, 1 to 16 GPUs; 40 users in 6 accounts. 30 %% are
trials (TE, 20 s to 30 minutes on a V100, half a percent of GPU time), the rest trainings (BE, half an hour to 42 h), of which half save
their state each 15 to 60 minutes, the others only when told to leave: a failed node takes all of their work. At load 1 each type does the average job at its average speed.
Each run has a prolog of 10 s, each later one costs 60 s; gangs on two, four, eight times as many switches as they need lose 15, 20,
44 %%; a node fails once in 3,000 h, for 4 h. A gang lies on one GPU type, also without priod ([a real Slurm](real-slurm.md) mixes open types, at a
higher cost). Tags are complete, priod's cycle is 10 s, the hold 20 s.

* *Slurm as it ships*: multifactor, EASY backfill. *An expert's Slurm*: also preemption by QOS, youngest first, requeued.
* Completion: from submission to end. Slowdown: completion over the run on the job's fastest type at the proportional share; 1 is
  the best that a job alone could have.
* Users: the mean slowdown of a user's jobs against the mean speed of the types; of users with 10 jobs and more.
* Bound: %.2f h on average, each job alone on its fastest type with all the CPUs and memory that it gains from;
  at the proportional share %.2f h.
* GPU-hours lost: work that evictions and failed nodes undid, and grace; one gang of 16 without checkpoints may be most of it.

`, time.Now().Format("January 2006"), m.o.seeds, m.o.jobs, len(list), alone[1], alone[0])
	fmt.Fprintf(&b, "## Load %g\n\n", at)
	m.table(&b, at)
	m.others(&b, at)
	m.hostile(&b, at)
	m.overload(&b)
	b.WriteString(weeksPointer)
	m.losses(&b)
	return b.String()
}

// spread is a mean with the least and the greatest seed.
func spread(c *cell, digits int, of func(*figures) float64) string {
	var values []float64
	for i := range c.figures {
		values = append(values, of(&c.figures[i]))
	}
	return fmt.Sprintf("%.*f (%.*f-%.*f)", digits, of(&c.mean), digits, slices.Min(values), digits, slices.Max(values))
}

const header = `| | mean completion, h | Slurm / this | TE completion, s | TE slowdown p95 | TE wait p95, p99, s | BE slowdown p50, p95 | evictions | GPU-h lost | worst user | users worse off by > 10 % |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
`

func (m *matrix) table(b io.Writer, load float64) {
	io.WriteString(b, header)
	base := m.cell(shipped.name, load, "")
	same := ""
	for _, c := range m.cells {
		switch p := m.cell(profile.name, load, ""); {
		case c.load != load || c.kind != "":
		case p != nil && c.setup.name == noHeadroom.name && reflect.DeepEqual(c.mean, p.mean):
			same = "Without nodes kept for TE jobs each figure is that of the profile.\n\n"
		default:
			row(b, c, base)
		}
	}
	io.WriteString(b, "\n"+same)
}

// row writes one setup beside Slurm as it ships.
func row(b io.Writer, c, base *cell) {
	worse := 0
	for i := range c.figures {
		worse += c.figures[i].worseOff(&base.figures[i])
	}
	f := &c.mean
	fmt.Fprintf(b, "| %s | %s | %.2f | %.0f | %.1f | %.0f, %.0f | %.2f, %.1f | %.0f | %.0f | %.1f | %d of %d |\n", shortName(c.setup),
		spread(c, 2, func(f *figures) float64 { return f.MeanH }), base.mean.MeanH/f.MeanH, f.TEMeanS, f.TESlowdownP95, f.TEWaitP95S, f.TEWaitP99S,
		f.BESlowdownP50, f.BESlowdownP95, f.Evictions, f.GPUHoursLost, f.WorstUser, worse, users(c))
}

// users counts those of all seeds.
func users(c *cell) int {
	n := 0
	for i := range c.figures {
		n += len(c.figures[i].users)
	}
	return n
}

// others are the profile and its rivals at the other loads, and what weather and bad input cost at the typical one.
func (m *matrix) others(b *strings.Builder, at float64) {
	fmt.Fprintf(b, `## Other loads, weather and bad input

Weather: each node fails once in 18 h for 10 minutes, so that some node fails each hour. Untagged: every second user types no tag at all; their trials count as
best effort, and no job of theirs is steered, sized or evicted. Wrong speeds: priod is told a third, the speed, or three times the speed, drawn for each program and GPU type.

`)
	b.WriteString(strings.NewReplacer("| | ", "| load | | ", "\n| --- |", "\n| --- | --- |").Replace(header))
	line := func(label string, c, base *cell) {
		fmt.Fprintf(b, "| %s ", label)
		row(b, c, base)
	}
	for _, load := range m.o.loads {
		for _, set := range []setup{shipped, expert, profile} {
			if load != at {
				line(fmt.Sprint(load), m.cell(set.name, load, ""), m.cell(shipped.name, load, ""))
			}
		}
	}
	for _, set := range []setup{shipped, expert, profile} {
		line(fmt.Sprintf("%g, weather", at), m.cell(set.name, at, failing), m.cell(shipped.name, at, failing))
	}
	base := m.cell(shipped.name, at, "")
	line(fmt.Sprintf("%g, untagged", at), m.cell(profile.name, at, untagged), base)
	line(fmt.Sprintf("%g, wrong speeds", at), m.cell(profile.name, at, wrongSpeeds), base)
	b.WriteString("\n")
}

const weeksPointer = `## Weeks of public logs

Nine weeks each of Helios Venus and Philly: [a page of their own](weeks.md).

`

func (m *matrix) hostile(b *strings.Builder, load float64) {
	fmt.Fprintf(b, `## Hostile users

Load %g. Every fifth user says of all trainings that they are trials. Half of these users also submit, three times, an array of %d trials of
5 minutes on one GPU at once; the others, three times, %d trials of 8 GPUs with a limit of a minute, one each minute. Their trainings are as much
shorter, all by the same part, as makes the GPU time of all jobs what it was. The figures, but evictions, are those of the other users' jobs.

`, load, m.o.jobs/10, m.o.jobs/15)
	m.hostileTable(b, load)
}

func (m *matrix) overload(b *strings.Builder) {
	fmt.Fprintf(b, `## Trials and trainings under overload

%d jobs on %d nodes of 8 GPUs, 32 CPUs and 256 GB, load %g of what is scarcest: CPUs, memory, or GPUs. 30 %% trials of 3 to 10 minutes on
2, 4 or (15 %%) 8 GPUs, which want more CPUs and memory for each GPU than the trainings do; these take half an hour to two days (lognormal,
median 2 h), and need 20 s to 20 minutes (median 2 minutes) to leave. The two seeds apart. Slurm's own preemption evicts mostly jobs that have just
started again: they are the youngest.

`, len(m.mixes[0].jobs[0]), overloadNodes, overloadLoad)
	overloadTable(b, m.mixes)
	b.WriteString("\n")
}

// losses lists what another setup does better than the profile by at least a twentieth.
func (m *matrix) losses(b *strings.Builder) {
	b.WriteString("## Where the profile does not win\n\nFigures that another setup has better by at least 5 %, in the mean over the seeds:\n\n")
	found := false
	for _, load := range m.o.loads {
		ours := &m.cell(profile.name, load, "").mean
		for _, set := range all() {
			theirs := &m.cell(set.name, load, "").mean
			var better []string
			for _, v := range []struct {
				text         string
				ours, theirs float64
				unit         string
			}{
				{"mean completion", ours.MeanH, theirs.MeanH, " h"}, {"TE completion", ours.TEMeanS, theirs.TEMeanS, " s"},
				{"TE slowdown p95", ours.TESlowdownP95, theirs.TESlowdownP95, ""}, {"TE wait p95", ours.TEWaitP95S, theirs.TEWaitP95S, " s"},
				{"TE wait p99", ours.TEWaitP99S, theirs.TEWaitP99S, " s"}, {"BE slowdown p95", ours.BESlowdownP95, theirs.BESlowdownP95, ""},
				{"worst user", ours.WorstUser, theirs.WorstUser, ""},
			} {
				if v.theirs < 0.95*v.ours {
					better = append(better, fmt.Sprintf("%s %.3g%s for %.3g", v.text, v.theirs, v.unit, v.ours))
				}
			}
			if len(better) > 0 {
				found = true
				fmt.Fprintf(b, "* Load %g, %s: %s.\n", load, set.text, strings.Join(better, ", "))
			}
		}
	}
	if !found {
		b.WriteString("None.\n")
	}
}

// number is one without decimals that say nothing.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) }
