package cluster

import (
	"testing"
	"time"

	"slurmprio/slurmplug"
)

// An array that waits unsplit stands for the task that starts next, any other record
// for its own job; each cycle asks that of the whole queue, so it costs those nothing.
func TestFirstTask(t *testing.T) {
	for _, c := range []struct {
		id    JobID
		tasks string
		want  string
	}{
		{slurmplug.Plain(7), "", "7"},
		{JobID{ID: 7, Task: 3}, "", "7_3"},
		{slurmplug.Plain(7), "5-9:2%1", "7_5"},
		{slurmplug.Plain(7), "9", "7_9"},
		{slurmplug.Plain(7), "odd", "7"},
	} {
		j := Job{ID: c.id, Tasks: c.tasks}
		if got := j.FirstTask().String(); got != c.want {
			t.Errorf("%s of tasks %q: %s, want %s", c.id, c.tasks, got, c.want)
		}
		if n := testing.AllocsPerRun(10, func() { j.FirstTask() }); c.tasks == "" && n > 0 {
			t.Errorf("%s: %v allocations", c.id, n)
		}
	}
}

func TestSameUser(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"ann", "ann", true}, {"ann", "bob", false}, {"ann", "nobody", true}, {"1001", "ann", true},
		{"1001", "1002", true}, {"ann1", "ann", false}, {"", "ann", false}, {"-1", "ann", false},
	} {
		if SameUser(c.a, c.b) != c.same || SameUser(c.b, c.a) != c.same {
			t.Errorf("%q and %q: want %v", c.a, c.b, c.same)
		}
	}
}

// What allocation keeps of a request has no account and no QOS: partitions that admit some alone still count.
func TestPartitionsOfUnknownAccount(t *testing.T) {
	all := (&Snapshot{Partitions: []Partition{{Name: "a"}, {Name: "b", Accounts: []string{"physics"}, QOS: []string{"normal"}}}}).PartitionsByName()
	for account, want := range map[string]string{"": "a,b", "physics": "a,b", "biology": "a"} {
		j := Job{Account: account, QOS: map[bool]string{true: "normal"}[account != ""], Nodes: 1}
		if got := all.Starting("a,b", &j); got != want {
			t.Errorf("account %q: %s, want %s", account, got, want)
		}
	}
}

// Slurm's reason of a job in several partitions is of one of them: where another one admits the job, room is what it waits for.
func TestElsewhere(t *testing.T) {
	all := (&Snapshot{Partitions: []Partition{
		{Name: "open"}, {Name: "down", Closed: "DOWN"}, {Name: "short", MaxTime: time.Hour}, {Name: "vision", Accounts: []string{"vision"}}, {Name: "night", QOS: []string{"night"}},
	}}).PartitionsByName()
	for _, c := range []struct {
		partitions, reason string
		elsewhere          bool
	}{
		{"open,down", "PartitionDown", true}, {"down,open", "PartitionInactive", true}, {"down", "PartitionDown", false}, {"down,short", "PartitionDown", false},
		{"short,open", "PartitionTimeLimit", true}, {"short,vision", "PartitionTimeLimit", false}, {"open,gone", "PartitionConfig", true},
		{"vision,open", "Job's account not permitted to use this partition (vision allows vision not physics)", true},
		{"night,open", "Job's_QOS_not_permitted_to_use_this_partition_(night_allows_night_not_normal)", true},
		{"night,vision", "Job's QOS not permitted to use this partition (night allows night not normal)", false},
		{"open,short", "QOSMaxGRESPerUser", false}, {"open,short", "Dependency", false}, {"open,short", "JobHeldUser", false},
	} {
		j := Job{Partition: c.partitions, Reason: c.reason, State: Pending, TimeLimit: 2 * time.Hour, Account: "physics", QOS: "normal", Nodes: 1}
		j.Elsewhere = all.Elsewhere(&j)
		if j.Elsewhere != c.elsewhere || j.WantsRoom() != c.elsewhere {
			t.Errorf("%s, %s: elsewhere %v, wants room %v", c.partitions, c.reason, j.Elsewhere, j.WantsRoom())
		}
	}
}
