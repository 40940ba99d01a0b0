package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// dividedSetups are the rows of the table: of a cluster that is whole, or has a partition for each GPU type.
var dividedSetups = []struct {
	text     string
	part     int // as of divide; 0: the cluster is whole
	set      setup
	untagged int      // as of writeTrace
	sky      []string // how nodes fail; nil: calm, with dividedEvents
}{
	{"whole cluster, Slurm as it ships", 0, setup{"whole-slurm", "", "", shipped.flags}, 0, calm},
	{"whole cluster, profile", 0, setup{"whole-balanced", "", balanced, nil}, 0, calm},
	{"divided, Slurm as it ships", 1, setup{"divided-slurm", "", "", shipped.flags}, 0, calm},
	{"**divided, profile**", 1, setup{"divided-balanced", "", balanced, nil}, 0, calm},
	{"**divided, profile and `any_partition`**", 1, setup{"divided-any", "", balanced + "[[consent]]\ngpu_type = true\n" + anyPartition, nil}, 0, calm},
	{"divided, all jobs name all three, Slurm as it ships", 2, setup{"lists-slurm", "", "", shipped.flags}, 0, calm},
	{"**divided, all jobs name all three, profile**", 2, setup{"lists-balanced", "", balanced, nil}, 0, calm},
	{"divided, no tags, profile and consent by the site", 1, setup{"divided-site", "", balanced + bySite, nil}, 1, calm},
	{"the same and `any_partition`", 1, setup{"divided-site-any", "", balanced + bySite + anyPartition, nil}, 1, calm},
	{"the weather, whole cluster, Slurm as it ships", 0, setup{"events-whole-slurm", "", "", shipped.flags}, 0, nil},
	{"the weather, whole cluster, profile", 0, setup{"events-whole", "", balanced, nil}, 0, nil},
	{"the weather, divided, Slurm as it ships", 1, setup{"events-slurm", "", "", shipped.flags}, 0, nil},
	{"**the weather, divided, profile**", 1, setup{"events", "", balanced, nil}, 0, nil},
	{"**the weather, divided, profile and `any_partition`**", 1, setup{"events-any", "", balanced + "[[consent]]\ngpu_type = true\n" + anyPartition, nil}, 0, nil},
}

// dividedEvents are drains, reboots, nodes that join and fail together, and a maintenance of a whole partition.
const dividedEvents = `events = [
	{at = "24h", event = "drain", nodes = "n[0-3]", for = "8h"},
	{at = "48h", event = "join", nodes = "n[16-17]"},
	{at = "60h", event = "maintenance", nodes = "p100", for = "4h", announced = "48h"},
	{at = "72h", event = "reboot", nodes = "n[0-15]", for = "15m", each = 2},
	{at = "100h", event = "fail", nodes = "n[4-7]", for = "2h"},
]
`

// anyPartition is the site's word, at the end of a [[consent]], that jobs of one or two partitions may run in any.
const anyPartition = "partitions = [\"k80\", \"p100\", \"v100\"]\nany_partition = true\n"

// startDivided measures the combined workload at load 0.9 on a cluster with a partition for each GPU type.
func startDivided(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("evidence divided", flag.ContinueOnError)
	dir := flags.String("dir", "bin/evidence", "results are kept in this `FOLDER`")
	seeds := flags.Int("seeds", 3, "`NUMBER` of seeds")
	jobs := flags.Int("jobs", 3000, "`NUMBER` of jobs of each trace")
	workers := flags.Int("workers", 2, "`NUMBER` of simulations at a time")
	if err := flags.Parse(args); err != nil {
		return errors.Join(errUsage, err)
	}
	if flags.NArg() > 0 || *seeds < 1 || *workers < 1 || *jobs < 20 {
		return fmt.Errorf("%w: want no arguments, seeds and workers from 1, jobs from 20", errUsage)
	}
	s, err := newStudy(ctx, *dir, *workers)
	if err != nil {
		return err
	}
	list, err := programs()
	if err != nil {
		return err
	}
	clusters, table := [2]string{filepath.Join(s.dir, "cluster.toml"), filepath.Join(s.dir, "divided.toml")}, filepath.Join(s.dir, "workloads.toml")
	events := filepath.Join(s.dir, "divided-events.toml")
	if err := errors.Join(os.WriteFile(clusters[0], []byte(clusterTOML()), 0o644), os.WriteFile(clusters[1], []byte(dividedTOML()), 0o644), writeWorkloads(table, list, nil), os.WriteFile(events, []byte(dividedEvents), 0o644)); err != nil {
		return err
	}
	var runs []*run
	for _, c := range dividedSetups {
		for seed := 1; seed <= *seeds; seed++ {
			path, cluster := filepath.Join(s.dir, fmt.Sprintf("divided-%d-%d", c.part, seed)+strings.Repeat("-untagged", c.untagged)+".csv"), clusters[min(c.part, 1)]
			trace := generate(list, uint64(seed), *jobs, 0.9, 6)
			divide(trace, uint64(seed), c.part)
			if err := writeTrace(path, trace, c.untagged); err != nil {
				return err
			}
			r := &run{name: fmt.Sprintf("%s-%d", c.set.name, seed), config: c.set.config, trace: path, inputs: []string{cluster, table}}
			if c.sky == nil {
				r.inputs, r.flags = append(r.inputs, events), append(slices.Clone(calm), "--node-events", events)
			}
			for _, part := range [][]string{c.set.flags, costs, c.sky, {"--cluster", cluster, "--workloads", table, "--seed", strconv.Itoa(seed)}} {
				r.flags = append(r.flags, part...)
			}
			runs = append(runs, r)
		}
	}
	if err := s.all(ctx, runs); err != nil {
		return err
	}
	return dividedTable(w, runs, list, *seeds, *jobs)
}

// dividedTable prints the mean completion of all jobs, and of those that name so many partitions in the mixed trace,
// and how long trials waited.
func dividedTable(w io.Writer, runs []*run, list []program, seeds, jobs int) error {
	fmt.Fprintln(w, "| | all jobs, h | those that name three partitions | two | one | trials wait, p95 and p99, s |\n| --- | --- | --- | --- | --- | --- |")
	for i, c := range dividedSetups {
		sums, counts := [4]float64{}, [4]float64{}
		var waits []float64
		for seed := 1; seed <= seeds; seed++ {
			outcomes, err := readOutcomes(runs[i*seeds+seed-1].csv, jobs)
			if err != nil {
				return err
			}
			names := generate(list, uint64(seed), jobs, 0.9, 6)
			divide(names, uint64(seed), 1)
			for k, o := range outcomes {
				for _, at := range []int{0, strings.Count(names[k].partition, ",") + 1} {
					sums[at], counts[at] = sums[at]+o.completion/3600, counts[at]+1
				}
				if names[k].te {
					waits = append(waits, o.wait)
				}
			}
		}
		slices.Sort(waits)
		fmt.Fprintf(w, "| %s | %.2f | %.2f | %.2f | %.2f | %.0f, %.0f |\n", c.text, sums[0]/counts[0], sums[3]/counts[3], sums[2]/counts[2], sums[1]/counts[1], quantile(0.95, waits), quantile(0.99, waits))
	}
	return nil
}

// divide gives jobs lists of partitions in random order. With part 1 half of them name all, a quarter two, a quarter
// one; with part 2 all name all; with part 0 none names any.
func divide(trace []job, seed uint64, part int) {
	draw := rand.New(rand.NewPCG(seed, 1))
	for i := range trace {
		order, n := draw.Perm(len(gpuTypes)), []int{3, 3, 2, 1}[draw.IntN(4)]
		if part == 2 {
			n = len(gpuTypes)
		}
		var names []string
		for _, t := range order[:n] {
			names = append(names, gpuTypes[t])
		}
		if trace[i].partition = ""; part > 0 {
			trace[i].partition = strings.Join(names, ",")
		}
	}
}

// dividedTOML is the cluster with a partition for each GPU type.
func dividedTOML() string {
	text := clusterTOML()
	for _, t := range gpuTypes {
		key := fmt.Sprintf("gpu_type = %q\n", t)
		text = strings.ReplaceAll(text, key, key+fmt.Sprintf("partitions = [%q]\n", t))
	}
	return text
}
