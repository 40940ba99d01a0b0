package slurmplug

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// maxLine keeps a line within one argument of a program (128 KiB on Linux,
	// MAX_ARG_STRLEN); a single job list may be longer and goes by standard input.
	maxLine = 100_000
	// maxSession is how many jobs one scontrol may update: a few tenths of a second of slurmctld's time.
	maxSession = 500
	// maxTries is how often an update is sent whose refusal says nothing of its job: of 5,000 one is left, where three in four are refused.
	maxTries = 30
	// pressureEvery is after how many updates sdiag is asked again.
	pressureEvery = 2000
)

// Update carries out the updates and returns one Result for each, in order.
//
// Levers go one after the other in order of first appearance; within a lever, where As is the same, the order is free, and a job
// may stand once. Jobs with the same value share a call; tasks of an array with the same value share one request. What Validate
// refuses is never sent. Writing stops, and what is left is Postponed, when slurmctld does not answer, when its queues are longer
// than Options allow, when MaxWait is used up or ctx ends. Under slurmctld's rate limit the updates that come first here are sent
// first, and those for which there is no turn within MaxWait are left.
func (c *Client) Update(ctx context.Context, updates []Update) []Result {
	results := make([]Result, len(updates))
	for i, u := range updates {
		results[i] = Result{Update: u, Status: Postponed, Message: "not sent"}
	}
	limit := c.budget.at()
	sessions := planSessions(updates, results, min(maxSession, c.opts.Burst, limit.portion()))
	if len(sessions) == 0 {
		return results
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	deadline := time.Now().Add(c.opts.MaxWait)
	stop := ""
	c.unindexed.forget(time.Now())
	for unasked := pressureEvery; len(sessions) > 0; sessions = sessions[1:] {
		s := &sessions[0]
		if c.unindexed.leave(s, results, time.Now()); len(s.lines) == 0 {
			continue
		}
		if unasked >= pressureEvery {
			unasked = 0
			if stop = c.pressure(ctx); stop != "" {
				break
			}
		}
		if stop = c.await(ctx, s, deadline); stop != "" {
			break
		}
		began := time.Now()
		stop = c.send(ctx, s, results)
		if c.unindexed.learn(s, results, began, time.Now()); stop != "" {
			sessions = sessions[1:]
			break
		}
		unasked += s.targets()
		if s.keepStale(results); len(s.lines) > 0 {
			sessions = slices.Insert(sessions, 1, *s)
		}
	}
	for i := range sessions {
		sessions[i].postpone(results, stop)
	}
	return results
}

// pressure says why slurmctld should not be written to now; "" when it may.
func (c *Client) pressure(ctx context.Context) string {
	d, err := c.Diag(ctx)
	switch {
	case err != nil:
		return err.Error()
	case d.AgentQueue > c.opts.AgentQueue:
		return fmt.Sprintf("%s holds %d messages, more than %d", agentText, d.AgentQueue, c.opts.AgentQueue)
	case d.DBDAgentQueue > c.opts.DBDQueue:
		return fmt.Sprintf("%s holds %d messages, more than %d", dbdText, d.DBDAgentQueue, c.opts.DBDQueue)
	}
	return ""
}

// await waits for a turn to send a session; "" when it has come.
func (c *Client) await(ctx context.Context, s *session, deadline time.Time) string {
	n, now, limit := s.targets(), time.Now(), c.budget.at()
	own, slurms := c.pace.delay(n, now), c.budget.delay(s.requests(), limit.reserve())
	switch d := max(own, slurms); {
	case !now.Add(d).After(deadline):
	case slurms > own:
		return fmt.Sprintf("%s: %s", ErrRate, limit)
	default:
		return fmt.Sprintf("%s %g updates a second", paceText, c.opts.WritesPerSecond)
	}
	if err := sleep(ctx, max(own, slurms)); err != nil {
		return err.Error()
	}
	c.pace.take(n)
	return ""
}

// How pressure and await begin to say why.
const (
	agentText = "slurmctld's agent queue"
	dbdText   = "slurmctld's queue to slurmdbd"
	paceText  = "no more than"
)

// Cause is what a write was postponed for, in a word.
type Cause string

// The causes.
const (
	ForAgentQueue Cause = "agent-queue"       // Options.AgentQueue
	ForDBDQueue   Cause = "slurmdbd-queue"    // Options.DBDQueue
	ForRate       Cause = "rate-limit"        // slurmctld's
	ForPace       Cause = "writes-per-second" // Options.WritesPerSecond, for Options.MaxWait
	ForJob        Cause = "job-busy"          // Slurm changes the job itself
	ForAnswer     Cause = "no-answer"         // of slurmctld, or of one that acts on this host
)

// Causes are all of them.
var Causes = []Cause{ForAgentQueue, ForDBDQueue, ForRate, ForPace, ForJob, ForAnswer}

// CauseOf tells from the Message of a postponed write what it was postponed for.
func CauseOf(message string) Cause {
	why, unsent := strings.CutPrefix(message, NotSent)
	switch {
	case strings.HasPrefix(why, agentText):
		return ForAgentQueue
	case strings.HasPrefix(why, dbdText):
		return ForDBDQueue
	case strings.HasPrefix(why, paceText):
		return ForPace
	case strings.Contains(why, ErrRate.Error()), isRateLimited(why):
		return ForRate
	case unsent:
		return ForAnswer
	}
	return ForJob
}

// target is one job list item of scontrol, one request to slurmctld: "17",
// "17_4", "17_[1-3,7]", "17+1" or a SLUID, and the updates that it carries out.
type target struct {
	text    string
	job     uint32
	updates []int
}

// key is the target as scontrol names it in an error: without brackets.
func (t *target) key() string {
	return strings.TrimSuffix(strings.Replace(t.text, "_[", "_", 1), "]")
}

// line is one call: one lever, one value, some targets.
type line struct {
	lever   Lever
	value   Value
	targets []target
}

func (l *line) String() string {
	var b strings.Builder
	b.WriteString("update JobId=")
	for i := range l.targets {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(l.targets[i].text)
	}
	b.WriteByte(' ')
	if l.lever != Size { // whose value has the names of its fields
		b.WriteString(string(l.lever) + "=")
	}
	b.WriteString(l.value.String())
	return b.String()
}

// session is what one scontrol is given to do.
type session struct {
	as    string // Update.As
	lines []line
	tries int // how often it was sent
}

// keepStale leaves in a session what is to be sent once more at once.
func (s *session) keepStale(results []Result) {
	s.tries++
	for i := range s.lines {
		l := &s.lines[i]
		l.targets = slices.DeleteFunc(l.targets, func(t target) bool {
			return s.tries == maxTries || !slices.ContainsFunc(t.updates, func(u int) bool {
				return results[u].Status == Postponed && strings.Contains(results[u].Message, staleText)
			})
		})
	}
	s.lines = slices.DeleteFunc(s.lines, func(l line) bool { return len(l.targets) == 0 })
}

func (s *session) targets() int {
	n := 0
	for i := range s.lines {
		n += len(s.lines[i].targets)
	}
	return n
}

// requests is how many requests the session makes to slurmctld: one for each target, and two more where scontrol asks about the job
// first, as it does when nodes are named (by sdiag's statistics on 24.11.5 and 26.05.5).
func (s *session) requests() int {
	n := 0
	for i := range s.lines {
		l := &s.lines[i]
		each := 1
		if l.lever.single() {
			each = 3
		}
		n += each * len(l.targets)
	}
	return n
}

// NotSent begins the Message of what was left to a later Update; the reason follows.
const NotSent = "not sent: "

// postpone says why a session was not sent.
func (s *session) postpone(results []Result, why string) {
	for i := range s.lines {
		for _, t := range s.lines[i].targets {
			for _, u := range t.updates {
				results[u].Message = NotSent + why
			}
		}
	}
}

// planSessions validates the updates, marks in results those that may not be sent, and groups the others.
func planSessions(updates []Update, results []Result, limit int) []session {
	type turn struct {
		lever Lever
		as    string
	}
	var turns []turn
	byTurn := map[turn][]int{}
	type once struct {
		target string
		lever  Lever
	}
	seen := make(map[once]bool, len(updates))
	for i, u := range updates {
		if err := u.Validate(); err != nil {
			results[i].Status, results[i].Message = Refused, err.Error()
			continue
		}
		if key := (once{u.record(), u.Lever}); seen[key] {
			results[i].Status, results[i].Message = Refused, fmt.Sprintf("job %s: %s is written twice in one call", u.Job, u.Lever)
			continue
		} else {
			seen[key] = true
		}
		t := turn{u.Lever, u.As}
		if byTurn[t] == nil {
			turns = append(turns, t)
		}
		byTurn[t] = append(byTurn[t], i)
	}
	var sessions []session
	for _, t := range turns {
		packed := packLines(groupLines(updates, byTurn[t], t.lever, limit), limit)
		for i := range packed {
			packed[i].as = t.as
		}
		sessions = append(sessions, packed...)
	}
	return sessions
}

// groupLines makes lines of the updates of one lever: one for each value, or several when it would grow too long.
func groupLines(updates []Update, indices []int, lever Lever, limit int) []line {
	var values []Value
	byValue := map[Value][]int{}
	for _, i := range indices {
		v := updates[i].Value
		if byValue[v] == nil {
			values = append(values, v)
		}
		byValue[v] = append(byValue[v], i)
	}
	var lines []line
	for _, v := range values {
		length := maxLine
		for _, t := range groupTargets(updates, byValue[v]) {
			last := len(lines) - 1
			if length += len(t.text) + 1; length > maxLine || len(lines[last].targets) == limit || lever.single() {
				lines = append(lines, line{lever: lever, value: v})
				last, length = len(lines)-1, len(t.text)
			}
			lines[last].targets = append(lines[last].targets, t)
		}
	}
	return lines
}

// groupTargets makes targets of updates with one value: tasks of an array share one, where scontrol takes more than one and no run
// is meant by its name. To rank tasks one request for all matters more: that a later run is ranked does no harm.
func groupTargets(updates []Update, indices []int) []target {
	var targets []target
	type group struct {
		array uint32
		alone int // the update that shares with none
	}
	arrays := map[group]int{}
	for _, i := range indices {
		u := &updates[i]
		if u.HetID != 0 || u.Job.Task == NoTask && u.Tasks == "" || u.byRun() && !u.Lever.Ranks() {
			targets = append(targets, target{u.Target(), u.Job.ID, []int{i}})
			continue
		}
		with := group{u.Job.ID, -1}
		if u.Lever.single() {
			with.alone = i
		}
		at, known := arrays[with]
		if !known {
			at = len(targets)
			arrays[with] = at
			targets = append(targets, target{"", u.Job.ID, nil})
		}
		targets[at].updates = append(targets[at].updates, i)
	}
	for _, at := range arrays {
		t := &targets[at]
		if u := &updates[t.updates[0]]; len(t.updates) == 1 && u.byRun() {
			t.text = u.SLUID
			continue
		}
		var tasks []int32
		for _, i := range t.updates {
			tasks = append(tasks, tasksOf(&updates[i])...)
		}
		slices.Sort(tasks)
		tasks = slices.Compact(tasks)
		list := CompactTasks(tasks)
		if len(tasks) > 1 {
			list = "[" + list + "]"
		}
		t.text = fmt.Sprintf("%d_%s", t.job, list)
	}
	return targets
}

// tasksOf lists the array tasks that an update names; none for a plain job.
func tasksOf(u *Update) []int32 {
	if u.Tasks == "" {
		if u.Job.Task == NoTask {
			return nil
		}
		return []int32{u.Job.Task}
	}
	tasks, _ := ExpandTasks(u.Tasks) // Validate has read it
	return tasks
}

// packLines fills sessions with lines, up to limit targets each.
func packLines(lines []line, limit int) []session {
	var sessions []session
	room := 0
	for _, l := range lines {
		if room < len(l.targets) {
			sessions = append(sessions, session{})
			room = limit
		}
		room -= len(l.targets)
		s := &sessions[len(sessions)-1]
		s.lines = append(s.lines, l)
	}
	return sessions
}

// command is what carries out a session: one line fits into arguments, more go by standard input.
func (s *session) command() Command {
	cmd := Command{Name: "scontrol", Merge: true, Requests: s.requests()}
	if s.as != "" {
		cmd.Args = []string{"--uid=" + s.as}
	}
	if text := s.lines[0].String(); len(s.lines) == 1 && len(text) <= maxLine {
		cmd.Args = append(cmd.Args, strings.Fields(text)...)
		return cmd
	}
	for i := range s.lines {
		cmd.Stdin = append(append(cmd.Stdin, s.lines[i].String()...), '\n')
	}
	return cmd
}

// send runs one session and fills in the results of its updates. It returns why writing should stop, "" when it may continue.
func (c *Client) send(ctx context.Context, s *session, results []Result) (stop string) {
	cmd := s.command()
	out, err := c.run(ctx, c.opts.WriteTimeout, cmd)
	if errors.Is(err, ErrNotFound) {
		s.postpone(results, err.Error())
		return err.Error()
	}
	r := readReplies(s, string(out.Stdout), err, cmd.Stdin != nil)
	r.terse = c.namesFailuresOnly()
	r.fillIn(s, results)
	if !r.silent && (err == nil || errors.Is(err, ErrExit)) {
		return ""
	}
	if stop = "slurmctld did not answer"; err != nil {
		stop += ": " + err.Error()
	}
	return stop
}
