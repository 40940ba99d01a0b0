package slurmplug

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// What scontrol says (slurm/slurm_errno.c holds the texts). What is in none of these lists is a refusal.
var (
	racedTexts = []string{
		"Invalid job id specified",                 // purged
		"Job has already finished",                 //
		"Job/step already completing or completed", //
		"Job is no longer pending execution",       // started
		"Job has already started",                  //
		"Job is not running",                       //
		"Job is not pending nor running",           //
		"Job is in held state",                     // held since it was read
	}
	laterTexts = []string{
		"Job update not available right now", // its accounting record is being made
		"Job can not be altered now",
		rateText,
		staleText,
	}
	connectionTexts = []string{
		"Unable to contact slurm controller",
		"Unexpected message received", // what scontrol update says when slurmctld is down
		"Communication connection failure",
		"Message send failure",
		"Message receive failure",
		"Socket timed out",
		"Zero Bytes were transmitted",
		"Unexpected missing socket",
		"Insane message length",
		"standby mode",
		"Connection refused",
		"Connection timed out",
		authText,
		"Unable to connect to database",
		"Sending PersistInit msg",
		"Problem talking to the database",
	}
	// abortTexts are what scontrol itself says before it asks slurmctld.
	abortTexts = []string{
		"Update of this parameter is not supported",
		"Request aborted",
		"Invalid input",
		"No changes specified",
		"out of range",
		"Invalid ",
	}
)

// authText is also all that clients of 26.05 say of a slurmctld 24.11 (seen).
const authText = "Protocol authentication error"

// rateText begins what Slurm says when it refuses a request for its rate, "please retry
// momentarily" or "please retry later" (common/slurm_errno.c).
const rateText = "Rate limit exceeded"

// staleText is what slurmctld says of a job that has no association, as without accounting, when its partitions are
// written: it takes an error for its own that its thread met before (job_mgr.c, _retrieve_new_assoc sets none). Nothing
// is changed then, and the next request may be taken. Seen of 40 in 100 on 24.11.5, up to 75 on 26.05.5, of none on 22.05.8.
const staleText = "Resource temporarily unavailable"

func isRateLimited(message string) bool { return strings.Contains(message, rateText) }

func containsAny(s string, texts []string) bool {
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(s, t) })
}

// isConnectionTrouble reports whether a program says that it reached no daemon.
func isConnectionTrouble(message string) bool { return containsAny(message, connectionTexts) }

// statusOf says what scontrol's words mean for the job.
func statusOf(message string) Status {
	switch {
	case message == "No error",
		strings.HasPrefix(message, "Changes to job priority are not persistent"): // done, with a warning
		return Applied
	case containsAny(message, racedTexts):
		return Raced
	case containsAny(message, laterTexts):
		return Postponed
	case isConnectionTrouble(message):
		return Unknown
	}
	return Refused
}

// reply is what scontrol said about a target.
type reply struct {
	tasks   []int32 // the array tasks it is about; nil for the whole target
	cutOff  bool    // Slurm did not list all of the tasks
	message string
}

// replies is what became of a session.
type replies struct {
	of     map[*target][]reply
	loose  map[int][]string // by line: what names no job
	failed bool             // exit status other than 0
	nobody string           // Update.As is no user of this host: nothing was sent, and the exit status is 0 (seen on 22.05.8)
	silent bool             // slurmctld did not answer

	// started counts the lines that scontrol began, as its echo shows; all of them when it ran to its end. Of the last one nothing
	// is sure when it did not.
	started int
	whole   bool   // ran to its end
	why     string // when not

	// terse says that of the tasks of an array only those are named that failed.
	terse bool
}

// readReplies reads the merged output of a session. On standard input scontrol echoes each line behind its prompt before it carries
// it out (readline; a long line scrolls and begins with "<"), and each error names its job: "MESSAGE for job 17", or "17_1-3:
// MESSAGE" for tasks of an array.
func readReplies(s *session, out string, err error, echoes bool) *replies {
	r := &replies{of: map[*target][]reply{}, loose: map[int][]string{}, whole: true}
	exit, isExit := err.(*CommandError)
	if err != nil {
		r.failed, r.why = true, err.Error()
		r.whole = isExit && exit.Kind == ErrExit && exit.Status == 1
	}
	byKey := map[string]*target{}
	byJob := map[uint32][]*target{}
	lineOf := map[*target]int{}
	for i := range s.lines {
		for j := range s.lines[i].targets {
			t := &s.lines[i].targets[j]
			byKey[t.key()], byKey[t.text] = t, t
			byJob[t.job] = append(byJob[t.job], t)
			lineOf[t] = i
		}
	}
	at := -1 // no echo seen
	if !echoes {
		at = 0
	}
	for text := range strings.Lines(out) {
		text = strings.TrimRight(text, "\r\n")
		for strings.HasPrefix(text, "scontrol: ") {
			text = text[len("scontrol: "):]
		}
		text = strings.TrimLeft(text, "\r")
		switch {
		case text == "", strings.HasPrefix(text, "slurm_suspend error"): // sums up a release
			continue
		case echoes && (strings.HasPrefix(text, "update JobId=") || strings.HasPrefix(text, "release ") || text[0] == '<'):
			at = min(at+1, len(s.lines)-1)
			continue
		case strings.HasPrefix(text, "error: --uid="):
			r.nobody = printable(text, 200)
			continue
		case strings.HasPrefix(text, "fatal"):
			r.whole, r.why = false, printable(text, 200)
		}
		message, key, ok := cutLast(text, " for job ")
		if t := byKey[key]; ok && t != nil {
			r.of[t] = append(r.of[t], reply{message: message})
			r.silent = r.silent || isConnectionTrouble(message)
			continue
		}
		if id, tasks, cutOff, message, ok := arrayReply(text); ok {
			found := false
			for _, t := range byJob[id] {
				if at < 0 || lineOf[t] == at {
					r.of[t] = append(r.of[t], reply{tasks, cutOff, message})
					found = true
				}
			}
			if found {
				continue
			}
		}
		r.loose[at] = append(r.loose[at], printable(text, 200))
	}
	r.started = at + 1
	if r.whole {
		r.started = len(s.lines)
	}
	return r
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// arrayReply reads "4374_2-5: No error", or "4374_[2-5]: MESSAGE" (seen on 26.05.5). Slurm before 26.05 cuts a list of more than 28
// characters and ends it with "..." (job_mgr.c, ARRAY_ID_BUF_SIZE; seen on 24.11.5); the last number before that may have lost
// digits.
func arrayReply(text string) (id uint32, tasks []int32, cutOff bool, message string, ok bool) {
	name, message, ok := strings.Cut(text, ": ")
	if !ok {
		return 0, nil, false, "", false
	}
	head, list, ok := strings.Cut(name, "_")
	n, err := parseUint(head, 1<<32-1)
	if !ok || err != nil {
		return 0, nil, false, "", false
	}
	if inside, bracketed := strings.CutPrefix(list, "["); bracketed {
		list = strings.TrimSuffix(inside, "]")
	}
	if list, cutOff = strings.CutSuffix(list, "..."); cutOff {
		list = list[:max(strings.LastIndexByte(list, ','), 0)]
	}
	if list != "" {
		if tasks, err = ExpandTasks(list); err != nil {
			return 0, nil, false, "", false
		}
	}
	return uint32(n), tasks, cutOff, message, tasks != nil || cutOff
}

// fillIn fills in the results of a session's updates.
func (r *replies) fillIn(s *session, results []Result) {
	explained := len(r.of) > 0
	for i := range s.lines {
		explained = explained || len(r.loose[i]) > 0
	}
	for i := range s.lines {
		status, message := r.ofLine(s, i, explained)
		for j := range s.lines[i].targets {
			t := &s.lines[i].targets[j]
			for _, u := range t.updates {
				res := &results[u]
				if said := r.of[t]; len(said) > 0 {
					res.Status, res.Message = r.combine(said, tasksOf(&res.Update), i)
				} else {
					res.Status, res.Message = status, message
				}
			}
		}
	}
}

// ofLine is what became of the targets of a line about which scontrol said nothing.
func (r *replies) ofLine(s *session, i int, explained bool) (Status, string) {
	switch {
	case r.nobody != "":
		return Refused, r.nobody
	case !r.whole && r.started > 0 && i >= r.started:
		return Postponed, NotSent + r.why
	case !r.whole && i >= r.started-1: // the last line begun; any, when there was no echo
		return Unknown, r.why
	case !r.failed:
		return Applied, ""
	}
	if loose := r.loose[i]; len(loose) > 0 && !r.named(s, i) {
		text := strings.Join(loose, "; ")
		if containsAny(text, abortTexts) {
			return Refused, text
		}
		return Unknown, text
	}
	if !explained {
		text := strings.Join(append(r.loose[-1], r.why), "; ")
		return Unknown, text
	}
	return Applied, ""
}

// named reports whether scontrol named any job of the line.
func (r *replies) named(s *session, i int) bool {
	for j := range s.lines[i].targets {
		if len(r.of[&s.lines[i].targets[j]]) > 0 {
			return true
		}
	}
	return false
}

// severity orders what parts of an array may come to; the worst is the whole's.
var severity = map[Status]int{Raced: 0, Applied: 1, Postponed: 2, Unknown: 3, Refused: 4}

// combine sums up what was said about tasks (nil for a plain job or a whole array) of a line.
func (r *replies) combine(said []reply, tasks []int32, line int) (Status, string) {
	heard := map[int]bool{} // replies that concern these tasks
	for i, x := range said {
		if len(x.tasks) == 0 && !x.cutOff || tasks == nil {
			heard[i] = true
		}
	}
	status, messages, silent := Raced, []string{}, 0
	if len(heard) == 0 {
		var unheard int
		var cut []int
		silent, unheard, cut = covers(said, tasks, heard)
		switch {
		case unheard > 0 && !r.terse && sameStatus(said, cut):
			heard[cut[0]], unheard = true, 0
		case silent > 0 && !r.whole && line >= r.started-1: // scontrol may have said more
			unheard += silent
		case silent > 0: // nothing failed
			status = Applied
		}
		if unheard > 0 {
			status = Unknown
			messages = append(messages, fmt.Sprintf("Slurm did not say what became of %d tasks", unheard))
		}
	}
	for i, x := range said {
		if !heard[i] {
			continue
		}
		st := statusOf(x.message)
		if severity[st] > severity[status] {
			status = st
		}
		if st == Applied && x.message == "No error" {
			continue
		}
		text := printable(x.message, 200)
		if (len(heard) > 1 || silent > 0) && len(x.tasks) > 0 {
			text = "tasks " + printable(CompactTasks(x.tasks), 40) + ": " + text
		}
		messages = append(messages, text)
	}
	return status, strings.Join(messages, "; ")
}

// covers marks the replies that name any of the tasks, and counts the others: silent are those that no reply can be about, unheard
// those that may stand in the part of a list that was cut off. Slurm lists tasks in rising order.
func covers(said []reply, tasks []int32, heard map[int]bool) (silent, unheard int, cut []int) {
	covered, hidden := map[int32]int{}, int32(math.MaxInt32) // tasks from hidden on may be named where a list was cut off
	for i, r := range said {
		for _, t := range r.tasks {
			covered[t] = i
		}
		if r.cutOff {
			cut = append(cut, i)
			last := int32(-1)
			if len(r.tasks) > 0 {
				last = r.tasks[len(r.tasks)-1]
			}
			hidden = min(hidden, last+1)
		}
	}
	for _, t := range tasks {
		if i, ok := covered[t]; ok {
			heard[i] = true
		} else if t >= hidden {
			unheard++
		} else {
			silent++
		}
	}
	return silent, unheard, cut
}

// sameStatus reports whether the replies picked are at least one and mean the same.
func sameStatus(said []reply, picked []int) bool {
	return len(picked) > 0 && !slices.ContainsFunc(picked, func(i int) bool {
		return statusOf(said[i].message) != statusOf(said[picked[0]].message)
	})
}
