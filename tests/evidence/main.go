// Command evidence measures all of priod at once on one workload, beside Slurm as it ships, an expert's
// Slurm and each paper alone, in virtual time through the daemon's own cycles, and writes
// docs/evidence/all-four.md with its picture.
//
//	make evidence               30 minutes on 2 cores; after an interruption it goes on where it stopped
//	go run ./tests/evidence weeks --data FOLDER   weeks of the public logs in FOLDER, with a verdict: docs/evidence/weeks.md
//	go run ./tests/evidence combined [--config FILE]   rows of all-four.md at a load of 0.9, of a priod.toml in place of the profile
//	go run ./tests/evidence overload [--config FILE]   the same under overload
//	go run ./tests/evidence hostile [--config FILE]   what the others have of hostile users
//	go run ./tests/evidence consent [STREAM...]   the tables of docs/evidence/consent.md
//	go run ./tests/evidence eta --data FOLDER     the table of docs/evidence/eta.md
//	go run ./tests/evidence tune --data FOLDER    the table of docs/evidence/tune.md
//	go run ./tests/evidence value                 the table of docs/features/value.md
//	go run ./tests/evidence shares [--data FOLDER] the tables of docs/features/shares.md
//	go run ./tests/evidence windows [--data FOLDER] the table of docs/features/maintenance.md
//	go run ./tests/evidence trial                 the tables of docs/features/trial.md
//	go run ./tests/evidence run-times LOG...      the table of docs/evidence/run-times.md
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := start(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "evidence:", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

var errUsage = errors.New("wrong usage")

// options are what the command line says.
type options struct {
	dir, page, picture   string
	seeds, jobs, workers int
	loads                []float64
}

// commands are the studies beside the main one; each prints its tables.
var commands = map[string]func(ctx context.Context, args []string, w io.Writer) error{
	"consent": startConsent, "divided": startDivided, "eta": startETA, "tune": startTune, "value": startValue, "run-times": startRunTimes,
	"weeks": startWeeks, "combined": startCombined, "overload": startOverload, "hostile": startHostile, "shares": startShares, "trial": startTrial, "windows": startWindows,
}

func start(ctx context.Context, args []string) error {
	if len(args) > 0 && commands[args[0]] != nil {
		return commands[args[0]](ctx, args[1:], os.Stdout)
	}
	var o options
	flags := flag.NewFlagSet("evidence", flag.ContinueOnError)
	flags.StringVar(&o.dir, "dir", "bin/evidence", "results are kept in this `FOLDER`")
	flags.StringVar(&o.page, "page", "docs/evidence/all-four.md", "write the page to `FILE`")
	flags.StringVar(&o.picture, "picture", "docs/pages/all-four.png", "write the picture to `FILE`")
	flags.IntVar(&o.seeds, "seeds", 5, "`NUMBER` of seeds")
	flags.IntVar(&o.jobs, "jobs", 3000, "`NUMBER` of jobs of each trace")
	flags.IntVar(&o.workers, "workers", 2, "`NUMBER` of simulations at a time")
	loads := flags.String("loads", "0.7,0.9,1.05,1.2", "loads, with commas")
	if err := flags.Parse(args); err != nil {
		return errors.Join(errUsage, err)
	}
	if err := o.check(flags, *loads); err != nil {
		return err
	}
	return measure(ctx, &o)
}

// check reads the loads, with commas, and refuses what makes no study.
func (o *options) check(flags *flag.FlagSet, loads string) error {
	for text := range strings.SplitSeq(loads, ",") {
		load, err := strconv.ParseFloat(text, 64)
		if err != nil || !(load > 0 && load <= 10) {
			return fmt.Errorf("%w: --loads %q: want numbers above 0, at most 10", errUsage, loads)
		}
		o.loads = append(o.loads, load)
	}
	if flags.NArg() > 0 || o.seeds < 1 || o.jobs < 20 || o.workers < 1 {
		return fmt.Errorf("%w: want no arguments, seeds and workers from 1, jobs from 20", errUsage)
	}
	return nil
}

// measure does all runs and writes page and picture.
func measure(ctx context.Context, o *options) error {
	s, err := newStudy(ctx, o.dir, o.workers)
	if err != nil {
		return err
	}
	m, err := newMatrix(o)
	if err != nil {
		return err
	}
	if err := cmp.Or(m.fill(), m.run(ctx, s)); err != nil {
		return err
	}
	if err := m.draw(o.picture); err != nil {
		return err
	}
	return os.WriteFile(o.page, []byte(m.page()), 0o644)
}

// cell is the runs of one setup on one kind of trace: one for each seed.
type cell struct {
	setup   setup
	load    float64
	kind    string          // "", "weather", "untagged", "wrong"
	of      func(*job) bool // whose jobs are measured; nil: all
	runs    []*run
	figures []figures
	mean    figures
}

// matrix is all that is run.
type matrix struct {
	o                      *options
	list                   []program
	cluster, speeds, wrong string           // files: nodes, programs, programs with wrong speeds
	traces                 map[string][]job // by file
	cells                  []*cell
	mixes                  []*overload
}

// clusterTOML is 144 GPUs: six nodes of each type, three to a leaf switch, with Synergy's 3 CPUs and
// 62.5 GB for each GPU.
func clusterTOML() string {
	var b strings.Builder
	for i := range 2 * len(gpuTypes) {
		fmt.Fprintf(&b, "[[nodes]]\ncount = 3\ngpu_type = %q\ngpus = 8\ncpus = 24\nmem_mb = 500000\nswitch = \"leaf%d\"\n", gpuTypes[i/2], i+1)
	}
	return b.String()
}

// newMatrix writes what the runs of the combined workload read; it has no cells yet.
func newMatrix(o *options) (*matrix, error) {
	list, err := programs()
	if err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(o.dir, name) }
	wrong, err := filepath.Abs(file("workloads-wrong.toml"))
	if err != nil {
		return nil, err
	}
	m := &matrix{o: o, list: list, traces: map[string][]job{}, cluster: file("cluster.toml"), speeds: file("workloads.toml"), wrong: wrong}
	return m, errors.Join(os.WriteFile(m.cluster, []byte(clusterTOML()), 0o644), writeWorkloads(m.speeds, list, nil), writeWorkloads(m.wrong, list, wrongBy(3)))
}

// trace writes the jobs of a seed, and returns their file.
func (m *matrix) trace(load float64, kind string, seed int) (string, error) {
	path := filepath.Join(m.o.dir, strings.Trim(fmt.Sprintf("jobs-%g-%d-%s", load, seed, kind), "-")+".csv")
	if m.traces[path] != nil {
		return path, nil
	}
	jobs, every := generate(m.list, uint64(seed), m.o.jobs, load, 6), 0
	switch kind {
	case untagged:
		every = 2
	case hostileUsers:
		jobs = flooded(m.list, jobs, uint64(seed))
	}
	m.traces[path] = jobs
	return path, writeTrace(path, jobs, every)
}

// add adds the runs of a setup, one for each seed.
func (m *matrix) add(set setup, load float64, kind string, fails []string) error {
	c := &cell{setup: set, load: load, kind: kind}
	for seed := 1; seed <= m.o.seeds; seed++ {
		path, err := m.trace(load, kind, seed)
		if err != nil {
			return err
		}
		r := &run{name: strings.Trim(fmt.Sprintf("%s-%g-%d-%s", set.name, load, seed, kind), "-"), config: set.config, trace: path, inputs: []string{m.cluster, m.speeds}}
		if kind == wrongSpeeds && set.config != "" {
			r.config += fmt.Sprintf("[speeds]\nworkloads = %q\n", m.wrong)
			r.inputs = append(r.inputs, m.wrong)
		}
		r.flags = slices.Concat(set.flags, costs, fails, []string{"--cluster", m.cluster, "--workloads", m.speeds, "--seed", strconv.Itoa(seed)})
		c.runs = append(c.runs, r)
	}
	m.cells = append(m.cells, c)
	return nil
}

// fill adds all that the page has.
func (m *matrix) fill() (err error) {
	add := func(set setup, load float64, kind string, fails []string) {
		err = cmp.Or(err, m.add(set, load, kind, fails))
	}
	for _, load := range m.o.loads {
		for _, set := range all() {
			add(set, load, "", calm)
		}
	}
	for _, kind := range []string{failing, untagged, wrongSpeeds} {
		for _, set := range []setup{shipped, expert, profile} {
			switch {
			case kind == failing:
				add(set, typicalLoad(m.o.loads), kind, weather)
			case set.config != "": // Slurm alone knows neither tags nor speeds
				add(set, typicalLoad(m.o.loads), kind, calm)
			}
		}
	}
	for _, set := range []setup{shipped, expert, profile} {
		err = cmp.Or(err, m.addHostile(set, typicalLoad(m.o.loads)))
	}
	if err == nil {
		m.mixes, err = overloads(m.o.dir, 8*m.o.jobs/3, overloadSetups, overloadSeeds)
	}
	return err
}

// Kinds of traces beside the main one.
const (
	failing     = "failing"
	untagged    = "untagged"
	wrongSpeeds = "wrong-speeds"
)

// typicalLoad is that of the tables of which there is one: 0.9, or else the first.
func typicalLoad(loads []float64) float64 {
	for _, load := range loads {
		if load == 0.9 {
			return load
		}
	}
	return loads[0]
}

// run does all runs, and reads their results.
func (m *matrix) run(ctx context.Context, s *study) error {
	var all []*run
	for _, c := range m.cells {
		all = append(all, c.runs...)
	}
	for _, o := range m.mixes {
		all = append(all, o.runs...)
	}
	if err := s.all(ctx, all); err != nil {
		return err
	}
	for _, c := range m.cells {
		for _, r := range c.runs {
			f, err := measured(m.traces[r.trace], r.csv, r.json, c.of)
			if err != nil {
				return err
			}
			c.figures = append(c.figures, f)
		}
		c.mean = mean(c.figures)
	}
	for _, o := range m.mixes {
		if err := o.read(); err != nil {
			return err
		}
	}
	return nil
}

// cell returns that of a setup; nil: there is none.
func (m *matrix) cell(name string, load float64, kind string) *cell {
	for _, c := range m.cells {
		if c.setup.name == name && c.load == load && c.kind == kind {
			return c
		}
	}
	return nil
}

// wrongBy returns what a user measured in place of a speed: a third of it, the speed, or three times it.
func wrongBy(factor float64) func(program, gpuType int) float64 {
	return func(program, gpuType int) float64 {
		return []float64{1 / factor, 1, factor}[(7*program+5*gpuType+program*gpuType)%3]
	}
}
