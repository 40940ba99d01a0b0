package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// windowSetups are the rows of the tables: the shipped Slurm, and the profile with and without jobs that run until the window.
var windowSetups = []setup{
	shipped,
	{"windows-off", "profile without windows", balanced + "[windows]\nenabled = false\n", nil},
	{"windows-on", "**profile**", balanced, nil},
}

// window is maintenance of all nodes for eight hours, announced a week before it or from the start on.
type window struct {
	name  string
	gpus  int
	start float64 // s
	jobs  []job
	runs  []*run // of windowSetups
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
	fmt.Fprintf(w, "| | | idle GPU-hours in the %d h before | lost GPU-hours, all | mean completion, h | GPUs in use 10 min after its end |\n| --- | --- | --- | --- | --- | --- |\n", hoursBefore)
	for _, k := range []*window{venus, combined} {
		if err := s.all(ctx, k.runs); err != nil {
			return err
		}
		for i, r := range k.runs {
			f, err := measured(k.jobs, r.csv, r.json, nil)
			if err != nil {
				return err
			}
			idle, after, err := k.read(r.series)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "| %s | %s | %.0f | %.1f | %.3f | %d of %d |\n", k.name, windowSetups[i].text, idle, f.GPUHoursLost, f.MeanH, after, k.gpus)
		}
	}
	return nil
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
	trace, events := filepath.Join(dir, "windows-venus.csv"), filepath.Join(dir, "windows-venus.toml")
	if err := halfAgree(v.trace, trace); err != nil {
		return nil, err
	}
	v.trace = trace
	k := &window{name: fmt.Sprintf("Venus, day %d", day), gpus: 8 * v.nodes, start: float64(3600 * hour), jobs: plain(v.jobs), runs: v.runs(windowSetups)}
	for _, r := range k.runs {
		r.series, r.inputs, r.flags = "yes", []string{events}, append(r.flags, "--node-events", events)
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
		if err := m.add(set, 0.9, untagged, calm); err != nil {
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

// read is how many GPU-hours were idle before the window, and how many GPUs are in use ten minutes after its end.
func (k *window) read(path string) (idle float64, after int, err error) {
	at, used := k.start-3600*hoursBefore, 0
	err = eachRow(path, func(row map[string]string) error {
		seconds, err1 := strconv.ParseFloat(row["at_s"], 64)
		gpus, err2 := strconv.Atoi(row["gpus"])
		if to := min(seconds, k.start); to > at {
			idle += (to - at) / 3600 * float64(k.gpus-used)
			at = to
		}
		if used = gpus; seconds <= k.start+3600*windowHours+600 {
			after = gpus
		}
		return errors.Join(err1, err2)
	})
	return idle, after, err
}
