package guarantee

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// look is one cycle of a scene.
func (s *scene) look() {
	f := &Feature{Settings: s.set, Memory: s.memory}
	f.Classify(&s.Snapshot, s.h)
}

func (s *scene) find(id uint32) *cluster.Job {
	for i := range s.Jobs {
		if s.Jobs[i].ID == slurmplug.Plain(id) {
			return &s.Jobs[i]
		}
	}
	return nil
}

func (s *scene) begin(id uint32, after time.Duration) {
	j := s.find(id)
	j.State, j.Start, j.NodeList, j.Reason = cluster.Running, s.At.Add(after), "n1", "None"
}

// told is a return in a line.
func told(all []Return) (lines []string) {
	for _, r := range all {
		became := "waits"
		if !r.Until.IsZero() {
			became = fmt.Sprintf("until +%s", r.Until.Sub(now))
		}
		if r.Started {
			became = fmt.Sprintf("started +%s", r.Until.Sub(now))
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s %g GPUs x%d since +%s %s %s", r.Job, r.Account, r.User, r.GPUs, r.Tasks, r.Since.Sub(now), became, r.Why)))
	}
	return lines
}

// Over random clusters, shares of types and partitions, jobs and times, as long as jobs hold no more GPUs than there are: what
// an account uses of its shares, what others use and what is idle are the shares; nothing is below 0; what is wanted is idle;
// accounts use what their jobs hold, and no more is lent than is borrowed by jobs beyond shares.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newScene(rapid.IntRange(1, 8).Draw(t, "nodes"))
		for i := range s.Nodes {
			s.Nodes[i].GPUType = rapid.SampledFrom([]string{"a100", "v100"}).Draw(t, "type")
			s.Nodes[i].Usable = rapid.IntRange(0, 6).Draw(t, "up") > 0
		}
		s.set.Shares = []Share{
			{Account: "a", GPUs: rapid.IntRange(1, 8).Draw(t, "a"), ReturnWithin: time.Minute},
			{Account: "b", Part: rapid.Float64Range(0.1, 0.5).Draw(t, "b"), GPUType: "a100", ReturnWithin: time.Minute},
			{Account: "b", GPUs: rapid.IntRange(1, 4).Draw(t, "b2"), GPUType: "v100", ReturnWithin: time.Minute},
		}
		s.set.Parents = map[string]string{"b1": "b"}
		st := &s.memory.Statement
		begun, held := s.At, map[string]float64{}
		for cycle := range rapid.IntRange(2, 6).Draw(t, "cycles") {
			s.Jobs = s.Jobs[:0]
			id := uint32(100 * cycle)
			for i := range s.Nodes {
				if !s.Nodes[i].Usable {
					continue
				}
				for free := 4; free > 0; {
					gpus := rapid.IntRange(1, free).Draw(t, "gpus")
					free -= gpus
					if account := rapid.SampledFrom([]string{"", "a", "b", "b1", "c"}).Draw(t, "account"); account != "" {
						id++
						s.job(id, account, gpus, false, rapid.SampledFrom([]string{"be", "te", ""}).Draw(t, "kind"), time.Minute).NodeList = s.Nodes[i].Name
					}
				}
			}
			for range rapid.IntRange(0, 4).Draw(t, "waiting") {
				id++
				s.job(id, rapid.SampledFrom([]string{"a", "b1", "c"}).Draw(t, "account"), rapid.IntRange(1, 6).Draw(t, "gpus"), true, "be", time.Minute)
			}
			s.look()
			beyond, lent := 0.0, 0.0
			for _, x := range st.Now() {
				if x.Within < 0 || x.Lent < 0 || x.Wanted < 0 || x.Borrowed < -1e-9 {
					t.Fatalf("below 0: %+v", x)
				}
				if sum := x.Within + x.Lent + x.Idle(); math.Abs(sum-x.Entitled) > 1e-6 {
					t.Fatalf("%s: within, lent and idle are %g of %g", x.Account, sum, x.Entitled)
				}
				if x.Wanted > x.Idle()+1e-6 {
					t.Fatalf("%s: %g are wanted of %g idle", x.Account, x.Wanted, x.Idle())
				}
				used := 0.0
				for i := range s.Jobs {
					if j := &s.Jobs[i]; j.State == cluster.Running && x.accounts[j.Account] {
						used += float64(j.GPUs)
					}
				}
				if math.Abs(x.Within+x.Borrowed-used) > 1e-6 {
					t.Fatalf("%s uses %g, and %g are told", x.Account, used, x.Within+x.Borrowed)
				}
				beyond, lent = beyond+x.Borrowed, lent+x.Lent
				held[x.Account] += used
			}
			for i := range s.Jobs {
				if j := &s.Jobs[i]; j.State == cluster.Running && j.Account == "c" {
					beyond += float64(j.GPUs)
				}
			}
			if lent > beyond+1e-6 {
				t.Fatalf("%g are lent, and %g used beyond shares", lent, beyond)
			}
			s.At = s.At.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "seconds")) * time.Second)
		}
		s.Jobs = nil
		s.look()
		hours := st.Take().Hours
		sum := map[string]float64{}
		for _, h := range hours {
			if h.At.Minute() != 0 || h.At.Before(begun.Truncate(time.Hour)) {
				t.Fatalf("an hour of %s", h.At)
			}
			sum[h.Account] += h.Entitled - h.Within - h.Lent - h.Idle()
		}
		for account, x := range sum {
			if math.Abs(x) > 1e-3 {
				t.Fatalf("hours of %s lack %g GPU-seconds", account, x)
			}
		}
	})
}

// An account without use lends what others hold beyond what no account owns; what then is left is idle, wanted while a job
// within the share waits.
func TestLent(t *testing.T) {
	s := newScene(4, Share{Account: "vision", GPUs: 8}, Share{Account: "chem", GPUs: 4})
	s.job(1, "vision", 2, false, "be", time.Hour)
	s.job(2, "bio", 4, false, "be", time.Hour).NodeList = "n2"
	s.look()
	if now := s.memory.Statement.Now(); now[1].Lent != 0 || now[1].Within != 2 {
		t.Errorf("what no account owns is enough: %+v", now)
	}
	s.job(3, "bio", 5, false, "be", time.Hour).NodeList = "n3"
	s.job(4, "vision", 4, true, "be", time.Minute)
	s.look()
	if hours := s.memory.Statement.Take().Hours; len(hours) > 0 {
		t.Errorf("before the first cycle: %d hours", len(hours))
	}
	want := []Sums{{4, 0, 2, 0, 0}, {8, 2, 3, 3, 0}}
	for i, x := range s.memory.Statement.Now() {
		if x.Sums != want[i] {
			t.Errorf("%s: %+v, want %+v", x.Account, x.Sums, want[i])
		}
	}
	s.Jobs = s.Jobs[:1] // vision beyond its share, on what chem owns
	s.job(5, "vision", 12, false, "be", time.Hour).NodeList = "n[1-3]"
	s.look()
	want = []Sums{{4, 0, 2, 0, 0}, {8, 8, 0, 0, 6}}
	for i, x := range s.memory.Statement.Now() {
		if x.Sums != want[i] {
			t.Errorf("%s: %+v, want %+v", x.Account, x.Sums, want[i])
		}
	}
}

// What a cycle saw counts until the next one, in the hours that lie there, unless that is too late.
func TestHours(t *testing.T) {
	s := newScene(2, Share{Account: "vision", GPUs: 4})
	st := &s.memory.Statement
	st.Gap = 10 * time.Minute
	s.At = now.Add(-time.Minute)
	s.job(1, "vision", 3, false, "be", time.Hour)
	s.look()
	s.At = now.Add(2 * time.Minute)
	s.look()
	s.At = now.Add(time.Hour)
	s.look()
	first := st.Take()
	if len(st.Take().Hours) > 0 {
		t.Error("taken twice")
	}
	s.At = s.At.Add(time.Second)
	s.job(2, "bio", 1, false, "be", time.Hour)
	s.look()
	st.PutBack(first)
	want := []Hour{
		{now.Add(-time.Hour), "vision", []string{"vision"}, 4, Sums{240, 180, 0, 0, 0}},
		{now, "vision", []string{"vision"}, 4, Sums{480, 360, 0, 0, 0}},
		{now.Add(time.Hour), "vision", []string{"vision"}, 4, Sums{4, 3, 0, 0, 0}},
	}
	if diff := cmp.Diff(want, st.Take().Hours); diff != "" {
		t.Error(diff)
	}
}

// A return is from the first cycle at which a job was within its share to its start; it is late once its time is over, and
// says why it still waited then.
func TestReturns(t *testing.T) {
	s := newScene(4, Share{Account: "vision", GPUs: 12})
	st := &s.memory.Statement
	for id := uint32(1); id <= 4; id++ {
		s.job(id, "vision", 4, true, "be", time.Hour) // the fourth is beyond the share
	}
	why := func(id uint32, word string) { st.because(slurmplug.Plain(id), word) }
	s.look()
	if diff := cmp.Diff([]string{"1 vision vision-user 4 GPUs x1 since +0s waits", "2 vision vision-user 4 GPUs x1 since +0s waits", "3 vision vision-user 4 GPUs x1 since +0s waits"}, told(st.Take().Open)); diff != "" {
		t.Error(diff)
	}
	s.begin(1, 7*time.Second)
	s.At = now.Add(time.Minute)
	why(2, "claimed")
	s.look()
	why(2, "no-victims")
	s.At = now.Add(121 * time.Second)
	s.look()
	why(2, "fits") // it is late already
	s.begin(2, 9*time.Second)
	s.Jobs = s.Jobs[:3]
	s.find(3).Reason = "JobHeldUser" // it was late, and is no longer within the share
	s.At = now.Add(140 * time.Second)
	s.look()
	want := []string{"1 vision vision-user 4 GPUs x1 since +0s started +7s", "2 vision vision-user 4 GPUs x1 since +0s started +2m10s no-victims", "3 vision vision-user 4 GPUs x1 since +0s until +2m20s"}
	taken := st.Take()
	if diff := cmp.Diff(want, told(taken.Ended)); diff != "" {
		t.Error(diff)
	}
	if len(taken.Open) > 0 {
		t.Errorf("%+v", told(taken.Open))
	}
	news := st.News()
	if len(news.Started) != 2 || len(news.Late) != 2 {
		t.Errorf("%v started, %v late", told(news.Started), told(news.Late))
	}
	if news = st.News(); len(news.Started)+len(news.Late) > 0 {
		t.Error("told twice")
	}
	s.set.Shares = nil
	s.find(3).Reason = "Resources"
	s.look()
	if now := st.Now(); len(now) > 0 {
		t.Errorf("no share any more: %+v", now)
	}
}

// A job that starts after its time, and whose start the first look after that shows, is late.
func TestLateBetweenTwoLooks(t *testing.T) {
	s := newScene(4, Share{Account: "vision", GPUs: 8})
	s.job(1, "vision", 4, true, "be", time.Hour)
	s.look()
	s.memory.Statement.because(slurmplug.Plain(1), Paused)
	s.begin(1, 3*time.Minute)
	s.At = now.Add(4 * time.Minute)
	s.look()
	if late := told(s.memory.Statement.News().Late); len(late) != 1 || !strings.HasSuffix(late[0], "started +3m0s paused") {
		t.Errorf("%v", late)
	}
}

// Each task of an array has a clock of its own, from when it was within the share: with the array, or in a record of its own.
func TestReturnsOfArrays(t *testing.T) {
	s := newScene(4, Share{Account: "vision", GPUs: 8})
	st := &s.memory.Statement
	j := s.job(9, "vision", 2, true, "be", time.Hour)
	j.Tasks, j.TaskCount = "0-9", 10
	s.look()
	if diff := cmp.Diff([]string{"9 vision vision-user 2 GPUs x4 since +0s waits"}, told(st.Take().Open)); diff != "" {
		t.Error(diff)
	}
	task := func(n int) cluster.JobID { return cluster.JobID{ID: 9, Task: int32(n)} }
	s.At = now.Add(10 * time.Second)
	for n := range 3 {
		x := *s.find(9)
		x.ID, x.RawID, x.Tasks, x.TaskCount = task(n), uint32(20+n), "", 1
		if n < 2 {
			x.State, x.Start, x.NodeList = cluster.Running, now.Add(time.Duration(n+3)*time.Second), "n1"
		}
		s.Jobs = append(s.Jobs, x)
	}
	s.find(9).Tasks, s.find(9).TaskCount = "3-9", 7
	s.look()
	for range 2 { // the same is not told again
		s.At = s.At.Add(10 * time.Second)
		s.look()
	}
	taken := st.Take()
	want := []string{"9_0 vision vision-user 2 GPUs x1 since +0s started +3s", "9_1 vision vision-user 2 GPUs x1 since +0s started +4s"}
	if diff := cmp.Diff(want, told(taken.Ended)); diff != "" {
		t.Error(diff)
	}
	if open := told(taken.Open); len(open) != 2 || open[0] != "9 vision vision-user 2 GPUs x1 since +0s waits" || open[1] != "9_2 vision vision-user 2 GPUs x1 since +0s waits" {
		t.Errorf("%q", open)
	}
}

// What an earlier process saw wait goes on, and is not late twice.
func TestReturnsAfterARestart(t *testing.T) {
	s := newScene(4, Share{Account: "vision", GPUs: 8})
	since := now.Add(-time.Hour)
	r := Return{Job: slurmplug.Plain(1), Account: "vision", User: "vision-user", GPUs: 4, Tasks: 1, Since: since, Promise: 2 * time.Minute, Why: "claimed"}
	gone := r
	gone.Job, gone.Since = slurmplug.Plain(2), now.Add(-time.Minute)
	st := &s.memory.Statement
	st.Restore([]Return{r, gone}, now.Add(-time.Second))
	s.job(1, "vision", 4, true, "be", time.Hour)
	s.look()
	if late := st.News().Late; len(late) > 0 {
		t.Errorf("%v", told(late))
	}
	s.begin(1, 5*time.Second)
	s.At = now.Add(10 * time.Second)
	s.look()
	if diff := cmp.Diff([]string{"1 vision vision-user 4 GPUs x1 since +-1h0m0s started +5s claimed"}, told(st.Take().Ended)); diff != "" {
		t.Error(diff)
	}
}

// A job that was entitled before a restart has its place before one that comes first in the queue.
func TestEntitledAfterARestart(t *testing.T) {
	s := newScene(4, Share{Account: "vision", GPUs: 4})
	since := now.Add(-time.Hour)
	s.memory.Restore([]Return{{Job: slurmplug.Plain(2), Account: "vision", Tasks: 1, Since: since, Promise: 2 * time.Minute}}, now)
	s.job(1, "vision", 4, true, "be", time.Hour)
	s.job(2, "vision", 4, true, "be", time.Hour)
	f := &Feature{Settings: s.set, Memory: s.memory}
	f.Classify(&s.Snapshot, s.h)
	if first, second := s.Jobs[0], s.Jobs[1]; first.Right == cluster.Entitled || second.Right != cluster.Entitled || !second.EntitledSince.Equal(since) {
		t.Errorf("%s, %s since %s", first.Right, second.Right, second.EntitledSince)
	}
}

// What cannot be stored is kept up to a limit, the last of it.
func TestReturnsThatCannotBeStored(t *testing.T) {
	var st Statement
	st.PutBack(&Taken{Ended: make([]Return, mostEnded)})
	st.PutBack(&Taken{Ended: []Return{{GPUs: 1}}})
	if n := len(st.Take().Ended); n != mostEnded {
		t.Errorf("%d returns are kept", n)
	}
}

// Why a job waits is what evictions say of it, but for a pause, for a better GPU type, and for nodes of the share that are down.
func TestWhyLate(t *testing.T) {
	for name, c := range map[string]struct {
		down, claims bool
		paused       string
		steer        string
		says, want   string
	}{
		"evictions":           {says: "no-victims", want: "no-victims"},
		"not looked at":       {},
		"paused":              {says: "claimed", paused: "paused by ann", want: Paused},
		"nodes down":          {says: "no-victims", down: true, want: Down},
		"a better type":       {says: "no-victims", down: true, steer: "waits", want: GPUType},
		"its type":            {says: "no-victims", steer: "starts", want: "no-victims"},
		"nodes down, claimed": {says: "claimed", claims: true, down: true, want: "claimed"},
	} {
		s := newScene(4, Share{Account: "vision", GPUs: 12})
		j := s.job(1, "vision", 4, true, "be", time.Hour)
		s.Nodes[0].Usable = !c.down
		f := &Feature{Settings: s.set, Memory: s.memory}
		f.Classify(&s.Snapshot, s.h)
		s.h.Claiming = map[cluster.JobID]bool{j.ID: c.claims}
		d := plan.Decision{Job: j.ID}
		if c.says != "" {
			d.Choices.Eviction = &plan.EvictionChoice{Why: c.says}
		}
		if c.steer != "" {
			d.Choices.GPUType = &plan.GPUTypeChoice{Why: c.steer, GPUType: "a100"}
		}
		if err := f.Plan(t.Context(), &plan.Cycle{Snapshot: &s.Snapshot, History: s.h, Paused: c.paused, Plan: &plan.Plan{Decisions: []plan.Decision{d}}}); err != nil {
			t.Fatal(err)
		}
		s.At = now.Add(3 * time.Minute)
		f.Classify(&s.Snapshot, s.h)
		if late := s.memory.Statement.News().Late; len(late) != 1 || late[0].Why != c.want {
			t.Errorf("%s: %+v", name, late)
		}
	}
}
