package trace

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/slurmplug"
)

const oddHead = "JobID|Submit|Start|End|ElapsedRaw|Timelimit|NNodes|AllocTRES|User|State|ExitCode\n"

// A row with one field in an unknown form costs itself and is named; all others are read.
func TestOddRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := func(id int) string {
			return fmt.Sprintf("%d|%d|%d|%d|%d|1:00:00|1|cpu=4,gres/gpu=2|ann|COMPLETED|0:0", id, 1000+id, 2000+id, 3000+id, 1000)
		}
		n := rapid.IntRange(1, 8).Draw(t, "good")
		rows := []string{}
		for id := range n {
			rows = append(rows, row(id+1))
		}
		want, _, err := read(oddHead+strings.Join(rows, "\n")+"\n", Options{Format: Sacct})
		if err != nil {
			t.Fatal(err)
		}
		odd := []string{}
		for range rapid.IntRange(0, MostNamed).Draw(t, "odd") {
			id := fmt.Sprint(100 + len(odd))
			fields := strings.Split(row(100+len(odd)), "|")
			at := rapid.SampledFrom([]int{1, 2, 3, 5, 6, 7, 10}).Draw(t, "column")
			fields[at] = rapid.SampledFrom([]string{"soon", "-", "4(", "1.2.3", "=1", "\x1b[2J"}).Draw(t, "value")
			text := strings.Join(fields, "|")
			if rapid.IntRange(0, 9).Draw(t, "cut") == 0 {
				text, id = text[:12], ""
			}
			rows = slices.Insert(rows, rapid.IntRange(0, len(rows)).Draw(t, "place"), text)
			odd = append(odd, id)
		}
		got, stats, err := read(oddHead+strings.Join(rows, "\n")+"\n", Options{Format: Sacct, SkipBad: true})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatal(err, diff)
		}
		named := []string{}
		for _, l := range stats.Left {
			named = append(named, l.Job)
		}
		slices.Sort(odd)
		slices.Sort(named)
		if stats.Bad != len(odd) || !slices.Equal(odd, named) {
			t.Fatalf("%d left out, %q named, want %q", stats.Bad, named, odd)
		}
	})
}

// Times in each form that SLURM_TIME_FORMAT gives them.
func TestTimesWithZones(t *testing.T) {
	want := time.Date(2024, 3, 1, 10, 0, 0, 0, time.UTC)
	for _, text := range []string{
		"2024-03-01T10:00:00", "2024-03-01T10:00:00Z", "2024-03-01T10:00:00+0000", "2024-03-01T10:00:00+00:00", "2024-03-01T10:00:00+00",
		"2024-03-01T11:00:00+0100", "2024-03-01T11:00:00+01:00", "2024-03-01T05:30:00-0430", "2024-03-01T09:00:00-01", fmt.Sprint(want.Unix()),
	} {
		if got, ok := sacctTime(text); !ok || !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"2024-03-01T10:00:00+", "2024-03-01T10:00:00+25:00:00", "2024-03-01", "soon", "1969-12-31T23:59:59Z"} {
		if got, ok := sacctTime(text); ok {
			t.Errorf("%s: %v", text, got)
		}
	}
	// Clocks went back during the run: the zones say so.
	jobs, _, err := read("JobID|Submit|Start|End|AllocTRES\n1|2024-10-27T01:00:00+0200|2024-10-27T02:30:00+0200|2024-10-27T02:10:00+0100|gres/gpu=1\n", Options{Format: Sacct})
	if err != nil || len(jobs) != 1 || jobs[0].Duration != 2400 {
		t.Error(err, jobs)
	}
}

// An elapsed time that cannot be is what start and end say; of one that can, as when a job was suspended, these say too much.
func TestElapsed(t *testing.T) {
	for elapsed, want := range map[string]float64{
		"Elapsed|49710-06:28:15": 600, "ElapsedRaw|4294967295": 600, "Elapsed|213503982334-14:25:51": 600, "ElapsedRaw|": 600, "Elapsed|INVALID": 600,
		"Elapsed|00:05:00": 300, "ElapsedRaw|300": 300, "ElapsedRaw|4200": 4200, // clocks went forward
	} {
		name, value, _ := strings.Cut(elapsed, "|")
		jobs, _, err := read("JobID|Submit|Start|End|AllocTRES|"+name+"\n1|1000|1000|1600|gres/gpu=1|"+value+"\n", Options{Format: Sacct})
		if err != nil || len(jobs) != 1 || jobs[0].Duration != want {
			t.Errorf("%s: %v, %+v, want %v", elapsed, err, jobs, want)
		}
	}
}

// A run with odd TRES costs itself; a licence of two words is none.
func TestRunsWithOddTRES(t *testing.T) {
	at := time.Unix(1e9, 0)
	run := func(id uint32, tres string) slurmplug.Run {
		return slurmplug.Run{ID: slurmplug.Plain(id), Submit: at, Start: at, End: at.Add(time.Hour), State: "COMPLETED", AllocTRES: tres}
	}
	runs := []slurmplug.Run{run(1, "gres/gpu=1,license/two words=1"), run(2, "gres/gpu=many"), run(3, "gres/gpu=1"), {ID: slurmplug.Plain(4), Unread: "State"}}
	jobs, stats, err := FromRuns(runs, Options{SkipBad: true})
	if err != nil || len(jobs) != 2 || stats.Bad != 2 || stats.Left[0].Job != "2" || stats.Left[1].Job != "4" {
		t.Error(err, jobs, stats)
	}
	if _, _, err := FromRuns(runs, Options{}); err == nil || !strings.Contains(err.Error(), "job 2: ") {
		t.Error(err)
	}
}
