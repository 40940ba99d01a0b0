package slurmplug

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func FuzzRuns(f *testing.F) {
	eachRecording(f, "sacct.out", func(out string) { f.Add([]byte(out)) })
	f.Fuzz(func(t *testing.T, out []byte) {
		runs, err := parseRuns(out, RecordedSeparators)
		if err != nil && runs != nil {
			t.Fatal("runs beside an error")
		}
		for _, r := range runs {
			if r.Unread != "" {
				if r.User != "" || !r.Start.IsZero() {
					t.Fatalf("%+v", r)
				}
				continue
			}
			if r.ID.ID == 0 && r.RawID != 0 || r.State == "" || r.TimeLimit < Unlimited || r.ExitCode < 0 || r.Signal < 0 {
				t.Fatalf("%+v", r)
			}
		}
	})
}

func FuzzNodes(f *testing.F) {
	eachRecording(f, "node.out", func(out string) { f.Add([]byte(out)) })
	f.Fuzz(func(t *testing.T, out []byte) {
		nodes, err := parseNodes(out)
		if (err != nil) != (len(nodes) == 0) {
			t.Fatalf("%d nodes, %v", len(nodes), err)
		}
		var names []string
		for _, n := range nodes {
			if slices.Contains(names, n.Name) || n.Unread == "" && (n.Name == "" || len(n.State) == 0 || n.CPUs < 0 || n.CPUsAlloc < 0 || n.MemMB < 0 || n.MemAllocMB < 0) {
				t.Fatalf("%+v", n)
			}
			names = append(names, n.Name)
		}
	})
}

func FuzzPartitions(f *testing.F) {
	eachRecording(f, "partition.out", func(out string) { f.Add(out) })
	f.Fuzz(func(t *testing.T, out string) {
		all, err := parsePartitions(out, new(table))
		if (err != nil) != (len(all) == 0) || len(all) > strings.Count(out, "\n")+1 {
			t.Fatalf("%d partitions, %v", len(all), err)
		}
		var names []string
		for _, p := range all {
			if p.Name == "" || p.State == "" || slices.Contains(names, p.Name) || p.MaxTime < Unlimited || p.DefaultTime < Unlimited || p.PriorityTier < 0 {
				t.Fatalf("%+v", p)
			}
			names = append(names, p.Name)
		}
	})
}

func FuzzQOS(f *testing.F) {
	eachRecording(f, "qos.out", func(out string) { f.Add(out) })
	f.Fuzz(func(t *testing.T, out string) {
		all, err := parseQOS(out, new(table))
		if err != nil {
			if all != nil {
				t.Fatal("QOS beside an error")
			}
			return
		}
		back, err := parseQOS(strings.Join(append(all, ""), "\n"), new(table))
		if err != nil || !slices.Equal(all, back) {
			t.Fatalf("%+v\nreads back as %+v, %v", all, back, err)
		}
	})
}

func FuzzConfig(f *testing.F) {
	eachRecording(f, "config.out", func(out string) { f.Add(out) })
	// Short: fuzzing finds more in it than in two hundred lines.
	f.Add("SLURM_VERSION = 23.02.6\nClusterName = c\nPriorityWeightTRES = CPU=1.5,Mem=-2\nSlurmUser = slurm(64030)\nMinJobAge = 300 sec\nSlurmctld(primary) at h is UP\n")
	f.Fuzz(func(t *testing.T, out string) {
		c, err := parseConfig(out)
		if err != nil {
			if len(c.values) != 0 {
				t.Fatal("a configuration beside an error")
			}
			return
		}
		weights, err := c.Weights()
		sum, err2 := c.WeightSum()
		if (err == nil) != (err2 == nil) || sum < 0 {
			t.Fatalf("weights %v add up to %d, %v", weights, sum, err2)
		}
		if c.Version() == "" || c.ClusterName() == "" || c.MinJobAge() < 0 || c.AtLeast(23, 2) && !c.AtLeast(22, 5) {
			t.Fatalf("%+v", c.values)
		}
		c.SlurmUser()
		c.RateLimited()
	})
}

func FuzzFactors(f *testing.F) {
	eachRecording(f, "sprio.out", func(out string) { f.Add(out) })
	f.Add("7|100|5|0|1|0|2|3|4|5|cpu=1,mem=-2\n7|200|5|0|1|0|2|3|4|5|\n")
	f.Fuzz(func(t *testing.T, out string) {
		all, err := parseFactors(out)
		if err != nil {
			if all != nil {
				t.Fatal("factors beside an error")
			}
			return
		}
		all = slices.DeleteFunc(all, func(x Factors) bool { return x.Unread != "" })
		if len(all) == 0 {
			return
		}
		var again []byte
		for _, x := range all {
			again = strconv.AppendUint(again, uint64(x.RawID), 10)
			for _, n := range []int64{x.Priority, x.SiteFactor, x.Nice, x.Age, x.Assoc, x.FairShare, x.JobSize, x.Partition, x.QOS} {
				again = strconv.AppendInt(append(again, '|'), n, 10)
			}
			again = append(again, "|\n"...)
		}
		back, err := parseFactors(string(again))
		for i := range all {
			all[i].TRES = 0
		}
		if err != nil || !slices.Equal(all, back) {
			t.Fatalf("%+v\nreads back as %+v, %v", all, back, err)
		}
	})
}

func FuzzDiag(f *testing.F) {
	eachRecording(f, "sdiag.out", func(out string) { f.Add(out) })
	f.Add(quietDiag + "REQUEST_JOB_INFO ( 2003) count:4 ave_time:285 total_time:1140\n")
	f.Fuzz(func(t *testing.T, out string) {
		d, err := parseDiag(out)
		if err == nil && (d.AgentQueue < 0 || d.DBDAgentQueue < 0) {
			t.Fatalf("%+v", d)
		}
	})
}

func FuzzPing(f *testing.F) {
	eachRecording(f, "ping.out", func(out string) { f.Add(out) })
	eachRecording(f, "ping-down.out", func(out string) { f.Add(out) })
	f.Add("Slurmctld(backup1) at h is DOWN\nSlurmctld(x) at y is is UP\n")
	f.Fuzz(func(t *testing.T, out string) {
		all, err := parsePing(out)
		if (err != nil) != (len(all) == 0) {
			t.Fatalf("%+v, %v", all, err)
		}
		var again strings.Builder
		for _, c := range all {
			state := "DOWN"
			if c.Up {
				state = "UP"
			}
			fmt.Fprintf(&again, "Slurmctld(%s) at %s is %s\n", c.Role, c.Host, state)
		}
		if back, err := parsePing(again.String()); all != nil && (err != nil || !slices.Equal(all, back)) {
			t.Fatalf("%+v\nreads back as %+v, %v", all, back, err)
		}
	})
}

// A name in sacctmgr's answer gives nobody else its rights.
func FuzzAdminLevel(f *testing.F) {
	eachRecording(f, "users.out", func(out string) { f.Add(out, "root") })
	f.Add("eve|None\nroot|Administrator\n", "eve")
	f.Fuzz(func(t *testing.T, out, name string) {
		level, err := parseAdminLevel(out, name)
		if level != NoAdmin && (err != nil || !strings.Contains("\n"+out, "\n"+name+"|"+string(level))) {
			t.Fatalf("%q has %s, %v", name, level, err)
		}
	})
}

func FuzzJobID(f *testing.F) {
	for _, s := range []string{"17", "17_4", "0", "4294967295_2147483647", "017", "17_", "1_-1", "１７"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseJobID(s)
		if err != nil {
			return
		}
		back, err := ParseJobID(id.String())
		if err != nil || back != id || id.ID == 0 || id.Task < NoTask || strings.Trim(s, "0123456789_") != "" {
			t.Fatalf("%q is %v, which reads back as %v, %v", s, id, back, err)
		}
		if run, err := runID([]byte(s), id.ID); err != nil || run != id {
			t.Fatalf("%q is %v to sacct, %v", s, run, err)
		}
	})
}

// FuzzNumbers: what is no number is refused, and what is one is never negative.
func FuzzNumbers(f *testing.F) {
	for _, s := range []string{"1795229008", "62.50G", "2K", "NONE", "-1", "1e3", "0x10", "9223372036854775807", "99999999999P", "1.5", "+5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		mb, errMB := ParseMemory(s)
		n, errCount := parseCount(s)
		at, errTime := parseEpoch(s)
		if errMB == nil && mb < 0 || errCount == nil && n < 0 || errTime == nil && at.Unix() < 0 && !at.IsZero() {
			t.Fatalf("%q: %d MB, %d, %v", s, mb, n, at)
		}
		if (errMB == nil || errCount == nil) && strings.Trim(s, "0123456789."+units) != "" {
			t.Fatalf("%q: %d MB, %v, %d, %v", s, mb, errMB, n, errCount)
		}
		if u, err := parseUint(s, 1<<32-1); err == nil {
			if back, err := strconv.ParseUint(s, 10, 32); err != nil || back != u {
				t.Fatalf("%q: %d and %d", s, u, back)
			}
		}
	})
}

// What a program says in an error is one line that a terminal can bear.
func FuzzCommandError(f *testing.F) {
	f.Add("slurm_load_jobs error: Unable to contact slurm controller", "--format=x\x1fAb", 200)
	f.Add("\n\n\x1b[2J\u202efake\u2028 \xff\x85\x9b", "--name=\ne", 5)
	f.Fuzz(func(t *testing.T, stderr, arg string, limit int) {
		e := CommandError{Command: commandLine(Command{Name: "squeue", Args: []string{arg}}), Kind: ErrExit, Status: 1, Message: firstLine([]byte(stderr))}
		for _, text := range []string{e.Error(), printable(stderr, limit&0xff)} {
			if !utf8.ValidString(text) || len(text) > 2000 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Fatalf("%q", text)
			}
		}
	})
}
