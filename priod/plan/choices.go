package plan

import (
	"fmt"
	"math"
	"time"

	"slurmprio/priod/cluster"
)

// Choices are what features chose for a job, as data; the words for people are made when a decision
// is read. Figures are of the cycle that first chose so. nil: that was no question, or no rule was asked.
// What is chosen of CPUs and memory is a write of the lever Size.
type Choices struct {
	Share    *ShareChoice    `json:"share,omitempty"`
	Budget   *BudgetLimit    `json:"budget,omitempty"`
	Part     *ArrayPart      `json:"part,omitempty"`
	GPUType  *GPUTypeChoice  `json:"gpu_type,omitempty"`
	Eviction *EvictionChoice `json:"eviction,omitempty"`
	Switches *PlacesChoice   `json:"switches,omitempty"`
	Refused  *RefusedNodes   `json:"refused_nodes,omitempty"`
	Window   *WindowChoice   `json:"window,omitempty"`
}

// WindowChoice is that a job runs until a window with a shorter limit than its own, and goes on after it.
type WindowChoice struct {
	Name  string    `json:"name"`
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	OwnS  float64   `json:"own_limit_s"` // below 0: none
}

// Words are the choice for people.
func (w *WindowChoice) Words() string {
	return fmt.Sprintf("runs until the window of %s (%s), continues after its end at %s", w.Start.Local().Format("Mon Jan 2 15:04"), w.Name, w.End.Local().Format("Mon Jan 2 15:04"))
}

// ShareChoice is what a waiting job may do by the guaranteed shares of accounts (priod/guarantee), GPUs as charged.
type ShareChoice struct {
	Right   string    `json:"right"`               // entitled, within, borrows, withheld
	Account string    `json:"account"`             // that has the share on which it draws; its own where none has
	GPUType string    `json:"gpu_type,omitempty"`  // of the share; "": of any
	Owned   float64   `json:"owned_gpus"`          // by the share, in service; 0: there is none
	Down    float64   `json:"down_gpus,omitempty"` // out of service
	Used    float64   `json:"used_gpus"`           // by running jobs that draw on it
	GPUs    float64   `json:"gpus"`                // that the job asks for
	From    string    `json:"from,omitempty"`      // accounts that lend most at present
	WithinS float64   `json:"return_within_s"`     // so soon borrowed GPUs have to come back
	Stays   string    `json:"may_not,omitempty"`   // why it could not leave in time: no-consent, long-grace, lends-none
	GraceS  float64   `json:"grace_s,omitempty"`   // that is too long
	Since   time.Time `json:"since,omitzero"`      // it is entitled
	Until   time.Time `json:"until,omitzero"`      // it is withheld at most
}

// mayNot is why a job cannot borrow.
var mayNot = map[string]string{
	"no-consent": "it did not agree to leave (--prio-type be)", "lends-none": "nothing is lent (shares.lend)",
}

// Words are the choice for people.
func (s *ShareChoice) Words() string {
	share := fmt.Sprintf("share of %g GPUs", s.Owned)
	if s.GPUType != "" {
		share = fmt.Sprintf("share of %g %s GPUs", s.Owned, s.GPUType)
	}
	if s.Down > 0 {
		share += fmt.Sprintf(" (%.3g more are out of service)", s.Down)
	}
	beyond := fmt.Sprintf("beyond account %s's %s, of which %g are used", s.Account, share, s.Used)
	if s.Owned == 0 && s.Down == 0 {
		beyond = fmt.Sprintf("account %s has no share", s.Account)
	}
	within := time.Duration(s.WithinS * float64(time.Second))
	switch s.Right {
	case "entitled":
		return fmt.Sprintf("entitled: account %s uses %g of its %s", s.Account, s.Used, share)
	case "within":
		return fmt.Sprintf("within account %s's %s: it starts in free room, and jobs of the account that agree to leave borrow from then on", s.Account, share)
	case "borrows":
		from := "borrowing"
		if s.From != "" {
			from += " from " + s.From
		}
		if s.Stays != "" {
			return from + ": " + beyond + "; once it runs, it stays to its end"
		}
		return fmt.Sprintf("%s: has to leave within %s of notice (%s)", from, within, beyond)
	}
	why := mayNot[s.Stays]
	if s.Stays == "long-grace" {
		why = fmt.Sprintf("its grace of %s is above %s", time.Duration(s.GraceS*float64(time.Second)), within)
	}
	until := ""
	if !s.Until.IsZero() {
		until = "; starts at the latest from " + s.Until.Local().Format("Jan 2 15:04") + " on, as soon as there is room"
	}
	return fmt.Sprintf("%s; may not borrow: %s%s", beyond, why, until)
}

// BudgetLimit is the share that the start of a job uses most of, where that is more than the share.
type BudgetLimit struct {
	Of      string  `json:"of"`    // user, account
	Name    string  `json:"name"`  // of that user or account
	Limit   string  `json:"limit"` // gpus, gpu_hours, time_limit_s
	Allowed float64 `json:"allowed"`
	Asks    float64 `json:"asks,omitempty"` // of these, by each task of the job
	Times   float64 `json:"times"`          // the share is used, with the jobs before it; of a time limit: times the allowed one
}

// Worth is how many times a share may be used until a TE job stands among the BE jobs: a second of a trial's wait is worth
// that of so many BE jobs, the default of preemption.urgency.
const Worth = 5

// Burst is how long a TE job holds GPUs to count in full among those held at a time.
const Burst = 5 * time.Minute

// Factor is Times, 0 of nil.
func (b *BudgetLimit) Factor() float64 {
	if b == nil {
		return 0
	}
	return b.Times
}

// Beyond reports whether the job ranks behind cheaper ones.
func (b *BudgetLimit) Beyond() bool { return b.Factor() >= 2 }

// RoundedTimes keeps what is stored of a price from changing with each poll: it is rounded down, to a tenth below 2, and
// else to a whole number, of which all above 100 are 100.
func RoundedTimes(times float64) float64 {
	if times < 2 {
		return math.Floor(times*10) / 10
	}
	return min(math.Floor(times), 100)
}

// Words say how many times which share is used.
func (b *BudgetLimit) Words() string {
	share := fmt.Sprintf("%g TE GPUs at a time", b.Allowed)
	switch b.Limit {
	case "gpu_hours":
		share = fmt.Sprintf("%.1f TE GPU-hours in a day", b.Allowed)
	case "time_limit_s":
		share = fmt.Sprintf("a time limit of %s of TE jobs", time.Duration(b.Allowed*float64(time.Second)))
	}
	return fmt.Sprintf("%g times the share of %s %s, %s", b.Times, b.Of, b.Name, share)
}

// ArrayPart are the tasks of an array that stand where its decision says; the others cost more.
type ArrayPart struct {
	First int `json:"first"` // so many
	Of    int `json:"of"`
}

// Words say how many tasks they are.
func (p *ArrayPart) Words() string {
	return fmt.Sprintf("the first %d of %d tasks; the others cost more", p.First, p.Of)
}

// Never reports whether a job counts as BE whatever others do: only its own request can change that.
func (b *BudgetLimit) Never() bool {
	return b.Times >= Worth && (b.Limit == "time_limit_s" || b.Asks > Worth*b.Allowed)
}

// GPUTypeChoice is the GPU type that a job is given, or none.
type GPUTypeChoice struct {
	At       time.Time `json:"at,omitzero"`           // its times count from here
	Why      string    `json:"why"`                   // starts, waits, takes-other, cannot-run, not-near, no-consent, one-type, no-room, no-time, not-bound, not-started
	GPUType  string    `json:"gpu_type,omitempty"`    // it is bound to; "": its type is left open
	StartS   *float64  `json:"start_s,omitempty"`     // expected there, from At on; left out: not known
	EndS     *float64  `json:"end_s,omitempty"`       // the same of its end
	Other    string    `json:"other_type,omitempty"`  // the best of the types not chosen
	OtherS   *float64  `json:"other_end_s,omitempty"` // when it would end there
	NotGiven bool      `json:"other_not_allocated,omitempty"`
	Back     string    `json:"taken_back,omitempty"` // why the type before is: allocation-changed, nodes-down, better-type, not-free
}

// Words say what becomes of the job. When it starts they leave to the forecast, which has one time for all that ask.
func (c *GPUTypeChoice) Words() string {
	text := ""
	switch c.Why {
	case "starts":
		text = fmt.Sprintf("%s is allocated to it and free", c.GPUType)
	case "waits":
		text = "waits for " + c.GPUType
		if c.StartS == nil {
			text += ", where jobs without a time limit run"
		} else if c.Other != "" {
			text += ", where it ends" + later(c.EndS, c.OtherS, "sooner") + " than on " + c.Other
			if c.NotGiven {
				text += ", where nothing is allocated to it"
			}
		}
	case "cannot-run":
		text = fmt.Sprintf("bound to %s: it cannot run on all types that it may have", c.GPUType)
	case "takes-other":
		text = fmt.Sprintf("takes %s, which is free", c.GPUType)
		if c.Other != "" {
			text += fmt.Sprintf("; waiting for %s it would end%s", c.Other, later(c.EndS, c.OtherS, "later"))
		}
	default:
		text = typeOpen[c.Why]
	}
	if back := typeBack[c.Back]; back != "" {
		text += "; the previous type is withdrawn: " + back
	}
	return text
}

// later is by how much one end, s, is before another, in words that end in sooner or later; without a figure where one of
// them is not known, or the two are less than a minute apart.
func later(end, other *float64, word string) string {
	if end != nil && other != nil && *other-*end >= 60 {
		minutes := time.Duration(*other-*end) * time.Second / time.Minute
		word = fmt.Sprintf("%dh%02dm %s", minutes/60, minutes%60, word)
	}
	return " " + word
}

// NoConsent is why a job is not steered that says nothing of its speed.
const NoConsent = "its tag gives no speed or workload: it may not be steered"

// typeOpen is why a type is left open.
var typeOpen = map[string]string{
	"not-near":    "too far from the head of the queue",
	"no-consent":  NoConsent,
	"one-type":    "its request leaves one GPU type",
	"no-room":     "no GPU type has room for it, now or later",
	"no-time":     "the allocation gives it no time at present: left open",
	"not-bound":   "TE jobs do not wait: left open, to start on the first type that is free",
	"not-started": "it could have started on its type, and Slurm did not start it: left open",
}

// typeBack is why a type is taken back.
var typeBack = map[string]string{
	"allocation-changed": "the allocation has changed",
	"not-free":           "it does not start there at present",
	"nodes-down":         "its nodes are down",
	"better-type":        "another type is better",
}

// EvictionChoice is what was decided about room for a job.
type EvictionChoice struct {
	For  string `json:"for"`            // te, round, gang
	Why  string `json:"why"`            // a word: evicts, claimed, fits, starts-anyway, no-victims, limit-grace, slurm-waits, not-owed, not-yet and so on
	What string `json:"what,omitempty"` // that Why is about: what a request asks for that is not counted

	// Opens is when the limit that Why names lets others leave, at the earliest; left out: unknown, or
	// no time opens it.
	Opens time.Time `json:"opens,omitzero"`

	Vain VainRoom `json:"vain,omitzero"` // where that keeps others from leaving for it
}

// VainRoom is room that was made for such a job on such nodes and was free, and the job did not start.
type VainRoom struct {
	Job       cluster.JobID `json:"job"`
	Ended     time.Time     `json:"ended"`
	Nodes     int           `json:"nodes"`
	Node      string        `json:"node"` // the first of them
	GPUs      int           `json:"gpus"` // asked for there
	CPUs      int           `json:"cpus"`
	MemMB     int64         `json:"mem_mb"`
	FreeGPUs  int           `json:"free_gpus"`
	FreeCPUs  int           `json:"free_cpus"`
	FreeMemMB int64         `json:"free_mem_mb"`
}

// Words say what was asked for and what was free.
func (v *VainRoom) Words() string {
	words := fmt.Sprintf("%s at %s: %d GPUs, %d CPUs, %d MB of %s, where %d GPUs, %d CPUs, %d MB were free",
		v.Job, v.Ended.Local().Format("Jan 2 15:04"), v.GPUs, v.CPUs, v.MemMB, v.Node, v.FreeGPUs, v.FreeCPUs, v.FreeMemMB)
	if v.Nodes > 1 {
		words += fmt.Sprintf("; and so on for %d more nodes", v.Nodes-1)
	}
	return words
}

// PlacesChoice is how many switches, or nodes, a job accepts.
type PlacesChoice struct {
	Accepts     int     `json:"accepts"` // 0: any number
	Fewest      int     `json:"fewest"`  // that hold it
	Most        int     `json:"most"`    // that it can come to lie on
	RunS        float64 `json:"run_s"`   // expected, on the fewest
	RunOnMostS  float64 `json:"run_on_most_s"`
	WaitsAtMost float64 `json:"waits_at_most_s"` // until it accepts any number
}

// Words say on how many switches the job starts, and why.
func (c *PlacesChoice) Words() string {
	span := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)).Round(time.Minute) }
	switch {
	case c.Most <= c.Fewest:
		return "switches: it cannot be spread over more than it needs"
	case c.Accepts == 0:
		return "switches: any number; it has waited as long as that pays"
	}
	return fmt.Sprintf("switches: %d at most, of the %d that it might get; it waits for them as long as that pays, for it would run %s instead of %s on %d",
		c.Accepts, c.Most, span(c.RunOnMostS), span(c.RunS), c.Most)
}

// RefusedNodes are slow nodes that a job of several nodes refuses.
type RefusedNodes struct {
	Nodes       string  `json:"node_list"`
	Worst       string  `json:"worst_node"`                  // of those that are slow
	WorstFactor float64 `json:"worst_factor"`                // it would run so many times as long there
	Failing     string  `json:"failing_node_list,omitempty"` // those of them on which jobs of several users failed alike
	WaitsAtMost float64 `json:"waits_at_most_s"`             // until it refuses none
}

// Words say which nodes the job avoids, and why.
func (c *RefusedNodes) Words() string {
	why := ""
	if c.Worst != "" {
		why = fmt.Sprintf(", as long as that pays: on %s it would run %.2f times as long", c.Worst, c.WorstFactor)
	}
	if c.Failing != "" {
		why += "; jobs of several users failed on " + c.Failing
	}
	return "slow nodes: it avoids " + c.Nodes + why
}
