package preemption

import (
	"math"
	"slices"
	"testing"

	"slurmprio/priod/placement"
)

// two are two nodes of 8 GPUs, full of these jobs, of which the first lies on node 0 and the others on node 1, and a claimant for so
// many GPUs.
func two(gpus int32, first Candidate, others ...Candidate) Snapshot {
	node := placement.Node{Amount: placement.Amount{GPUs: 8, CPUs: placement.Plenty, MemMB: placement.Plenty}}
	s := Snapshot{Nodes: placement.New(placement.Packed, []placement.Node{node, node}), Candidates: append([]Candidate{first}, others...)}
	for i := range s.Candidates {
		for k := range s.Candidates[i].Shares {
			if i > 0 {
				s.Candidates[i].Shares[k].Node = 1
			}
		}
		s.Nodes.Take(s.Candidates[i].Shares)
	}
	s.Claimants = []Claimant{{Request: placement.Request{Types: 1, Amount: placement.Amount{GPUs: gpus}}, Start: math.Inf(1)}}
	return s
}

// For a job that is entitled leave jobs of about as many GPUs as it asks for; for another one those that lose least.
func TestDueTakesFewSpareGPUs(t *testing.T) {
	long := job(1, 0)
	long.Unsaved = 1800
	s := two(1, job(8, 1), long, job(7, 1000))
	set := Settings{Policy: LeastLoss, Spare: 3600}
	for due, victim := range map[bool]int{false: 0, true: 1} {
		s.Claimants[0].Due = due
		if v := Decide(&s, set).Verdicts[0]; !slices.Equal(v.Victims, []int{victim}) {
			t.Errorf("due %v: %+v", due, v)
		}
	}
}

// A small entitled job goes where a job stays, for somewhat more loss, and leaves the other node for jobs that want all of it.
func TestDueSplitsNoWholeNode(t *testing.T) {
	stays, dear := job(4, 0), job(4, 0)
	stays.Stays, dear.Unsaved = NoConsent, 1000
	s := two(4, job(4, 0), stays, dear)
	beside := job(4, 0)
	s.Candidates = append(s.Candidates, beside)
	s.Nodes.Take(beside.Shares)
	s.Claimants[0].Due = true
	for left, victims := range map[float64][]int{0: {0, 3}, 0.5: {2}} {
		v := Decide(&s, Settings{Policy: LeastLoss, Spare: 3600, Left: left}).Verdicts[0]
		if len(v.Victims) != 1 || !slices.Contains(victims, v.Victims[0]) {
			t.Errorf("left %v: %+v", left, v)
		}
	}
}

// A job that holds GPUs of others leaves however often it did.
func TestBorrowersLeaveAnyNumberOfTimes(t *testing.T) {
	for borrows, why := range map[bool]Why{false: Impossible, true: Evicts} {
		often := job(8, 0)
		often.Evicted, often.Borrows = 10, borrows
		s := one(1, often)
		if v := Decide(&s, Settings{Policy: LeastLoss, MaxEvictions: 10}).Verdicts[0]; v.Why != why {
			t.Errorf("borrows %v: %+v", borrows, v)
		}
	}
}
