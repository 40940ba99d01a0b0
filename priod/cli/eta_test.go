package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/view"
	"slurmprio/slurmplug"
)

func in(seconds int64) *int64 { return &seconds }

// Each cell holds what was given, times that are not known are "-", and what users wrote is inert.
func TestExpectedIsShown(t *testing.T) {
	id := slurmplug.Plain(4711)
	views := []*view.Expectation{
		{
			Job: &id, Partition: "gpu", GPUs: 2, GPUType: "a100", Why: "too few GPUs are free", StartS: in(720), P90S: in(2460), LimitsS: in(80040), Moved: "earlier estimates: between 11:30 and 15:00", Slurm: "no estimate",
			Alternatives: []view.Alternative{{StartS: in(720), P90S: in(2460), EndS: in(10920)}, {Change: "GPU type v100", Try: "--gres=gpu:v100:2", StartS: in(0), P90S: in(40), EndS: in(18600), Sooner: true}},
		},
		{Job: &id, Alternatives: []view.Alternative{{LimitsS: in(7200)}, {Change: "GPU type v100", LimitsS: in(60)}}},
		{Script: "bad\x1b[2J.sh", Partition: "gpu", GPUs: 1, Why: "held"},
	}
	var out bytes.Buffer
	showExpected(&out, views, time.Now(), true)
	text := out.String()
	for _, want := range []string{
		"4711 ", "2 a100", "in 12m00s", "in 41m00s", "in 22h14m", "(earlier estimates: between 11:30 and 15:00)", "no estimate", "as it is", "GPU type v100  now        within 1m  in 5h10m  sooner  --gres=gpu:v100:2", "-          -          -", "BY TIME LIMITS  ", "as it is       in 2h00m",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
	out.Reset()
	if showExpected(&out, nil, time.Now(), false); out.String() != "No GPU job waits.\n" {
		t.Errorf("%q", out.String())
	}
}
