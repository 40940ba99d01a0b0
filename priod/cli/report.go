package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"slurmprio/priod/config"
	"slurmprio/priod/live"
	"slurmprio/priod/report"
	"slurmprio/priod/retry"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
	"slurmprio/priod/workload"
)

// paged is an answer that people read as a page.
type paged interface{ Page() *report.Page }

// show prints an answer as a page, at most --most rows of each table, or with --json as an object.
func show(c *cli.Context, v paged) error {
	return answer(c, v, func(w io.Writer) { v.Page().Show(w, c.Int("most")) })
}

// kind is a report: what it says of the last time.
type kind struct {
	name, usage, words string
	since              string // the time that it is of, where none is given; "": it is of no time unless one is given
	flags              []cli.Flag
	stored             bool // from the state folder
	make               func(c *cli.Context, cfg *config.Config, r *store.Reader, since, until time.Time) (paged, error)
}

// kinds are the reports.
func kinds() []kind {
	return []kind{
		{name: "classes", usage: "what made jobs TE or BE: each class rule, QOS, consent or tag, with its jobs and waits", words: "Counts the GPU jobs submitted within the last TIME by what decided their class, with the GPU-hours that they\n" +
			"used and how long they waited. A class rule without a line had no job.",
			since: "7d", stored: true, make: readClasses},
		{name: "eta", usage: "whether jobs started when they were expected to", words: "Each waiting GPU job, of the first 10,000 of the queue, is told when it starts: in half of the cases by the one time, in nine of\n" +
			"ten by the other (priod explain). The first that was said of each job is kept, and scored when it starts. HELD is the\n" +
			"part that started by the second time; ERROR the median distance from the first, beside that of time limits.",
			since: "7d", stored: true, make: readPromises},
		{name: "failures", usage: "why jobs failed, what was done about it, which nodes are suspect", words: "What the daemon found within the last TIME (retry.enabled): jobs by class and by user, the last\n" +
			"failure of each with advice, and the nodes on which jobs of several users failed alike.",
			since: "7d", stored: true, make: readFailures},
		{name: "goodput", usage: "where the GPU-hours went: worked, lost, held without work, free while jobs waited", words: "Reads Slurm's accounting of the last TIME, and what the daemon stored. GOOD is the part of the GPU-hours held that was not lost:\n" +
			"EVICTED to evictions by priod, REQUEUED to other requeues, FAILED to failures of jobs and nodes, TIME LIMIT to limits of jobs\n" +
			"that do not save their state; with --prio-ckpt what came after the last checkpoint is lost, else the run. CANCELLED is what users\n" +
			"ended: its worth is unknown. The cluster's own hours are those of the daemon's samples.",
			since: "7d", make: readGoodput},
		{name: "history", usage: "past cycles and writes", words: "Newest first. A row stands for POLLS polls with the same decisions. RENUMBERED of the WRITES are\n" +
			"beyond the fewest possible, because a gap between values was used up; HELD BACK: why nothing was written.\n" +
			"What happened to one job: priod explain --history JOBID.",
			stored: true, make: readPast},
		{name: "learning", usage: "whether GPU types chosen by learned speeds were right", words: "Of the completed jobs that were given a GPU type by a speed that priod had learned, how many ran faster there\n" +
			"than on the mean of the cluster's types, which is what Slurm gives a job that names none, and whether the speed\n" +
			"was as believed, within a factor of 1.25, both by what is known now. Slower is no fault where others gain more\n" +
			"from the fast types. Speeds that a tag or workloads.toml says are no guess, and are left out. The most costly\n" +
			"come first.",
			since: "7d", stored: true, make: readLearning},
		{name: "nodes", usage: "speed of nodes against others of their GPU type, and which are slow beyond doubt", words: "Compares the run times of completed jobs that ended within the last TIME, as far as the daemon keeps\n" +
			"them (speeds.history), with runs of the same program on as many GPUs and nodes. How that is done, and how\n" +
			"sure it is: docs/features/slow-nodes.md.",
			since: "14d", stored: true, flags: []cli.Flag{&cli.StringFlag{Name: "gpu-type", Usage: "only nodes with GPUs of this `TYPE`"}}, make: readNodes},
		{name: "preemptions", usage: "what preemption brought TE jobs, and cost BE jobs", words: "Counts the GPU jobs submitted, and the evictions recorded, within the last TIME, as far as the\n" +
			"state folder keeps them, without jobs that came and went between two polls.",
			since: "7d", stored: true, make: readPreemptions},
		{name: "shares", usage: "what accounts with guaranteed GPUs used, lent and borrowed, and how soon their GPUs came back", words: "For each account of a [[share]] table, with those below it, what it had of the last TIME in GPU-hours, from a whole hour on:\n" +
			"ENTITLED the share, USED as sreport has it, BORROWED beyond the share, LENT what others used of it, IDLE, WANTED what was idle\n" +
			"while a job within the share waited. RETURNED counts such jobs that started, P50 to WORST how long they had waited; MISSED\n" +
			"those that waited longer than return_within. docs/features/shares.md.",
			since: "7d", stored: true, make: readShares},
		{name: "sizing", usage: "GPUs without CPUs or memory, idle CPUs next to jobs that could use them, requests far above use", words: "Reads the queue and the nodes as they are now. With --since it reads Slurm's accounting too, where\n" +
			"JobAcctGatherType measures, and shows which programs had at least twice the CPUs that they can use, with\n" +
			"the options for their next script. All figures of programs are for each GPU.",
			make: readSizing},
		{name: "trial", usage: "what priod trial says: the effect on completion, waits and slowdown, with intervals", words: "Of the last trial of the state folder, by now. docs/features/trial.md says what it can tell and what it cannot.",
			stored: true, make: readTrial},
		{name: "usage", usage: "GPU use by user, how jobs ended, jobs spread over too many nodes", words: "Reads Slurm's accounting of the last TIME: GPU-hours by GPU type, by how runs ended, size, user and account,\n" +
			"and the runs on more nodes than their GPUs fill. CHARGED counts with them the GPUs that the CPUs and memory of runs\n" +
			"strand, and what runs without GPUs take: so TE budgets count. With --measured it also reads the steps, where\n" +
			"JobAcctGatherType measures, and names the runs that used hardly any CPU, as one does that hangs, or no GPU.",
			since: "7d", flags: []cli.Flag{&cli.BoolFlag{Name: "measured", Usage: "read what the steps used, too: a much larger read"}}, make: readUsage},
		{name: "value", usage: "what priod brought: what happened, against a replay of the same jobs without priod", words: "Shows the last result. --refresh makes a new one: it reads accounting, replays the jobs of the last TIME without priod and with\n" +
			"it, on one core, nice, for at most ten minutes, and keeps the result in the state folder for this report, the first\n" +
			"page and a metric. Off by default; priod-value.timer does it each night:\n" +
			"    systemctl enable --now priod-value.timer",
			since: "7d", flags: []cli.Flag{&cli.BoolFlag{Name: "refresh", Usage: "replay the jobs, and keep what comes out"}}, make: readValue},
		{name: "waits", usage: "why GPU jobs waited: capacity, fragmentation, limits, priority", words: "Sums up the waits of GPU jobs within the last TIME by cause, times the GPUs that they asked for:\n" +
			"by the size of jobs, user, account, partition and GPU type. Lists the jobs that were overtaken and\n" +
			"started later than with first come, first served. Causes, and what helps: docs/features/waits.md.",
			since: "7d", stored: true, make: readWaits},
		{name: "windows", usage: "what windows of maintenance cost, and what they would have", words: "Sums up the jobs that ran until a window within the last TIME and left before it: the GPU-hours that else were idle,\n" +
			"and what of them was lost; and lists nodes that wait for a reboot. docs/features/maintenance.md.",
			since: "30d", stored: true, make: readWindows},
	}
}

func reportCommand() *cli.Command {
	report := &cli.Command{Name: "report", Usage: "reports on what priod has seen and done"}
	var names []string
	for _, k := range kinds() {
		names, report.Subcommands = append(names, k.name), append(report.Subcommands, k.command())
	}
	report.Action = which("report: say which: " + strings.Join(names, ", "))
	return report
}

func (k *kind) command() *cli.Command {
	span := &cli.StringFlag{Name: "since", Value: k.since, Usage: "the last `TIME`: 12h, 30d"}
	flags := append(k.flags, mostFlag(20, "show `N` rows of each table"), &cli.StringFlag{Name: "html", Usage: "write a page, which opens without a network, to `FILE`"}, jsonFlag())
	if k.name != "history" {
		flags = append([]cli.Flag{span}, flags...)
	}
	if k.stored {
		flags = append(flags, stateFlags()...)
	}
	do := func(c *cli.Context, cfg *config.Config, r *store.Reader) error {
		last, _ := sinceOf(c, k.since == "")
		until := time.Now()
		if r != nil {
			until = r.Now()
		}
		v, err := k.make(c, cfg, r, until.Add(-last), until)
		if err != nil {
			return err
		}
		if err := writeTo(c, "html", v.Page().Write); err != nil {
			return err
		}
		return show(c, v)
	}
	action := reading(do)
	if !k.stored {
		action = configured(func(c *cli.Context, cfg *config.Config) error { return do(c, cfg, nil) })
	}
	return &cli.Command{
		Name: k.name, Usage: k.usage, Description: k.words, Flags: flags, Action: action,
		Before: checked(noArgs, validMost, func(c *cli.Context) error { _, err := sinceOf(c, k.since == ""); return err }),
	}
}

func readClasses(c *cli.Context, _ *config.Config, r *store.Reader, since, until time.Time) (paged, error) {
	jobs, err := r.JobsSince(c.Context, since)
	return view.OfClasses(since, until, jobs), err
}

func readPromises(c *cli.Context, _ *config.Config, r *store.Reader, since, until time.Time) (paged, error) {
	promises, err := r.PromisesSince(c.Context, since)
	return view.OfETA(since, until, promises), err
}

func readPast(c *cli.Context, _ *config.Config, r *store.Reader, _, _ time.Time) (paged, error) {
	return view.ReadPast(c.Context, r, c.Int("most"))
}

func readPreemptions(c *cli.Context, _ *config.Config, r *store.Reader, since, until time.Time) (paged, error) {
	stays, err := r.JobsSince(c.Context, since)
	if err != nil {
		return nil, err
	}
	evictions, err := r.EvictionsSince(c.Context, since)
	return view.OfPreemptions(since, until, stays, evictions), err
}

func readWindows(c *cli.Context, _ *config.Config, r *store.Reader, since, until time.Time) (paged, error) {
	evictions, err := r.EvictionsSince(c.Context, since)
	nodes, err2 := r.Nodes(c.Context)
	holders, err3 := r.Holders(c.Context)
	v := view.OfWindows(since, until, evictions)
	v.Reboots = view.OfReboots(nodes, holders, until)
	return v, errors.Join(err, err2, err3)
}

func readFailures(c *cli.Context, cfg *config.Config, r *store.Reader, since, until time.Time) (_ paged, err error) {
	set := cfg.Retries()
	if set.Rules == nil {
		if set.Rules, err = retry.Load(cfg.Retry.Rules); err != nil {
			return nil, err
		}
	}
	turn, err := r.FailuresSince(c.Context, since)
	if err != nil {
		return nil, err
	}
	nodes, err := r.CountNodes(c.Context)
	f := view.OfFailures(since, until, &turn, &set, nodes)
	if !cfg.Retry.Enabled {
		f.Notes = []string{"retry.enabled is false: jobs that fail now are not looked at."}
	}
	return f, err
}

func readLearning(c *cli.Context, cfg *config.Config, r *store.Reader, since, until time.Time) (paged, error) {
	table, err := workload.Load(cfg.Speeds.Workloads)
	if err != nil {
		return nil, usageError{err}
	}
	return view.ReadLearning(c.Context, cfg, r, table, since, until)
}

func readNodes(c *cli.Context, cfg *config.Config, r *store.Reader, since, until time.Time) (paged, error) {
	table, err := workload.Load(cfg.Speeds.Workloads)
	if err != nil {
		return nil, usageError{err}
	}
	stays, err := r.StaysSince(c.Context, since)
	if err != nil {
		return nil, err
	}
	set := cfg.SpeedSettings()
	n := view.OfNodes(since, until, set.Completed(stays, cfg.Constants.ShortestRun, table), c.String("gpu-type"))
	if cfg.Speeds.History == 0 {
		n.Notes = []string{"speeds.history is 0s: the daemon reads no accounting."}
	}
	return n, nil
}

func readShares(c *cli.Context, cfg *config.Config, r *store.Reader, since, until time.Time) (paged, error) {
	return view.ReadShares(c.Context, cfg, r, since, until)
}

func readSizing(c *cli.Context, cfg *config.Config, _ *store.Reader, since, until time.Time) (paged, error) {
	table, err := workload.Load(cfg.Speeds.Workloads)
	if err != nil {
		return nil, err
	}
	return view.ReadSizing(c.Context, cfg, live.New(newClient(cfg)), table, since, until)
}

// readGoodput reads the state folder, too, where a daemon has one.
func readGoodput(c *cli.Context, cfg *config.Config, _ *store.Reader, since, until time.Time) (paged, error) {
	var r *store.Reader
	if _, missing := os.Stat(filepath.Join(cfg.State.Dir, "priod.db")); !errors.Is(missing, fs.ErrNotExist) {
		var err error
		if r, err = store.OpenReader(c.Context, cfg.State.Dir); err != nil {
			return nil, err
		}
		defer r.Close()
	}
	g, err := view.ReadGoodput(c.Context, live.New(newClient(cfg)), r, since, until)
	if err != nil {
		return nil, fmt.Errorf("read Slurm: %w", err)
	}
	return g, nil
}

func readUsage(c *cli.Context, cfg *config.Config, _ *store.Reader, since, until time.Time) (paged, error) {
	u, err := view.ReadUsage(c.Context, cfg, live.New(newClient(cfg)), since, until, c.Bool("measured"))
	if err != nil {
		return nil, fmt.Errorf("read Slurm: %w", err)
	}
	if r, err := store.OpenReader(c.Context, cfg.State.Dir); err == nil {
		defer r.Close()
		if u.Held, err = view.ReadWithoutWork(c.Context, r, since, until); err != nil {
			return nil, err
		}
	}
	return u, nil
}

func readWaits(c *cli.Context, _ *config.Config, r *store.Reader, since, until time.Time) (paged, error) {
	return view.ReadWaiting(c.Context, r, since, until)
}
