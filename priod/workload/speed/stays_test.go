package speed_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/cluster"
	"slurmprio/priod/workload/speed"
	"slurmprio/slurmplug/jobtag"
)

// Rows of sacct: who counts, and for how long.
func TestCompletedJobs(t *testing.T) {
	row := func(id uint32, start, end int64, state, gpuType, tag string) cluster.PastStay {
		r := cluster.PastStay{RawID: id, Name: "train", State: state, Tag: jobtag.Read(tag), Stay: cluster.Stay{User: "ann", GPUType: gpuType, GPUs: 2}}
		if start > 0 {
			r.Start = time.Unix(start, 0)
		}
		if end > 0 {
			r.End = time.Unix(end, 0)
		}
		return r
	}
	const saves = "prio:ckpt=600&steps=500&v=1&workload=lm"
	for name, c := range map[string]struct {
		rows []cluster.PastStay
		want []speed.Run
	}{
		"one run": {
			[]cluster.PastStay{row(1, 100, 400, "COMPLETED", "a100", "")},
			[]speed.Run{{Program: speed.Program{User: "ann", Name: "train", GPUs: 2}, Seconds: map[string]float64{"a100": 300}, End: time.Unix(400, 0)}},
		},
		"a job that saves its state": {
			[]cluster.PastStay{row(1, 900, 1000, "COMPLETED", "v100", saves), row(1, 100, 400, "PREEMPTED", "a100", saves)},
			[]speed.Run{{Program: speed.Program{Workload: "lm", GPUs: 2}, Seconds: map[string]float64{"a100": 300, "v100": 100}, Work: 500, End: time.Unix(1000, 0)}},
		},
		"a job that begins anew": {
			[]cluster.PastStay{row(1, 100, 400, "PREEMPTED", "a100", ""), row(1, 900, 1000, "COMPLETED", "v100", "")},
			[]speed.Run{{Program: speed.Program{User: "ann", Name: "train", GPUs: 2}, Seconds: map[string]float64{"v100": 100}, End: time.Unix(1000, 0)}},
		},
		"a job whose memory was lowered": {
			[]cluster.PastStay{row(1, 100, 400, "RESIZING", "a100", ""), row(1, 400, 1000, "COMPLETED", "a100", "")},
			[]speed.Run{{Program: speed.Program{User: "ann", Name: "train", GPUs: 2}, Seconds: map[string]float64{"a100": 900}, End: time.Unix(1000, 0)}},
		},
		"an id that came again": {
			[]cluster.PastStay{row(1, 100, 400, "FAILED", "a100", saves), row(1, 900, 1000, "COMPLETED", "v100", saves)},
			[]speed.Run{{Program: speed.Program{Workload: "lm", GPUs: 2}, Seconds: map[string]float64{"v100": 100}, Work: 500, End: time.Unix(1000, 0)}},
		},
		"what did not complete": {rows: []cluster.PastStay{
			row(1, 100, 400, "FAILED", "a100", ""), row(2, 100, 400, "TIMEOUT", "a100", ""), row(3, 100, 400, "CANCELLED", "a100", ""),
			row(4, 100, 0, "RUNNING", "a100", ""), row(5, 0, 0, "PENDING", "", ""), row(6, 100, 400, "OUT_OF_MEMORY", "a100", ""),
		}},
		"nobody knows where":     {rows: []cluster.PastStay{row(1, 100, 400, "COMPLETED", "", "")}},
		"nobody knows all of it": {rows: []cluster.PastStay{row(1, 100, 400, "PREEMPTED", "", saves), row(1, 900, 1000, "COMPLETED", "v100", saves)}},
		"too short":              {rows: []cluster.PastStay{row(1, 100, 159, "COMPLETED", "a100", "")}},
		"a tag that is not valid": {
			[]cluster.PastStay{row(1, 100, 400, "COMPLETED", "a100", "prio:steps=many&v=1")},
			[]speed.Run{{Program: speed.Program{User: "ann", Name: "train", GPUs: 2}, Seconds: map[string]float64{"a100": 300}, End: time.Unix(400, 0)}},
		},
	} {
		if d := cmp.Diff(c.want, new(speed.Settings).Completed(c.rows, time.Minute, nil)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// A run has a place where all of it was on the same nodes.
func TestWhereJobsRan(t *testing.T) {
	const saves = "prio:ckpt=600&v=1&workload=lm"
	row := func(start, end int64, state, nodes, tag string) cluster.PastStay {
		return cluster.PastStay{
			RawID: 7, Name: "train", State: state, Tag: jobtag.Read(tag), NodeList: nodes,
			Stay: cluster.Stay{User: "ann", GPUType: "a100", GPUs: 2, Start: time.Unix(start, 0), End: time.Unix(end, 0)},
		}
	}
	for name, c := range map[string]struct {
		rows []cluster.PastStay
		want speed.Place
	}{
		"one run":             {[]cluster.PastStay{row(100, 400, "COMPLETED", "n[1-2]", "")}, speed.Place{Nodes: "n[1-2]", Start: time.Unix(100, 0), Job: 7}},
		"it came back":        {[]cluster.PastStay{row(100, 400, "PREEMPTED", "n1", saves), row(900, 1000, "COMPLETED", "n1", saves)}, speed.Place{Nodes: "n1", Start: time.Unix(100, 0), Job: 7}},
		"it moved":            {[]cluster.PastStay{row(100, 400, "PREEMPTED", "n1", saves), row(500, 600, "PREEMPTED", "n2", saves), row(900, 1000, "COMPLETED", "n1", saves)}, speed.Place{}},
		"it began anew":       {[]cluster.PastStay{row(100, 400, "PREEMPTED", "n1", ""), row(900, 1000, "COMPLETED", "n2", "")}, speed.Place{Nodes: "n2", Start: time.Unix(900, 0), Job: 7}},
		"nobody knows, first": {[]cluster.PastStay{row(100, 400, "RESIZING", "", ""), row(400, 1000, "COMPLETED", "n2", "")}, speed.Place{}},
		"nobody knows":        {[]cluster.PastStay{row(100, 400, "COMPLETED", "", "")}, speed.Place{}},
	} {
		runs := new(speed.Settings).Completed(c.rows, time.Minute, nil)
		if len(runs) != 1 {
			t.Fatalf("%s: %+v", name, runs)
		}
		if d := cmp.Diff(c.want, runs[0].Place); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
