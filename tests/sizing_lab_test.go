package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/tests/lab"
	"slurmprio/tests/training"
)

// sizedJob is one job of the workload: its speed depends on the CPUs for each GPU,
// and its user asks for what it is fastest with.
type sizedJob struct {
	at     time.Duration
	gpus   int
	cpus   int // asked for
	curve  string
	work   time.Duration // at speed 1, that of three CPUs for each GPU
	submit time.Time
	start  time.Time
	end    time.Time
}

// sizedWorkload are 100 jobs: three in ten gain from up to nine CPUs for each GPU,
// as image models do, one in ten a little from six, and for the others one is
// enough, as for language models. Who gains asks for what it gains from, the others
// for what the site gives with a GPU.
func sizedWorkload(seed uint64) []sizedJob {
	r := rand.New(rand.NewPCG(seed, 8))
	jobs := make([]sizedJob, 100)
	for i := range jobs {
		j := &jobs[i]
		j.gpus = []int{1, 1, 1, 1, 2, 4}[r.IntN(6)]
		j.work = time.Duration(8000+r.IntN(16000)) * time.Millisecond
		j.at = time.Duration(r.IntN(90000)) * time.Millisecond
		switch n := r.IntN(10); {
		case n < 3:
			j.curve, j.cpus = "a100:1x0.4-3x1-6x1.7-9x2.1", min(9*j.gpus, 24)
		case n < 4:
			j.curve, j.cpus = "a100:1x0.7-3x1-6x1.2", 6*j.gpus
		default:
			j.curve, j.cpus = "a100:1x1-3x1", 3*j.gpus
		}
	}
	slices.SortStableFunc(jobs, func(a, b sizedJob) int { return int(a.at - b.at) })
	return jobs
}

// runSized runs the workload in a lab of its own and fills in the times.
func runSized(t *testing.T, jobs []sizedJob, sized bool) {
	s := newSizingSite(t, lab.Options{NoAccounting: true}, fmt.Sprintf("enabled = %v\nstart_timeout = \"8s\"\ndepth = 40\n[cycle]\ninterval = \"2s\"\n", sized))
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	d := s.daemon()
	const rate = 20.0
	program := filepath.Join(bin, "training")
	begun := time.Now()
	for i := range jobs {
		j := &jobs[i]
		s.sleep(time.Until(begun.Add(j.at)))
		file := filepath.Join(dir, strconv.Itoa(i))
		j.submit = time.Now()
		s.submit("--prio-cpu="+j.curve, "--gres=gpu:"+strconv.Itoa(j.gpus), "-c", strconv.Itoa(j.cpus), "--time=10", "--chdir="+dir, "--wrap",
			fmt.Sprintf("date +%%s.%%N >%s.start; %s -curve %s -rate %g -steps %.0f -every 1000000 && date +%%s.%%N >%s.end",
				file, program, j.curve, rate, rate*j.work.Seconds(), file))
	}
	ctx, cancel := context.WithTimeout(s.Context(), 15*time.Minute)
	defer cancel()
	err := lab.WaitFor(ctx, "the end of all jobs", func(ctx context.Context) (bool, error) {
		_ = rest(ctx, time.Second) // the wait sees why
		ends, err := filepath.Glob(filepath.Join(dir, "*.end"))
		return len(ends) == len(jobs), err
	})
	if err != nil {
		t.Fatal(err)
	}
	d.stop()
	read := func(i int, which string) time.Time {
		text, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(i)+which))
		if err != nil {
			t.Fatal(err)
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.UnixMicro(int64(v * 1e6))
	}
	for i := range jobs {
		jobs[i].start, jobs[i].end = read(i, ".start"), read(i, ".end")
	}
}

// sizedFigures are the mean time from submission to end, and the GPU-seconds that were
// free while a job waited that would have had its GPUs.
func sizedFigures(jobs []sizedJob, gpus int) (mean, stranded float64) {
	for _, j := range jobs {
		mean += j.end.Sub(j.submit).Seconds() / float64(len(jobs))
	}
	const step = 100 * time.Millisecond
	last := slices.MaxFunc(jobs, func(a, b sizedJob) int { return a.end.Compare(b.end) }).end
	for at := jobs[0].submit; at.Before(last); at = at.Add(step) {
		free, wanted := gpus, 0
		for _, j := range jobs {
			switch {
			case at.Before(j.submit.Add(time.Second)), !at.Before(j.end): // a second to start
			case at.Before(j.start):
				wanted += j.gpus
			default:
				free -= j.gpus
			}
		}
		stranded += float64(max(min(free, wanted), 0)) * step.Seconds()
	}
	return mean, stranded
}

// With sizing, jobs whose speed depends on their CPUs are done sooner on the real
// Slurm: 24 CPUs for 8 GPUs, the same 100 jobs in the same order. It takes some ten
// minutes.
func TestSizingOnSlurm(t *testing.T) {
	if os.Getenv("SLURMPRIO_LONG") != "1" && os.Getenv("SLURMPRIO_SIZING") != "1" {
		t.Skip("takes ten minutes: SLURMPRIO_LONG=1 or SLURMPRIO_SIZING=1")
	}
	seed := seedOf(t)
	for _, j := range sizedWorkload(seed)[:1] {
		if _, err := training.ParseCurves(j.curve, "a100-1"); err != nil {
			t.Fatal(err)
		}
	}
	var mean, stranded [2]float64
	for i, sized := range []bool{false, true} {
		jobs := sizedWorkload(seed)
		t.Run(fmt.Sprintf("sizing=%v", sized), func(t *testing.T) { runSized(t, jobs, sized) })
		if t.Failed() {
			return
		}
		mean[i], stranded[i] = sizedFigures(jobs, 16)
		t.Logf("sizing %v: mean completion %.1f s, stranded %.0f GPU-seconds", sized, mean[i], stranded[i])
	}
	t.Logf("mean completion %.1f %% better, stranded GPU-time %.1f %% less", 100*(1-mean[1]/mean[0]), 100*(1-stranded[1]/stranded[0]))
	if mean[1] > 0.85*mean[0] {
		t.Errorf("with sizing the mean is %.1f s, without %.1f s: want 15 %% better", mean[1], mean[0])
	}
}
