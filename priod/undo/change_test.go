package undo

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/journal"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// lines that priod wrote before values had types, as they stand in journals.
const linesBeforeTypes = `{"time":"2026-10-01T08:00:00Z","job":"7","user":"ann","submit":"2026-10-01T07:00:00Z","lever":"SiteFactor","was":"0","from":"1000","to":"2000","user_nice":"0"}
{"time":"2026-10-01T08:00:01Z","job":"8","user":"ann","submit":"2026-10-01T07:00:00Z","lever":"Nice","was":"50","from":"50","to":"-950","user_nice":"50"}
{"time":"2026-10-01T08:00:02Z","job":"9","user":"ann","submit":"2026-10-01T07:00:00Z","lever":"Priority","was":"5000","from":"6000","to":"0"}
{"time":"2026-10-01T08:00:03Z","job":"10","tasks":"1-3","part":true,"user":"bob","submit":"2026-10-01T07:00:00Z","lever":"Features","was":"80","from":"80\u0026a100","to":"80\u0026v100","sent":["80\u0026t4"]}
{"time":"2026-10-01T08:00:04Z","job":"11","user":"bob","lever":"Size","was":"CPUsPerTask=3 MinCPUsNode=3 NumCPUs=3 MinMemoryNode=64000 ReqNodeList=","from":"CPUsPerTask=3 MinCPUsNode=3 NumCPUs=3 MinMemoryNode=64000 ReqNodeList=","to":"CPUsPerTask=9 MinCPUsNode=9 NumCPUs=9 MinMemoryNode=64000 ReqNodeList=a1"}
{"time":"2026-10-01T08:00:05Z","job":"12","user":"bob","lever":"MinMemoryNode","was":"64000","from":"64000","to":"8000"}
{"time":"2026-10-01T08:00:06Z","job":"13","user":"bob","lever":"ReqNodeList","was":"","from":"","to":"n7"}
{"time":"2026-10-01T08:00:07Z","job":"14","user":"bob","lever":"ExcNodeList","was":"n9","from":"n9","to":"n[1,9]"}
{"time":"2026-10-01T08:00:08Z","job":"15","user":"bob","lever":"Nice","was":"x","from":"","to":"007"}
`

// takeAll has a part take in lines that are bodies of writes, and counts those that are none.
func takeAll(u *Journal, text string) (damaged int) {
	for line := range strings.Lines(text) {
		if _, err := u.Take(journal.Write, []byte(line)); err != nil {
			damaged++
		}
	}
	return damaged
}

// textOf are the bodies of its writes.
func textOf(t testing.TB, u *Journal) (text string) {
	t.Helper()
	for _, c := range u.Changes() {
		text += string(must[[]byte](t)(json.Marshal(c))) + "\n"
	}
	return text
}

// Journals from before values had types are read as ever, and written again as they were.
func TestLinesBeforeTypes(t *testing.T) {
	u := New()
	if n := takeAll(u, linesBeforeTypes); n != 0 {
		t.Fatalf("%d damaged", n)
	}
	if text := textOf(t, u); text != linesBeforeTypes {
		t.Fatalf("%s", text)
	}
	written := u.Written()
	for id, want := range map[uint32][3]int64{7: {1000, 2000, 0}, 8: {50, -950, 50}, 9: {6000, 0, 0}, 15: {0, 0, 0}} {
		if w := written[slurmplug.Plain(id)]; [3]int64{w.Value, w.Tried, w.Original} != want {
			t.Errorf("job %d: %+v, want %v", id, w, want)
		}
	}
	size := u.Requests()[slurmplug.Plain(11)][slurmplug.Size]
	if s := size.Value.Size(); s.CPUs != 9 || s.Memory != 64000 || s.Nodes != "a1" || size.Was.Size().CPUs != 3 {
		t.Errorf("%+v", size)
	}
	features := u.Requests()[slurmplug.JobID{ID: 10, Task: 2}][slurmplug.Features]
	for _, own := range strings.Fields("80&t4 80&a100 80&v100") {
		if !features.Ours(slurmplug.Text(own)) {
			t.Errorf("%q is not ours: %+v", own, features)
		}
	}
	if features.Was != slurmplug.Text("80") || u.Requests()[slurmplug.Plain(12)][slurmplug.MinMemoryNode].Was != slurmplug.Number(64000) {
		t.Errorf("%+v", u.Requests())
	}
}

// Recorded lines of a version that ranked jobs by their Nice or priority: the first cycle gives a job its own back, whether
// the write had arrived or not, and reset does the same.
func TestFormerLeversFromARecordedJournal(t *testing.T) {
	const lines = `{"time":"2026-10-01T08:00:00Z","job":"1","user":"ann","submit":"2026-10-01T07:00:00Z","lever":"Nice","was":"50","from":"50","to":"-950","user_nice":"50"}
{"time":"2026-10-01T08:00:01Z","job":"2","user":"ann","submit":"2026-10-01T07:00:00Z","lever":"Priority","was":"0","from":"0","to":"6000","user_nice":"70"}
{"time":"2026-10-01T08:00:02Z","job":"3","user":"ann","submit":"2026-10-01T07:00:00Z","lever":"Nice","was":"0","from":"0","to":"-9","user_nice":"0"}
`
	at := time.Date(2026, 10, 1, 9, 0, 0, 0, time.UTC)
	s := &cluster.Snapshot{At: at}
	for i, nice := range []int64{-950, 0, 0} {
		s.Jobs = append(s.Jobs, cluster.Job{
			ID: slurmplug.Plain(uint32(i + 1)), TaskCount: 1, User: "ann", Partition: "gpu", State: cluster.Pending, Submit: at.Add(-2 * time.Hour), Eligible: at.Add(-2 * time.Hour),
			Priority: 6000, Nice: nice, SiteFactorKnown: true, Tag: jobtag.Tag{Type: "te"},
		})
	}
	u := New()
	if n := takeAll(u, lines); n != 0 {
		t.Fatalf("%d damaged", n)
	}
	h := cluster.NewHistory()
	h.Remember(func(j *cluster.Job, inherits bool) { u.Recall(h, j, inherits) })
	h.Observe(s)
	type write struct {
		lever         slurmplug.Lever
		before, after int64
	}
	want := map[uint32][]write{1: {{slurmplug.Nice, -950, 50}}, 2: {{slurmplug.Release, 6000, 0}, {slurmplug.Nice, 0, 70}}}
	for name, actions := range map[string][]plan.Action{
		"a cycle": order.Decide(s, h, order.Settings{Top: 2_000_000_000}).Actions,
		"a reset": NewSurvey(u, s).Plan(order.Settings{}, Closer{}).Actions,
	} {
		got := map[uint32][]write{}
		for _, a := range actions {
			if a.Lever != slurmplug.SiteFactor {
				got[a.Job.ID] = append(got[a.Job.ID], write{a.Lever, a.Before.Number(), a.After.Number()})
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s writes %v, want %v", name, got, want)
		}
	}
}
