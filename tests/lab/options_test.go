package lab

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseNodes(t *testing.T) {
	for in, want := range map[string][]NodeSpec{
		"3xa100:4":                   {{Count: 3, GPUType: "a100", GPUs: 4}},
		"1xt4:8,2xcpu:0":             {{Count: 1, GPUType: "t4", GPUs: 8}, {Count: 2, Prefix: "cpu-"}},
		"":                           nil,
		"3xa100":                     nil,
		"a100:4":                     nil,
		"3xa100:4,":                  nil,
		"3xa100:-1":                  nil,
		"3xa 100:1":                  nil,
		"99999999999xa:1":            {{Count: 99999999999, GPUType: "a", GPUs: 1}},
		"9999999999999999999999xa:1": nil,
	} {
		got, err := ParseNodes(in)
		if (err != nil) != (want == nil) {
			t.Errorf("%q: error %v", in, err)
		}
		if diff := cmp.Diff(want, got); diff != "" && err == nil {
			t.Errorf("%q: %s", in, diff)
		}
	}
}

func TestOptionsThatCannotWork(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Nodes: []NodeSpec{}}, "at least one node"},
		{Options{Partitions: []string{}}, "at least one node and one partition"},
		{Options{Nodes: []NodeSpec{{Count: 0, GPUType: "a"}}}, "want at least one node"},
		{Options{Nodes: []NodeSpec{{Count: 1, GPUs: -1}}}, "no negative number of GPUs"},
		{Options{Nodes: []NodeSpec{{Count: 1, GPUType: "a b"}}}, "want letters"},
		{Options{Nodes: []NodeSpec{{Count: 1, Prefix: "a\nx"}}}, "want letters"},
		{Options{Nodes: []NodeSpec{{Count: 1}, {Count: 1}}}, "used twice"},
		{Options{Nodes: []NodeSpec{{Count: 5001}, {Count: 5000, GPUType: "a"}}}, "more than 10000 nodes"},
		{Options{Nodes: []NodeSpec{{Count: math.MaxInt}}}, "more than 10000 nodes"},
		{Options{ExtraConf: []string{"A=1\nB=2"}}, "more than one line"},
		{Options{ExtraFiles: map[string]string{"../x": ""}}, "plain file name"},
		{Options{Dir: "/tmp/" + strings.Repeat("x", 100)}, "choose one of 67 or less"},
		{Options{Dir: "/tmp/a b"}, "slurm.conf cannot hold this name"},
		{Options{Dir: "/proc/self/lab"}, "lab folder"},
	} {
		if missing := Missing(); len(missing) > 0 {
			t.Skip(&MissingError{missing})
		}
		l, err := Start(t.Context(), c.o)
		if err == nil {
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: error %v, want one line with %q", c.o, err, c.want)
		}
	}
}

func TestFolderInUse(t *testing.T) {
	dir := t.TempDir()
	if _, err := makeDir(filepath.Dir(dir), 200); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("error %v", err)
	}
	if got, err := makeDir(dir, 200); err != nil || got != dir {
		t.Errorf("an empty folder: %q, %v", got, err)
	}
	t.Setenv("TMPDIR", dir)
	got, err := makeDir("", 30) // too short for the folder above
	if err != nil || filepath.Dir(got) != "/tmp" {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.Remove(got); err != nil {
		t.Error(err)
	}
}

func TestSlurmConf(t *testing.T) {
	o, err := Options{
		Nodes: []NodeSpec{
			{Count: 3, GPUType: "a100", GPUs: 8, CPUs: 128, MemoryMB: 1000, Features: []string{"nvlink"}, Extra: "Weight=2"},
			{Count: 1, Prefix: "any", GPUs: 1, CPUs: 3},
			{Count: 2},
		},
		ExtraConf:   []string{"schedulerType = sched/builtin"},
		PreemptMode: "OFF",
	}.filled()
	if err != nil {
		t.Fatal(err)
	}
	conf := slurmConf("/d", "me", host{Addr: "127.0.1.1"}, ports{100, 101, 102}, o)
	var nodes []string
	for line := range strings.Lines(conf) {
		if strings.HasPrefix(line, "NodeName=") {
			nodes = append(nodes, strings.TrimSpace(line))
		}
	}
	want := []string{
		"NodeName=a100-[1-3] NodeAddr=127.0.0.1 Port=[102-104] CPUs=128 RealMemory=1000 Sockets=2 CoresPerSocket=64 ThreadsPerCore=1 Gres=gpu:a100:8 Feature=a100,nvlink Weight=2",
		"NodeName=any1 NodeAddr=127.0.0.1 Port=105 CPUs=3 RealMemory=65536 Gres=gpu:1",
		"NodeName=cpu-[1-2] NodeAddr=127.0.0.1 Port=[106-107] CPUs=16 RealMemory=65536 Sockets=2 CoresPerSocket=8 ThreadsPerCore=1",
	}
	if diff := cmp.Diff(want, nodes); diff != "" {
		t.Error(diff)
	}
	for _, line := range []string{"PreemptType=preempt/none", "SlurmctldHost=localhost(127.0.1.1)", "CommunicationParameters=NoCtldInAddrAny", "schedulerType = sched/builtin", "AccountingStorageTRES=gres/gpu,gres/gpu:a100"} {
		if !strings.Contains(conf, "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, conf)
		}
	}
	own := slurmConf("/d", "me", host{Addr: "127.0.1.1", Hosts: true}, ports{100, 101, 102}, o)
	if !strings.Contains(own, "\nSlurmctldHost=localhost(127.0.0.1)\n") || !strings.Contains(own, "\nAccountingStorageHost=127.0.0.1\n") {
		t.Errorf("with a hosts file of its own:\n%s", own)
	}
	if strings.Contains(conf, "SchedulerType=sched/backfill") {
		t.Error("ExtraConf did not replace SchedulerType")
	}
	if diff := cmp.Diff("NodeName=a100-[1-3] Name=gpu Type=a100 File=/d/dev/gpu[0-7]\nNodeName=any1 Name=gpu File=/d/dev/gpu0\n", gresConf("/d", o)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a100-1", "a100-2", "a100-3", "any1", "cpu-1", "cpu-2"}, nodeNames(o.Nodes)); diff != "" {
		t.Error(diff)
	}
}

func TestMissing(t *testing.T) {
	if lookup("no-such-program") != "" {
		t.Error("a program that does not exist was found")
	}
	err := &MissingError{[]string{"slurmd (Debian package slurmd)"}}
	if err.Error() != "lab: not installed: slurmd (Debian package slurmd)" {
		t.Error(err)
	}
}

// Whatever ParseNodes accepts makes a slurm.conf of whole lines, or is refused
// with a reason.
func FuzzParseNodes(f *testing.F) {
	for _, s := range []string{"3xa100:4,3xv100:4,2xt4:4", "2xcpu:0", "1xa:1,1xa:2", "10001xa:1", "1xa\n:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		nodes, err := ParseNodes(s)
		if err != nil {
			return
		}
		o, err := Options{Nodes: nodes}.filled()
		if err != nil {
			return
		}
		conf := slurmConf("/d", "me", host{}, ports{1, 2, 3}, o)
		for line := range strings.Lines(conf) {
			if key, _, ok := strings.Cut(line, "="); !ok || key == "" || strings.ContainsAny(key, " \r") {
				t.Errorf("%q: line %q", s, line)
			}
		}
		if got := strings.Count(conf, "\nNodeName="); got != len(nodes) {
			t.Errorf("%q: %d NodeName lines, want %d", s, got, len(nodes))
		}
	})
}
