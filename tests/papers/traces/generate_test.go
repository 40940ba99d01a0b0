package traces

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"

	"slurmprio/priod/cluster"
	"slurmprio/priod/trace"
	"slurmprio/tests/shared"
)

// generators with the defaults of the command line, so many jobs from a seed.
func generators(t testing.TB) map[string]func(seed uint64, jobs int) ([]trace.Job, error) {
	w := shared.Workloads(t)
	return map[string]func(uint64, int) ([]trace.Job, error){
		"gavel": func(seed uint64, n int) ([]trace.Job, error) {
			return GenerateGavel(GavelParams{Seed: seed, Jobs: n, JobsPerHour: 5.6, MultiGPU: true, HighPriority: 0.2, SLO: true, Workloads: w})
		},
		"synergy": func(seed uint64, n int) ([]trace.Job, error) {
			return GenerateSynergy(SynergyParams{Seed: seed, Jobs: n, JobsPerHour: 9, Split: [3]float64{20, 70, 10}, Workloads: w})
		},
		"fitgpp even": func(seed uint64, n int) ([]trace.Job, error) {
			return GenerateFitGpp(FitGppParams{Seed: seed, Jobs: n, Mix: "even", TEShare: 0.3, Node: FitGppNode})
		},
		"fitgpp small-be, Poisson": func(seed uint64, n int) ([]trace.Job, error) {
			return GenerateFitGpp(FitGppParams{Seed: seed, Jobs: n, Mix: "small-be", TEShare: 0.3, Load: 0.9, Node: FitGppNode})
		},
		"philly": func(seed uint64, n int) ([]trace.Job, error) {
			return GeneratePhilly(PhillyParams{Seed: seed, Jobs: n, JobsPerHour: PhillyJobsPerHour, Failures: true})
		},
	}
}

// Same seed, same bytes; the sums change only with a generator.
func TestGenerateBytes(t *testing.T) {
	want := map[string]string{
		"gavel": "447642556ef8d931", "synergy": "4b541b6cf4e46e81", "philly": "6ca1ee18d8a8fd64",
		"fitgpp even": "3e327e2bb624b4a6", "fitgpp small-be, Poisson": "aec94aefd7b69ff3",
	}
	for name, generate := range generators(t) {
		text := func(seed uint64) string {
			jobs, err := generate(seed, 2000)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := trace.WriteCSV(&b, jobs); err != nil {
				t.Fatal(err)
			}
			again, err := read(b.String(), nil)
			if err != nil || len(again) != len(jobs) {
				t.Fatalf("%s: what is generated does not read: %v", name, err)
			}
			return b.String()
		}
		one := text(1)
		if one != text(1) || one == text(2) {
			t.Errorf("%s: a seed does not settle the bytes", name)
		}
		sum := sha256.Sum256([]byte(one))
		if got := hex.EncodeToString(sum[:8]); got != want[name] {
			t.Errorf("%s: sum %s, want %s", name, got, want[name])
		}
	}
}

func mean(jobs []trace.Job, of func(*trace.Job) float64) float64 {
	sum := 0.0
	for i := range jobs {
		sum += of(&jobs[i])
	}
	return sum / float64(len(jobs))
}

func share(jobs []trace.Job, is func(*trace.Job) bool) float64 {
	return mean(jobs, func(j *trace.Job) float64 {
		if is(j) {
			return 1
		}
		return 0
	})
}

func near(t *testing.T, what string, got, want, part float64) {
	t.Helper()
	if math.Abs(got-want) > part*want {
		t.Errorf("%s: %.4g, want %.4g within %.0f %%", what, got, want, 100*part)
	}
}

func TestGavelDistribution(t *testing.T) {
	jobs, err := generators(t)["gavel"](3, 40000)
	if err != nil {
		t.Fatal(err)
	}
	w := shared.Workloads(t)
	hours := func(j *trace.Job) float64 {
		speed, ok := speedOf(w, j, "v100")
		if !ok {
			t.Fatalf("%s does not run on %d V100s", j.Workload, j.GPUs)
		}
		return j.Steps / speed / 3600
	}
	near(t, "hours on V100s", mean(jobs, hours), 16.8, 0.02)
	near(t, "jobs in an hour", 40000/(jobs[len(jobs)-1].Submit/3600), 5.6, 0.02)
	for gpus, want := range map[int]float64{1: 0.7, 2: 0.1, 4: 0.15, 8: 0.05} {
		near(t, "share of a size", share(jobs, func(j *trace.Job) bool { return j.GPUs == gpus }), want, 0.06)
	}
	near(t, "A3C", share(jobs, func(j *trace.Job) bool { return j.Workload == "a3c" }), 0.7/26, 0.1)
	near(t, "weight 5", share(jobs, func(j *trace.Job) bool { return j.Weight == 5 }), 0.2, 0.05)
	near(t, "SLO of 10", share(jobs, func(j *trace.Job) bool { return (j.Deadline-j.Submit)/3600 > 5*hours(j) }), 1./3, 0.05)
	static, err := GenerateGavel(GavelParams{Jobs: 10, JobsPerHour: math.Inf(1), Workloads: w})
	if err != nil || static[9].Submit != 0 || static[9].GPUs != 1 || static[9].Deadline != trace.NoDeadline {
		t.Error(err, static)
	}
}

func TestSynergyDistribution(t *testing.T) {
	jobs, err := generators(t)["synergy"](3, 40000)
	if err != nil {
		t.Fatal(err)
	}
	w := shared.Workloads(t)
	near(t, "hours", mean(jobs, func(j *trace.Job) float64 { s, _ := speedOf(w, j, "v100"); return j.Steps / s / 3600 }), 16.77, 0.02)
	near(t, "jobs in an hour", 40000/(jobs[len(jobs)-1].Submit/3600), 9, 0.02)
	// The first models of the authors' own traces with this split.
	var models []string
	for _, j := range jobs[:5] {
		models = append(models, j.Workload)
	}
	if want := []string{"alexnet", "gnmt", "transformer", "m5", "lstm"}; !slices.Equal(models, want) {
		t.Error(models)
	}
}

// Models do not depend on the seed: the authors' 12,000 jobs have the same.
func TestSynergyModels(t *testing.T) {
	r, err := trace.Open(shared.Path(t, "synergy/sim_single_gpu_9jph_20_70_10_seed42.csv.gz"), trace.Options{Source: Synergy})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	theirs, err := readAll(r)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := generators(t)["synergy"](1, len(theirs))
	if err != nil {
		t.Fatal(err)
	}
	for i := range theirs {
		if theirs[i].Workload != ours[i].Workload {
			t.Fatalf("job %d is a %s, in the authors' trace a %s", i, ours[i].Workload, theirs[i].Workload)
		}
	}
	near(t, "mean submission", mean(ours, func(j *trace.Job) float64 { return j.Submit }), mean(theirs, func(j *trace.Job) float64 { return j.Submit }), 0.05)
}

func TestFitGppDistribution(t *testing.T) {
	jobs, err := generators(t)["fitgpp even"](3, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	te := slices.DeleteFunc(slices.Clone(jobs), func(j trace.Job) bool { return j.Class == cluster.BE })
	near(t, "TE share", float64(len(te))/float64(len(jobs)), 0.3, 0.02)
	for i := range jobs {
		j := &jobs[i]
		least, most := 60.0, 1440*60.0
		if j.Class == cluster.TE {
			least, most = 30, 1800
		}
		if j.Duration < least || j.Duration > most || j.GPUs < 1 || j.GPUs > 8 || j.CPUs < 1 || j.CPUs > 32 ||
			j.MemMB < 1024 || j.MemMB > 256*1024 || j.Grace > 1200 || j.Class == cluster.TE && j.Grace != 0 {
			t.Fatalf("%+v", j)
		}
		if i > 0 && j.Submit < jobs[i-1].Submit {
			t.Fatal("jobs out of order")
		}
	}
	// A normal distribution with sd = mean, cut at 0.1 and 6 times the mean, has
	// a mean of mean x (1 + (phi(-0.9) - phi(5)) / (Phi(5) - Phi(-0.9))).
	near(t, "TE run time", mean(te, func(j *trace.Job) float64 { return j.Duration }), 300*(1+0.26609/0.81594), 0.02)
	small, err := generators(t)["fitgpp small-be, Poisson"](3, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	work := mean(small, func(j *trace.Job) float64 { return j.Duration * float64(j.GPUs) })
	near(t, "load", work*(1<<16)/small[1<<16-1].Submit/(84*8), 0.9, 0.02)
}

// On nodes with one of each, all jobs ask for that.
func TestFitGppSmallNodes(t *testing.T) {
	jobs, err := GenerateFitGpp(FitGppParams{Jobs: 100, Mix: "small-be", Node: trace.NodeGroup{Count: 2, GPUType: "a", GPUs: 1, CPUs: 1, MemMB: 1024}})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if j.GPUs != 1 || j.CPUs != 1 || j.MemMB != 1024 {
			t.Fatalf("%+v", j)
		}
	}
}

// The recorded arrivals hold the load of a FIFO run at 2.0: two jobs for one
// GPU, so that the second waits for the first and the third comes with it.
func TestHoldLoad(t *testing.T) {
	jobs := make([]trace.Job, 5)
	for i := range jobs {
		jobs[i].GPUs, jobs[i].Duration = 1, float64(10*(i+1))
	}
	holdLoad(jobs, trace.NodeGroup{Count: 1, GPUs: 1}, 2)
	for i, want := range []float64{0, 0, 10, 30, 60} {
		if jobs[i].Submit != want {
			t.Errorf("job %d comes at %v, want %v", i, jobs[i].Submit, want)
		}
	}
}

func TestPhillyDistribution(t *testing.T) {
	g := generators(t)["philly"]
	jobs, err := g(3, 200_000)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "jobs in an hour", 200_000/(jobs[len(jobs)-1].Submit/3600), 53.48, 0.02)
	passing, err := GeneratePhilly(PhillyParams{Seed: 3, Jobs: 200_000, JobsPerHour: PhillyJobsPerHour})
	if err != nil {
		t.Fatal(err)
	}
	one := slices.DeleteFunc(passing, func(j trace.Job) bool { return j.GPUs != 1 })
	near(t, "share of one GPU", float64(len(one))/200_000, 76627./82233, 0.01)
	times := make([]float64, len(one))
	for i := range one {
		times[i] = one[i].Duration
	}
	slices.Sort(times)
	near(t, "median", times[len(times)/2], 1117, 0.05)
	near(t, "90th percentile", times[len(times)*9/10], 8512, 0.05)
	near(t, "mean of one GPU", mean(one, func(j *trace.Job) float64 { return j.Duration }), 8301, 0.25)
	if share(jobs, func(j *trace.Job) bool {
		return strings.HasPrefix(j.Account, "vc") && strings.HasPrefix(j.User, "user")
	}) != 1 {
		t.Error("jobs without a user")
	}
}

func TestGenerateErrors(t *testing.T) {
	w := shared.Workloads(t)
	even := FitGppParams{Jobs: 1, Mix: "even", TEShare: 0.3, Node: FitGppNode}
	fitgpp := func(set func(*FitGppParams)) error {
		p := even
		set(&p)
		_, err := GenerateFitGpp(p)
		return err
	}
	_, noJobs := GenerateGavel(GavelParams{JobsPerHour: 1, Workloads: w})
	_, noRate := GenerateGavel(GavelParams{Jobs: 1, Workloads: w})
	_, badShare := GenerateGavel(GavelParams{Jobs: 1, JobsPerHour: 1, HighPriority: 2, Workloads: w})
	_, badSplit := GenerateSynergy(SynergyParams{Jobs: 1, JobsPerHour: 1, Split: [3]float64{-1, 1, 1}, Workloads: w})
	_, noSplit := GenerateSynergy(SynergyParams{Jobs: 1, JobsPerHour: 1, Workloads: w})
	_, nan := GeneratePhilly(PhillyParams{Jobs: 1, JobsPerHour: math.NaN()})
	for want, err := range map[string]error{
		"0 jobs": noJobs, "0 jobs in an hour": noRate, "high priority": badShare, "split [-1": badSplit, "not all 0": noSplit, "NaN": nan,
		`mix "odd"`:    fitgpp(func(p *FitGppParams) { p.Mix = "odd" }),
		"share of TE":  fitgpp(func(p *FitGppParams) { p.TEShare = -1 }),
		"load":         fitgpp(func(p *FitGppParams) { p.Load = -1 }),
		"count = 0":    fitgpp(func(p *FitGppParams) { p.Node.Count = 0 }),
		"CPUS and MEM": fitgpp(func(p *FitGppParams) { p.Node.CPUs = 0 }),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
