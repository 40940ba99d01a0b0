package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// windowSetups are the rows of the tables: the shipped Slurm, and the profile with and without jobs that run until the window;
// of half of the jobs, and last of all of them.
var windowSetups = []setup{
	shipped,
	{"windows-off", "profile without windows", balanced + "[windows]\nenabled = false\n", nil},
	{"windows-on", "**profile**", balanced, nil},
	{"windows-all", "profile, all BE jobs agree", balanced, nil},
}

// window is maintenance of all nodes for eight hours, announced a week before it or from the start on.
type window struct {
	name  string
	gpus  int
	start float64 // s
	jobs  []job
	runs  []*run // of windowSetups
	bound []boundJob
}

const (
	windowHours = 8
	hoursBefore = 48
)

// startWindows measures a window of maintenance in a week of Venus and in the combined workload, of which half of the
// jobs, or of the users, agree to leave, and prints the table of docs/features/maintenance.md.
func startWindows(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("evidence windows", flag.ContinueOnError)
	o := options{seeds: 1}
	flags.StringVar(&o.dir, "dir", "bin/evidence", "results are kept in this `FOLDER`")
	flags.IntVar(&o.workers, "workers", 1, "`NUMBER` of simulations at a time")
	flags.IntVar(&o.jobs, "jobs", 3000, "`NUMBER` of jobs of the combined workload")
	data := flags.String("data", "../shared/data/traces", "`FOLDER` of the public logs")
	day := flags.Int("day", 60, "the week of Venus begins on this `DAY`")
	hour := flags.Int("hour", 132, "the window begins so many `HOURS` after the first job")
	if err := flags.Parse(args); err != nil {
		return errors.Join(errUsage, err)
	}
	if err := o.check(flags, "0.9"); err != nil {
		return err
	}
	s, err := newStudy(ctx, o.dir, o.workers)
	if err != nil {
		return err
	}
	venus, err := windowOfVenus(*data, o.dir, *day, *hour)
	if err != nil {
		return err
	}
	combined, err := windowOfCombined(&o, *hour)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "| | | idle GPU-hours in the %d h before | lost GPU-hours, all | mean completion, h | jobs that left before it, back 10 min after its end, last back, min |\n| --- | --- | --- | --- | --- | --- |\n", hoursBefore)
	for _, k := range []*window{venus, combined} {
		if err := s.all(ctx, k.runs); err != nil {
			return err
		}
		for i, r := range k.runs {
			f, err := measured(k.jobs, r.csv, r.json, nil)
			if err != nil {
				return err
			}
			idle, err := k.idle(r.series)
			if err != nil {
				return err
			}
			back, err := k.back(r.json)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "| %s | %s | %.0f | %.1f | %.3f | %s |\n", k.name, windowSetups[i].text, idle, f.GPUHoursLost, f.MeanH, back)
		}
	}
	for i, text := range []string{"those that agree", "those that agree, and others whose run times, known before, end in time", "all"} {
		fmt.Fprintf(w, "\nVenus, fewest idle GPU-hours of any schedule in order of submission, where before the window start jobs whose limits fit and %s: %.0f\n", text, venus.fewest(i))
	}
	return nil
}

// fewest are the GPU-hours that stay idle before the window where jobs start as soon as there is room, whatever the nodes: those
// whose limits end before it, and until it those that agree, others whose runs end before it (known 1), or all (known 2).
func (k *window) fewest(known int) (idle float64) {
	type held struct{ until, gpus int }
	var running []held
	var waiting []boundJob
	end, free, next := int(k.start), k.gpus, 0
	for now := 0; now < end; now += 60 {
		running = slices.DeleteFunc(running, func(h held) bool {
			if h.until <= now {
				free += h.gpus
			}
			return h.until <= now
		})
		for ; next < len(k.bound) && k.bound[next].submit <= now; next++ {
			waiting = append(waiting, k.bound[next])
		}
		for _, mayLeave := range []bool{false, true} { // those that cannot leave first
			waiting = slices.DeleteFunc(waiting, func(j boundJob) bool {
				ends := now+j.limit <= end || known == 2 || known == 1 && now+j.seconds <= end
				if j.gpus > free || j.agrees != mayLeave || !ends && !j.agrees {
					return false
				}
				free -= j.gpus
				running = append(running, held{now + j.seconds, j.gpus})
				return true
			})
		}
		if now >= end-3600*hoursBefore {
			idle += float64(free) / 60
		}
	}
	return idle
}

// boundJob is what fewest knows of a job; s.
type boundJob struct {
	submit, gpus, seconds, limit int
	agrees                       bool
}

// readBound reads the jobs of a trace as windowOfVenus writes it.
func readBound(path string) (all []boundJob, err error) {
	err = eachRow(path, func(row map[string]string) error {
		j := boundJob{agrees: row["type"] == "be"}
		for name, to := range map[string]*int{"submit_s": &j.submit, "gpus": &j.gpus, "duration_s": &j.seconds, "limit_s": &j.limit} {
			var err error
			if *to, err = strconv.Atoi(row[name]); err != nil {
				return err
			}
		}
		all = append(all, j)
		return nil
	})
	return all, err
}

// events writes the window of so many nodes into a file.
func (k *window) events(path string, nodes int) error {
	text := fmt.Sprintf("[[events]]\nat = \"%.0fs\"\nevent = \"maintenance\"\nnodes = \"n[0-%d]\"\nfor = \"%dh\"\nannounced = \"168h\"\n", k.start, nodes-1, windowHours)
	return os.WriteFile(path, []byte(text), 0o644)
}

// windowOfVenus is a week of Venus as weeks.go cuts it. Every other BE job says nothing of itself.
func windowOfVenus(data, dir string, day, hour int) (*window, error) {
	weeks, err := weeksOf(data, dir, pick{"venus", "steady", []int{day}})
	if err != nil {
		return nil, err
	}
	v := weeks[0]
	full := v.trace
	trace, events := filepath.Join(dir, "windows-venus.csv"), filepath.Join(dir, "windows-venus.toml")
	if err := halfAgree(v.trace, trace); err != nil {
		return nil, err
	}
	v.trace = trace
	k := &window{name: fmt.Sprintf("Venus, day %d", day), gpus: 8 * v.nodes, start: float64(3600 * hour), jobs: plain(v.jobs), runs: v.runs(windowSetups)}
	for _, r := range k.runs {
		r.series, r.inputs, r.flags = "yes", []string{events}, append(r.flags, "--node-events", events)
	}
	k.runs[len(k.runs)-1].trace = full
	if k.bound, err = readBound(trace); err != nil {
		return nil, err
	}
	return k, k.events(events, v.nodes)
}

// halfAgree copies a trace in which every other BE job says nothing of itself.
func halfAgree(from, to string) error {
	text, err := os.Open(from)
	if err != nil {
		return err
	}
	defer text.Close()
	rows, err := csv.NewReader(text).ReadAll()
	if err != nil {
		return err
	}
	class, n := slices.Index(rows[0], "type"), 0
	for _, row := range rows[1:] {
		if row[class] == "be" {
			if n++; n%2 == 0 {
				row[class] = "none"
			}
		}
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	return errors.Join(csv.NewWriter(f).WriteAll(rows), f.Close())
}

// windowOfCombined is the combined workload at a load of 0.9, of which every other user says nothing.
func windowOfCombined(o *options, hour int) (*window, error) {
	m, err := newMatrix(o)
	if err != nil {
		return nil, err
	}
	for _, set := range windowSetups {
		kind := untagged
		if set.name == "windows-all" {
			kind = ""
		}
		if err := m.add(set, 0.9, kind, calm); err != nil {
			return nil, err
		}
	}
	k := &window{name: "combined", gpus: 144, start: float64(3600 * hour)}
	events := filepath.Join(o.dir, "windows-combined.toml")
	for _, c := range m.cells {
		r := c.runs[0]
		r.series, r.inputs, r.flags = "yes", append(r.inputs, events), append(r.flags, "--node-events", events)
		k.jobs, k.runs = m.traces[r.trace], append(k.runs, r)
	}
	return k, k.events(events, 18)
}

// idle is how many GPU-hours were idle before the window.
func (k *window) idle(path string) (idle float64, err error) {
	at, used := k.start-3600*hoursBefore, 0
	err = eachRow(path, func(row map[string]string) error {
		seconds, err1 := strconv.ParseFloat(row["at_s"], 64)
		gpus, err2 := strconv.Atoi(row["gpus"])
		if to := min(seconds, k.start); to > at {
			idle += (to - at) / 3600 * float64(k.gpus-used)
			at = to
		}
		used = gpus
		return errors.Join(err1, err2)
	})
	return idle, err
}

// back says which of the jobs that left before the window ran again within ten minutes of its end, and when the last one did.
func (k *window) back(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var run struct {
		Again []float64 `json:"ran_again_at_s"`
	}
	if err := json.Unmarshal(text, &run); err != nil || len(run.Again) == 0 {
		return "", err
	}
	in, last, end := 0, 0.0, k.start+3600*windowHours
	for _, at := range run.Again {
		if last = max(last, at); at >= 0 && at <= end+600 {
			in++
		}
	}
	return fmt.Sprintf("%d, %d, %.0f", len(run.Again), in, (last-end)/60), nil
}
