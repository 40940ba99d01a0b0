package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
)

// hostileUsers is the kind of trace in which every fifth user floods.
const hostileUsers = "hostile"

// honest reports whether the job's user is none of those.
func honest(j *job) bool { return j.user%5 != 4 }

// flooded are the jobs, by submission, with every fifth user hostile: all of their trainings say that they are trials. Half of them submit
// three arrays of a tenth as many trials as the trace has jobs, of 5 minutes on one GPU; the others three times as many trials as a fifteenth of
// the jobs, one each minute, of 8 GPUs and a limit of a minute. Their trainings are as much shorter, all by the same part, as makes the GPU time of all jobs what it was: what the others lose
// they lose by when and how it is asked for.
func flooded(list []program, jobs []job, seed uint64) []job {
	draw := rand.New(rand.NewPCG(seed, 3))
	gpuS := func(j *job) float64 { return float64(j.gpus) * j.v100S() }
	last, floods, trainings := jobs[len(jobs)-1].submit, 0.0, 0.0
	trace := slices.Clone(jobs)
	var mine []*job
	for i := range trace {
		if j := &trace[i]; !honest(j) && !j.te {
			j.te, j.grace = true, 0
			mine, trainings = append(mine, j), trainings+gpuS(j)
		}
	}
	var flood []job
	add := func(user, submit, gpus, limit int, seconds float64) {
		j := job{submit: submit, gpus: gpus, program: &list[draw.IntN(len(list))], limit: limit, te: true, user: user}
		j.steps = max(1, int(min(seconds, 0.8*float64(limit)/j.program.slowest(gpus))*j.program.steps["v100"][gpus])) // ends within its limit on every type
		flood, floods = append(flood, j), floods+gpuS(&j)
	}
	for user := 4; user < len(zipf()); user += 5 {
		for range 3 {
			at := draw.IntN(last)
			if user%10 == 4 {
				for range len(jobs) / 10 {
					add(user, at, 1, 3590, 300)
				}
			} else {
				for minute := range len(jobs) / 15 {
					add(user, at+60*minute, 8, 60, 60)
				}
			}
		}
	}
	for _, j := range mine {
		j.steps = max(1, int(float64(j.steps)*(1-floods/trainings)))
	}
	trace = append(trace, flood...)
	slices.SortStableFunc(trace, func(a, b job) int { return a.submit - b.submit })
	return trace
}

// startHostile measures what a fifth of hostile users costs the others on the combined workload, and prints a table and what became worse by
// more than 5 %.
func startHostile(ctx context.Context, args []string, w io.Writer) error {
	var o options
	tries, err := o.combined("hostile", args)
	if err != nil {
		return err
	}
	s, err := newStudy(ctx, o.dir, o.workers)
	if err != nil {
		return err
	}
	m, err := newMatrix(&o)
	if err != nil {
		return err
	}
	for _, load := range o.loads {
		for _, set := range append([]setup{shipped, expert}, tries...) {
			for _, kind := range []string{"", hostileUsers} {
				if err := m.add(set, load, kind, calm); err != nil {
					return err
				}
				m.cells[len(m.cells)-1].of = honest
			}
		}
	}
	if err := m.run(ctx, s); err != nil {
		return err
	}
	io.WriteString(w, "| load | figures of the others | | mean completion, h | TE completion, s | TE wait p95, p99, s | BE slowdown p95 | evictions | of them worse off by > 10 % |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for i := 0; i < len(m.cells); i += 2 {
		hostileRows(w, m.cells[i], m.cells[i+1])
	}
	io.WriteString(w, "\n")
	for i := 0; i < len(m.cells); i += 2 {
		calm, flood := m.cells[i], m.cells[i+1]
		for _, figure := range wanted {
			if before, now := figure.of(&calm.mean), figure.of(&flood.mean); now > 1.05*before {
				fmt.Fprintf(w, "* Load %g, %s: %s %.6g, %+.0f %%: wanted at most +5 %%.\n", calm.load, calm.setup.text, figure.name, now, 100*(now/before-1))
			}
		}
	}
	return nil
}

// hostileRows writes the others' figures with all users honest, and with a fifth of them hostile.
func hostileRows(w io.Writer, calm, flood *cell) {
	worse := 0
	for i := range flood.figures {
		worse += flood.figures[i].worseOff(&calm.figures[i])
	}
	for _, c := range []*cell{calm, flood} {
		f, text, count := &c.mean, "all users honest", ""
		if c == flood {
			text, count = "a fifth hostile", fmt.Sprintf("%d of %d", worse, users(c))
		}
		fmt.Fprintf(w, "| %g | %s | %s | %.2f | %.0f | %.0f, %.0f | %.1f | %.0f | %s |\n", c.load, c.setup.text, text, f.MeanH, f.TEMeanS, f.TEWaitP95S, f.TEWaitP99S, f.BESlowdownP95, f.Evictions, count)
	}
}
