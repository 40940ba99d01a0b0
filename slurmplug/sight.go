package slurmplug

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// Sight is one record of a job as slurmctld shows it now, finished ones too until MinJobAge has passed.
type Sight struct {
	Job
	Requeue  bool   // Slurm may put it back into the queue
	Batch    bool   // has a script: srun and salloc have none and cannot be requeued
	ReqNodes string // the nodes asked for, as a host list
	ExitCode int    // of the last run that ended
	Signal   int    // that ended it
}

// sightColumns come before those of a Job.
var sightColumns = [...]string{"exit_code", "requeue", "BatchFlag", "ReqNodes"}

// Sights reads the records of jobs by Slurm's own ids of records: for one id by a small request whatever the size of the queue; for
// several squeue reads the whole queue once and leaves out the others. For the id of an array they are the records of all its
// tasks; there is none when slurmctld does not know the id.
func (c *Client) Sights(ctx context.Context, raw ...uint32) ([]Sight, error) {
	able, err := c.Abilities(ctx)
	if err != nil {
		return nil, err
	}
	s := c.nonce()
	args := able.squeueArgs("--states=all", "--jobs="+idList(raw))
	out, err := c.read(ctx, "squeue", append(args, able.jobFormat(s, sightColumns[:]...)...)...)
	if isNoJob(err) {
		return nil, nil
	}
	if err != nil {
		c.forgetAbilities(err)
		return nil, err
	}
	return parseSights(out, s, able)
}

// ErrNoJob says that slurmctld does not know the id.
var ErrNoJob = errors.New("no such job")

func isNoJob(err error) bool {
	var failed *CommandError
	return errors.As(err, &failed) && failed.Kind == ErrExit && strings.Contains(failed.Message, "Invalid job id specified")
}

func parseSights(out []byte, s separators, able Abilities) ([]Sight, error) {
	p := newJobParser(able)
	var fields [len(sightColumns) + len(jobColumns)][]byte
	var sights []Sight
	n := 0
	err := s.each(out, 0, func(record []byte) error {
		n++
		if err := s.cut(record, fields[:]); err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
		copy(p.fields[:], fields[len(sightColumns):])
		if p.joins(p.fields[colJobID], p.fields[colArrayID], p.fields[colTasks]) {
			return nil
		}
		if len(sights) > 0 {
			p.close(&sights[len(sights)-1].Job)
		}
		var sight Sight
		if err := p.job(&sight.Job); err != nil {
			return fmt.Errorf("record %d: %w", n, err)
		}
		if err := sight.own(fields[:len(sightColumns)]); err != nil {
			sight.Unread = err.Error()
		}
		sights = append(sights, sight)
		return nil
	})
	if err != nil {
		return nil, doubtful("squeue", "%w", err)
	}
	if len(sights) > 0 {
		p.close(&sights[len(sights)-1].Job)
	}
	if err := mostlyRead(sights, func(x *Sight) string { return x.Unread }); err != nil {
		return nil, doubtful("squeue", "%w", err)
	}
	return sights, nil
}

// own reads what a Job does not have.
func (x *Sight) own(f [][]byte) error {
	var err error
	if x.ExitCode, x.Signal, err = exitStatus(string(f[0])); err != nil {
		return fmt.Errorf("exit_code: %w", err)
	}
	x.Requeue, x.Batch = string(f[1]) == "1", string(f[2]) == "1"
	if !unsetBytes(f[3]) {
		x.ReqNodes = string(f[3])
	}
	return nil
}

// exitStatus reads how a run ended: the status of wait(2) up to 22.05, since 23.02 CODE:SIGNAL (squeue/print.c).
func exitStatus(s string) (code, signal int, err error) {
	text, by, parted := strings.Cut(s, ":")
	if !parted {
		status, err := parseUint(s, math.MaxUint32)
		return int(status >> 8 & 0xff), int(status & 0x7f), err
	}
	a, err := parseUint(text, math.MaxInt32)
	if err != nil {
		return 0, 0, err
	}
	b, err := parseUint(by, math.MaxInt32)
	return int(a), int(b), err
}

// NodesAsked reads the nodes that a job has to run on and those on which it refuses to, as host lists; of an array's records the
// first that names any. squeue -O knows the latter only since 23.02.
func (c *Client) NodesAsked(ctx context.Context, raw uint32) (required, excluded string, err error) {
	able, err := c.Abilities(ctx)
	if err != nil {
		return "", "", err
	}
	out, err := c.read(ctx, "squeue", able.squeueArgs("--jobs="+strconv.FormatUint(uint64(raw), 10), "--format=%n|%x")...)
	switch {
	case isNoJob(err):
		return "", "", ErrNoJob
	case err != nil:
		return "", "", err
	case len(out) == 0:
		return "", "", ErrNoJob
	}
	for line := range strings.Lines(string(out)) {
		n, x, whole := strings.Cut(strings.TrimRight(line, "\n"), "|")
		if !whole || strings.Contains(x, "|") {
			return "", "", doubtful("squeue", "no two host lists: %q", clip([]byte(line)))
		}
		if n, x = strings.TrimSpace(n), strings.TrimSpace(x); required == "" && !isUnset(n) {
			required = n
		}
		if excluded == "" && !isUnset(x) {
			excluded = x
		}
	}
	return required, excluded, nil
}

// Expedites reports whether a job asked for an expedited requeue (sbatch --requeue=expedite): when it exits with a status other
// than 0 Slurm holds it (REQUEUE_HOLD), and when it is requeued it starts at once, before all others. squeue has no column for that
// (seen on 26.05.5). A user who writes these words into a name is taken for one who did.
func (c *Client) Expedites(ctx context.Context, job JobID) (bool, error) {
	out, err := c.showJob(ctx, job.String())
	if errors.Is(err, ErrNoJob) {
		return false, nil
	}
	return strings.Contains(out, " ExpeditedRequeue=Yes"), err
}

// TasksAtOnce is how many tasks of a task's array may run at a time (sbatch --array=...%N); 0: any number. squeue shows it no more
// once a task has a record of its own. It is read before the first word that a user writes (seen on 22.05.8, 24.11.5 and 26.05.5).
func (c *Client) TasksAtOnce(ctx context.Context, task JobID) (int, error) {
	out, err := c.showJob(ctx, task.String())
	if errors.Is(err, ErrNoJob) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	head, _, _ := strings.Cut(out, " JobName=")
	_, text, limited := strings.Cut(head, " ArrayTaskThrottle=")
	if !limited {
		return 0, nil
	}
	text, _, _ = strings.Cut(text, " ")
	n, err := parseUint(text, math.MaxInt32)
	if err != nil {
		return 0, doubtful("scontrol show job", "job %s: ArrayTaskThrottle: %w", task, err)
	}
	return int(n), nil
}

// Part is what of a job gets a signal.
type Part string

// The parts. sbatch's --signal reaches the steps, with B: the script.
const (
	Steps  Part = ""
	Script Part = "--batch" // the shell alone
	Whole  Part = "--full"  // the script, its children and the steps
)

// RunID names a job, or one run of it where Slurm has names of runs: to a command about
// one that is over it then answers "Invalid job id specified".
type RunID struct {
	Job   JobID
	SLUID string // "": whatever the id means
}

func (r RunID) target() string { return Update{Job: r.Job, SLUID: r.SLUID}.Target() }

// retrying is what a verbose scancel says before it sends a signal once more.
const retrying = "Job is in transitional state, retrying"

// Signal sends a signal, named as Slurm does ("USR1"), to a running job, once.
//
// While tasks of an array wait, slurmctld signals one that runs and answers "Job can not be altered now" all the same
// (slurmctld/job_mgr.c, job_str_signal; 22.05.8, 24.11.5, 26.05.5); scancel then sends the signal again after 5, 6, 7 ... s, and
// exits 229 without a word when the task has ended meanwhile. So scancel is ended when it says that it will.
func (c *Client) Signal(ctx context.Context, run RunID, signal string, part Part) Result {
	args := []string{"--verbose", "--signal=" + signal}
	if part != Steps {
		args = append(args, string(part))
	}
	cmd := Command{Name: "scancel", Args: append(args, run.target()), Merge: true, Until: retrying}
	out, err := c.write(ctx, cmd)
	r := Result{Update: Update{Job: run.Job}}
	r.Status, r.Message = signalled(run.Job, string(out.Stdout), err)
	return r
}

// signalled tells from what scancel said whether the signal arrived: that it did not is accepted only when Slurm says so.
func signalled(job JobID, said string, err error) (Status, string) {
	last := lastLine(said)
	switch _, why, denied := strings.Cut(last, "Kill job error on job "); {
	case strings.Contains(said, retrying) && job.Task != NoTask:
		return Applied, ""
	case strings.Contains(said, retrying): // not running: suspended, say
		return Postponed, laterTexts[1]
	case err == nil:
		return Applied, ""
	case denied:
		_, why, _ = strings.Cut(why, ": ")
		return statusOf(why), why
	case errors.Is(err, ErrNotFound):
		return Refused, err.Error()
	case errors.Is(err, ErrExit) && last != "" && !strings.Contains(said, "Signal "): // which it says before it sends one
		return statusOf(last), last
	}
	return Unknown, err.Error()
}

// Notify writes a line into the output of a running job: standard error of its batch script, or srun's and salloc's
// (slurmctld/proc_req.c, _slurm_rpc_job_notify). Slurm lets root, SlurmUser and the job's owner do so.
func (c *Client) Notify(ctx context.Context, job JobID, text string) Result {
	return c.runFor(ctx, job, "notify", job.String(), text)
}

// Requeue ends a running job and puts it back into the queue, or only does the latter when it has ended (slurmctld/job_mgr.c,
// job_requeue). An array is never meant as a whole.
func (c *Client) Requeue(ctx context.Context, run RunID) Result {
	return c.runFor(ctx, run.Job, "requeue", run.target())
}

// Reserve makes the nodes of a host list those of a reservation for so long from now on: of a new one, or of that
// of the name; without nodes that is deleted. It may share nodes with other reservations (OVERLAP). What runs there runs on. It lets no job in that users submit: only
// root's may name it, or where root has no association, those of the account that calls. A job that waits first
// for these nodes starts first once they are no longer reserved, if all are free by then (seen on 22.05.8, 24.11.5
// and 26.05.5).
func (c *Client) Reserve(ctx context.Context, name, nodes string, d time.Duration) Result {
	for _, s := range []string{name, cmp.Or(nodes, "none")} {
		if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '=' }) {
			return Result{Status: Refused, Message: fmt.Sprintf("reservation %q of nodes %q: cannot be written", name, nodes)}
		}
	}
	was, err := c.ReservationNodes(ctx, name)
	switch {
	case err != nil:
		return Result{Status: Unknown, Message: err.Error()}
	case nodes == "" && was == "":
		return Result{Status: Applied}
	case nodes == "":
		return c.DeleteReservation(ctx, name)
	}
	end := "EndTime=now+" + strconv.Itoa(max(int(math.Ceil(d.Minutes())), 1)) + "minutes"
	var r Result
	for _, user := range []string{"root", strconv.Itoa(os.Geteuid())} {
		args := []string{"create", "reservation", "ReservationName=" + name, "Nodes=" + nodes, "StartTime=now", end, "Users=" + user, "Flags=IGNORE_JOBS,OVERLAP"}
		if was != "" { // Users, too: an earlier version's were others
			args = []string{"update", "ReservationName=" + name, "Nodes=" + nodes, end, "Users=" + user}
		}
		if r = c.runFor(ctx, JobID{}, args...); r.Status != Refused {
			break
		}
	}
	return r
}

// ReservationNodes are the nodes of a reservation, as a host list; "": there is none of the name.
func (c *Client) ReservationNodes(ctx context.Context, name string) (nodes string, err error) {
	all, err := c.Reservations(ctx)
	for i := range all {
		if all[i].Name == name {
			nodes = all[i].Nodes
		}
	}
	return nodes, err
}

// NodeReservation is one of Slurm's.
type NodeReservation struct {
	Name  string    `json:"name"`
	Nodes string    `json:"nodes"` // as a host list; "": of none, as one of licences
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	Part  bool      `json:"part,omitempty"` // of its nodes it has some cores alone
}

// Reservations are all of them, those to come too.
func (c *Client) Reservations(ctx context.Context) ([]NodeReservation, error) {
	out, err := c.read(ctx, "scontrol", "--oneliner", "show", "reservation")
	t := table{name: "scontrol show reservation"}
	all := parseReservations(string(out), &t)
	c.leave(&t, err)
	return all, err
}

// parseReservations reads what scontrol --oneliner show reservation prints. A time that cannot be read is left zero.
func parseReservations(text string, t *table) (all []NodeReservation) {
	for line := range strings.Lines(text) {
		rest, is := strings.CutPrefix(line, "ReservationName=")
		words := strings.Fields(rest)
		if !is || len(words) == 0 {
			continue // "No reservations in the system"
		}
		r := NodeReservation{Name: words[0]}
		var err1, err2 error
		for _, w := range words[1:] {
			switch key, value, _ := strings.Cut(w, "="); key {
			case "Nodes":
				if value != "(null)" {
					r.Nodes = value
				}
			case "StartTime":
				r.Start, err1 = parseEpoch(value)
			case "EndTime":
				r.End, err2 = parseEpoch(value)
			case "CoreIDs":
				r.Part = true
			}
		}
		t.row(r.Name, cmp.Or(err1, err2))
		all = append(all, r)
	}
	return all
}

// DeleteReservation ends a reservation; Refused when there is none of the name.
func (c *Client) DeleteReservation(ctx context.Context, name string) Result {
	return c.runFor(ctx, JobID{}, "delete", "ReservationName="+name)
}

// runFor runs scontrol about one job, or none.
func (c *Client) runFor(ctx context.Context, job JobID, args ...string) Result {
	r := Result{Update: Update{Job: job}, Status: Applied}
	out, err := c.write(ctx, Command{Name: "scontrol", Args: args, Merge: true})
	if err == nil {
		return r
	}
	r.Status, r.Message = Unknown, err.Error()
	if errors.Is(err, ErrNotFound) {
		r.Status = Refused
	} else if said := firstLine(out.Stdout); errors.Is(err, ErrExit) && said != "" { // else it was killed, say
		r.Status, r.Message = statusOf(said), said
	}
	return r
}

// write runs a command that writes, no two at once.
func (c *Client) write(ctx context.Context, cmd Command) (Output, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.run(ctx, c.opts.WriteTimeout, cmd)
}
