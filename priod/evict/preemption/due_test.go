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

// One that may lie on several nodes does where each has a job that stays, or where fewer GPUs leave for that; else on one.
func TestDueInParts(t *testing.T) {
	stays := func() Candidate { c := job(4, 0); c.Stays = NoConsent; return c }
	for name, c := range map[string]struct {
		s       Snapshot
		victims []int
		nodes   int
	}{
		"a job that stays on each": {two(8, stays(), stays(), job(2, 0), job(2, 0)), []int{2, 3, 4}, 2},
		"one node":                 {two(8, job(8, 0), stays(), job(4, 0)), []int{0}, 1},
	} {
		if name == "a job that stays on each" {
			beside := job(4, 0)
			c.s.Candidates = append(c.s.Candidates, beside)
			c.s.Nodes.Take(beside.Shares)
		}
		c.s.Claimants[0].Due = true
		set := Settings{Policy: LeastLoss, Spare: 3600}
		one := Decide(&c.s, set).Verdicts[0]
		c.s.Claimants[0].Spreads = true
		v := Decide(&c.s, set).Verdicts[0]
		if !slices.Equal(v.Victims, c.victims) || len(v.Shares) != c.nodes || (one.Why == Evicts) != (c.nodes == 1) {
			t.Errorf("%s: %+v, on one node %+v", name, v, one)
		}
	}
	// 4 GPUs: of 6 that one job holds on the first node, or of 2 and 2.
	six := stays()
	six.Shares[0].GPUs = 6
	s := two(4, job(6, 0), six, job(2, 0))
	beside := job(2, 0)
	s.Candidates = append(s.Candidates, beside)
	s.Nodes.Take(beside.Shares)
	s.Claimants[0].Due, s.Claimants[0].Spreads = true, true
	if v := Decide(&s, Settings{Policy: LeastLoss, Spare: 3600}).Verdicts[0]; !slices.Equal(v.Victims, []int{2, 3}) {
		t.Errorf("fewer GPUs: %+v", v)
	}
}
