package plan

import "fmt"

// Note is what an operator should know about a whole plan. Metrics count by its kind, for
// its text names jobs, nodes and users' words.
type Note struct {
	Kind NoteKind
	Of   int // how many jobs, writes, nodes or GPU types it is about
	Text string
}

// String is the text.
func (n Note) String() string { return n.Text }

// MarshalText makes JSON hold the text alone.
func (n Note) MarshalText() ([]byte, error) { return []byte(n.Text), nil }

// NoteKind is what a note is about, in a word.
type NoteKind string

// What plans note: limits that hold something back.
const (
	WritesPerCycle NoteKind = "writes-per-cycle" // of order.Constants
	SteeringWrites NoteKind = "steering-writes"  // of steer.Constants
	LocalityWrites NoteKind = "locality-writes"  // of locality.Constants
	ShareWrites    NoteKind = "share-writes"     // of guarantee.Constants
	TESteps        NoteKind = "te-steps"         // the band holds fewer places than TE jobs wait
	ShareSteps     NoteKind = "share-steps"      // the same of the order by allocation
	NodeKinds      NoteKind = "node-kinds"       // nodes of more kinds than placement tells apart
	FailuresUnseen NoteKind = "failures-unseen"  // more jobs ended than failures are looked for in
)

// What plans note: what a feature lacks.
const (
	NoGPUTypes       NoteKind = "no-gpu-types"      // nothing is allocated
	AllocationFailed NoteKind = "allocation-failed" // the last one stays
	TypesBarred      NoteKind = "types-barred"      // no job is steered to these GPU types
	NodesUnlabelled  NoteKind = "nodes-unlabelled"  // steered jobs do not run there
	SteeringUnread   NoteKind = "steering-unread"
	SizesUnread      NoteKind = "sizes-unread"
	LocalityUnread   NoteKind = "locality-unread"
	NoSwitches       NoteKind = "no-switches" // Slurm knows no tree of them
	HeadroomRefused  NoteKind = "headroom-refused"
	RecordsUnread    NoteKind = "records-unread"  // nodes, jobs, partitions
	EvictedInVain    NoteKind = "evicted-in-vain" // the place was free, and the job did not start

	IdleTogether NoteKind = "idle-together" // nothing is done about jobs of several users that stopped together
	IdleUnread   NoteKind = "idle-unread"   // a source of what jobs do

	TrialBlock NoteKind = "trial"       // which block of a trial it is
	TrialHarms NoteKind = "trial-harms" // it has ended by a bound of the operator

	HistoryUnrecorded NoteKind = "history-unrecorded" // the database cannot be written
)

// ForeignValues is noted of jobs that carry a value of another origin.
const ForeignValues NoteKind = "foreign-value"

// NoteKinds are all of them.
var NoteKinds = []NoteKind{
	WritesPerCycle, SteeringWrites, LocalityWrites, ShareWrites, TESteps, ShareSteps, NodeKinds, FailuresUnseen,
	NoGPUTypes, AllocationFailed, TypesBarred, NodesUnlabelled, SteeringUnread, SizesUnread, LocalityUnread, NoSwitches, HeadroomRefused, RecordsUnread, EvictedInVain, IdleTogether, IdleUnread, TrialBlock, TrialHarms, HistoryUnrecorded,
	ForeignValues,
}

// ForCheck reports whether a kind is of the site as it is set up, not of a cycle: priod check says it, lists of jobs do not.
func (k NoteKind) ForCheck() bool { return k == NoSwitches || k == ShareSteps }

// Note adds a note about so many jobs, writes, nodes or GPU types.
func (p *Plan) Note(kind NoteKind, of int, format string, args ...any) {
	p.Notes = append(p.Notes, Note{kind, of, fmt.Sprintf(format, args...)})
}
