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
	"strconv"
	"strings"
)

// dividedSetups are the rows of the table: of a cluster that is whole, or has a partition for each GPU type.
var dividedSetups = []struct {
	text     string
	part     int // as of divide; 0: the cluster is whole
	set      setup
	untagged int // as of writeTrace
}{
	{"whole cluster, Slurm as it ships", 0, setup{"whole-slurm", "", "", shipped.flags}, 0},
	{"whole cluster, profile", 0, setup{"whole-balanced", "", balanced, nil}, 0},
	{"divided, Slurm as it ships", 1, setup{"divided-slurm", "", "", shipped.flags}, 0},
	{"**divided, profile**", 1, setup{"divided-balanced", "", balanced, nil}, 0},
	{"**divided, profile and `any_partition`**", 1, setup{"divided-any", "", balanced + "[[consent]]\ngpu_type = true\n" + anyPartition, nil}, 0},
	{"divided, all jobs name all three, Slurm as it ships", 2, setup{"lists-slurm", "", "", shipped.flags}, 0},
	{"**divided, all jobs name all three, profile**", 2, setup{"lists-balanced", "", balanced, nil}, 0},
	{"divided, no tags, profile and consent by the site", 1, setup{"divided-site", "", balanced + bySite, nil}, 1},
	{"the same and `any_partition`", 1, setup{"divided-site-any", "", balanced + bySite + anyPartition, nil}, 1},
}

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
	if err := errors.Join(os.WriteFile(clusters[0], []byte(clusterTOML()), 0o644), os.WriteFile(clusters[1], []byte(dividedTOML()), 0o644), writeWorkloads(table, list, nil)); err != nil {
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
			for _, part := range [][]string{c.set.flags, costs, calm, {"--cluster", cluster, "--workloads", table, "--seed", strconv.Itoa(seed)}} {
				r.flags = append(r.flags, part...)
			}
			runs = append(runs, r)
		}
	}
	if err := s.all(ctx, runs); err != nil {
		return err
	}
	return dividedTable(w, runs, *seeds, *jobs)
}

// dividedTable prints the mean completion of all jobs, and of those that name so many partitions in the mixed trace.
func dividedTable(w io.Writer, runs []*run, seeds, jobs int) error {
	fmt.Fprintln(w, "| | all jobs, h | those that name three partitions | two | one |\n| --- | --- | --- | --- | --- |")
	for i, c := range dividedSetups {
		sums, counts := [4]float64{}, [4]float64{}
		for seed := 1; seed <= seeds; seed++ {
			outcomes, err := readOutcomes(runs[i*seeds+seed-1].csv, jobs)
			if err != nil {
				return err
			}
			names := make([]job, jobs)
			divide(names, uint64(seed), 1)
			for k, o := range outcomes {
				for _, at := range []int{0, strings.Count(names[k].partition, ",") + 1} {
					sums[at], counts[at] = sums[at]+o.completion/3600, counts[at]+1
				}
			}
		}
		fmt.Fprintf(w, "| %s | %.2f | %.2f | %.2f | %.2f |\n", c.text, sums[0]/counts[0], sums[3]/counts[3], sums[2]/counts[2], sums[1]/counts[1])
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
