package slurmplug

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// oddForms are values in no form that Slurm prints.
var oddForms = rapid.SampledFrom([]string{"4(", "?", "1.2.3", "4x", "-", "9999999999999999999999", "(IDX:0", "\x1b[2J"})

// quoted is a value as an error has it.
func quoted(value string) string { return strings.Trim(fmt.Sprintf("%q", value), `"`) }

// othersStay fails unless got is want with at most one record unread, which names the value and
// is called name; without an unread record they must be equal.
func othersStay[T any](t *rapid.T, want, got []T, unread func(*T) string, name func(*T) string, odd string) (costs bool) {
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range got {
		why := unread(&got[i])
		switch {
		case why == "" && !reflect.DeepEqual(got[i], want[i]):
			t.Fatalf("another record changed: %+v, want %+v", got[i], want[i])
		case why == "":
		case costs:
			t.Fatalf("a second record is unread: %+v", got[i])
		default:
			if costs = true; name(&got[i]) != name(&want[i]) || !strings.Contains(why, quoted(odd)) {
				t.Fatalf("%q is said of %s, want %q of %s", why, name(&got[i]), odd, name(&want[i]))
			}
		}
	}
	return costs
}

// A node with one field in an unknown form costs that node.
func TestOddNode(t *testing.T) { eachVersion(t, testOddNode) }

func testOddNode(t *testing.T, version string) {
	out := recordingOf(t, version, "node.out")
	want, err := parseNodes([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		lines := strings.SplitAfter(out, "\n")
		at, odd := rapid.IntRange(0, len(want)-1).Draw(t, "node"), oddForms.Draw(t, "value")
		key := rapid.SampledFrom([]string{"CPUEfctv", "CPUAlloc", "RealMemory", "AllocMem", "Weight", "Gres", "GresUsed"}).Draw(t, "field")
		field := regexp.MustCompile(` ` + key + `=\S*`)
		before, reason, _ := strings.Cut(lines[at], " Reason=")
		if !field.MatchString(before) {
			t.Skip("it has none")
		}
		if strings.HasPrefix(key, "Gres") {
			odd = "gpu:" + odd + "("
		}
		lines[at] = field.ReplaceAllLiteralString(before, " "+key+"="+odd)
		if reason != "" {
			lines[at] += " Reason=" + reason
		}
		got, err := parseNodes([]byte(strings.Join(lines, "")))
		if err != nil {
			t.Fatal(err)
		}
		if !othersStay(t, want, got, func(n *Node) string { return n.Unread }, func(n *Node) string { return n.Name }, odd) {
			t.Fatalf("%s=%q is taken for good", key, odd)
		}
		if n := len(Readable(got)); n != len(want)-1 {
			t.Fatalf("%d readable nodes of %d", n, len(want))
		}
	})
}

// A job with one field in an unknown form costs that job.
func TestOddJob(t *testing.T) { eachVersion(t, testOddJob) }

func testOddJob(t *testing.T, version string) {
	out, able, s := recordingOf(t, version, "squeue.out"), recordedAbilities[version], RecordedSeparators
	want, err := parseJobsInto(nil, []byte(out), s, able)
	if err != nil {
		t.Fatal(err)
	}
	records := strings.SplitAfter(out, s.end+"\n")
	records = records[:len(records)-1]
	rapid.Check(t, func(t *rapid.T) {
		at, odd := rapid.IntRange(0, len(records)-1).Draw(t, "record"), oddForms.Draw(t, "value")
		col := rapid.SampledFrom([]int{colUID, colPriority, colNice, colRestarts, colNodes, colCPUs, colNumTasks, colLayout, colMinMemory, colLimit, colSubmit, colEligible, colStart}).Draw(t, "column")
		changed := slices.Clone(records)
		fields := strings.Split(changed[at], s.field)
		fields[col] = odd
		changed[at] = strings.Join(fields, s.field)
		got, err := parseJobsInto(nil, []byte(strings.Join(changed, "")), s, able)
		if err != nil {
			t.Fatal(err)
		}
		// Of the second line of an array's record nothing but its ids is read.
		second := at > 0 && strings.HasPrefix(records[at-1], fields[colJobID]+s.field)
		costs := othersStay(t, want, got, func(j *Job) string { return j.Unread }, func(j *Job) string { return j.ID.String() + j.Tasks }, odd)
		if !costs && !second {
			t.Fatalf("%s %q is taken for good", jobColumns[col], odd)
		}
	})
}

// Which jobs are there must be known, or nothing is.
func TestJobsWithoutNames(t *testing.T) { eachVersion(t, testJobsWithoutNames) }

func testJobsWithoutNames(t *testing.T, version string) {
	out, s := recordingOf(t, version, "squeue.out"), RecordedSeparators
	records := strings.SplitAfter(out, s.end+"\n")
	for col, odd := range map[int]string{colJobID: "x", colTasks: "1-3..."} {
		fields := strings.Split(records[0], s.field)
		fields[col] = odd
		changed := slices.Clone(records)
		changed[0] = strings.Join(fields, s.field)
		if jobs, err := parseJobsInto(nil, []byte(strings.Join(changed, "")), s, recordedAbilities[version]); !errors.Is(err, ErrDoubtful) || jobs != nil {
			t.Errorf("%s %q: %d jobs, %v", jobColumns[col], odd, len(jobs), err)
		}
	}
}

// An odd line of sprio, and a partition with an odd limit, cost themselves.
func TestOddFactorsAndPartitions(t *testing.T) { eachVersion(t, testOddFactorsAndPartitions) }

func testOddFactorsAndPartitions(t *testing.T, version string) {
	shown := strings.SplitAfter(recordingOf(t, version, "sprio.out"), "\n")
	want, err := parseFactors(strings.Join(shown, ""))
	if err != nil {
		t.Fatal(err)
	}
	partitions := strings.SplitAfter(recordingOf(t, version, "partition.out"), "\n")
	whole, err := parsePartitions(strings.Join(partitions, ""))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		odd := oddForms.Draw(t, "value")
		lines := slices.Clone(shown)
		at := rapid.IntRange(0, len(lines)-2).Draw(t, "line")
		fields := strings.Split(lines[at], "|")
		fields[rapid.IntRange(1, 9).Draw(t, "column")] = odd
		lines[at] = strings.Join(fields, "|")
		got, err := parseFactors(strings.Join(lines, ""))
		if err != nil {
			t.Fatal(err)
		}
		costs := 0
		for _, f := range got {
			switch {
			case f.Unread == "" && !slices.Contains(want, f) && fmt.Sprint(f.RawID) != fields[0]: // a job in two partitions has two lines
				t.Fatalf("another line changed: %+v", f)
			case f.Unread != "":
				if costs++; fmt.Sprint(f.RawID) != fields[0] || !strings.Contains(f.Unread, quoted(odd)) {
					t.Fatalf("%+v", f)
				}
			}
		}
		if costs != 1 {
			t.Fatalf("%d lines are unread", costs)
		}

		lines = slices.Clone(partitions)
		at = rapid.IntRange(0, len(whole)-1).Draw(t, "partition")
		key := rapid.SampledFrom([]string{"MaxTime", "DefaultTime", "PriorityTier"}).Draw(t, "field")
		lines[at] = regexp.MustCompile(` `+key+`=\S*`).ReplaceAllLiteralString(lines[at], " "+key+"="+strings.ReplaceAll(odd, " ", ""))
		all, err := parsePartitions(strings.Join(lines, ""))
		if err != nil {
			t.Fatal(err)
		}
		if !othersStay(t, whole, all, func(p *Partition) string { return p.Unread }, func(p *Partition) string { return p.Name }, odd) {
			t.Fatalf("%s=%q is taken for good", key, odd)
		}
		if all[at].Nodes != whole[at].Nodes || all[at].State != whole[at].State {
			t.Fatalf("more than a field is lost: %+v", all[at])
		}
	})
}

// More odd records than good ones make the whole read doubtful.
func TestMostlyOdd(t *testing.T) {
	const good = "NodeName=n%d CPUTot=8 RealMemory=10 State=IDLE Gres=gpu:4\n"
	for odd, doubtful := range map[int]bool{0: false, 2: false, 3: true, 4: true} {
		out := ""
		for i := range 4 {
			line := fmt.Sprintf(good, i)
			if i < odd {
				line = strings.Replace(line, "CPUTot=8", "CPUTot=many", 1)
			}
			out += line
		}
		if nodes, err := parseNodes([]byte(out)); errors.Is(err, ErrDoubtful) != doubtful || (nodes == nil) != doubtful {
			t.Errorf("%d of 4 are odd: %d nodes, %v", odd, len(nodes), err)
		}
	}
}

// The same odd time limit twice costs both jobs.
func TestOddLimitTwice(t *testing.T) {
	s := RecordedSeparators
	records := strings.SplitAfter(recording(t, "squeue.out"), s.end+"\n")
	for at := range 3 {
		fields := strings.Split(records[at], s.field)
		fields[colLimit] = "soon"
		records[at] = strings.Join(fields, s.field)
	}
	jobs, err := parseJobs([]byte(strings.Join(records, "")), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs[:3] {
		if j.Unread == "" {
			t.Errorf("%s has a limit of %v", j.ID, j.TimeLimit)
		}
	}
}
