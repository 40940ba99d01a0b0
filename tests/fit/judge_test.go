package fit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"slurmprio/tests/lab"
)

// judged is a case and what became of it.
type judged struct {
	*Case
	place   *place
	running []held
	id      string // of the waiting job
	refused string // sbatch's answer; "": Slurm took the job

	before, after verdict // what priod says before Slurm looked at the job, and once it waits
	started       bool    // by Slurm, as all was
	reason        string  // what Slurm says that it waits for
	chosen        verdict // whose victims left
	room          bool    // and started then
	roomReason    string
	lines         string // Slurm's own words on the job, where something is wrong
}

// held is a job that runs.
type held struct {
	Run
	id string
}

// verdict is what priod says of a waiting job.
type verdict struct {
	why     string   // of evict.Claimant
	fits    bool     // it fits now
	victims []string // ids of the jobs that leave for it; none: nothing is done
	pin     string   // the nodes that it is bound to meanwhile
	counted bool     // priod says that it can count what the job asks for, and that it waits for room
}

func (v verdict) String() string {
	if len(v.victims) > 0 {
		return fmt.Sprintf("%s: %s leave, %s is kept", v.why, strings.Join(v.victims, ", "), v.pin)
	}
	return v.why
}

// fault says how Slurm and priod differ; "": they agree.
func (j *judged) fault() string {
	switch {
	case j.refused != "", j.before.why == "":
		return ""
	case j.started && j.before.counted && !j.before.fits:
		return missed
	case !j.started && j.after.fits:
		return "vain fit"
	case !j.started && len(j.chosen.victims) > 0 && !j.room:
		return "vain eviction"
	}
	return ""
}

// missed is a fault by which no job leaves: a job starts that priod takes not to fit.
const missed = "missed"

// outcome is in a word what both say.
func (j *judged) outcome() string {
	switch {
	case j.refused != "":
		return "refused"
	case j.before.why == "":
		return "alone"
	case j.started:
		return "fits"
	case j.room:
		return "room"
	}
	return "stays"
}

// describe is the case with all that was said of it.
func (j *judged) describe() string {
	var b strings.Builder
	b.WriteString(j.Case.String())
	for _, r := range j.running {
		fmt.Fprintf(&b, "# runs: job %s %s\n", r.id, r.Asks)
	}
	fmt.Fprintf(&b, "# job %s; priod before Slurm looked: %s; Slurm: started %t (%s); priod then: %s\n", j.id, j.before, j.started, j.reason, j.after)
	if len(j.chosen.victims) > 0 {
		fmt.Fprintf(&b, "# without these victims: started %t (%s)\n", j.room, j.roomReason)
	}
	if j.lines != "" {
		b.WriteString("# " + strings.ReplaceAll(strings.TrimSpace(j.lines), "\n", "\n# ") + "\n")
	}
	return b.String()
}

// decide lets Slurm and priod decide all cases of the places, one case of each place at a time.
func (s *site) decide(ctx context.Context) (all []*judged, err error) {
	p, err := newPriod(s.Conf())
	if err != nil {
		return nil, err
	}
	for round := 0; ; round++ {
		var now []*judged
		for _, pl := range s.places {
			if round < len(pl.cases) {
				now = append(now, &judged{Case: pl.cases[round], place: pl})
			}
		}
		if len(now) == 0 {
			return all, nil
		}
		if err := s.round(ctx, p, now); err != nil {
			return all, err
		}
		all = append(all, now...)
		if err := s.empty(ctx); err != nil {
			return all, err
		}
	}
}

// round decides one case of each place.
func (s *site) round(ctx context.Context, p *priod, cases []*judged) error {
	if err := s.startRunning(ctx, cases); err != nil {
		return err
	}
	if err := s.submit(ctx, cases); err != nil {
		return err
	}
	waits := slices.DeleteFunc(slices.Clone(cases), func(j *judged) bool { return j.refused != "" })
	if len(waits) == 0 {
		return nil
	}
	before, err := p.decide(ctx, true)
	if err != nil {
		return err
	}
	// A release is an update: jobs that it would break, and that priod leaves alone (slurmplug.RewritesTasks), stay held.
	waits = slices.DeleteFunc(waits, func(j *judged) bool { j.before = before[j.id]; return j.before.why == "" })
	if len(waits) == 0 {
		return nil
	}
	if err := s.Command(ctx, "scontrol", "release", ids(waits)).Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return err // an exit status is about jobs that break a limit of their partition
	}
	seen, err := s.pass(ctx)
	if err != nil {
		return err
	}
	after, err := p.decide(ctx, false)
	if err != nil {
		return err
	}
	var vacated []*judged
	for _, j := range waits {
		j.after = after[j.id]
		j.started, j.reason = seen[j.id].runs(), seen[j.id].reason
		j.chosen = j.after
		if !j.started && len(j.chosen.victims) > 0 {
			vacated = append(vacated, j)
		}
	}
	if err := s.vacate(ctx, vacated); err != nil {
		return err
	}
	return s.quote(ctx, cases)
}

// vacate lets the victims go, after their trials are bound to the places kept for them.
func (s *site) vacate(ctx context.Context, cases []*judged) error {
	if len(cases) == 0 {
		return nil
	}
	var victims []string
	var pins strings.Builder
	for _, j := range cases {
		victims = append(victims, j.chosen.victims...)
		if j.chosen.pin != "" {
			fmt.Fprintf(&pins, "update JobId=%s ReqNodeList=%s\n", j.id, j.chosen.pin)
		}
	}
	if pins.Len() > 0 {
		cmd := s.Command(ctx, "scontrol")
		cmd.Stdin = strings.NewReader(pins.String())
		if out, err := cmd.CombinedOutput(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			return fmt.Errorf("scontrol: %w: %s", err, out) // a pin that Slurm refuses is none, in priod too
		}
	}
	if _, err := s.Run(ctx, "scancel", victims...); err != nil {
		return err
	}
	if err := s.gone(ctx, victims); err != nil {
		return err
	}
	seen, err := s.pass(ctx)
	for _, j := range cases {
		j.room, j.roomReason = seen[j.id].runs(), seen[j.id].reason
	}
	return err
}

// quote has Slurm say what it knows of the jobs that went wrong.
func (s *site) quote(ctx context.Context, cases []*judged) error {
	for _, j := range cases {
		if j.fault() == "" {
			continue
		}
		job, err := s.Run(ctx, "scontrol", "--details", "--oneliner", "show", "job", j.id)
		if err != nil {
			return err
		}
		nodes, err := s.Run(ctx, "scontrol", "--details", "--oneliner", "show", "node", j.place.nodes())
		if err != nil {
			return err
		}
		j.lines = fields(job, "NumNodes", "NumCPUs", "NumTasks", "CPUs/Task", "ReqB:S:C:T", "TRES", "ReqTRES", "MinCPUsNode", "MinMemoryNode", "MinMemoryCPU", "OverSubscribe", "TresPerNode", "TresPerJob", "TresPerTask", "NtasksPerTRES", "NodeList", "AllocTRES") + "\n"
		for line := range strings.Lines(nodes) {
			j.lines += fields(line, "NodeName", "CPUAlloc", "CPUEfctv", "CPUTot", "AllocMem", "GresUsed", "State") + "\n"
		}
	}
	return nil
}

// fields are some KEY=VALUE of a line of scontrol's.
func fields(line string, keys ...string) string {
	var all []string
	for _, w := range strings.Fields(line) {
		if key, value, _ := strings.Cut(w, "="); slices.Contains(keys, key) && value != "" && value != "(null)" {
			all = append(all, w)
		}
	}
	return strings.Join(all, " ")
}

// nodes are those of the place, as a host list.
func (p *place) nodes() string {
	var names []string
	for i := range p.cases[0].Nodes {
		names = append(names, p.prefix+nodeLetters[i:i+1]+"1")
	}
	return strings.Join(names, ",")
}

func ids(cases []*judged) string {
	var all []string
	for _, j := range cases {
		all = append(all, j.id)
	}
	return strings.Join(all, ",")
}

// parallelSubmissions is how many sbatch run at a time.
const parallelSubmissions = 4

// sbatch submits a job of a case; refused is why Slurm would not have it.
func (s *site) sbatch(ctx context.Context, p *place, args, comment string, more ...string) (id, refused string, err error) {
	argv := []string{"--parsable", "--partition=" + p.prefix, "--time=1-0", "--output=/dev/null"}
	if p.cases[0].QOS != "" {
		argv = append(argv, "--qos="+p.prefix)
	}
	if comment != "" {
		argv = append(argv, "--comment="+comment)
	}
	argv = append(append(argv, more...), strings.Fields(of(args, p.prefix))...)
	cmd := s.submitter.Command(ctx, "sbatch", append(argv, "--wrap=sleep 1")...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		e, silent := errs.String(), func(words string) bool { return strings.Contains(errs.String(), words) } // of a slurmctld that has ended
		if ctx.Err() == nil && (strings.Contains(e, "error:") || strings.Contains(e, "fatal:")) && !slices.ContainsFunc(unanswered, silent) {
			return "", strings.TrimSpace(e), nil
		}
		return "", "", fmt.Errorf("sbatch %s: %w: %s", args, err, errs.String())
	}
	id = strings.TrimSpace(string(out))
	_, err = strconv.Atoi(id)
	return id, "", err
}

// unanswered is what sbatch says of a slurmctld that does not answer.
var unanswered = []string{"Unable to contact slurm controller", "Zero Bytes were transmitted", "Socket timed out", "Connection refused"}

const (
	consents = "prio:type=be&v=1"
	isTrial  = "prio:type=te&v=1"
)

// startRunning submits what runs in each case, one job of each case after the other, and takes away what
// Slurm does not start.
func (s *site) startRunning(ctx context.Context, cases []*judged) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelSubmissions)
	for _, j := range cases {
		g.Go(func() error {
			for _, r := range j.Running {
				comment := ""
				if r.Consents {
					comment = consents
				}
				id, refused, err := s.sbatch(gctx, j.place, r.Asks, comment)
				if err != nil {
					return err
				}
				if refused == "" {
					j.running = append(j.running, held{r, id})
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	seen, err := s.pass(ctx)
	if err != nil {
		return err
	}
	var waiting []string
	for _, j := range cases {
		j.running = slices.DeleteFunc(j.running, func(h held) bool {
			if !seen[h.id].runs() {
				waiting = append(waiting, h.id)
				return true
			}
			return false
		})
	}
	if len(waiting) > 0 {
		if _, err = s.Run(ctx, "scancel", waiting...); err == nil {
			err = s.gone(ctx, waiting) // one may have started meanwhile
		}
	}
	return err
}

// submit submits the waiting jobs, held: priod reads them before Slurm has looked at them.
func (s *site) submit(ctx context.Context, cases []*judged) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelSubmissions)
	for _, j := range cases {
		g.Go(func() (err error) {
			j.id, j.refused, err = s.sbatch(gctx, j.place, j.Asks, isTrial, "--hold")
			return err
		})
	}
	return g.Wait()
}

// seen is a job as squeue shows it.
type seen struct{ state, reason string }

func (s seen) runs() bool { return s.state == "RUNNING" || s.state == "CONFIGURING" }

// queue is squeue's view of all jobs.
func (s *site) queue(ctx context.Context) (map[string]seen, error) {
	out, err := s.Run(ctx, "squeue", "--all", "--noheader", "--states=all", "--format=%A|%T|%r")
	if err != nil {
		return nil, err
	}
	all := map[string]seen{}
	for line := range strings.Lines(out) {
		if f := strings.SplitN(strings.TrimSpace(line), "|", 3); len(f) == 3 {
			all[f[0]] = seen{f[1], f[2]}
		}
	}
	return all, nil
}

// pass waits until Slurm's scheduler has looked at each job that waits now, and returns the queue. The
// marker is the last in the order and on a node of its own, and no job starts outside of a pass (defer): when
// it has started, all others were looked at since its submission.
func (s *site) pass(ctx context.Context) (all map[string]seen, err error) {
	id, err := s.Sbatch(ctx, "--partition="+markerNode, "--nice=100000000", "--mem=1", "--output=/dev/null", "--wrap=sleep 1")
	if err != nil {
		return nil, err
	}
	err = lab.WaitFor(ctx, "a pass of the scheduler", func(ctx context.Context) (bool, error) {
		all, err = s.queue(ctx)
		return all[id].runs(), err
	})
	if err != nil {
		job, _ := s.Run(ctx, "scontrol", "show", "job", id)
		diag, _ := s.Run(ctx, "sdiag")
		job += diag
		node, _ := s.Run(ctx, "scontrol", "show", "node", markerNode+"1")
		return all, fmt.Errorf("%w: %v\n%s%s%s", err, all, job, node, s.Logs(30))
	}
	_, err = s.Run(ctx, "scancel", id)
	return all, err
}

// gone waits until jobs hold nothing any more.
func (s *site) gone(ctx context.Context, jobs []string) error {
	return lab.WaitFor(ctx, "jobs to leave", func(ctx context.Context) (bool, error) {
		all, err := s.queue(ctx)
		return err == nil && !slices.ContainsFunc(jobs, func(id string) bool { return all[id].runs() || all[id].state == "COMPLETING" }), err
	})
}

// empty cancels all jobs.
func (s *site) empty(ctx context.Context) error {
	all, err := s.queue(ctx)
	if err != nil {
		return err
	}
	if _, err := s.submitter.Run(ctx, "scancel", "--me"); err != nil {
		return err
	}
	return s.gone(ctx, slices.Collect(maps.Keys(all)))
}
