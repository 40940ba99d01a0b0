package daemon

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"slurmprio/priod/store"
)

// healthyIntervals is how many pauses between two cycles may pass, beside one cycle, since
// the last good read of Slurm and since the last cycle that succeeded.
const healthyIntervals = 3

// longestCycle bounds how long a cycle may make what it read grow old.
const longestCycle = time.Minute

// health is what the last cycles say about the daemon: the loop writes it, the
// endpoint reads it.
type health struct {
	mu        sync.Mutex
	said      State // in the last cycle; ages and the verdict are those of the moment
	begun     time.Time
	read      time.Time // end of the last valid read; on standby, of the last check of which host is active
	succeeded time.Time // end of the last cycle that succeeded
	limit     time.Duration
	unready   string // why this host, which stands by, could not take over
}

// State is what /health answers.
type State struct {
	Healthy    bool     `json:"healthy"`
	PID        int      `json:"pid"`
	Dir        string   `json:"state_dir"`
	Reason     string   `json:"reason,omitempty"`     // why it is not healthy
	Trouble    string   `json:"trouble,omitempty"`    // the last cycle's error
	Blocked    Blocked  `json:"blocked,omitempty"`    // why the last cycle wrote nothing, or failed, in a word: docs/alerts.md
	Hold       string   `json:"hold,omitempty"`       // why nothing is written although cycles succeed
	StandBy    string   `json:"standby,omitempty"`    // why it leaves the cluster to another host's priod
	Loss       string   `json:"loss,omitempty"`       // what of the state was last lost and rebuilt, since the start
	Unrecorded string   `json:"unrecorded,omitempty"` // why history is not recorded, although priod decides and writes
	On         []string `json:"on"`                   // features that are switched on
	Cycles     int      `json:"cycles"`
	ReadAge    float64  `json:"read_age_s"`
	CycleAge   float64  `json:"cycle_age_s"` // since the last success, or the start
	Limit      float64  `json:"limit_s"`
}

// note changes what is known of the daemon.
func (h *health) note(change func(h *health)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

// cycle notes the end of a cycle, how long it took, and the pause before the next.
func (h *health) cycle(took, pause time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said.Cycles++
	if err != nil {
		h.said.Trouble = err.Error()
		return
	}
	h.said.Trouble, h.succeeded, h.limit = "", time.Now(), healthyIntervals*pause+min(took, longestCycle)
	if h.said.StandBy != "" {
		h.read = h.succeeded
	}
}

func (h *health) since(t time.Time) time.Duration {
	if t.IsZero() {
		t = h.begun
	}
	return time.Since(t)
}

// state judges: a read or a cycle that fails now and then is no reason to be unhealthy,
// a longer time without a good one is.
func (h *health) state() State {
	h.mu.Lock()
	defer h.mu.Unlock()
	age, s := h.since(h.succeeded), h.said
	for _, text := range []*string{&s.Trouble, &s.Hold, &s.StandBy, &s.Loss, &s.Unrecorded} {
		*text = printable(*text)
	}
	s.PID, s.ReadAge, s.CycleAge, s.Limit = os.Getpid(), h.since(h.read).Seconds(), age.Seconds(), h.limit.Seconds()
	switch {
	case store.ByDaemon(s.Hold):
		s.Reason = "another priod writes to the same cluster"
	case h.unready != "":
		s.Reason = "this host stands by and could not take over: " + printable(h.unready)
	case h.succeeded.IsZero():
		s.Reason = "no cycle has succeeded yet"
	case h.since(h.read) > h.limit:
		s.Reason = h.late("Slurm could not be read, or not be trusted, for %s", h.since(h.read))
	case age > h.limit:
		s.Reason = h.late("no cycle has succeeded for %s", age)
	}
	s.Healthy = s.Reason == ""
	return s
}

func (h *health) late(what string, age time.Duration) string {
	return fmt.Sprintf(what+", longer than a cycle and %d intervals (%s)", age.Round(time.Second), healthyIntervals, h.limit.Round(time.Second))
}

// printable keeps what could steer a terminal out of text that others wrote;
// JSON alone leaves C1 controls as they are.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
