package slurmplug

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The jobs of parts.out, one to a line: two alike nodes, under a name that lies; one node; GPUs that
// lie unevenly on nodes of two types; no GPUs; whole nodes.
var recordedParts = []struct {
	name string
	want []NodePart
}{
	{"a Nodes=x", []NodePart{{"a100-1", 2, 1, 1024}, {"a100-2", 2, 1, 1024}}},
	{"one", []NodePart{{"v100-1", 3, 1, 1024}}},
	{"uneven", []NodePart{{"t4-2", 4, 4, 40}, {"v100-1", 1, 1, 10}}},
	{"cpus", []NodePart{{"a100-1", 0, 1, 1024}, {"a100-2", 0, 1, 1024}}},
	{"whole", []NodePart{{"a100-3", 4, 16, 16384}, {"t4-1", 4, 16, 16384}}},
}

func TestParts(t *testing.T) {
	for _, version := range versions {
		lines := strings.SplitAfter(recordingOf(t, version, "parts.out"), "\n")
		for i, job := range recordedParts {
			record := &Job{ID: Plain(uint32(i + 1)), Name: job.name, Account: "physics"}
			parts, err := parseParts(record, lines[i])
			if diff := cmp.Diff(job.want, parts); err != nil || diff != "" {
				t.Errorf("%s: %s: %v\n%s", version, job.name, err, diff)
			}
			for old, odd := range map[string]string{
				" CPU_IDs=": " CPU_IDs=x", " Mem=": " Mem=-", " GRES=": " GRES=gpu:x:y:z", "  Nodes=": "  Nodes=a[ ", " Nodes=": " Nodes=a[ ", "JobName=": "JobName=other",
			} {
				if out := strings.ReplaceAll(lines[i], old, odd); out != lines[i] {
					if parts, err := parseParts(record, out); err == nil && old != " Nodes=" {
						t.Errorf("%s: %s: %q is believed: %+v", version, job.name, odd, parts)
					}
				}
			}
		}
		waits, _, _ := strings.Cut(lines[0], " JOB_GRES=")
		if parts, err := parseParts(&Job{Name: recordedParts[0].name, Account: "physics"}, waits+" MinCPUsNode=1 Network=(null)\n"); err != nil || parts != nil {
			t.Errorf("%s: of a job that holds nothing: %+v, %v", version, parts, err)
		}
	}
}

// FuzzParts: whatever a job's name and comment say, what it holds is read as if they said nothing.
func FuzzParts(f *testing.F) {
	f.Add("x JOB_GRES=gpu:1 Nodes=n CPU_IDs=0 Mem=1 GRES=gpu:8", " Nodes=n CPU_IDs=0 Mem=1 GRES= MinCPUsNode=1", "gpu:a100:2(IDX:0-1)")
	f.Fuzz(func(t *testing.T, name, comment, gres string) {
		if name == "" || name == "N/A" || name == "(null)" {
			return
		}
		for _, version := range versions {
			line, _, _ := strings.Cut(recordingOf(t, version, "parts.out"), "\n")
			forged := strings.Replace(line, " WorkDir=", " Comment="+comment+" WorkDir=", 1)
			forged = strings.Replace(forged, "JobName=a Nodes=x ", "JobName="+name+" ", 1)
			parts, err := parseParts(&Job{Name: name, Account: "physics"}, forged)
			if diff := cmp.Diff(recordedParts[0].want, parts); err != nil || diff != "" {
				t.Fatalf("%v\n%s\n%s", err, diff, forged)
			}
			odd := strings.Replace(line, "GRES=gpu:a100:2(IDX:0-1)", "GRES="+gres, 1)
			if parts, err := parseParts(&Job{Name: recordedParts[0].name, Account: "physics"}, odd); err != nil && parts != nil {
				t.Fatalf("%+v beside %v", parts, err)
			}
		}
	})
}
