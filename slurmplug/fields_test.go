package slurmplug

import (
	"reflect"
	"strings"
	"testing"
)

// Every column that is asked for makes a difference to the record, and every field of the
// record is filled by one.
func TestEveryColumnAndField(t *testing.T) {
	columns := map[int][2]string{
		colJobID: {"7", "8"}, colArrayID: {"5", "6"}, colTasks: {"1-3%2", "2-9"}, colSLUID: {"s4C5M81FV4NT00", "s4C5M81FV4NT01"},
		colHetID: {"3", "4"}, colHetOffset: {"1", "2"}, colUID: {"1000", "1001"},
		colPriority: {"10", "11"}, colNice: {"5", "6"}, colRestarts: {"1", "2"}, colNodes: {"1", "2"}, colCPUs: {"1", "2"},
		colNumTasks: {"1", "2"}, colLayout: {"1:*:1", "2:*:1"}, colMinMemory: {"1G", "2G"}, colMinCPUs: {"1", "2"}, colWhole: {"NODE", "USER"}, colBatch: {"0", "1"}, colLimit: {"1:00", "2:00"},
		colSubmit: {"1700000000", "1700000001"}, colEligible: {"1700000000", "1700000001"}, colStart: {"1700000000", "1700000001"},
	}
	able := Abilities{SLUID: true, Exclusive: true}
	parse := func(changed int) Job {
		fields := make([]string, len(jobColumns))
		for i := range fields {
			values, known := columns[i]
			if !known { // free text
				values = [2]string{"a", "b"}
			}
			fields[i] = values[0]
			if i == changed {
				fields[i] = values[1]
			}
		}
		s := RecordedSeparators
		jobs, err := parseJobsInto(nil, []byte(strings.Join(fields, s.field)+s.end+"\n"), s, able)
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}
		return jobs[0]
	}
	base := parse(-1)
	for i, name := range jobColumns {
		if reflect.DeepEqual(parse(i), base) {
			t.Errorf("no field shows column %s", name)
		}
	}
	if j := parse(colWhole); j.SharedWith != "USER" {
		t.Errorf("shared with %q", j.SharedWith)
	}
	v := reflect.ValueOf(base)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "Unread" && name != "SharedWith" && name != "Shares" && v.Field(i).IsZero() {
			t.Errorf("no column fills %s", v.Type().Field(i).Name)
		}
	}
}
