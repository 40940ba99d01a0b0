package guarantee

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// scene is a cluster of nodes of 4 GPUs, and its jobs.
type scene struct {
	cluster.Snapshot
	h      *cluster.History
	memory *Memory
	set    Settings

	decisions []plan.Decision // of the last cycle
}

func newScene(nodes int, shares ...Share) *scene {
	s := &scene{Snapshot: cluster.Snapshot{At: now}, h: cluster.NewHistory(), memory: &Memory{}}
	for i := range nodes {
		s.Nodes = append(s.Nodes, cluster.Node{Name: fmt.Sprintf("n%d", i+1), Usable: true, GPUType: "a100", GPUs: 4, CPUs: 64, MemMB: 400_000, Partitions: []string{"gpu"}})
	}
	for i := range shares {
		if shares[i].ReturnWithin == 0 {
			shares[i].ReturnWithin = 2 * time.Minute
		}
	}
	s.set = Settings{
		Shares: shares, Lend: Returnable, After: 24 * time.Hour, Ahead: Constants.Ahead,
		Leaves: func(j *cluster.Job) (time.Duration, bool) { return j.Tag.Grace, j.Tag.Type == "be" },
		Trial:  func(j *cluster.Job) bool { return j.Tag.Type == "te" },
	}
	return s
}

// job adds a job of an account; what says the rest: "runs", "waits"; then its type.
func (s *scene) job(id uint32, account string, gpus int, waits bool, kind string, age time.Duration) *cluster.Job {
	j := cluster.Job{
		ID: slurmplug.Plain(id), RawID: id, TaskCount: 1, User: account + "-user", Account: account, Partition: "gpu", GPUs: gpus, Nodes: 1, CPUs: gpus,
		TimeLimit: 48 * time.Hour, Tag: jobtag.Tag{Type: kind}, State: cluster.Running, NodeList: "n1", Start: now.Add(-age),
	}
	if kind == "be" {
		j.Tag.Grace = time.Minute
	}
	if waits {
		j.State, j.NodeList, j.Start, j.Reason, j.Priority = cluster.Pending, "", time.Time{}, "Resources", int64(1_000_000-id)
		s.h.FirstEligible.Set(j.ID, now.Add(-age))
	}
	s.Jobs = append(s.Jobs, j)
	return &s.Jobs[len(s.Jobs)-1]
}

func (s *scene) rights() (all []string, r Result) {
	r = Decide(&s.Snapshot, s.h, &s.set, s.memory)
	for i := range r.Jobs {
		all = append(all, r.Jobs[i].Right.String())
	}
	return all, r
}

// rightsCase are the rights of jobs that come into a scene, as fmt prints them.
type rightsCase struct {
	scene *scene
	come  func(s *scene)
	want  string
}

func checkRights(t *testing.T, cases map[string]rightsCase) {
	for name, c := range cases {
		c.come(c.scene)
		if got, _ := c.scene.rights(); fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

func TestRights(t *testing.T) {
	owns := func(gpus int) Share { return Share{Account: "vision", GPUs: gpus} }
	checkRights(t, map[string]rightsCase{
		"no shares": {newScene(2), func(s *scene) {
			s.job(1, "vision", 4, true, "be", 0)
		}, "[]"},
		"within and beyond, by start": {newScene(4, owns(8)), func(s *scene) {
			s.job(1, "vision", 4, false, "be", time.Minute)
			s.job(2, "vision", 4, false, "be", time.Hour)
			s.job(3, "vision", 4, false, "be", 2*time.Hour)
		}, "[borrows entitled entitled]"},
		"those that do not agree to leave first": {newScene(4, owns(8)), func(s *scene) {
			s.job(1, "vision", 8, false, "", time.Minute)
			s.job(2, "vision", 4, false, "be", time.Hour)
		}, "[entitled borrows]"},
		"a job larger than the share": {newScene(4, owns(8)), func(s *scene) {
			s.job(1, "vision", 12, true, "be", time.Minute)
			s.job(2, "vision", 8, true, "be", time.Minute)
		}, "[borrows entitled]"},
		"guests": {newScene(4, owns(16)), func(s *scene) {
			s.job(1, "chem", 4, true, "be", time.Minute)
			s.job(2, "chem", 4, true, "te", time.Minute)
			s.job(3, "chem", 4, true, "", time.Minute)
			s.job(4, "chem", 4, true, "", 25*time.Hour)
			s.job(5, "chem", 4, true, "", time.Minute).TimeLimit = time.Minute
			s.job(6, "chem", 4, true, "be", time.Minute).Tag.Grace = time.Hour
		}, "[borrows borrows withheld borrows borrows withheld]"},
		"what no account owns is for all": {newScene(4, owns(8)), func(s *scene) {
			s.job(1, "chem", 4, false, "", time.Minute)
			s.job(2, "chem", 4, true, "", time.Minute)
			s.job(3, "chem", 4, true, "", time.Minute)
		}, "[borrows borrows withheld]"},
		"a job that stays takes the place of the account's own that leaves": {newScene(2, owns(8)), func(s *scene) {
			s.job(1, "vision", 8, false, "be", time.Hour)
			s.job(2, "vision", 4, true, "", time.Minute)
			s.job(3, "vision", 8, true, "", time.Minute)
		}, "[entitled within withheld]"},
		"nodes out of service": {newScene(4, owns(16)), func(s *scene) {
			s.Nodes[3].Usable = false
			s.job(1, "vision", 12, false, "be", time.Hour)
			s.job(2, "vision", 4, true, "be", time.Hour)
		}, "[entitled borrows]"},
		"another type than the share's": {newScene(4, Share{Account: "vision", GPUs: 8, GPUType: "v100"}), func(s *scene) {
			s.Nodes[1].GPUType = "v100"
			s.job(1, "vision", 4, false, "be", time.Hour) // on n1
			s.job(2, "vision", 4, true, "be", time.Hour).GPUType = "a100"
			s.job(3, "vision", 4, true, "be", time.Hour).GPUType = "v100"
		}, "[borrows borrows entitled]"},
		"an account below it": {newScene(4, owns(8)), func(s *scene) {
			s.set.Parents = map[string]string{"robots": "vision", "vision": "root", "loop": "pool", "pool": "loop"}
			s.job(1, "robots", 4, true, "", time.Hour)
			s.job(2, "loop", 4, true, "be", time.Hour)
		}, "[entitled borrows]"},
		"waits for something else": {newScene(4, owns(16)), func(s *scene) {
			s.job(1, "vision", 4, true, "be", time.Hour).Reason = "JobHeldUser"
			s.job(2, "vision", 4, true, "be", time.Hour).Reason = "BeginTime"
			s.job(3, "vision", 4, true, "be", time.Hour).Reason = "AssocGrpGRES"
		}, "[  ]"},
		"all": {newScene(4, owns(16)), func(s *scene) {
			s.set.Lend = All
			s.job(1, "chem", 4, true, "", time.Minute)
		}, "[borrows]"},
		"none": {newScene(4, owns(16)), func(s *scene) {
			s.set.Lend = None
			s.job(1, "chem", 4, true, "be", time.Minute)
		}, "[withheld]"},
		"the whole node is charged": {newScene(4, owns(4)), func(s *scene) {
			j := s.job(1, "vision", 1, true, "be", time.Minute)
			j.Whole = true
			s.job(2, "vision", 1, true, "be", time.Minute)
		}, "[entitled borrows]"},
	})
}

// An owner who submits 5,000 jobs at once has as many entitled as the share holds.
func TestFiveThousandAtOnce(t *testing.T) {
	s := newScene(10, Share{Account: "vision", Part: 0.5})
	for i := range uint32(5000) {
		s.job(i+1, "vision", 1, true, "be", time.Minute)
	}
	entitled := 0
	rights, r := s.rights()
	for _, right := range rights {
		if right == "entitled" {
			entitled++
		}
	}
	if entitled != 20 || r.Shares[0].Wanted != 20 || r.Shares[0].Lent() != 0 {
		t.Errorf("%d entitled, %+v", entitled, r.Shares[0])
	}
}

// Over random clusters and accounts: no share promises more than it has; a job that was entitled while it waited stays so,
// whatever else starts; only accounts with a share are entitled; a job is withheld only if it does not agree to leave.
func TestEntitled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		accounts := []string{"a", "b", "c"}
		s := newScene(rapid.IntRange(1, 8).Draw(t, "nodes"), Share{Account: "a", GPUs: rapid.IntRange(1, 12).Draw(t, "a")}, Share{Account: "b", Part: rapid.Float64Range(0.1, 0.6).Draw(t, "b")})
		for i := range s.Nodes {
			s.Nodes[i].Usable = rapid.IntRange(0, 5).Draw(t, "up") > 0
		}
		n := rapid.IntRange(0, 20).Draw(t, "jobs")
		for i := range n {
			s.job(uint32(i+1), rapid.SampledFrom(accounts).Draw(t, "account"), rapid.IntRange(1, 8).Draw(t, "gpus"), rapid.Bool().Draw(t, "waits"),
				rapid.SampledFrom([]string{"be", "te", ""}).Draw(t, "type"), time.Duration(rapid.IntRange(0, 3000).Draw(t, "age"))*time.Minute)
		}
		check := func() Result {
			_, r := s.rights()
			for _, x := range r.Shares {
				if x.Entitled+x.Wanted > x.Owned+1e-3 {
					t.Fatalf("%s owns %v, and has %v entitled and %v promised", x.Share.Name(), x.Owned, x.Entitled, x.Wanted)
				}
			}
			for i, x := range r.Jobs {
				j := &s.Jobs[i]
				switch _, leaves := s.set.Leaves(j); {
				case x.Right == cluster.Entitled && j.Account == "c":
					t.Fatalf("job %s of an account without a share is entitled", j.ID)
				case x.Right == cluster.Withheld && leaves:
					t.Fatalf("job %s agrees to leave, and is withheld", j.ID)
				case (x.Right == cluster.Within || x.Right == cluster.Withheld) && j.State != cluster.Pending:
					t.Fatalf("job %s runs: %s", j.ID, x.Right)
				}
				j.Right = x.Right
			}
			s.memory.entitle(&s.Snapshot)
			return r
		}
		check()
		s.At = s.At.Add(10 * time.Second)
		for i := range s.Jobs { // others start
			if j := &s.Jobs[i]; j.State == cluster.Pending && j.Right != cluster.Entitled && rapid.Bool().Draw(t, "starts") {
				j.State, j.Start, j.NodeList, j.Reason = cluster.Running, s.At, "n1", "None"
			}
		}
		waited := map[int]bool{}
		for i := range s.Jobs {
			waited[i] = s.Jobs[i].State == cluster.Pending && s.Jobs[i].Right == cluster.Entitled
		}
		r := check()
		for i := range s.Jobs {
			if waited[i] && r.Jobs[i].Right != cluster.Entitled {
				t.Fatalf("job %s was entitled, and is %s after others started", s.Jobs[i].ID, r.Jobs[i].Right)
			}
		}
	})
}
