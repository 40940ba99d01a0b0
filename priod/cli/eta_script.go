package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/advise"
	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/live"
	"slurmprio/priod/report"
	"slurmprio/priod/steer"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
	"slurmprio/slurmplug/prio"
	"slurmprio/slurmplug/sbatch"
)

// etaOfScripts are jobs that are not submitted, with what each GPU type would be worth to them; at is when the cluster was read.
// unread is why the state folder cannot be read: then the daemon says what is expected, and without one time limits do.
func etaOfScripts(c *cli.Context, cfg *config.Config, r *store.Reader, words []string, unread error) (views []*view.Expectation, at time.Time, err error) {
	a, err := newAdviser(cfg, words, c.Bool("each") || !afterDashes(c))
	if err != nil || a == nil {
		return nil, at, err
	}
	seen, err := live.New(newClient(cfg)).View(c.Context)
	if err != nil {
		return nil, at, fmt.Errorf("the cluster cannot be read: %w", err)
	}
	a.site, a.r = view.SiteOf(cfg, seen), r
	expected, why := a.expected(c.Context, r, unread)
	views = make([]*view.Expectation, len(a.jobs))
	for i := range a.jobs {
		j := &a.jobs[i]
		advice, err := a.view(c.Context, j, seen.OwnJobs)
		if err != nil {
			return nil, at, err
		}
		v := &view.Expectation{Partition: strings.Join(advice.Partitions, ","), GPUs: advice.GPUs, GPUType: advice.GPUType, Why: why, Alternatives: []view.Alternative{}}
		if expected != nil {
			v = expected[i]
		} else if advice.Best != nil {
			v.LimitsS = view.SecondsOf(advice.Best.Start)
		}
		if v.Types != nil {
			advice.Expect(v.Types, j.request.GPUType == "")
			a.choose(&advice, j)
		}
		if c.Bool("slurm") {
			v.Slurm = a.testOnly(c.Context, j)
		}
		v.Script, v.Advice = filepath.Base(cmp.Or(advice.Script, "job")), &advice
		views[i] = v
	}
	return views, seen.Snapshot.At, nil
}

// expected is what past runs let expect of the jobs; nil, and why, where the state folder is not for this user and the daemon
// does not answer.
func (a *adviser) expected(ctx context.Context, r *store.Reader, unread error) (views []*view.Expectation, why string) {
	requests := make([]*advise.Request, len(a.jobs))
	for i := range a.jobs {
		requests[i] = &a.jobs[i].request
	}
	views, err := etaOfRequests(ctx, a.cfg, r, requests, a.user, unread, a.site)
	if err != nil {
		return nil, "by time limits alone: " + err.Error()
	}
	return views, ""
}

// adviser is one question about jobs that are not submitted.
type adviser struct {
	cfg    *config.Config
	sbatch string // path of sbatch
	cmd    *sbatch.Command
	jobs   []adviseJob
	table  *workload.Table
	user   string
	site   *advise.Site
	r      *store.Reader // nil: the state folder is not for this user
}

// adviseJob is one job that is asked about.
type adviseJob struct {
	cmd     *sbatch.Command
	text    []byte // of the script
	tag     string
	request advise.Request
}

func (a *adviser) given(name string) bool {
	_, ok := a.cmd.Last(name)
	return ok
}

// aboutWrapper are the options of sbatchwrap about itself, which go neither to sbatch nor into the tag.
var aboutWrapper = []string{"prio-print", "prio-help", "prio-version"}

// newAdviser reads a command line of sbatch and its script, or scripts of which each gets the options before the first one; nil
// when help is asked for.
func newAdviser(cfg *config.Config, args []string, each bool) (*adviser, error) {
	if len(args) == 0 {
		return nil, usagef("eta: want a job as sbatchwrap takes it: priod eta -- --gres=gpu:1 train.sh")
	}
	a := &adviser{cfg: cfg, sbatch: filepath.Join(cfg.Slurm.BinDir, "sbatch")}
	var err error
	if cfg.Slurm.BinDir == "" {
		if a.sbatch, err = exec.LookPath("sbatch"); err != nil {
			return nil, fmt.Errorf("a job that is not submitted needs Slurm's commands: %w", err)
		}
	}
	grammar, err := sbatch.Installed{Path: a.sbatch}.Grammar()
	if err != nil {
		return nil, err
	}
	grammar = grammar.With(prio.Exact(aboutWrapper...)...)
	if a.cmd, err = grammar.ParseArgs(args); err != nil {
		return nil, usagef("command line: %v", err)
	}
	if a.given("help") || a.given("usage") || a.given("prio-help") {
		return nil, nil
	}
	commands := []*sbatch.Command{a.cmd}
	if each {
		commands = nil
		options := args[:len(args)-len(a.cmd.Script)]
		for _, script := range a.cmd.Script {
			cmd, err := grammar.ParseArgs(append(slices.Clip(options), script))
			if err != nil {
				return nil, usagef("command line: %v", err)
			}
			commands = append(commands, cmd)
		}
		if len(commands) == 0 {
			return nil, usagef("eta --each: name at least one script behind the options")
		}
	}
	a.jobs = make([]adviseJob, len(commands))
	for i, cmd := range commands {
		if a.jobs[i], err = readAdviseJob(grammar, cmd); err != nil {
			return nil, err
		}
	}
	if a.table, err = workload.Load(cfg.Speeds.Workloads); err != nil {
		return nil, usageError{err}
	}
	if me, err := user.Current(); err == nil {
		a.user = me.Username
	}
	return a, nil
}

// readAdviseJob reads a job as sbatchwrap and sbatch do: the tag and the request.
func readAdviseJob(grammar *sbatch.Grammar, cmd *sbatch.Command) (adviseJob, error) {
	j := adviseJob{cmd: cmd}
	title, name := "standard input", "sbatch"
	_, wrapped := cmd.Last("wrap")
	switch {
	case wrapped:
		title, name = "--wrap", "wrap"
	default:
		if len(cmd.Script) > 0 {
			title, name = "script "+prio.Quote(cmd.Script[0]), filepath.Base(cmd.Script[0])
		}
		var err error
		if j.text, err = scriptText(cmd); err != nil {
			return j, err
		}
	}
	wrong := func(err error) error { return usagef("%s: %w", title, err) }
	jobs, err := grammar.Resolve(cmd, j.text, os.Environ())
	switch {
	case err != nil:
		return j, wrong(err)
	case len(jobs) > 1:
		return j, usagef("%s: a heterogeneous job: ask about one component at a time", title)
	}
	given, err := prio.FromScript(title, j.text)
	if err != nil {
		return j, usageError{err}
	}
	fromEnv, _ := prio.FromEnvironment(os.Environ())
	given = slices.Concat(given, fromEnv, prio.FromArguments(cmd))
	var tag jobtag.Tag
	if len(given) > 0 {
		if tag, j.tag, err = prio.Tag(given); err != nil {
			return j, usageError{err}
		}
	} else if j.tag, _ = jobtag.Split(jobs[0].Set["comment"].Value); j.tag != "" { // written by hand
		if tag, err = jobtag.Parse(j.tag); err != nil {
			return j, wrong(fmt.Errorf("--comment: %w", err))
		}
	}
	if j.request, err = advise.Read(jobs[0]); err != nil {
		return j, wrong(err)
	}
	j.request.Tag, j.request.Name = tag, cmp.Or(j.request.Name, name)
	return j, nil
}

func (a *adviser) view(ctx context.Context, j *adviseJob, ownJobs bool) (view.Advice, error) {
	r := &j.request
	types := advise.Types(a.site)
	set := a.cfg.SpeedSettings()
	job := speed.Job{Tag: r.Tag, User: a.user, Name: r.Name, GPUs: r.GPUs}
	learned, _ := view.Learned(ctx, a.cfg, a.r, a.table, &job) // what cannot be read is not known
	answers := set.For(&job, types, a.table, learned)
	advice, err := advise.Give(a.site, r, answers.Speeds, a.rates(&job, types, learned))
	if err != nil {
		return view.Advice{}, usageError{err}
	}
	advice.Notes = append(advice.Notes, answers.Notes...)
	if advice.LeftOut > 0 {
		advice.Notes = append(advice.Notes, leftOut(a.site.Snapshot.Nodes, advice.LeftOut))
	}
	if advice.Hidden > 0 {
		advice.Notes = append(advice.Notes, report.Plural(advice.Hidden, "GPU is", "GPUs are")+" held by jobs that squeue does not show you: their ends are unknown")
	}
	if ownJobs {
		advice.Notes = append(advice.Notes, "this site shows you your own jobs only (PrivateData=jobs): those of others may start before yours")
	}
	v := view.Advice{Tag: j.tag, GPUs: r.GPUs, GPUType: r.GPUType, CPUs: r.CPUs, Advice: advice}
	if len(j.cmd.Script) > 0 {
		v.Script = j.cmd.Script[0]
	} else {
		v.Stdin = j.text != nil
	}
	if advice.Limit != slurmplug.Unlimited {
		s := int64(advice.Limit / time.Second)
		v.LimitS = &s
	}
	a.choose(&v, j)
	return v, nil
}

// choose fills in the best type, and how to get it.
func (a *adviser) choose(v *view.Advice, j *adviseJob) {
	v.OpenOn, v.BestType, v.Steered, v.Say, v.Barred, v.Submit = nil, "", false, "", "", nil
	advice := v.Advice
	for _, t := range advice.Open {
		v.OpenOn = append(v.OpenOn, t.GPUType)
	}
	if advice.Best == nil {
		return
	}
	v.BestType = advice.Best.GPUType
	v.Steered, v.Say = a.steers(j, advice)
	if v.Steered {
		steering := a.cfg.Steer()
		why, _ := steering.Unsteerable(a.site.Snapshot.Nodes)
		v.Barred = why[v.BestType]
		sole := steer.SoleTypes(a.site.Snapshot.Nodes)
		if len(advice.Partitions) > 1 && slices.ContainsFunc(advice.Partitions, func(p string) bool { return sole[p] == v.BestType }) {
			v.Barred = "" // its list gives it the type
		}
		v.Steered = v.Barred == ""
	}
	v.Submit = a.submission(j, advice, v.Barred != "" || !v.Steered && advice.Typed())
}

// leftOut names nodes that advice does not look at; of so many in all.
func leftOut(nodes []cluster.Node, all int) string {
	var mixed []string
	for i := range nodes {
		if nodes[i].MixedTypes {
			mixed = append(mixed, nodes[i].Name)
		}
	}
	text := "not looked at: "
	if len(mixed) > 0 {
		text += fmt.Sprintf("%.80s, with several GPU types", slurmplug.CompactHosts(mixed))
	}
	if more := all - len(mixed); more > 0 && len(mixed) > 0 {
		text += fmt.Sprintf(", and %s of further kinds", report.Plural(more, "node", "nodes"))
	} else if more > 0 {
		text += report.Plural(more, "node", "nodes") + " of further kinds"
	}
	return text
}

// rates says how many steps a second a job makes on a type: its workload's, else
// those of its runs here whose steps are known.
func (a *adviser) rates(job *speed.Job, types []string, learned *speed.Knowledge) func(gpuType string) (float64, bool) {
	rates := map[string]float64{}
	if learned != nil {
		program := job.Program(a.table)
		set := a.cfg.SpeedSettings()
		for _, t := range set.All(learned, types) {
			for _, cell := range t.Cells {
				if t.Program == program && t.Unit == speed.Steps && cell.Counts {
					rates[cell.GPUType] = cell.Rate
				}
			}
		}
	}
	id, known := a.table.Lookup(job.Tag.Workload)
	return func(gpuType string) (float64, bool) {
		if known {
			if v, ok := a.table.Speed(id, job.GPUs, gpuType); ok {
				return v, ok
			}
		}
		v, ok := rates[gpuType]
		return v, ok
	}
}

// steers reports whether the site chooses a type for the job if it leaves it open;
// else what the job would have to say for that, if this site's history knows it.
func (a *adviser) steers(j *adviseJob, advice *advise.Advice) (is bool, say string) {
	r := &j.request
	if !a.cfg.Steering.Enabled || a.site.Ranking == nil || r.GPUType != "" || !a.site.Ranking.Ranks(strings.Join(advice.Partitions, ",")) {
		return false, ""
	}
	if r.Tag.AllowsSteering() {
		return true, ""
	}
	tag := jobtag.Tag{Speed: map[string]float64{}}
	for _, t := range advice.Types {
		if t.Source == speed.Past && t.Fits && jobtag.ValidName(t.GPUType) {
			tag.Speed[t.GPUType] = math.Round(t.Speed*1000) / 1000
		}
	}
	if options, err := tagOptions(tag); err == nil && len(tag.Speed) > 1 {
		say = strings.Join(options, " ")
	}
	return false, say
}

// submission is the command line that gets the job its best type: the user's
// own, with the type in it where it has to be.
func (a *adviser) submission(j *adviseJob, advice *advise.Advice, typed bool) []string {
	words := []string{"sbatch"}
	if j.tag != "" {
		words[0] = "sbatchwrap"
	}
	next := 0
	copyTo := func(end int) {
		words = append(words, j.cmd.Args[next:end]...)
		next = end
	}
	part := j.cmd.Components[0]
	for _, f := range part.Found {
		if slices.Contains(aboutWrapper, f.Option.Name) {
			copyTo(f.At)
			next += f.Words
		}
	}
	copyTo(part.End)
	if typed {
		if value, err := slurmplug.WithGPUType(j.request.Option, j.request.Value, advice.Best.GPUType); err == nil {
			words = append(words, "--"+j.request.Option+"="+value)
		}
	}
	copyTo(len(j.cmd.Args))
	return words
}

// testOnly asks Slurm when it expects to start the job as it stands. Nothing is
// submitted.
func (a *adviser) testOnly(ctx context.Context, j *adviseJob) string {
	if j.cmd.Tangled {
		return "not asked: the command line cannot be changed safely"
	}
	ctx, stop := context.WithTimeout(ctx, a.cfg.Constants.Commands.ReadTimeout)
	defer stop()
	cmd := exec.CommandContext(ctx, a.sbatch, j.cmd.Rewrite([][]string{{"--test-only"}})...)
	if len(j.cmd.Script) == 0 {
		cmd.Stdin = bytes.NewReader(j.text)
	}
	if conf := a.cfg.Slurm.Conf; conf != "" {
		cmd.Env = append(os.Environ(), "SLURM_CONF="+conf)
	}
	said, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	text := strings.TrimPrefix(strings.TrimPrefix(lines[len(lines)-1], "sbatch: "), "error: ")
	if _, start, ok := strings.Cut(text, " to start at "); ok { // the job number before it means nothing
		text = "would start it at " + start
	}
	switch {
	case text != "":
		return text
	case err != nil:
		return err.Error()
	}
	return "no estimate"
}

// show prints one job's advice.
func showAdvice(w io.Writer, v *view.Advice, now time.Time) {
	amount := report.Plural(v.GPUs, "GPU", "GPUs")
	if v.GPUType != "" {
		amount += " of type " + v.GPUType
	}
	limit := "no time limit"
	if v.LimitS != nil {
		limit = "time limit " + report.Ago(v.Limit)
	}
	fmt.Fprintf(w, "%s: %s, %s, %s, partition %s; %s it\n", report.Safe(cmp.Or(v.Script, "Job")), report.Safe(amount), report.Plural(v.CPUs, "CPU", "CPUs"), limit,
		report.Safe(strings.Join(v.Partitions, ",")), report.Plural(v.Behind, "job waits before", "jobs wait before"))
	rows, header := make([][]any, 0, len(v.Types)), []string{"GPU TYPE", "FREE", "GPUS", "SPEED", "SAYS", "STARTS", "ENDS BY"}
	expected := slices.ContainsFunc(v.Types, func(t advise.Answer) bool { return t.Expected != nil })
	if expected {
		header = append(header[:5], "STARTS", "9 OF 10", "ENDS", "BY LIMITS: STARTS", "ENDS BY")
	}
	for i := range v.Types {
		t := &v.Types[i]
		start, end := "", ""
		switch {
		case !t.Fits:
			start = "no: " + t.Why
		case !t.Start.Known():
			start = "not known: " + t.Why
		default:
			start, end = when(now, t.Start, t.Rough), when(now, t.End, t.Rough)
			if !t.End.Known() {
				end = "not known"
			}
		}
		says := t.Source.Words()
		switch {
		case t.Source == speed.None:
			says = "unknown"
		case t.Factor > 1:
			says += fmt.Sprintf(", within a factor %.2f", t.Factor)
		}
		row := []any{view.GPUName(t.GPUType), t.Free, t.GPUs, fmt.Sprintf("%.2f", t.Speed), says}
		switch x := t.Expected; {
		case x != nil:
			row = append(row, inWords(view.SecondsOf(x.Start)), inWords(view.SecondsOf(x.StartP90)), inWords(view.SecondsOf(x.End)))
		case expected:
			row = append(row, "-", "-", "-")
		}
		rows = append(rows, append(row, start, end))
	}
	report.Table(w, header, rows)
	showBest(w, v)
	for _, n := range v.Notes {
		fmt.Fprintf(w, "note: %s\n", report.Safe(n))
	}
}

// showBest says which type to take, and how.
func showBest(w io.Writer, v *view.Advice) {
	best := v.Best
	if best == nil {
		fmt.Fprintln(w, "No start is known on any GPU type.")
		return
	}
	line := sbatch.CommandLine(v.Submit)
	names := make([]string, len(v.OpenOn))
	for i, t := range v.OpenOn {
		names[i] = view.GPUName(t)
	}
	open := strings.Join(names, " or ")
	switch {
	case v.GPUType != "":
		fmt.Fprintf(w, "It asks for %s. Submit it with\n\n    %s\n", view.GPUName(best.GPUType), line)
	case v.Steered:
		fmt.Fprintf(w, "Best for this job alone: %s. Leave the type open: this site chooses it for jobs with known speeds\n\n    %s\n", view.GPUName(best.GPUType), line)
	case v.Barred != "":
		fmt.Fprintf(w, "Best for this job alone: %s, to which this site does not steer jobs: %s. Request the type to get it\n\n    %s\n", view.GPUName(best.GPUType), v.Barred, line)
	case !v.Typed():
		fmt.Fprintf(w, "Best: leave the type open, Slurm starts it on %s. Submit it with\n\n    %s\n", open, line)
	default:
		fmt.Fprintf(w, "Best: %s. With the type left open Slurm starts it on %s. Submit it with\n\n    %s\n", view.GPUName(best.GPUType), open, line)
	}
	if v.Say != "" {
		fmt.Fprintf(w, "Or leave the type open and give the job's speeds, as measured in its runs here, for this site to choose the type:\n\n    sbatchwrap %s ...\n", report.Safe(v.Say))
	}
	if v.Script == "" && v.Stdin {
		fmt.Fprintln(w, "    (and the script on standard input)")
	}
}

// when is a time from now, for people.
func when(now time.Time, s advise.Seconds, rough bool) string {
	d := time.Duration(min(float64(s), 1e9) * float64(time.Second))
	about := ""
	if rough {
		about = "about "
	}
	switch {
	case d < time.Second:
		return "now"
	case d < 20*time.Hour:
		return fmt.Sprintf("%sin %s (%s)", about, report.Ago(d), now.Add(d).Local().Format(time.TimeOnly))
	}
	return fmt.Sprintf("%sin %s", about, report.Ago(d))
}
