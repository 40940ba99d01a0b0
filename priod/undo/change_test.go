package undo

import (
	"encoding/json"
	"strings"
	"testing"

	"slurmprio/priod/journal"
	"slurmprio/slurmplug"
)

// lines that priod wrote before values had types, as they stand in journals.
const linesBeforeTypes = `{"time":"2026-10-01T08:00:00Z","job":"7","user":"ann","submit":"2026-10-01T07:00:00Z","lever":"SiteFactor","was":"0","from":"1000","to":"2000"}
{"time":"2026-10-01T08:00:03Z","job":"10","tasks":"1-3","part":true,"user":"bob","submit":"2026-10-01T07:00:00Z","lever":"Features","was":"80","from":"80\u0026a100","to":"80\u0026v100","sent":["80\u0026t4"]}
{"time":"2026-10-01T08:00:04Z","job":"11","user":"bob","lever":"Size","was":"CPUsPerTask=3 MinCPUsNode=3 NumCPUs=3 MinMemoryNode=64000 ReqNodeList=","from":"CPUsPerTask=3 MinCPUsNode=3 NumCPUs=3 MinMemoryNode=64000 ReqNodeList=","to":"CPUsPerTask=9 MinCPUsNode=9 NumCPUs=9 MinMemoryNode=64000 ReqNodeList=a1"}
{"time":"2026-10-01T08:00:06Z","job":"13","user":"bob","lever":"ReqNodeList","was":"","from":"","to":"n7"}
{"time":"2026-10-01T08:00:07Z","job":"14","user":"bob","lever":"ExcNodeList","was":"n9","from":"n9","to":"n[1,9]"}
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
	for id, want := range map[uint32][2]int64{7: {1000, 2000}} {
		if w := written[slurmplug.Plain(id)]; [2]int64{w.Value, w.Tried} != want {
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
	if features.Was != slurmplug.Text("80") {
		t.Errorf("%+v", u.Requests())
	}
}
