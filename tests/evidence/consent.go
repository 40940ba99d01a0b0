package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// bySite is what a site's policy says for jobs that say nothing: short jobs are trials, all agree to all.
const bySite = `[[class]]
name = "short"
type = "te"
max_time = "1h"
[[consent]]
evict = true
grace = "30s"
gpu_type = true
size = true
switches = true
requeue = true
`

// consenting are the setups of the table: how many users do not tag, see writeTrace, and under what settings.
var consenting = []struct {
	text     string
	untagged int
	set      setup
}{
	{"Slurm as it ships", 0, shipped},
	{"profile, no tags, no consent", 1, setup{"consent-none", "", balanced, nil}},
	{"**profile, no tags, consent by the site**", 1, setup{"consent-site", "", balanced + bySite, nil}},
	{"the same with `[speeds.types]` (v100 1, p100 0.5, k80 0.17)", 1, setup{"consent-types", "", balanced + "[speeds.types]\nv100 = 1.0\np100 = 0.5\nk80 = 0.17\n" + bySite, nil}},
	{"half of the users tag, consent for the others", 2, setup{"consent-half", "", balanced + bySite, nil}},
	{"profile, all tags", 0, setup{"consent-all", "", balanced, nil}},
}

// startConsent measures users who type nothing, and prints the tables of docs/evidence/consent.md.
func startConsent(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("evidence consent", flag.ContinueOnError)
	dir := flags.String("dir", "bin/evidence", "results are kept in this `FOLDER`")
	seeds := flags.Int("seeds", 2, "`NUMBER` of seeds")
	jobs := flags.Int("jobs", 3000, "`NUMBER` of jobs of each trace")
	workers := flags.Int("workers", 2, "`NUMBER` of simulations at a time")
	if err := flags.Parse(args); err != nil {
		return errors.Join(errUsage, err)
	}
	if *seeds < 1 || *workers < 1 || *jobs < 20 {
		return fmt.Errorf("%w: want seeds and workers from 1, jobs from 20", errUsage)
	}
	s, err := newStudy(ctx, *dir, *workers)
	if err != nil {
		return err
	}
	if err := s.consentTable(ctx, w, *seeds, *jobs); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return nil
	}
	return s.streamTable(ctx, w, flags.Args())
}

// consentTable is the combined workload at load 0.9.
func (s *study) consentTable(ctx context.Context, w io.Writer, seeds, jobs int) error {
	list, err := programs()
	if err != nil {
		return err
	}
	cluster, table := filepath.Join(s.dir, "cluster.toml"), filepath.Join(s.dir, "workloads.toml")
	if err := errors.Join(os.WriteFile(cluster, []byte(clusterTOML()), 0o644), writeWorkloads(table, list, nil)); err != nil {
		return err
	}
	var runs []*run
	traces := make([][]job, seeds)
	for _, c := range consenting {
		for seed := range seeds {
			traces[seed] = generate(list, uint64(seed+1), jobs, 0.9, 6)
			path := filepath.Join(s.dir, fmt.Sprintf("jobs-0.9-%d-%d.csv", seed+1, c.untagged))
			if err := writeTrace(path, traces[seed], c.untagged); err != nil {
				return err
			}
			r := &run{name: fmt.Sprintf("%s-%d", c.set.name, seed+1), config: c.set.config, trace: path, inputs: []string{cluster, table}}
			for _, part := range [][]string{c.set.flags, costs, calm, {"--cluster", cluster, "--workloads", table, "--seed", strconv.Itoa(seed + 1)}} {
				r.flags = append(r.flags, part...)
			}
			runs = append(runs, r)
		}
	}
	if err := s.all(ctx, runs); err != nil {
		return err
	}
	all := make([]figures, len(runs))
	for i, r := range runs {
		if all[i], err = measured(traces[i%seeds], r.csv, r.json, nil); err != nil {
			return err
		}
	}
	fmt.Fprintln(w, "| | mean completion, h | of the gain by tags | from job 500 on, h | of the gain | TE completion, mean, s | p95, s | of the gain | TE wait p95, s | p99, s |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for i, c := range consenting {
		cells := make([][]string, 9)
		for seed := range seeds {
			f, base, told := &all[i*seeds+seed], &all[seed], &all[len(all)-seeds+seed]
			part := func(at, from, to float64) string { return fmt.Sprintf("%.0f", 100*(from-at)/(from-to)) }
			for j, text := range []string{
				fmt.Sprintf("%.2f", f.MeanH), part(f.MeanH, base.MeanH, told.MeanH), fmt.Sprintf("%.2f", f.LaterH), part(f.LaterH, base.LaterH, told.LaterH),
				fmt.Sprintf("%.0f", f.TEMeanS), fmt.Sprintf("%.0f", f.TEP95S), part(f.TEP95S, base.TEP95S, told.TEP95S), fmt.Sprintf("%.0f", f.TEWaitP95S), fmt.Sprintf("%.0f", f.TEWaitP99S),
			} {
				cells[j] = append(cells[j], text)
			}
		}
		fmt.Fprintf(w, "| %s |", c.text)
		for j, seeds := range cells {
			unit := map[bool]string{true: " %"}[j == 1 || j == 3 || j == 6]
			fmt.Fprintf(w, " %s%s |", strings.Join(seeds, ", "), unit)
		}
		fmt.Fprintln(w)
	}
	return nil
}

// streaming are the setups of Gavel's stream, of jobs 500 to 4999.
var streaming = []struct {
	text     string
	untagged bool
	set      setup
}{
	{"Slurm as it ships", true, shipped},
	{"order `owed` without steering", true, setup{"stream-owed", "", "[ranking]\norder = \"owed\"\n[allocation]\npolicy = \"max-min\"\n", nil}},
	{"no tags, consent by the site", true, setup{"stream-site", "", gavel + bySite, nil}},
	{"all speeds told", false, setup{"stream-told", "", gavel, nil}},
}

// streamTable runs streams of docs/evidence/gavel_again.py.
func (s *study) streamTable(ctx context.Context, w io.Writer, streams []string) error {
	fmt.Fprintf(w, "\n| mean completion, h | %s |\n| ---%s |\n", strings.Join(streams, " | "), strings.Repeat(" | ---", len(streams)))
	for _, c := range streaming {
		fmt.Fprintf(w, "| %s", c.text)
		var runs []*run
		for i, stream := range streams {
			text, err := os.ReadFile(stream)
			if err != nil {
				return err
			}
			if c.untagged {
				lines := strings.Split(strings.TrimSpace(string(text)), "\n")
				for n, line := range lines {
					lines[n] = line + map[bool]string{true: ",type", false: ",none"}[n == 0]
				}
				text = []byte(strings.Join(lines, "\n") + "\n")
			}
			path := filepath.Join(s.dir, fmt.Sprintf("stream-%d-%t.csv", i, c.untagged))
			if err := os.WriteFile(path, text, 0o644); err != nil {
				return err
			}
			r := &run{name: fmt.Sprintf("%s-%d", c.set.name, i), config: "[cycle]\ninterval = \"15s\"\n" + c.set.config, trace: path}
			r.flags = append([]string{"--window", "500:4999", "--backfill", "easy", "--seed", "0", "--nodes", "36:v100:1", "--nodes", "36:p100:1", "--nodes", "36:k80:1"}, c.set.flags...)
			runs = append(runs, r)
		}
		if err := s.all(ctx, runs); err != nil {
			return err
		}
		for _, r := range runs {
			text, err := os.ReadFile(r.json)
			if err != nil {
				return err
			}
			var v struct {
				Mean float64 `json:"mean_jct_s"`
			}
			if err := json.Unmarshal(text, &v); err != nil {
				return fmt.Errorf("%s: %w", r.json, err)
			}
			fmt.Fprintf(w, " | %.2f", v.Mean/3600)
		}
		fmt.Fprintln(w, " |")
	}
	return nil
}
