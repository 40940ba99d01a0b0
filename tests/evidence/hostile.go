package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
)

// The kinds of runs of which the others' figures are measured: every fifth user floods, or none does.
const (
	hostileUsers = "hostile"
	honestUsers  = "honest"
)

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

// addHostile adds the runs of a setup with all users honest, and with a fifth of them hostile; the figures are the others'.
func (m *matrix) addHostile(set setup, load float64) error {
	for _, kind := range []string{honestUsers, hostileUsers} {
		if err := m.add(set, load, strings.TrimPrefix(kind, honestUsers), calm); err != nil {
			return err
		}
		c := m.cells[len(m.cells)-1]
		c.kind, c.of = kind, honest
	}
	return nil
}

// hostileTable writes the others' figures, and which of a policy of priod's are more than 5 % worse for the hostile users.
func (m *matrix) hostileTable(w io.Writer, load float64) {
	io.WriteString(w, "| figures of the others | | mean completion, h | TE completion, s | TE wait p95, p99, s | BE slowdown p95 | evictions | of them worse off by > 10 % |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	var missed []string
	for _, c := range m.cells {
		if c.load != load || c.of == nil {
			continue
		}
		f, text, worse := &c.mean, "all users honest", ""
		if c.kind == hostileUsers {
			before, n := m.cell(c.setup.name, load, honestUsers), 0
			for i := range c.figures {
				n += c.figures[i].worseOff(&before.figures[i])
			}
			text, worse = "a fifth hostile", fmt.Sprintf("%d of %d", n, users(c))
			for _, figure := range wanted {
				if was, now := figure.of(&before.mean), figure.of(f); c.setup.config != "" && now > 1.05*was {
					missed = append(missed, fmt.Sprintf("* %s: %s %.4g instead of %.4g, %+.0f %%.\n", c.setup.text, figure.name, now, was, 100*(now/was-1)))
				}
			}
		}
		fmt.Fprintf(w, "| %s | %s | %.2f | %.0f | %.0f, %.0f | %.1f | %.0f | %s |\n", shortName(c.setup), text, f.MeanH, f.TEMeanS, f.TEWaitP95S, f.TEWaitP99S, f.BESlowdownP95, f.Evictions, worse)
	}
	fmt.Fprintf(w, "\nMore than 5 %% worse:\n\n%s\n", cmp.Or(strings.Join(missed, ""), "* None.\n"))
}

// startHostile measures what a fifth of hostile users costs the others on the combined workload.
func startHostile(ctx context.Context, args []string, w io.Writer) error {
	return tryCombined(ctx, "hostile", args, w, (*matrix).addHostile, (*matrix).hostileTable)
}
