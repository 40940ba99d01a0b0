package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/live"
	"slurmprio/priod/profile"
	"slurmprio/priod/profile/curve"
	"slurmprio/priod/report"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
	"slurmprio/slurmplug/sbatch"
)

// usualProgress finds "step 17", "Iteration: 17/500", "batch=17" and tqdm's
// "17/500 [".
const usualProgress = `(?i)(?:^|[^a-z])(?:step|iter|iteration|batch|update)s?\D{0,3}(\d+)|(\d+)/\d+ \[`

func profileCommand() *cli.Command {
	return &cli.Command{
		Name: "profile", Usage: "measure how the speed of a job depends on its CPUs; for any user", ArgsUsage: "-- SBATCH-OPTIONS SCRIPT [ARGUMENTS]",
		Description: "Submits one short job for each GPU type and runs the script in it repeatedly, with different numbers of CPUs\n" +
			"for each GPU, until its own progress says how fast it is. Prints the curve, the --prio-* options for it and a\n" +
			"workloads.toml entry. The script needs no change, but each run of it is killed when it has been measured: let it\n" +
			"write to a folder of its own (PRIOD_PROFILE=1 is in its environment). Ctrl-C cancels what was submitted.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "gpu-types", Usage: "profile on these `TYPES`, such as a100,v100 (default: that of the job, else all)"},
			&cli.StringFlag{Name: "cpus", Usage: "choose among these `NUMBERS` of CPUs for each GPU (default: up to four times the proportional share)"},
			&cli.StringFlag{Name: "progress", Value: usualProgress, Usage: "`REGEX` whose first group is the number of steps so far; without a group each line that matches is a step", DefaultText: "step 17, iter: 17/500, batch=17, tqdm"},
			&cli.StringFlag{Name: "progress-file", Usage: "read the progress from what the program appends to `FILE` as well"},
			&cli.DurationFlag{Name: "warmup", Value: 10 * time.Second, Usage: "leave out this `TIME` from the first report on"},
			&cli.DurationFlag{Name: "measure", Value: 20 * time.Second, Usage: "measure for this `TIME`, and on until the speed is steady"},
			&cli.DurationFlag{Name: "patience", Value: 2 * time.Minute, Usage: "`TIME` for the first report of a run, and from there for a steady speed"},
			&cli.DurationFlag{Name: "budget", Value: 15 * time.Minute, Usage: "`TIME` to spend on one GPU type"},
			&cli.DurationFlag{Name: "wait", Value: 10 * time.Minute, Usage: "`TIME` to wait for a job to begin"},
			&cli.StringFlag{Name: "dataset", Usage: "`SIZE` of the data set, such as 140G: memory then follows from the cache model"},
			&cli.Float64Flag{Name: "epoch-steps", Usage: "`STEPS` in which the program reads the data set once"},
			&cli.Float64Flag{Name: "disk", Usage: "`MB/S` that storage gives this job"},
			&cli.StringFlag{Name: "working-set", Usage: "`SIZE` of the program in memory without any data cached"},
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the workload (default: that of the script)"},
			jsonFlag(),
		},
		Action: runProfile,
	}
}

func runProfile(c *cli.Context) error {
	set, cache, err := profileSettings(c)
	if err != nil {
		return usageError{err}
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	script, err := readJob(c)
	if err != nil {
		return err
	}
	asked, gpus, err := script.GPUs()
	if err != nil {
		return usageError{err}
	}
	set.GPUs = gpus
	runner := slurmplug.NewExec(slurmplug.ExecOptions{SlurmConf: os.Getenv("SLURM_CONF")})
	types, err := profileTypes(ctx, c, slurmplug.NewClient(runner, slurmplug.Options{ReadTimeout: 30 * time.Second}), script, asked, gpus)
	if err != nil {
		return err
	}
	var doing sync.Map
	names := make([]string, len(types))
	for i := range types {
		names[i] = types[i].Name
	}
	seen, finish := progress(c.App.ErrWriter, names, int64(set.Budget), func(name string, used int64) string {
		what, _ := doing.Load(name)
		return fmt.Sprintf("%s of %s, %s", report.Ago(time.Duration(used)), report.Ago(set.Budget), report.Safe(fmt.Sprint(what)))
	})
	set.Seen = func(s profile.Progress) {
		doing.Store(s.GPUType, s.Doing)
		seen(s.GPUType, int64(min(s.Used, set.Budget-1)))
	}
	slurm := &profile.Slurm{Script: *script, File: c.String("progress-file"), Env: os.Environ(), Runner: runner}
	results, errs := profile.Run(ctx, slurm, types, set)
	finish()
	return showProfile(c, script, results, errs, cache, gpus)
}

// profileSettings reads what the options say about measuring.
func profileSettings(c *cli.Context) (set profile.Settings, cache *curve.Cache, err error) {
	set = profile.Settings{
		Window:   curve.Window{Warmup: c.Duration("warmup"), Measure: c.Duration("measure")},
		Patience: c.Duration("patience"), Budget: c.Duration("budget"), Wait: c.Duration("wait"),
	}
	switch {
	case set.Warmup < 0 || set.Measure <= 0 || set.Wait < 0:
		return set, nil, errors.New("--warmup and --wait want a time from 0, --measure one above 0, such as 20s")
	case set.Patience < set.Warmup+set.Measure:
		return set, nil, fmt.Errorf("--patience %s is shorter than --warmup and --measure together, %s", set.Patience, set.Warmup+set.Measure)
	case set.Budget < 2*(set.Warmup+set.Measure):
		return set, nil, fmt.Errorf("--budget %s is not enough for two runs of --warmup and --measure", set.Budget)
	case set.Budget > 24*time.Hour:
		return set, nil, fmt.Errorf("--budget %s: want at most 24h", set.Budget)
	case c.IsSet("name") && !jobtag.ValidName(c.String("name")):
		return set, nil, fmt.Errorf("--name %.80q: want 1 to 64 letters, digits, '.', '-' or '_'", c.String("name"))
	}
	if set.Pattern, err = regexp.Compile(c.String("progress")); err != nil {
		return set, nil, fmt.Errorf("--progress: %w", err)
	}
	model := []string{"dataset", "epoch-steps", "disk", "working-set"}
	if !slices.ContainsFunc(model, c.IsSet) {
		return set, nil, nil
	}
	cache = &curve.Cache{EpochSteps: c.Float64("epoch-steps"), DiskMBps: c.Float64("disk")}
	for _, name := range model {
		if !c.IsSet(name) {
			return set, nil, fmt.Errorf("--%s is missing: the cache model takes --dataset, --epoch-steps, --disk and --working-set together", name)
		}
	}
	for name, to := range map[string]*float64{"dataset": &cache.DatasetMB, "working-set": &cache.WorkingMB} {
		mb, err := slurmplug.ParseMemory(c.String(name))
		if err != nil || mb == 0 {
			return set, nil, fmt.Errorf("--%s %.40q: want a size such as 140G", name, c.String(name))
		}
		*to = float64(mb)
	}
	const most = 1e12
	if !(cache.EpochSteps > 0 && cache.EpochSteps < most && cache.DiskMBps > 0 && cache.DiskMBps < most) {
		return set, nil, errors.New("--epoch-steps and --disk want numbers above 0")
	}
	return set, cache, nil
}

// readJob reads the job as sbatch would.
func readJob(c *cli.Context) (*profile.Script, error) {
	args := c.Args().Slice()
	if len(args) == 0 {
		return nil, usagef("profile: want a job as sbatch takes it: priod profile -- --gres=gpu:1 train.sh")
	}
	sbatchPath, err := exec.LookPath("sbatch")
	if err != nil {
		return nil, fmt.Errorf("profile needs Slurm's commands: %w", err)
	}
	grammar, err := sbatch.Installed{Path: sbatchPath}.Grammar()
	if err != nil {
		return nil, err
	}
	cmd, err := grammar.ParseArgs(args)
	if err != nil {
		return nil, usagef("%v; profile takes sbatch's own options (--prio-* are what comes out of it)", err)
	}
	text, err := scriptText(cmd)
	if err != nil {
		return nil, err
	}
	jobs, err := grammar.Resolve(cmd, text, os.Environ())
	switch {
	case err != nil:
		return nil, usagef("script: %v", err)
	case len(jobs) > 1:
		return nil, usagef("a heterogeneous job: profile its components one by one")
	}
	s := &profile.Script{Job: jobs[0], Text: text}
	if len(cmd.Script) > 0 {
		s.Name, s.Args = cmd.Script[0], cmd.Script[1:]
	}
	return s, nil
}

// mostScript is what slurmctld takes (max_script_size).
const mostScript = 4 << 20

func scriptText(cmd *sbatch.Command) ([]byte, error) {
	if wrapped, ok := cmd.Last("wrap"); ok {
		return []byte("#!/bin/sh\n" + wrapped + "\n"), nil
	}
	in, name := os.Stdin, "standard input"
	if len(cmd.Script) > 0 {
		cwd, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		chdir, _ := cmd.Last("chdir")
		name = cmd.Script[0]
		if in, err = os.Open(sbatch.ScriptPath(name, cwd, chdir, os.Getenv("PATH"))); err != nil {
			return nil, usagef("script: %v", err)
		}
		defer in.Close()
	} else if isTerminal(in) {
		return nil, usagef("profile: no script; name one behind sbatch's options")
	}
	text, err := io.ReadAll(io.LimitReader(in, mostScript+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("script: %w", err)
	case len(text) > mostScript:
		return nil, usagef("script %q is larger than %d MB: is it the right file?", name, mostScript>>20)
	case !strings.HasPrefix(string(text), "#!"):
		return nil, usagef("script %q does not begin with #! and an interpreter, such as #!/bin/bash; sbatch would refuse it", name)
	}
	return text, nil
}

// profileTypes says where to measure, and warns where CPUs mean nothing.
func profileTypes(ctx context.Context, c *cli.Context, client *slurmplug.Client, script *profile.Script, asked string, gpus int) ([]profile.Type, error) {
	names, cpus, err := chosen(c)
	switch {
	case err != nil:
		return nil, usageError{err}
	case len(names) == 0 && asked != "":
		names = []string{asked}
	}
	nodes, err := client.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	var partitions []string
	if list := script.Job.Set["partition"].Value; list != "" {
		partitions = strings.Split(list, ",")
	} else {
		all, err := client.Partitions(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range all {
			if p.Default {
				partitions = append(partitions, p.Name)
			}
		}
	}
	types, err := profile.Choose(profile.Offers(live.ConvertNodes(nodes), partitions, gpus), names, cpus, gpus)
	if err != nil {
		return nil, usagef("partition %s: %w", strings.Join(partitions, ","), err)
	}
	if conf, err := client.Config(ctx); err == nil && !strings.Contains(conf.Get("TaskPlugin"), "affinity") && !strings.Contains(conf.Get("TaskPlugin"), "cgroup") {
		fmt.Fprintf(c.App.ErrWriter, "priod: note: TaskPlugin=%s does not confine a step to its CPUs: the curve is right only for a program that keeps to SLURM_CPUS_ON_NODE\n",
			report.Safe(conf.Get("TaskPlugin")))
	}
	return types, nil
}

// chosen reads --gpu-types and --cpus.
func chosen(c *cli.Context) (names []string, cpus []int, err error) {
	if list := c.String("gpu-types"); list != "" {
		names = strings.Split(list, ",")
		for _, n := range names {
			if !jobtag.ValidName(n) {
				return nil, nil, fmt.Errorf("--gpu-types %.80q: want names such as a100,v100", list)
			}
		}
	}
	if list := c.String("cpus"); list != "" {
		for text := range strings.SplitSeq(list, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > 1<<16 || slices.Contains(cpus, n) {
				return nil, nil, fmt.Errorf("--cpus %.80q: want different numbers of CPUs for each GPU, such as 1,2,3,6,12", list)
			}
			cpus = append(cpus, n)
		}
	}
	return names, cpus, nil
}

// profiledView is one GPU type in JSON.
type profiledView struct {
	GPUType  string         `json:"gpu_type"`
	Job      string         `json:"job"`
	Points   []pointView    `json:"points"`
	Curve    workload.Curve `json:"curve"`
	Unsteady []int          `json:"unsteady_cpus_per_gpu"`
	Stopped  bool           `json:"stopped_by_budget"`
}

type pointView struct {
	CPUs     int     `json:"cpus_per_gpu"`
	Measured float64 `json:"steps_per_s"`
	Relative float64 `json:"relative_speed"`
}

// showProfile prints what was measured, and then what went wrong.
func showProfile(c *cli.Context, script *profile.Script, results []profile.Result, errs []error, cache *curve.Cache, gpus int) error {
	curves := map[string]workload.Curve{}
	views := []profiledView{}
	for i, r := range results {
		if errs[i] != nil {
			continue
		}
		k := r.Curve(cache, gpus)
		curves[r.Type.Name] = k
		v := profiledView{GPUType: r.Type.Name, Job: r.Job, Curve: k, Unsteady: append([]int{}, r.Unsteady...), Stopped: r.Stopped}
		for i, p := range curve.Fit(r.Measured) {
			at := slices.IndexFunc(r.Measured, func(q curve.Point) bool { return q.CPUs == p.CPUs })
			v.Points = append(v.Points, pointView{p.CPUs, r.Measured[at].Rate, k.Speed[i][len(k.MemMB)-1]})
		}
		views = append(views, v)
	}
	if len(views) > 0 {
		if err := showCurves(c, script, views, curves, gpus); err != nil {
			return err
		}
	}
	failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(failed) == 1 {
		return failed[0]
	}
	for _, err := range failed {
		fmt.Fprintf(c.App.ErrWriter, "priod: %s\n", report.Safe(err.Error()))
	}
	if len(failed) > 0 {
		return errProblem
	}
	return nil
}

func showCurves(c *cli.Context, script *profile.Script, views []profiledView, curves map[string]workload.Curve, gpus int) error {
	w := c.App.Writer
	tag := profile.Tag(curves)
	options, err := tagOptions(tag)
	if err != nil {
		return err
	}
	entry := workload.Workload{Name: workloadName(c, script.Name), Curves: curves,
		Source: fmt.Sprintf("priod profile %s, %s", time.Now().Format(time.DateOnly), report.Plural(gpus, "GPU", "GPUs"))}
	var toml strings.Builder
	if err := workload.WriteTOML(&toml, "", []workload.Workload{entry}); err != nil {
		return err
	}
	if c.Bool("json") {
		return report.JSON(w, map[string]any{"gpus": gpus, "types": views, "options": options, "workload_toml": strings.TrimLeft(toml.String(), "\n")})
	}
	for _, v := range views {
		fmt.Fprintf(w, "%s: %.4g steps/s with the proportional share; gains nothing beyond %s for each GPU\n", v.GPUType, 1/v.Curve.IterationS, report.Plural(int(v.Curve.DemandCPUs), "CPU", "CPUs"))
		best := v.Points[len(v.Points)-1].Relative
		rows := make([][]any, len(v.Points))
		for i, p := range v.Points {
			note := ""
			if slices.Contains(v.Unsteady, p.CPUs) {
				note = "not steady"
			}
			rows[i] = []any{p.CPUs, fmt.Sprintf("%.4g", p.Measured), p.Relative, curve.Bar(p.Relative/best, 40, unicodeTerminal()), note}
		}
		report.Table(w, []string{"CPUS/GPU", "STEPS/S", "SPEED", "", ""}, rows)
		if v.Stopped {
			fmt.Fprintln(w, "The budget ended here; --budget gives it more time, --cpus fewer numbers to try.")
		}
		fmt.Fprintln(w)
	}
	if options == nil {
		fmt.Fprint(w, "These curves are longer than a tag can be: give the entry below to your site and tag the job with its name.\n\n")
	} else {
		_, wrapped := script.Job.Set["wrap"]
		if script.Name != "" || wrapped { // a script from standard input is gone
			words := slices.Concat([]string{"sbatchwrap"}, options, c.Args().Slice())
			fmt.Fprintf(w, "Submit it with\n\n    %s\n\n", sbatch.CommandLine(words))
		}
		if !wrapped {
			fmt.Fprintf(w, "To say it in the script, put this line below its #SBATCH lines and submit it with sbatchwrap:\n\n    #PRIO %s\n\n", sbatch.CommandLine(options))
		}
	}
	fmt.Fprintf(w, "For your site's workloads.toml (then --prio-workload %s says the same):\n\n%s", entry.Name, strings.TrimLeft(toml.String(), "\n"))
	return nil
}

// tagOptions are the options of sbatchwrap that say what the tag says; nil when
// it is longer than a tag can be.
func tagOptions(tag jobtag.Tag) ([]string, error) {
	text, err := jobtag.Encode(tag)
	var bad *jobtag.Error
	switch {
	case errors.As(err, &bad) && bad.Key == "":
		return nil, nil
	case err != nil:
		return nil, err
	}
	var options []string
	for pair := range strings.SplitSeq(strings.TrimPrefix(text, jobtag.Prefix), "&") {
		if key, value, _ := strings.Cut(pair, "="); key != "v" {
			options = append(options, "--prio-"+key, value)
		}
	}
	return options, nil
}

// workloadName is --name, else the script's name as far as a name can be.
func workloadName(c *cli.Context, script string) string {
	base := filepath.Base(script)
	if name := strings.TrimSuffix(base, filepath.Ext(base)); jobtag.ValidName(name) {
		return cmp.Or(c.String("name"), name)
	}
	return cmp.Or(c.String("name"), "job")
}

// unicodeTerminal reports whether the user's locale has block characters.
func unicodeTerminal() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}
