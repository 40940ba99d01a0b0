package trace

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"slurmprio/slurmplug"
)

// Of a month in which nodes went and came the notes name both; of one without a change there are none.
func TestChanged(t *testing.T) {
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.Local)
	var runs []slurmplug.Run
	month := func(node string, from, until int) { // days
		for day := from; day < until; day++ {
			start := begin.AddDate(0, 0, day)
			runs = append(runs, slurmplug.Run{NodeList: node, AllocTRES: "cpu=8,gres/gpu:a100=4,gres/gpu=4,node=1", Start: start, End: start.Add(20 * time.Hour)})
		}
	}
	today := map[string]bool{"login1": true, "g30": true} // g30 stands idle
	for i := range 8 {
		name := fmt.Sprintf("g%02d", i+1)
		today[name] = true
		month(name, i%3, 30)
	}
	month("None assigned", 0, 2)
	runs = append(runs, slurmplug.Run{NodeList: "c[1-9]", AllocTRES: "cpu=8,node=9", Start: begin, End: begin.Add(time.Hour)}, slurmplug.Run{NodeList: "g99", AllocTRES: "gres/gpu=1"})
	if notes := Changed(runs, today); len(notes) > 0 {
		t.Errorf("nothing changed: %q", notes)
	}
	if notes := Changed(nil, today); len(notes) > 0 {
		t.Errorf("no runs: %q", notes)
	}
	month("old[1-3]", 0, 14)
	month("old2", 14, 15)
	for _, name := range []string{"g09", "g10"} {
		today[name] = true
	}
	month("g[09-10]", 17, 30)
	notes := Changed(runs, today)
	if len(notes) != 2 || !strings.HasPrefix(notes[0], "3 nodes (old[1-3]) ran GPU jobs until 2026-11-15 20:00:00 and are gone") || !strings.HasPrefix(notes[1], "2 nodes (g[09-10]) have run GPU jobs since 2026-11-18 00:00:00 only") {
		t.Errorf("%q", notes)
	}
}
