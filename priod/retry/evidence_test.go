package retry

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"slurmprio/slurmplug"
)

// reason is a row of Table 7 of Jeon et al. (USENIX ATC 2019): trials, jobs, minutes to
// failure at 50, 90 and 95 %, trials on 1, 2 to 4 and more GPUs; and how such a failure
// looks on Slurm.
type reason struct {
	name          string
	trials, jobs  int
	p50, p90, p95 float64
	size          [3]int
	worth         bool // another run may pass: the job is lost when nobody gives it one
	unclear       bool // nobody knows whether it may
	looks         []string
}

var table7 = []reason{
	{"CPU out of memory", 12076, 2803, 13.45, 17.73, 33.97, [3]int{11465, 235, 376}, false, false, []string{"OUT_OF_MEMORY 0:125 reason=OutOfMemory used=0.99 | ", "FAILED 137:0 used=0.97 | /var/spool/slurmd/job1/slurm_script: line 7: 4711 Killed python train.py", "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 71.5 GiB for an array with shape (98304, 97656) and data type float64"}},
	{"Incorrect inputs", 9690, 4936, 1.87, 404.83, 2095.73, [3]int{5844, 2638, 1208}, false, false, []string{"FileNotFoundError: [Errno 2] No such file or directory: '/hdfs/vol4/train.lst'", "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x8b in position 1: invalid start byte", "ls: cannot access '/data/x': No such file or directory", "PIL.UnidentifiedImageError: cannot identify image file 'a.jpg'"}},
	{"Semantic error", 2943, 2049, 2.72, 376.00, 1436.88, [3]int{1603, 494, 846}, false, false, []string{"AttributeError: 'Tensor' object has no attribute 'numpyy'", "TypeError: forward() takes 2 positional arguments but 3 were given", "RuntimeError: size mismatch for fc.weight: copying a param with shape torch.Size([1000, 512])", "ValueError: operands could not be broadcast together with shapes (3,4) (4,3)"}},
	{"Core dump", 2912, 1784, 0.85, 72.75, 431.65, [3]int{1936, 496, 480}, false, true, []string{"FAILED 0:11 | ", "FAILED 139:0 | Segmentation fault (core dumped)", "FAILED 134:0 | Aborted (core dumped)"}},
	{"Invalid memory access", 2602, 1235, 1.03, 403.50, 1357.38, [3]int{712, 774, 1116}, false, true, []string{"RuntimeError: CUDA error: an illegal memory access was encountered", "*** Process received signal ***"}},
	{"Model checkpoint error", 1995, 948, 181.67, 3728.93, 8196.02, [3]int{743, 384, 868}, true, false, []string{"OSError: [Errno 116] Stale file handle: '/hdfs/ckpt/7.pt'", "OSError: [Errno 5] Input/output error: '/hdfs/ckpt/7.pt'", "RuntimeError: PytorchStreamWriter failed writing file data/12: file write failed"}},
	{"CUDA failure", 1484, 571, 1.32, 19.87, 82.17, [3]int{133, 1153, 198}, true, false, []string{"RuntimeError: CUDA error: unspecified launch failure", "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "RuntimeError: CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasCreate`"}},
	{"Syntax error", 1132, 883, 0.58, 5.02, 12.00, [3]int{780, 184, 168}, false, false, []string{"SyntaxError: invalid syntax", "IndentationError: expected an indented block", "/var/spool/slurmd/job1/slurm_script: line 9: syntax error near unexpected token `done'"}},
	{"Traceback from crash", 777, 271, 1.02, 894.33, 1394.07, [3]int{356, 277, 144}, false, true, []string{"Traceback (most recent call last):"}},
	{"MPI error", 634, 166, 1.62, 3015.27, 5143.98, [3]int{456, 54, 124}, true, false, []string{"Fatal error in PMPI_Bcast: Other MPI error, error stack:", "ConnectionResetError: [Errno 104] Connection reset by peer", "[gpu7:00123] *** MPI_ERR_PROC_FAILED: Process Failure"}},
	{"GPU out of memory", 487, 261, 18.53, 353.62, 2740.28, [3]int{237, 70, 180}, false, false, []string{"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB", "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[8,512]"}},
	{"MPI runtime failure", 478, 420, 1389.48, 13778.60, 18090.88, [3]int{240, 141, 97}, true, false, []string{"ORTE has lost communication with a remote daemon.", "[E ProcessGroupNCCL.cpp:828] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE)", "torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1269, unhandled system error, NCCL version 2.14.3"}},
	{"Permission error", 299, 151, 1.00, 8.15, 15.85, [3]int{56, 202, 41}, false, false, []string{"PermissionError: [Errno 13] Permission denied: '/data/out'", "FAILED 126:0 | /bin/bash: ./run.sh: Permission denied"}},
	{"Import error", 148, 148, 0.67, 4.58, 10.73, [3]int{108, 30, 10}, false, false, []string{"ModuleNotFoundError: No module named 'apex'", "ImportError: cannot import name 'container_abcs' from 'torch._six'"}},
	{"Job preempted", 147, 95, 559.08, 2682.85, 5892.23, [3]int{25, 95, 27}, true, false, []string{"PREEMPTED 0:15 | "}},
	{"CUDA init failed", 141, 69, 1.08, 2.18, 4.63, [3]int{16, 66, 59}, true, false, []string{"RuntimeError: No CUDA GPUs are available", "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable\nCUDA-capable device(s) is/are busy or unavailable"}},
	{"Model diverged", 84, 30, 1.48, 44.37, 76.53, [3]int{78, 5, 1}, false, false, []string{"Loss is nan, stopping training"}},
	{"CUDA version mismatch", 49, 49, 0.83, 1.65, 1.67, [3]int{1, 1, 47}, false, false, []string{"RuntimeError: CUDA error: no kernel image is available for execution on the device"}},
	{"GPU ECC error", 10, 10, 26.82, 671.92, 2035.02, [3]int{1, 5, 4}, true, false, []string{"RuntimeError: CUDA error: uncorrectable ECC error encountered"}},
	{"Output node error", 3, 3, 0.85, 0.95, 0.95, [3]int{3, 0, 0}, false, false, []string{"slurmstepd: error: Could not open stdout file /nowhere/1.out: No such file or directory"}},
	{"Cannot load libs", 1, 1, 0.12, 0.12, 0.12, [3]int{1, 0, 0}, false, false, []string{"ImportError: libcudart.so.9.0: cannot open shared object file: No such file or directory"}},
	{"No signature", 1684, 698, 1.87, 28.00, 95.17, [3]int{1235, 294, 155}, false, true, []string{"done with step 7"}},
}

// trial is one failed run.
type trial struct {
	minutes float64
	text    string
}

// failing is a job of Table 7: under blind requeue all of its trials fail, one after the
// other. After them a job that is worth it passes, and others are given up.
type failing struct {
	reason *reason
	gpus   int
	trials []trial
}

// draw makes n failing jobs: reasons by the jobs of their rows, numbers of trials
// geometrically with the row's mean, times to failure on logarithmic lines between the
// known percentiles.
func draw(r *rand.Rand, n int) []failing {
	jobs := make([]failing, n)
	all := 0
	for i := range table7 {
		all += table7[i].jobs
	}
	for i := range jobs {
		at, k := r.IntN(all), 0
		for at >= table7[k].jobs {
			at, k = at-table7[k].jobs, k+1
		}
		row := &table7[k]
		j := failing{reason: row, gpus: [3]int{1, 4, 8}[weighted(r, row.size[:])]}
		text := row.looks[r.IntN(len(row.looks))]
		again := 1 - float64(row.jobs)/float64(row.trials)
		for {
			j.trials = append(j.trials, trial{minutes(r, row), text})
			if r.Float64() >= again {
				break
			}
		}
		jobs[i] = j
	}
	return jobs
}

func weighted(r *rand.Rand, weights []int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	at := r.IntN(sum)
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	return 0
}

// minutes draws a time to failure, none longer than the 95th percentile and none shorter
// than a tenth of the median, as in trace.GeneratePhilly.
func minutes(r *rand.Rand, row *reason) float64 {
	u := r.Float64()
	points := [][2]float64{{0, row.p50 / 10}, {.5, row.p50}, {.9, row.p90}, {.95, row.p95}, {1, row.p95}}
	for i := 1; i < len(points); i++ {
		if a, b := points[i-1], points[i]; u <= b[0] {
			return a[1] * math.Pow(b[1]/a[1], (u-a[0])/(b[0]-a[0]))
		}
	}
	return row.p95
}

// figures are what a policy came to.
type figures struct {
	trials, avoided, again int     // that failed; that did not happen; requeues
	hours, saved           float64 // GPU-hours of these
	hopeless               int     // avoided, of jobs that another run does not help
	worth, gone            int     // jobs that another run may help; of them: neither run again nor held, at any of their failures
	passed, held           int     // of them: passed; stopped before, held for their users
}

func (f *figures) add(o figures) {
	f.trials, f.avoided, f.again, f.hours, f.saved = f.trials+o.trials, f.avoided+o.avoided, f.again+o.again, f.hours+o.hours, f.saved+o.saved
	f.hopeless, f.worth, f.gone, f.passed, f.held = f.hopeless+o.hopeless, f.worth+o.worth, f.gone+o.gone, f.passed+o.passed, f.held+o.held
}

// judged runs one job under the settings, as the feature does.
func judged(set *Settings, tag string, j *failing, id uint32, r *rand.Rand, known map[string]Finding) (f figures) {
	var past []Failure
	at := time.Unix(1_700_000_000, 0)
	stopped, then := len(j.trials), Nothing
	for n := range j.trials {
		t := &j.trials[n]
		run := Run{}
		run.Job, run.User, run.GPUs, run.Restarts = slurmplug.Plain(id), "ann", j.gpus, n
		run.Nodes = []string{fmt.Sprintf("n%d", r.IntN(300))}
		run.Start, run.End = at, at.Add(time.Duration(t.minutes*float64(time.Minute)))
		found := known[t.text]
		v := set.Decide(&Case{Finding: found, Run: &run, Retry: tag, CanRequeue: true, Past: past})
		f.trials, f.hours = f.trials+1, f.hours+t.minutes/60*float64(j.gpus)
		if v.Do != Elsewhere && v.Do != Later {
			stopped, then = n, v.Do
			break
		}
		f.again++
		past = append(past, Failure{
			Class: found.Class.Name, Signature: found.Signature, Free: found.Class.Free, Do: v.Do, Nodes: run.Nodes,
			Start: run.Start, End: run.End, Restarts: n, Requeued: run.End,
		})
		at = run.End.Add(v.Wait)
	}
	for n := stopped + 1; n < len(j.trials); n++ {
		f.avoided, f.saved = f.avoided+1, f.saved+j.trials[n].minutes/60*float64(j.gpus)
		if !j.reason.worth && !j.reason.unclear {
			f.hopeless++
		}
	}
	if j.reason.worth {
		f.worth = 1
		switch {
		case stopped == len(j.trials):
			f.passed = 1
		case then == Hold:
			f.held = 1
		default:
			f.gone = 1
		}
	}
	return f
}

// said is output that ends with a text, after lines that say nothing, or nothing bad.
func said(r *rand.Rand, text []byte) []byte {
	var b bytes.Buffer
	for range r.IntN(200) {
		fmt.Fprintf(&b, "epoch %d loss %.4f\r\n", r.IntN(90), r.Float64())
	}
	b.WriteString("W tensorflow: Could not load dynamic library 'libnvinfer.so.6'; No such file or directory; ignored\nNCCL INFO Bootstrap : Using eth0\n")
	b.Write(text)
	b.WriteString("\nsrun: error: n1: task 0: Exited with exit code 1\n")
	return b.Bytes()
}

// TestAgainstBlindRequeue compares retries by class with blind requeue on the failures of
// Table 7. SLURMPRIO_TABLE=1 prints the table of docs/evidence/failures.md.
func TestAgainstBlindRequeue(t *testing.T) {
	const n = 17_581 // jobs of Table 7
	trials, fixed, jobs := 0, 0, 0
	for i := range table7 {
		row := &table7[i]
		trials, jobs = trials+row.trials, jobs+row.jobs
		if !row.worth && !row.unclear {
			fixed += row.trials - row.jobs
		}
	}
	if trials != 39776 {
		t.Fatalf("%d trials in the table", trials)
	}
	set := Settings{Rules: rules(t), PerJob: 5, Quick: time.Minute}
	var out strings.Builder
	fmt.Fprintf(&out, "Table 7: %d trials of %d jobs; repeats of jobs that another run does not help: %d, %.1f %% of all trials.\n\n",
		trials, jobs, fixed, 100*float64(fixed)/float64(trials))
	fmt.Fprintln(&out, "| policy | failed trials | avoided | of jobs that it does not help | GPU-hours to failure | saved | jobs worth it: passed | held for their users | lost |")
	fmt.Fprintln(&out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, x := range []struct {
		name, tag string
		output    bool
	}{{"blind requeue", "", false}, {"`infra`, output read", "infra", true}, {"`always`, output read", "always", true}, {"`infra`, no output", "infra", false}, {"`always`, no output", "always", false}} {
		known := map[string]Finding{}
		for i := range table7 {
			for _, text := range table7[i].looks {
				run, _ := example(text)
				if run.Output = said(rand.New(rand.NewPCG(7, 7)), run.Output); !x.output {
					run.Output = nil
				}
				known[text] = set.Rules.Classify(&run)
			}
		}
		var sum figures
		for seed := range uint64(5) {
			r := rand.New(rand.NewPCG(seed+1, 7))
			for i, j := range draw(r, n) {
				if x.tag == "" {
					f := figures{trials: len(j.trials)}
					for _, t := range j.trials {
						f.hours += t.minutes / 60 * float64(j.gpus)
					}
					if j.reason.worth {
						f.worth, f.passed = 1, 1
					}
					sum.add(f)
					continue
				}
				sum.add(judged(&set, x.tag, &j, uint32(i+1), rand.New(rand.NewPCG(seed, uint64(i))), known))
			}
		}
		all, hours := sum.trials+sum.avoided, sum.hours+sum.saved
		fmt.Fprintf(&out, "| %s | %d | %.1f %% | %.1f %% | %.0f | %.1f %% | %.1f %% | %.1f %% | %.1f %% |\n", x.name, sum.trials/5, 100*float64(sum.avoided)/float64(all), 100*float64(sum.hopeless)/float64(all),
			sum.hours/5, 100*sum.saved/hours, 100*float64(sum.passed)/float64(sum.worth), 100*float64(sum.held)/float64(sum.worth), 100*float64(sum.gone)/float64(sum.worth))
		if x.output && sum.gone > 0 {
			t.Errorf("%s: %d of %d jobs that are worth it were neither run again nor held", x.name, sum.gone, sum.worth)
		}
		if share := float64(sum.avoided) / float64(all); x.output && x.tag == "always" && share < float64(fixed)/float64(trials) {
			t.Errorf("%s: %.3f of the trials avoided", x.name, share)
		}
	}
	if os.Getenv("SLURMPRIO_TABLE") != "" {
		fmt.Print(out.String())
	}
	t.Log("\n" + out.String())
}

// Every look of Table 7 gets a class that treats it as the table says, also in the middle
// of other output.
func TestLooksGetTheRightTreatment(t *testing.T) {
	r := rules(t)
	chance := rand.New(rand.NewPCG(1, 2))
	for i := range table7 {
		row := &table7[i]
		for _, text := range row.looks {
			run, err := example(text)
			if err != nil {
				t.Fatal(err)
			}
			run.Output = said(chance, run.Output)
			f := r.Classify(&run)
			again := f.Class.Do == Elsewhere || f.Class.Do == Later || f.Class.Do == Hold
			if row.worth && !(again && f.Class.Machine) || !row.worth && !row.unclear && again {
				t.Errorf("%s: %q is of class %s by rule %q", row.name, text, f.Class.Name, f.Rule)
			}
		}
	}
}
