package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/simulate"
	"slurmprio/priod/simulate/sweep"
	"slurmprio/priod/simulate/tune"
	"slurmprio/priod/trace"
	"slurmprio/priod/workload"
)

func tuneCommand() *cli.Command {
	return &cli.Command{
		Name: "tune", Usage: "find settings on the site's own history; writes no configuration",
		Description: "Replays the jobs under priod.toml as it is, under each profile, and with keys changed one by one. Half of the blocks\n" +
			"of time choose a setting, the other half measure it. Shows the settings that no other beats, one\n" +
			"recommended change as a diff of priod.toml with the worth of each line, and writes a page into --out. Results are\n" +
			"kept there, so an interrupted study can be resumed. A month of 30,000 jobs takes about 20 s of CPU for each of about\n" +
			"20 settings.\n" +
			"    priod tune --from-slurm --since 60d\n" +
			"    priod tune --from-slurm --since 60d --goal te-p95 --bound completion=5.5",
		Flags: append(tuneInput(),
			&cli.StringFlag{Name: "goal", Value: string(tune.Completion), Usage: "what to minimise: " + goalNames()},
			&cli.StringSliceFlag{Name: "bound", Usage: "`GOAL=MOST` that may not be exceeded; again for more (default: completion, te-p95 and worst-user no worse than now)"},
			&cli.StringSliceFlag{Name: "try", Usage: "further `KEY=VALUE...` of priod.toml to try, several together with spaces; again for more"},
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Value: "priod-tune", Usage: "keep jobs, results and the page in `FOLDER`"},
			&cli.IntFlag{Name: "workers", DefaultText: "all cores", Usage: "simulate `SETTINGS` in parallel"},
			jsonFlag(),
		),
		Before: noArgs,
		Action: runTune,
	}
}

// tuneInput are the flags of simulate that say what is replayed.
func tuneInput() (flags []cli.Flag) {
	for _, f := range simulateFlags() {
		if !slices.Contains([]string{"order", "preemption", "set", "node-events"}, f.Names()[0]) {
			flags = append(flags, f)
		}
	}
	return flags
}

func goalNames() string {
	names := make([]string, len(tune.Goals))
	for i, g := range tune.Goals {
		names[i] = string(g)
	}
	return strings.Join(names, ", ")
}

// Blocks of time: at most 16, of at least a day and with 20 jobs each.
const (
	mostBlocks, leastBlocks = 16, 6
	leastOfBlock            = 20
	tuneCycle               = 30 * time.Second // between two cycles, where priod.toml has less: half the CPU time, figures as far off as seeds
)

// tuning is one study.
type tuning struct {
	sweep.Runner
	aim      tune.Aim
	cfg      string // path
	tries    []string
	spec     simulate.Spec // what the flags say
	alone    simulate.Spec // this Slurm
	with     simulate.Spec // and with priod
	jobs     []trace.Job
	cluster  trace.Cluster
	programs *workload.Table // how fast they are
	told     *workload.Table // what priod is told of them
	kept
	blocks   int
	length   float64 // of a block, s
	settings []*tune.Setting
	known    map[string]*tune.Setting // by the configuration that holds
	out      io.Writer
	errs     io.Writer
}

func runTune(c *cli.Context) error {
	t, err := openTuning(c)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := t.prepare(ctx, c); err != nil {
		return err
	}
	choice, err := t.study(ctx)
	if err != nil {
		return err
	}
	return t.show(c, choice)
}

// openTuning reads the flags.
func openTuning(c *cli.Context) (*tuning, error) {
	t := &tuning{cfg: c.String("config"), tries: c.StringSlice("try"), known: map[string]*tune.Setting{}, out: c.App.Writer, errs: c.App.ErrWriter}
	goal := func(name string) (tune.Goal, error) {
		if g := tune.Goal(name); slices.Contains(tune.Goals, g) {
			return g, nil
		}
		return "", usagef("tune: no goal %.40q; there are %s", name, goalNames())
	}
	var err error
	if t.aim.Goal, err = goal(c.String("goal")); err != nil {
		return nil, err
	}
	t.aim.Bounds = map[tune.Goal]float64{}
	for _, text := range c.StringSlice("bound") {
		name, value, _ := strings.Cut(text, "=")
		g, err := goal(name)
		if err != nil {
			return nil, err
		}
		most, err := strconv.ParseFloat(value, 64)
		if err != nil || !(most > 0) {
			return nil, usagef("tune: --bound %.40q: want GOAL=MOST with a number above 0, such as te-p95=3", text)
		}
		t.aim.Bounds[g] = most
	}
	workers := c.Int("workers")
	if !c.IsSet("workers") {
		workers = runtime.NumCPU()
	}
	if workers < 1 {
		return nil, usagef("tune: --workers is at least 1")
	}
	if t.spec, err = flagSpec(c); err != nil {
		return nil, usageError{err}
	}
	if _, _, err := new(ownSlurm).sides(t.spec); err != nil {
		return nil, usageError{err}
	}
	t.Runner = sweep.Runner{Dir: c.String("out"), Version: c.App.Version, Workers: workers, Simulate: t.simulate}
	if _, err := t.config(nil); err != nil {
		return nil, usageError{err}
	}
	for _, try := range t.tries {
		if _, err := t.config(strings.Fields(try)); err != nil {
			return nil, usageError{err}
		}
	}
	return t, nil
}

// config is priod.toml with assignments over it, without what a replay cannot show.
func (t *tuning) config(set []string) (*config.Config, error) {
	cfg, err := config.Load(t.cfg, set...)
	if err != nil {
		return nil, err
	}
	cfg.Cycle.Interval = max(cfg.Cycle.Interval, config.Duration(tuneCycle))
	cfg.Retry.Output, cfg.Retry.Drain = false, false
	return cfg, nil
}

// kept is what is written with the jobs, so that a continued study uses the same.
type kept struct {
	Flags  []string          `json:"flags"`
	Slurm  ownSlurm          `json:"slurm"`
	Origin time.Time         `json:"origin"` // second 0 of the jobs
	Events []trace.NodeEvent `json:"events"`
	Notes  []string          `json:"notes"`
}

// prepare reads jobs and nodes, or those of the study that the folder holds.
func (t *tuning) prepare(ctx context.Context, c *cli.Context) error {
	flags := givenFlags(c, "out", "workers", "json", "goal", "bound", "try")
	study, jobs, nodes := filepath.Join(t.Dir, "study.json"), filepath.Join(t.Dir, "jobs.csv"), filepath.Join(t.Dir, "nodes.toml")
	text, err := os.ReadFile(study)
	if errors.Is(err, fs.ErrNotExist) {
		if err := t.read(ctx, c); err != nil {
			return err
		}
		t.Flags = flags
		if err := t.keep(study, jobs, nodes); err != nil {
			return err
		}
		text, err = os.ReadFile(study)
	}
	if err == nil {
		err = t.resume(text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; use another --out", study, err)
	}
	if !slices.Equal(t.Flags, flags) {
		return usagef("tune: %s holds the study of %q: use another --out, or remove it", t.Dir, strings.Join(t.Flags, " "))
	}
	cfg, err := t.config(nil)
	if err != nil {
		return err
	}
	if t.programs, t.told, err = workloads(c, cfg); err != nil {
		return usageError{err}
	}
	if t.cluster, err = trace.ReadCluster(nodes); err != nil {
		return err
	}
	r, err := trace.Open(jobs, trace.Options{Format: trace.CSV, Workloads: t.programs})
	if err != nil {
		return err
	}
	defer r.Close()
	gpuJobs := 0
	for j, err := range r.All() {
		if err != nil {
			return err
		}
		if t.jobs = append(t.jobs, j); j.GPUs > 0 {
			gpuJobs++
		}
	}
	last := 0.0
	if n := len(t.jobs); n > 0 {
		last = t.jobs[n-1].Submit + 1
	}
	if t.blocks = min(mostBlocks, int(last/86400), gpuJobs/leastOfBlock); t.blocks < leastBlocks {
		return fmt.Errorf("tune: %d GPU jobs within %.1f days: want at least %d days with %d jobs, so that some of the time can choose and the rest can judge", gpuJobs, last/86400, leastBlocks, leastBlocks*leastOfBlock)
	}
	t.length = last / float64(t.blocks)
	return nil
}

// resume takes up what was kept.
func (t *tuning) resume(text []byte) (err error) {
	if err = json.Unmarshal(text, &t.kept); err == nil {
		t.alone, t.with, err = t.Slurm.sides(t.spec)
	}
	return err
}

// read takes jobs and nodes from where the flags say.
func (t *tuning) read(ctx context.Context, c *cli.Context) (err error) {
	if t.Slurm, err = ownPolicy(ctx, c); err != nil {
		return err
	}
	s := &Simulated{spec: t.spec}
	s.spec.Order = "priod"
	in, done, err := s.input(ctx, c)
	if err != nil {
		return err
	}
	defer done()
	for j, err := range in.Jobs {
		if err != nil {
			return err
		}
		t.jobs = append(t.jobs, j)
	}
	t.Notes, t.Events, t.Origin, t.cluster = append(s.Notes, s.leftOutWords()...), in.NodeEvents, s.Stats.Origin, in.Cluster
	return nil
}

// keep writes jobs and nodes, the study last: it says that they are whole.
func (t *tuning) keep(study, jobs, nodes string) error {
	if err := os.MkdirAll(t.Dir, 0o755); err != nil {
		return err
	}
	if err := writeFile(jobs, func(w io.Writer) error { return trace.WriteCSV(w, t.jobs) }); err != nil {
		return err
	}
	if err := writeFile(nodes, func(w io.Writer) error { return toml.NewEncoder(w).Encode(t.cluster) }); err != nil {
		return err
	}
	t.jobs = nil
	return writeFile(study, func(w io.Writer) error { return json.NewEncoder(w).Encode(&t.kept) })
}

// givenFlags are a verb's flags as they were given, but for some.
func givenFlags(c *cli.Context, but ...string) (words []string) {
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		if slices.Contains(but, name) || !c.IsSet(name) {
			continue
		}
		switch f.(type) {
		case *cli.StringSliceFlag:
			for _, v := range c.StringSlice(name) {
				words = append(words, "--"+name+"="+v)
			}
		case *cli.BoolFlag:
			words = append(words, "--"+name)
		default:
			words = append(words, fmt.Sprintf("--%s=%v", name, c.Value(name)))
		}
	}
	return words
}

// slurmAlone stands for Slurm without priod among the settings.
const slurmAlone = "without priod"

// simulate replays the jobs under one setting.
func (t *tuning) simulate(ctx context.Context, set []string) (map[string]float64, error) {
	spec, in := t.with, simulate.Input{
		Cluster: t.cluster, NodeEvents: t.Events, Jobs: trace.Each(t.jobs), Origin: t.Origin, Speed: simulate.Speeds(t.programs), Curve: simulate.Curves(t.programs),
	}
	if slices.Equal(set, []string{slurmAlone}) {
		spec = t.alone
	} else {
		cfg, err := t.config(set)
		if err != nil {
			return nil, err
		}
		in.Unprofile(cfg)
		in.Config, in.Table = cfg, t.told
	}
	r, err := simulate.Run(ctx, spec, in)
	if err != nil {
		return nil, err
	}
	return tune.Flat(tune.Measure(t.jobs, r.Outcomes, t.blocks, t.length)), nil
}
