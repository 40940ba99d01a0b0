package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/store"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug/jobtag"
)

// A speed and its words agree, whatever the source.
func TestSpeedWords(t *testing.T) {
	for want, a := range map[string]speed.Answer{
		"cannot run there":                        {Speed: 0, Source: speed.Tag, Factor: 1},
		"cannot run there; speed unknown":         {Speed: 0, Source: speed.None, Factor: 1.93},
		"unknown, assumed 1.00 within a factor":   {Speed: 1, Source: speed.None, Factor: 1.93},
		"0.50, by the job's tag":                  {Speed: 0.5, Source: speed.Tag, Factor: 1},
		"0.50 within a factor 1.20, 3 runs there": {Speed: 0.5, Source: speed.Past, Factor: 1.2, Runs: 3},
		"0.50, by workloads.toml":                 {Speed: 0.5, Source: speed.Workload, Factor: 1},
		"0.50, by the type's speed in priod.toml": {Speed: 0.5, Source: speed.Default, Factor: 1},
		"0.50, by how other programs ran here":    {Speed: 0.5, Source: speed.Site, Factor: 1},
	} {
		if got := speedWords(&a); !strings.HasPrefix(got, want) || a.Speed == 0 && strings.Contains(got, "assumed") {
			t.Errorf("%+v: %q, want %q", a, got, want)
		}
	}
}

// A job that was requeued since the last cycle waits, whatever that cycle saw.
func TestExplainOfARequeuedJob(t *testing.T) {
	said := func(state string) string {
		v := &explanation{Now: &nowView{State: state, Reason: "BeginTime"}}
		v.Job.Left = time.Now()
		var b strings.Builder
		v.showJob(func(name, format string, a ...any) {
			if name == "State" {
				b.WriteString(strings.TrimSpace(fmt.Sprintf(format, a...)))
			}
		})
		return b.String()
	}
	for _, state := range []string{"PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED"} {
		if got := said(state); !strings.HasPrefix(got, state+" (BeginTime); requeued since") {
			t.Errorf("a requeued job: %q", got)
		}
	}
	for _, state := range []string{"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"} {
		if got := said(state); !strings.HasPrefix(got, "left the queue before") {
			t.Errorf("a job that ended: %q", got)
		}
	}
}

// A job that may be steered and started before a cycle saw it says what would have helped.
func TestExplainOfAJobThatStartedAtOnce(t *testing.T) {
	said := func(on bool, tag jobtag.Tag, stays int) (text string) {
		v := &explanation{Steering: on, MaySteer: tag.AllowsSteering()}
		v.Job.Said, v.Stays = tag, make([]store.Stay, stays)
		v.tell(func(name, format string, a ...any) {
			if name == "Decision" {
				text = fmt.Sprintf(format, a...)
			}
		})
		return text
	}
	steered := jobtag.Tag{Type: "be", Speed: map[string]float64{"a100": 1}}
	if got := said(true, steered, 1); !strings.Contains(got, "/etc/slurmprio/hold") {
		t.Errorf("a job that may be steered: %q", got)
	}
	for name, got := range map[string]string{"never ran": said(true, steered, 0), "untagged": said(true, jobtag.Tag{}, 1), "steering off": said(false, steered, 1)} {
		if strings.Contains(got, "hold") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
