package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/advise"
	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
	"slurmprio/slurmplug"
)

func etaCommand() *cli.Command {
	return &cli.Command{
		Name: "eta", Usage: "when jobs start, waiting or not yet submitted, and what would start them sooner; for any user", ArgsUsage: "[JOBID... | SCRIPT... | -- SBATCH-OPTIONS SCRIPT [ARGUMENTS]]",
		Description: "Half of such jobs start by STARTS, nine of ten by 9 OF 10: drawn from the run times of past\n" +
			"jobs, and fitted to earlier predictions (priod report eta). For waiting jobs, named or all of yours, or scripts\n" +
			"with their #SBATCH and #PRIO lines. Behind -- stands the command line of sbatchwrap or sbatch; nothing is submitted.\n" +
			"Of a script it also says when it would start and how fast it would run on each GPU type: its speed comes from its tag, its\n" +
			"workload or the type, its start BY LIMITS from the queue and the nodes as you see them now, where running jobs end at their\n" +
			"time limits and jobs ahead start in order where they fit first. Exit status 1 when a script fits nowhere.\n" +
			"    priod eta                   # your waiting jobs\n" +
			"    priod eta 4711              # one job, and what would start it sooner\n" +
			"    priod eta train.sh          # a future job\n" +
			"    priod eta -- --gres=gpu:1 --time=4:00:00 train.sh",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "waiting jobs of `USER` instead of yours"},
			&cli.BoolFlag{Name: "each", Usage: "each word behind the options of sbatch is a script; else the words behind the first one are its arguments"},
			&cli.BoolFlag{Name: "slurm", Usage: "show what Slurm itself expects, too; of a script by sbatch --test-only, which looks at running jobs only"},
			jsonFlag(),
		},
		Action: runETA,
	}
}

func runETA(c *cli.Context) error {
	words := c.Args().Slice()
	jobs := 0
	for _, w := range words {
		if _, err := slurmplug.ParseJobName(w); err == nil && !afterDashes(c) {
			jobs++
		}
	}
	cfg, r, err := openReader(c)
	if err == nil {
		defer r.Close()
	} else if cfg == nil && errors.Is(err, fs.ErrPermission) { // priod.toml may not be for users
		cfg, _ = config.Defaults()
	}
	var views []*view.Expectation
	at, byUser := time.Now(), c.String("user") != ""
	scripts := jobs == 0 && (len(words) > 0 || afterDashes(c))
	switch {
	case jobs > 0 && jobs < len(words):
		return usagef("eta: name jobs or scripts, not both: %q", strings.Join(words, " "))
	case scripts && byUser:
		return usagef("eta: --user is for waiting jobs, not for scripts")
	case byUser && jobs > 0:
		return usagef("eta: --user or job numbers, not both")
	case !scripts:
		views, err = etaOfJobs(c, cfg, r, words, err)
	case cfg != nil:
		if views, at, err = etaOfScripts(c, cfg, r, words, err); err == nil && views == nil {
			return cli.ShowCommandHelp(c, c.Command.Name)
		}
	}
	if err != nil {
		return err
	}
	err = answer(c, map[string]any{"at": at, "jobs": views}, func(w io.Writer) { showExpected(w, views, at, len(words) > 0) })
	if err == nil && slices.ContainsFunc(views, func(v *view.Expectation) bool { return v.Advice != nil && v.Advice.Best == nil }) {
		err = errProblem
	}
	return err
}

// etaOfJobs are the named jobs, or all that wait of a user; why is why the state folder cannot be read.
func etaOfJobs(c *cli.Context, cfg *config.Config, r *store.Reader, names []string, why error) ([]*view.Expectation, error) {
	var views []*view.Expectation
	if why != nil {
		if c.String("user") != "" {
			return nil, why
		}
		text, err := askOwn(c.Context, cfg, http.MethodGet, "/eta?"+url.Values{"job": names}.Encode(), nil, why)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &views); err != nil {
			return nil, fmt.Errorf("cannot parse the daemon's answer: %w", err)
		}
		if stampOwn(c, cfg); c.Bool("slurm") && cfg != nil {
			addSlurms(c.Context, cfg, views)
		}
		return views, nil
	}
	var f *view.Forecaster
	var err error
	if len(names) > 0 {
		if f, err = view.NewForecaster(c.Context, cfg, r, nil); err != nil {
			return nil, err
		}
	}
	name := c.String("user")
	if me, err := user.Current(); err == nil && name == "" {
		name = me.Username
	}
	if len(names) == 0 && c.String("user") == "" && runsDaemon(cfg) {
		name = "" // an operator's are all
	}
	if views, err = view.Expectations(c.Context, cfg, r, f, names, name, len(names) == 0); err == nil && view.Unplanned(views) {
		if f, err := view.NewForecaster(c.Context, cfg, r, nil); err == nil { // else the stored ones have to do
			f.Plan(views)
		}
	}
	if err == nil && c.Bool("slurm") {
		addSlurms(c.Context, cfg, views)
	}
	return views, err
}

// runsDaemon reports whether this is root, or the user to whom the state folder belongs.
func runsDaemon(cfg *config.Config) bool {
	info, err := os.Stat(cfg.State.Dir)
	if err != nil || os.Geteuid() == 0 {
		return os.Geteuid() == 0
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	return known && int(owner.Uid) == os.Geteuid()
}

// addSlurms adds what Slurm expects of jobs.
func addSlurms(ctx context.Context, cfg *config.Config, views []*view.Expectation) {
	jobs, err := newClient(cfg).Jobs(ctx)
	starts := map[cluster.JobID]time.Time{}
	for i := range jobs {
		starts[jobs[i].ID] = jobs[i].Start
	}
	for _, v := range views {
		switch at := starts[*v.Job]; {
		case err != nil:
			v.Slurm = "does not answer"
		case at.IsZero():
			v.Slurm = "no estimate"
		default:
			v.Slurm = "would start it at " + report.Clock(at)
		}
	}
}

// etaOfRequests asks the state folder, or the daemon. site is the cluster where it was read already.
func etaOfRequests(ctx context.Context, cfg *config.Config, r *store.Reader, requests []*advise.Request, user string, why error, site *advise.Site) (views []*view.Expectation, err error) {
	if why == nil {
		f, err := view.NewForecaster(ctx, cfg, r, site)
		if err != nil {
			return nil, err
		}
		return f.Requests(ctx, r, requests, user)
	}
	body, err := json.Marshal(requests)
	if err != nil {
		return nil, err
	}
	text, err := askOwn(ctx, cfg, http.MethodPost, "/eta", body, why)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &views); err != nil || len(views) != len(requests) {
		return nil, fmt.Errorf("cannot parse the daemon's answer: %.200q", bytes.TrimSpace(text))
	}
	return views, nil
}

// showExpected prints a row for each job, and of jobs that were named why they wait and what would start them sooner.
func showExpected(w io.Writer, views []*view.Expectation, at time.Time, named bool) {
	if len(views) == 0 {
		fmt.Fprintln(w, "No GPU job waits.")
		return
	}
	header := []string{"JOB", "PARTITION", "GPUS", "STARTS", "9 OF 10", "BY TIME LIMITS", "WHY IT WAITS"}
	users := slices.ContainsFunc(views, func(v *view.Expectation) bool { return v.User != views[0].User })
	if users {
		header = slices.Insert(header, 1, "USER")
	}
	slurm := slices.ContainsFunc(views, func(v *view.Expectation) bool { return v.Slurm != "" })
	if slurm {
		header = append(header, "SLURM")
	}
	rows := make([][]any, len(views))
	for i, v := range views {
		name, gpus := v.Script, fmt.Sprint(v.GPUs)
		if v.Job != nil {
			name = v.Job.String()
		}
		if v.GPUType != "" {
			gpus += " " + v.GPUType
		}
		why := v.Why
		if v.Moved != "" {
			why += " (" + v.Moved + ")"
		}
		why = plan.Joined(why, v.Window)
		rows[i] = []any{report.Safe(name), v.Partition, gpus, inWords(v.StartS), inWords(v.P90S), inWords(v.LimitsS), why}
		if slurm {
			rows[i] = append(rows[i], v.Slurm)
		}
		if users {
			rows[i] = slices.Insert(rows[i], 1, any(v.User))
		}
	}
	report.Table(w, header, rows)
	if !named && len(views) >= view.MostExpected {
		fmt.Fprintf(w, "The first %d; priod queue --user shows all.\n", view.MostExpected)
	}
	for _, v := range views {
		if v.Advice != nil {
			fmt.Fprintln(w)
			showAdvice(w, v.Advice, at)
		}
		if !named || len(v.Alternatives) < 2 {
			continue
		}
		fmt.Fprintln(w)
		name := v.Script
		if v.Job != nil {
			name = "JOB " + v.Job.String()
		}
		rows := make([][]any, len(v.Alternatives))
		for i := range v.Alternatives {
			a := &v.Alternatives[i]
			mark := ""
			if a.Sooner {
				mark = "sooner"
			}
			rows[i] = []any{cmp.Or(a.Change, "as it is"), inWords(a.StartS), inWords(a.P90S), inWords(a.EndS), mark, a.Try}
			if byLimits(v) {
				rows[i] = []any{cmp.Or(a.Change, "as it is"), inWords(a.LimitsS), mark, a.Try}
			}
		}
		header := []string{report.Safe(name), "STARTS", "9 OF 10", "ENDS", "", "OPTION"}
		if byLimits(v) {
			header = []string{header[0], "BY TIME LIMITS", "", "OPTION"}
		}
		report.Table(w, header, rows)
	}
}

// byLimits reports whether the alternatives are by time limits alone.
func byLimits(v *view.Expectation) bool {
	return len(v.Alternatives) > 0 && v.Alternatives[0].LimitsS != nil
}

// inWords is a time from now; "-": not known.
func inWords(s *int64) string {
	switch {
	case s == nil:
		return "-"
	case *s < 5:
		return "now"
	case *s < 60:
		return "within 1m"
	}
	return "in " + report.Ago(time.Duration(*s)*time.Second)
}
