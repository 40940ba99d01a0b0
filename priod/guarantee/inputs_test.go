package guarantee

import (
	"fmt"
	"testing"
	"time"

	"slurmprio/priod/cluster"
)

// What sites and users do that no rule was made for.
func TestBadInputs(t *testing.T) {
	owns := func(gpus int) Share { return Share{Account: "vision", GPUs: gpus} }
	checkRights(t, map[string]rightsCase{
		"a share that shrank below what runs": {newScene(4, owns(4)), func(s *scene) {
			s.job(1, "vision", 4, false, "", 2*time.Hour)
			s.job(2, "vision", 4, false, "", time.Hour)
			s.job(3, "vision", 4, false, "be", 3*time.Hour)
			s.job(4, "vision", 4, true, "be", time.Minute)
		}, "[entitled borrows borrows borrows]"},
		"an account below that moved to another one": {newScene(4, owns(8), Share{Account: "chem", GPUs: 8}), func(s *scene) {
			s.set.Parents = map[string]string{"robots": "chem"}
			s.job(1, "robots", 8, false, "be", time.Hour)
			s.job(2, "vision", 8, true, "be", time.Minute)
			s.job(3, "chem", 4, true, "be", time.Minute)
		}, "[entitled entitled borrows]"},
		"all within their shares while a node is down": {newScene(4, owns(8), Share{Account: "chem", GPUs: 8}), func(s *scene) {
			s.Nodes[3].Usable = false
			s.job(1, "vision", 4, false, "be", time.Hour)
			s.job(2, "vision", 4, true, "be", time.Minute) // 6 of 8 are its own now
			s.job(3, "vision", 2, true, "be", time.Minute)
			s.job(4, "chem", 6, true, "be", time.Minute)
			s.job(5, "chem", 2, true, "be", time.Minute)
		}, "[entitled borrows entitled entitled borrows]"},
		"no node in service": {newScene(2, owns(8)), func(s *scene) {
			s.Nodes[0].Usable, s.Nodes[1].Usable = false, false
			s.job(1, "vision", 4, true, "be", time.Minute)
			s.job(2, "vision", 4, true, "", time.Minute)
		}, "[borrows withheld]"},
		"no node at all": {newScene(0, owns(8), Share{Account: "chem", Part: 0.5}), func(s *scene) {
			s.job(1, "vision", 4, true, "be", time.Minute)
			s.job(2, "chem", 4, true, "", time.Minute)
		}, "[borrows withheld]"},
		"no job that may borrow": {newScene(2, owns(8)), func(s *scene) {
			s.job(1, "chem", 4, true, "", time.Minute)
			s.job(2, "bio", 4, true, "", time.Minute)
		}, "[withheld withheld]"},
		"a type that its owner has all of, and another that no account owns": {newScene(4, Share{Account: "vision", GPUs: 8, GPUType: "t4"}), func(s *scene) {
			for i := range 2 {
				s.Nodes[i].GPUType, s.Nodes[i].Features = "t4", []string{"t4"}
			}
			s.job(1, "chem", 4, true, "", time.Minute).GPUType = "t4"
			s.job(2, "chem", 4, true, "", time.Minute).Features = "t4"
			s.job(3, "chem", 8, true, "", time.Minute).GPUType = "a100"
			s.job(4, "chem", 4, true, "", time.Minute).GPUType = "a100"
		}, "[withheld withheld borrows withheld]"},
		"shares of any type that together own all": {newScene(4, owns(8), Share{Account: "bio", GPUs: 8}), func(s *scene) {
			s.Nodes[0].GPUType = "t4"
			s.job(1, "chem", 4, true, "", time.Minute).GPUType = "t4"
		}, "[withheld]"},
		"a job that stays where another account's share lies": {newScene(4, Share{Account: "vision", GPUs: 4, GPUType: "t4"}), func(s *scene) {
			s.Nodes[0].GPUType, s.Nodes[1].GPUType = "t4", "t4"
			s.job(1, "chem", 4, false, "", time.Hour) // on n1
			s.job(2, "bio", 4, true, "", time.Minute).GPUType = "t4"
		}, "[borrows withheld]"},
	})
}

// A user with two accounts who moves jobs from one to the other (scontrol update Account) gains no more than both shares hold,
// and takes no entitlement along.
func TestJobsThatMoveBetweenAccounts(t *testing.T) {
	s := newScene(4, Share{Account: "vision", GPUs: 4}, Share{Account: "chem", GPUs: 4})
	for i := range uint32(4) {
		s.job(i+1, "vision", 4, true, "be", time.Minute)
	}
	step := func(want string) {
		t.Helper()
		got, _ := s.rights()
		for i := range s.Jobs {
			s.Jobs[i].Right = cluster.NoShares
			if got[i] == cluster.Entitled.String() {
				s.Jobs[i].Right = cluster.Entitled
			}
		}
		s.memory.entitle(&s.Snapshot)
		if fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
		s.At = s.At.Add(10 * time.Second)
	}
	step("[entitled borrows borrows borrows]")
	s.Jobs[0].Account = "chem" // it stays entitled, in the other share
	step("[entitled entitled borrows borrows]")
	s.Jobs[1].Account = "chem" // whose share the first has
	step("[entitled borrows entitled borrows]")
	s.Jobs[0].Account, s.Jobs[1].Account = "vision", "bio"
	step("[borrows borrows entitled borrows]")
}

// The tasks of an array that run within its account's share do not leave for those that wait.
func TestArrayEvictsNoneOfItsOwn(t *testing.T) {
	s := newScene(4, Share{Account: "vision", GPUs: 8})
	array := s.job(1, "vision", 1, true, "be", time.Hour)
	array.Tasks, array.TaskCount = "0-4999", 5000
	for cycle := range 2 {
		rights, _ := s.rights()
		for i, right := range rights {
			if runs := i > 0; runs && right != "entitled" || !runs && right != []string{"entitled", "borrows"}[cycle] {
				t.Errorf("cycle %d, job %s: %s", cycle, s.Jobs[i].ID, right)
			}
		}
		s.Jobs[0].Right = cluster.Entitled
		s.memory.entitle(&s.Snapshot)
		if s.At = s.At.Add(10 * time.Second); cycle > 0 {
			continue
		}
		for task := range int32(8) {
			j := s.job(uint32(2+task), "vision", 1, false, "be", 0)
			j.ID, j.Start = cluster.JobID{ID: 1, Task: task}, s.At
		}
		s.Jobs[0].Tasks, s.Jobs[0].TaskCount = "8-4999", 4992
	}
}

// Of an array as many tasks may start as have a right to; once these have records of their own, the others wait.
func TestArraysInPart(t *testing.T) {
	for name, c := range map[string]struct {
		owned, first int
		account      string
		want         string
	}{
		"entitled":             {16, 0, "vision", "entitled 9, entitled 0"},
		"some are":             {4, 0, "vision", "entitled 4, borrows 0"},
		"what no account owns": {13, 0, "chem", "borrows 3, withheld 0"},
		"in place of others":   {16, 14, "vision", "entitled 2, within 0"},
	} {
		s := newScene(4, Share{Account: "vision", GPUs: c.owned})
		if c.first > 0 {
			s.job(1, "vision", c.first, false, "be", time.Hour)
		}
		array := s.job(9, c.account, 1, true, "", time.Minute)
		array.Tasks, array.TaskCount = "0-9", 10
		at := len(s.Jobs) - 1
		f := &Feature{Settings: s.set, Memory: s.memory}
		f.Classify(&s.Snapshot, s.h)
		first := s.Jobs[at]
		for task := range first.RightTasks {
			j := first
			j.ID, j.Tasks, j.TaskCount = cluster.JobID{ID: 9, Task: int32(task)}, "", 1
			s.Jobs = append(s.Jobs, j)
		}
		s.Jobs[at].Tasks, s.Jobs[at].TaskCount = fmt.Sprintf("%d-9", first.RightTasks), 10-first.RightTasks
		f.Classify(&s.Snapshot, s.h)
		for _, j := range s.Jobs[at+1:] {
			if j.Right != first.Right {
				t.Errorf("%s: task %s: %s", name, j.ID, j.Right)
			}
		}
		if rest := s.Jobs[at]; fmt.Sprintf("%s %d, %s %d", first.Right, first.RightTasks, rest.Right, rest.RightTasks) != c.want {
			t.Errorf("%s: %s %d, %s %d, want %s", name, first.Right, first.RightTasks, rest.Right, rest.RightTasks, c.want)
		}
	}
}
