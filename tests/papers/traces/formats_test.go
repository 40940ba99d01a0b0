package traces

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slurmprio/priod/trace"
	"slurmprio/tests/shared"
)

// format is one that a trace may have.
type format func(name string, text io.Reader) (trace.Source, error)

func readAll(r *trace.Reader) (jobs []trace.Job, err error) {
	for j, err := range r.All() {
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// read reads jobs in a format, nil for our own.
func read(text string, f format) ([]trace.Job, error) {
	r, err := trace.NewReader("t", strings.NewReader(text), trace.Options{Source: f})
	if err != nil {
		return nil, err
	}
	return readAll(r)
}

func job(set func(*trace.Job)) trace.Job {
	j := trace.NewJob()
	set(&j)
	return j
}

const gavelRow = "A3C\tcmd\tdir\t--n\t0\t100\t1\t1\t-1.0\t0\n"

func TestReadErrors(t *testing.T) {
	const gavel, synergy = "gavel", "synergy"
	for _, c := range []struct{ format, text, want string }{
		{synergy, "0,alexnet,0,10,0\n", `t:1:16: gpus = "0": want a whole number from 1`},
		{gavel, strings.Replace(gavelRow, "\t1\t1\t", "\t0\t1\t", 1), `scale_factor = "0": want a whole number from 1`},
		{gavel, "", "empty"},
		{gavel, "A3C\tx\ty\t0\t1\t2\t3\n", "seven columns"},
		{gavel, "A3C\n", "t:1: 1 columns, want 10"},
		{gavel, gavelRow + "A3C\n", "t:2: 1 columns, want 10"},
		{gavel, strings.Replace(gavelRow, "A3C", "", 1), "job_type"},
		{gavel, strings.Replace(gavelRow, "100", "-1", 1), `total_steps = "-1"`},
		{gavel, strings.Replace(gavelRow, "-1.0", "2", 1), `SLO = "2"`},
		{gavel, strings.Replace(gavelRow, "\t0\n", "\t9\n", 1) + gavelRow, `t:2:32: arrival_time = "0": want no less than 9`},
		{gavel, strings.Join(gavelStreamColumns, "\t") + "\n", "--jobs-per-hour"},
		{synergy, "0,gnmt,0,5\n", "t:1: 4 columns, want 5"},
		{synergy, "0,gnmt,0,0,1\n", `steps = "0"`},
		{synergy, "0,,0,5,1\n", `workload = ""`},
		{synergy, "", "no jobs"},
	} {
		f := Gavel(Options{})
		if c.format == synergy {
			f = Synergy
		}
		if _, err := read(c.text, f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: error %v, want %q", c.format, c.text, err, c.want)
		}
	}
}

func TestReadGavel(t *testing.T) {
	text := "ResNet-18 (batch size 128)\tpython3 \"x\" --d=%s\timages\t--num_steps\t1\t36030\t2\t5.0\t-1.000000\t0\n" +
		"A3C\tcmd\trl\t-n\t0\t100\t1\t1\t2.0\t10.5\n"
	jobs, err := read(text, Gavel(Options{Workloads: shared.Workloads(t)}))
	if err != nil {
		t.Fatal(err)
	}
	want := []trace.Job{
		job(func(j *trace.Job) {
			j.ID, j.GPUs, j.Workload, j.Steps, j.Weight = "0", 2, "ResNet-18 (batch size 128)", 36030, 5
		}),
		job(func(j *trace.Job) {
			j.ID, j.GPUs, j.Workload, j.Steps, j.Submit, j.Deadline = "1", 1, "A3C", 100, 10.5, 10.5+2.0*100/7.175767179667988
		}),
	}
	if diff := cmp.Diff(want, jobs); diff != "" {
		t.Error(diff)
	}
	stream := strings.Join(gavelStreamColumns, "\t") + "\n7\tA3C\t1\t50.5\t7\t0.0\n8\tA3C\t1\t50.5\t7\t1.5\n"
	for rate, second := range map[float64]float64{2: 2700, math.Inf(1): 0} {
		jobs, err = read(stream, Gavel(Options{JobsPerHour: rate}))
		if err != nil || len(jobs) != 2 || jobs[1].ID != "8" || jobs[1].Submit != second || jobs[1].Steps != 50.5 {
			t.Error(err, jobs)
		}
	}
}

func TestReadSynergy(t *testing.T) {
	jobs, err := read("0,alexnet,.123,3349,4\n1,gnmt,5,26435,1\n", Synergy)
	want := []trace.Job{
		job(func(j *trace.Job) { j.ID, j.Workload, j.Submit, j.Steps, j.GPUs = "0", "alexnet", .123, 3349, 4 }),
		job(func(j *trace.Job) { j.ID, j.Workload, j.Submit, j.Steps, j.GPUs = "1", "gnmt", 5, 26435, 1 }),
	}
	if diff := cmp.Diff(want, jobs); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

// The papers' traces that lie beside the repository read as they are known to.
func TestReadData(t *testing.T) {
	for _, c := range []struct {
		path string
		read format
		jobs int
		gpus int
		last float64
	}{
		{"gavel/traces/artifact_evaluation.trace", Gavel(Options{}), 15, 18, 0},
		{"gavel/traces/max_min_fairness.trace", Gavel(Options{}), 96, 59 + 2*19 + 4*18, 46317},
		{"gavel/traces/minimize_makespan.trace", Gavel(Options{}), 100, 71 + 2*6 + 4*23, 0},
		{"gavel/traces/continuous_single_seed0.tsv.gz", Gavel(Options{JobsPerHour: 5.6}), 7500, 7500, 0},
		{"synergy/deploy_static_100job_6_3_1.csv", Synergy, 100, 100, 0},
		{"synergy/sim_single_gpu_9jph_20_70_10_seed42.csv.gz", Synergy, 12000, 12000, 0},
	} {
		r, err := trace.Open(shared.Path(t, c.path), trace.Options{Source: c.read})
		if err != nil {
			t.Fatal(err)
		}
		jobs, err := readAll(r)
		_ = r.Close()
		if err != nil {
			t.Error(err)
			continue
		}
		gpus := 0
		w := shared.Workloads(t)
		for i := range jobs {
			gpus += jobs[i].GPUs
			if _, known := w.Lookup(jobs[i].Workload); !known && jobs[i].Duration == 0 {
				t.Errorf("%s: job %s has no workload that is known: %q", c.path, jobs[i].ID, jobs[i].Workload)
			}
		}
		if len(jobs) != c.jobs || c.gpus > 0 && gpus != c.gpus || c.last > 0 && jobs[len(jobs)-1].Submit != c.last {
			t.Errorf("%s: %d jobs, %d GPUs, last %v", c.path, len(jobs), gpus, jobs[len(jobs)-1].Submit)
		}
	}
}

// fuzz holds of every reader: no panic, and jobs that our own format carries.
func fuzz(f *testing.F, format format, seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := trace.NewReader("t", strings.NewReader(text), trace.Options{Source: format, SkipBad: true, Sort: true})
		if err != nil {
			return
		}
		jobs, err := readAll(r)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := trace.WriteCSV(&b, jobs); err != nil {
			t.Fatal(err)
		}
		again, err := read(b.String(), nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		if diff := cmp.Diff(jobs, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzGavel(f *testing.F) {
	fuzz(f, Gavel(Options{Workloads: shared.Workloads(f), JobsPerHour: 2}), "A3C\tcmd\tdir\t--n\t0\t100\t1\t1\t2\t0\n", strings.Join(gavelStreamColumns, "\t")+"\n7\tA3C\t1\t50.5\t7\t0.5\n",
		strings.Join(gavelStreamColumns, "\t")+"\n\tC\t1\t5\t\t0\n")
}

func FuzzSynergy(f *testing.F) { fuzz(f, Synergy, "0,alexnet,.123,3349,4\n") }
