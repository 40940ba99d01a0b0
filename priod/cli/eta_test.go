package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
)

func in(seconds int64) *int64 { return &seconds }

// Each cell holds what was given, times that are not known are "-", and what users wrote is inert.
func TestExpectedIsShown(t *testing.T) {
	id := slurmplug.Plain(4711)
	views := []*etaView{
		{
			Job: &id, Partition: "gpu", GPUs: 2, GPUType: "a100", Why: "too few GPUs are free", StartS: in(720), P90S: in(2460), LimitsS: in(80040), Moved: "earlier estimates: between 11:30 and 15:00", Slurm: "no estimate",
			Alternatives: []alternative{{StartS: in(720), P90S: in(2460), EndS: in(10920)}, {Change: "GPU type v100", Try: "--gres=gpu:v100:2", StartS: in(0), P90S: in(40), EndS: in(18600), Sooner: true}},
		},
		{Script: "bad\x1b[2J.sh", Partition: "gpu", GPUs: 1, Why: "held"},
	}
	var out bytes.Buffer
	showExpected(&out, views, true)
	text := out.String()
	for _, want := range []string{
		"4711 ", "2 a100", "in 12m00s", "in 41m00s", "in 22h14m", "(earlier estimates: between 11:30 and 15:00)", "no estimate", "as it is", "GPU type v100  now        within 1m  in 5h10m  sooner  --gres=gpu:v100:2", "-          -          -",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
	out.Reset()
	if showExpected(&out, nil, false); out.String() != "No GPU job waits.\n" {
		t.Errorf("%q", out.String())
	}
}

// What waits for something else than room names the cause and no time; a job that makes room has the time at which the last one
// will have left.
func TestExpectedOfStored(t *testing.T) {
	soon := time.Now().Add(10 * time.Minute)
	job := func(cause plan.Cause, start *store.ExpectedStart) *explanation {
		v := &explanation{}
		v.Job = store.Job{ID: slurmplug.Plain(1), State: cluster.Pending.String(), GPUs: 1, Partition: "gpu"}
		v.Start, v.Waits = start, []waitView{{Spans: []spanView{{Cause: cause}}}}
		return v
	}
	for _, c := range []struct {
		name  string
		of    *explanation
		start string // of the JSON
		why   string
	}{
		{"held", job(plan.HeldBack, nil), "null", "held"},
		{"dependent", job(plan.AfterJob, nil), "null", "waits for another job"},
		{"not planned", job(plan.Capacity, nil), "null", "too few GPUs are free"},
		{"planned", job(plan.Capacity, &store.ExpectedStart{At: soon.Add(time.Hour), Median: soon, P90: soon.Add(time.Minute)}), "600", "too few GPUs are free"},
		{"by limits alone", job(plan.Capacity, &store.ExpectedStart{At: soon}), "null", "too few GPUs are free"},
		{"starting", job(plan.Starting, nil), "0", "fits now"},
	} {
		e := c.of.eta()
		if is := c.of.aboutToStart(); is != (c.name == "starting") { // else what would start it sooner is asked
			t.Errorf("%s: about to start: %v", c.name, is)
		}
		text, err := json.Marshal(e)
		if err != nil || !strings.Contains(string(text), `"start_s":`+c.start) || !strings.Contains(e.Why, c.why) {
			t.Errorf("%s: %v %s", c.name, err, text)
		}
	}
	moved := &store.ExpectedStart{At: soon, Median: soon, Least: soon.Add(-5 * time.Minute), Most: soon.Add(time.Hour)}
	if said := report.Moved(moved); !strings.HasPrefix(said, "earlier estimates: between ") {
		t.Errorf("%q", said)
	}
	if moved.Most = soon.Add(time.Minute); report.Moved(moved) != "" {
		t.Errorf("%q", report.Moved(moved))
	}
}
