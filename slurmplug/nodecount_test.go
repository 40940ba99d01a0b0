package slurmplug

import (
	"cmp"
	"strings"
	"testing"
	"time"
)

func TestNodesText(t *testing.T) {
	for _, c := range []struct{ least, most int }{{1, 1}, {1, 4}, {2, 2}, {1, 0}} {
		text := NodesText(c.least, c.most)
		least, most, err := ParseNodes(text)
		if err != nil || least != c.least || most != c.most {
			t.Errorf("%s: %d, %d, %v", text, least, most, err)
		}
		if err := (Update{Job: Plain(1), Lever: NumNodes, Value: Text(text)}).Validate(); err != nil {
			t.Error(err)
		}
	}
	for _, text := range []string{"", "1", "0-1", "3-2", "-1", "1-", "1-2-3", "1-x", "1k-2", HiddenNodes} {
		if _, _, err := ParseNodes(text); err == nil {
			t.Errorf("%q is taken", text)
		}
		if (Update{Job: Plain(1), Lever: NumNodes, Value: Text(text)}).Validate() == nil {
			t.Errorf("%q may be written", text)
		}
	}
	u := []Update{{Job: Plain(7), Lever: NumNodes, Value: Text("1-2")}, {Job: Plain(8), Lever: NumNodes, Value: Text("1-2")}}
	sessions := planSessions(u, make([]Result, 2), 10)
	if got := sessions[0].lines[0].String(); len(sessions[0].lines) != 2 || got != "update JobId=7 NumNodes=1-2" { // scontrol takes one job at a time
		t.Errorf("%d lines, %q", len(sessions[0].lines), got)
	}
}

// What scontrol shows, of 22.05.8, 24.11.5 and 26.05.5: "1" of an open number, "1-1" of one; the
// first is an estimate, of 8 GPUs on nodes of 4 "2". After a restart of slurmctld, or a run, it
// shows no bound.
func TestParseNodeCount(t *testing.T) {
	booted := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		state    string // "" for PENDING
		shown    string
		submit   int64
		restarts int
		booted   time.Time
		want     string
	}{
		"open":                    {"", "1", 2000, 0, booted, "1-0"},
		"open, an estimate":       {"", "2", 2000, 0, booted, "1-0"},
		"one":                     {"", "1-1", 2000, 0, booted, "1-1"},
		"a range":                 {"", "1-4", 2000, 0, booted, "1-4"},
		"a range, an estimate":    {"", "2-4", 2000, 0, booted, "1-4"},
		"before slurmctld":        {"", "1", 900, 0, booted, HiddenNodes},
		"before it, and bounded":  {"", "1-3", 900, 0, booted, "1-3"},
		"it has run":              {"", "1", 2000, 1, booted, HiddenNodes},
		"nobody knows since when": {"", "1", 2000, 0, time.Time{}, HiddenNodes},
		"it has started":          {"RUNNING", "2", 2000, 0, booted, HiddenNodes},
		"it is starting":          {"CONFIGURING", "2", 2000, 0, booted, HiddenNodes},
		"no number":               {"", "1-x", 2000, 0, booted, ""},
	} {
		out := "JobId=7 JobName=x UserId=ann(1000) JobState=" + cmp.Or(c.state, "PENDING") + " Account=a NumNodes=" + c.shown + " NumCPUs=4 NumTasks=4 CPUs/Task=1 ReqB:S:C:T=0:0:*:* Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* " +
			"MinCPUsNode=1 MinMemoryCPU=1G OverSubscribe=OK ReqNodeList=(null) ExcNodeList=(null) Command=x WorkDir=/ StdOut=/dev/null "
		n, err := parseNodeCount(&Job{ID: Plain(7), Name: "x", Account: "a", State: "PENDING", TRES: "cpu=4,node=1", Nodes: 2, Restarts: c.restarts, Submit: time.Unix(c.submit, 0)}, out, c.booted)
		if (err != nil) != (c.want == "") || err == nil && n != c.want {
			t.Errorf("%s: %+v, %v; want %s", name, n, err, c.want)
		}
		since2605 := cmp.Or(map[string]string{"a range": HiddenNodes, "a range, an estimate": HiddenNodes}[name], c.want) // of 4 tasks, it may be open
		n, err = parseNodeCount(&Job{ID: Plain(7), Name: "x", Account: "a", State: "PENDING", TRES: "cpu=4,node=1", Nodes: 2, Restarts: c.restarts, Submit: time.Unix(c.submit, 0)}, strings.Replace(out, "OverSubscribe=OK", "OverSubscribe=NO Exclusive=NO", 1), c.booted)
		if (err != nil) != (c.want == "") || err == nil && n != since2605 {
			t.Errorf("26.05: %s: %+v, %v; want %s", name, n, err, since2605)
		}
	}
}

func TestBooted(t *testing.T) {
	c := Config{map[string]string{"BOOT_TIME": "1795347084", "SLURM_VERSION": "24.11.5"}}
	if want := time.Unix(1795347084, 0); !c.Booted().Equal(want) {
		t.Error(c.Booted())
	}
	if old := (Config{map[string]string{"SLURM_VERSION": "22.05.8"}}); !old.Booted().IsZero() {
		t.Error(old.Booted())
	}
}
