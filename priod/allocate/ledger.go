package allocate

import (
	"maps"
	"slices"
	"sync"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/placement/nodemap"
	"slurmprio/priod/plan"
	"slurmprio/priod/workload"
	"slurmprio/priod/workload/speed"
)

// Settings say how the time of the GPUs is divided, and where speeds come from.
type Settings struct {
	Policy   Policy             // "": nothing is allocated
	Every    time.Duration      // an allocation stands so long at most, and fractions received start over; at least a second
	Weights  map[string]float64 // by account: of each of its jobs, or with policy hierarchical of itself; others have 1
	Accounts map[string]float64 // with policy hierarchical: the accounts' shares as Slurm has them
	FIFO     []string           // with policy hierarchical: accounts whose jobs get their share one after the other

	Ranking   plan.Classes
	Speeds    speed.Settings
	Table     *workload.Table  // may be nil
	Knowledge *speed.Knowledge // may be nil

	// OnFailure gets a problem that the optimiser failed on, and returns what became of
	// it, for the notes; may be nil.
	OnFailure func(*Problem, error) string
}

// noTimeLimit is the run time, in seconds, that a job without a time limit counts with.
const noTimeLimit = 365 * 24 * 3600

// Ledger is what is known from one cycle to the next: what each job was promised, what
// it received, how fast it is. The zero Ledger knows nothing.
type Ledger struct {
	set      Settings
	shares   plan.Shares
	jobs     cluster.JobMap[*jobRecord]
	queue    []*jobRecord                 // of jobs, in the order of the snapshot; nil: it takes no part
	departed map[cluster.JobID]*jobRecord // jobs that have left, but whose time still counts in the account
	profiles map[profileKey]*speedProfile
	fits     cluster.ByRequest[[]bool]
	speeds   map[string]string // what tags say of speeds, by their texts: see program
	gpus     []int             // by type, of usable nodes
	pools    []pool            // the same by partitions
	columns  []column          // of the last problem

	account   *Account
	since     time.Time // the account's fractions count from then
	dirty     bool      // jobs or GPUs came or went since the last allocation
	members   bool      // records came or went since the runs were last entered
	changes   int       // History.Changes at that time
	warm      Warm
	seenNodes []nodeKey
	poll      uint32 // counts the cycles; a record of an earlier one is of a job that left
	problem   Problem
	failure   string // why the last allocation failed; "": it did not
}

// Remembered is what an earlier process stored of a job: its Share, by the types
// that there were, and its runs.
type Remembered struct {
	User                  string
	Submit, Born          time.Time // Slurm's time of submission, and the first one
	Types                 []string
	Speed, Time, Promised []float64
	Given                 time.Time
	Runs                  []cluster.Stay
}

// Restore takes in a job that an earlier process knew.
func (l *Ledger) Restore(id cluster.JobID, r Remembered) {
	if l.profiles == nil {
		l.makeMaps()
	}
	l.setTypes(slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(l.shares.Types), r.Types...)))))
	e := &jobRecord{id: id.String(), who: cluster.Identify(r.User, r.Submit), firstSubmit: r.Born}
	e.Promised, e.Given = reindex(r.Promised, r.Types, l.shares.Types), r.Given
	if r.Time != nil {
		e.Time = reindex(r.Time, r.Types, l.shares.Types)
	}
	for _, v := range reindex(r.Speed, r.Types, l.shares.Types) {
		e.storedFits = append(e.storedFits, v > 0)
	}
	for _, i := range r.Runs {
		if known := e.run(i.Start); known != nil {
			*known = i
		} else {
			e.runs = append(e.runs, i)
		}
	}
	l.jobs.Set(id, e)
}

// makeMaps prepares a zero Ledger.
func (l *Ledger) makeMaps() {
	l.departed, l.account = map[cluster.JobID]*jobRecord{}, NewAccount()
	l.profiles, l.speeds = map[profileKey]*speedProfile{}, map[string]string{}
}

// Allocate brings the ledger up to this snapshot, which h has observed, divides
// the time again when jobs or GPUs came or went or the last allocation is old, and
// returns what each job has of it; nil when nothing is to be allocated.
func (l *Ledger) Allocate(s *cluster.Snapshot, h *cluster.History, set Settings) *plan.Shares {
	return l.allocate(s, h, set, sync.OnceValue(func() *nodemap.Map { return nodemap.New(s) }))
}

func (l *Ledger) allocate(s *cluster.Snapshot, h *cluster.History, set Settings, nodes func() *nodemap.Map) *plan.Shares {
	if set.Policy == "" {
		*l = Ledger{}
		return nil
	}
	if l.profiles == nil {
		l.makeMaps()
	}
	l.shares.Notes = nil
	l.applySettings(set)
	l.scanNodes(s)
	if len(l.shares.Types) == 0 {
		l.note(plan.NoGPUTypes, "no node has GPUs of a named type: nothing is allocated")
	}
	l.syncJobs(s, h, nodes)
	l.recordRuns(s, h)
	l.updateReceived(s)
	l.allocateWhenDue(s)
	l.updateOwed(s.At)
	l.shares.Until = l.NextAt()
	return &l.shares
}

// note adds a sentence for the operator to the shares.
func (l *Ledger) note(kind plan.NoteKind, text string) {
	l.shares.Notes = append(l.shares.Notes, plan.Note{Kind: kind, Of: 1, Text: text})
}

// applySettings takes over the settings, and forgets what was worked out by others.
func (l *Ledger) applySettings(set Settings) {
	old := &l.set
	if old.Policy != set.Policy || !maps.Equal(old.Weights, set.Weights) || !maps.Equal(old.Accounts, set.Accounts) || !slices.Equal(old.FIFO, set.FIFO) {
		l.warm, l.dirty = Warm{}, true
	}
	if old.Table != set.Table || old.Knowledge != set.Knowledge ||
		!maps.Equal(old.Speeds.Types, set.Speeds.Types) || !maps.Equal(old.Speeds.Formerly, set.Speeds.Formerly) {
		clear(l.profiles)
		for _, e := range l.jobs.All() {
			e.profile = nil
		}
		l.members = true // types may have other names
	}
	if !slices.Equal(old.Ranking.Partitions, set.Ranking.Partitions) {
		l.seenNodes = nil // others count now
	}
	l.set = set
}
