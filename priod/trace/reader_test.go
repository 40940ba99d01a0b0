package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"slurmprio/priod/cluster"
	"slurmprio/priod/workload"
	"slurmprio/slurmplug"
	"slurmprio/tests/shared"
)

func readAll(r *Reader) (jobs []Job, err error) {
	for j, err := range r.All() {
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func read(text string, opts Options) ([]Job, Stats, error) {
	r, err := NewReader("t", strings.NewReader(text), opts)
	if err != nil {
		return nil, Stats{}, err
	}
	jobs, err := readAll(r)
	return jobs, r.Stats(), err
}

func job(set func(*Job)) Job {
	j := NewJob()
	set(&j)
	return j
}

// gzip and a byte order mark are seen by content.
func TestReadCSV(t *testing.T) {
	const text = "gpus,submit_s,job_id,duration_s,type,grace_s,deadline_s,weight,workload,steps,user,mem_mb,gpu_type,nodes\r\n" +
		"4,0.5,a,60,te,30,1e3,2,,,\"Dr. \"\"Q\"\", x\",1024,v100,2\r\n" +
		"1,2,17_4,,be,,,,A3C,12.5,,,,\r\n"
	want := []Job{
		job(func(j *Job) {
			j.ID, j.Submit, j.GPUs, j.Duration, j.Class, j.Grace, j.Deadline, j.Weight = "a", 0.5, 4, 60, cluster.TE, 30, 1000, 2
			j.User, j.MemMB, j.GPUType, j.Nodes = `Dr. "Q", x`, 1024, "v100", 2
		}),
		job(func(j *Job) { j.ID, j.Submit, j.GPUs, j.Workload, j.Steps = "17_4", 2, 1, "A3C", 12.5 }),
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	for _, text := range []string{text, "\ufeff" + text, zipped.String()} {
		jobs, stats, err := read(text, Options{})
		if err != nil || stats.Jobs != 2 {
			t.Fatal(err, stats)
		}
		if diff := cmp.Diff(want, jobs); diff != "" {
			t.Error(diff)
		}
	}
	if _, _, err := read(zipped.String()[:zipped.Len()-9], Options{}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("a gzip file that is cut off:", err)
	}
}

func TestReadErrors(t *testing.T) {
	const head = "job_id,submit_s,gpus,duration_s\n"
	const happened = "job_id,submit_s,gpus,duration_s,start_s,end_s,ran_s\n"
	sacct := strings.ReplaceAll(SacctColumns, ",", "|") + "\n"
	for _, c := range []struct {
		format     Format
		text, want string
	}{
		{CSV, "", "t: empty"},
		{CSV, head, "t: no jobs in it"},
		{CSV, "job_id,submit_s,gpus,time\n", `t:1: unknown column "time"`},
		{CSV, "job_id,submit_s,gpus,duration_s,gpus\n", "t:1: column gpus stands twice"},
		{CSV, "job_id,gpus,duration_s\n", "t:1: no column submit_s"},
		{CSV, "job_id,submit_s,gpus,workload\n", "t:1: neither"},
		{CSV, head + "1,0,1\n", "t:2: 3 columns, want 4"},
		{CSV, head + "1,0,1,5\n2,0,x,5\n", `t:3:5: gpus = "x": want a whole number from 0`},
		{CSV, head + "1,0,-1,5\n", `gpus = "-1"`},
		{CSV, "job_id,submit_s,gpus,duration_s,gpu_type\n1,0,0,5,k80\n", `gpu_type = "k80": want nothing: the job has no GPUs`},
		{CSV, "job_id,submit_s,gpus,workload,steps\n1,0,0,A3C,5\n", `steps = "5": want duration_s`},
		{CSV, happened + "1,5,1,5,4,9,\n", `t:2:9: start_s = "4": want a time not before submit_s`},
		{CSV, happened + "1,5,1,5,9,9,\n", `t:2:11: end_s = "9": want a time after start_s`},
		{CSV, happened + "1,5,1,5,6,9,4\n", `t:2:13: ran_s = "4": want no more than end_s - start_s`},
		{CSV, happened + "1,5,1,5,6,,\n", "t:2: start_s or ran_s without end_s"},
		{CSV, head + "1,0,1.5,5\n", `gpus = "1.5"`},
		{CSV, head + "1,0,,5\n", `gpus = ""`},
		{CSV, head + "1,-1,1,5\n", `t:2:3: submit_s = "-1"`},
		{CSV, head + "1,NaN,1,5\n", `submit_s = "NaN"`},
		{CSV, head + "1,0x1p3,1,5\n", `submit_s = "0x1p3"`},
		{CSV, head + "1,0,1,-5\n", `duration_s = "-5"`},
		{CSV, head + "1,0,1,1e400\n", `duration_s = "1e400"`},
		{CSV, head + "1,0,1,0\n", `t:2:7: duration_s = "0": want seconds above 0`},
		{CSV, head + ",0,1,5\n", `job_id = ""`},
		{CSV, head + "\"a\x1b[31m\",0,1,5\n", `job_id = "a\x1b[31m": want printable`},
		{CSV, head + "1,0,1,5\n1,1,1,5\n", `t:3:1: job_id = "1": want an id that no job above has`},
		{CSV, head + "1,5,1,5\n2,4,1,5\n", `t:3:3: submit_s = "4": want no less than 5 of the job above (sort the trace by submission)`},
		{CSV, head + "1,0,1,\"5\n", "t:"},
		{CSV, "job_id,submit_s,gpus,workload,steps\n1,0,1,,5\n", `workload = ""`},
		{CSV, "job_id,submit_s,gpus,workload,steps\n1,0,1,A3C,0\n", `steps = "0"`},
		{CSV, "job_id,submit_s,gpus,workload,steps,duration_s\n1,0,1,A3C,1,1\n", `want either`},
		{CSV, "job_id,submit_s,gpus,duration_s,type\n1,0,1,5,TE\n", `type = "TE": want te, be, untagged or none`},
		{CSV, "job_id,submit_s,gpus,duration_s,weight\n1,0,1,5,0\n", `weight = "0"`},
		{CSV, "job_id,submit_s,gpus,duration_s,retry\n1,0,1,5,yes\n", `retry = "yes": want never, infra, always`},
		{CSV, "job_id,submit_s,gpus,duration_s,ending\n1,0,1,5,COMPLETED 0:0\n", `ending = "COMPLETED 0:0": want FAILED 1:0`},
		{CSV, "job_id,submit_s,gpus,duration_s,ending\n1,0,1,5,FAILED\n", `ending = "FAILED"`},
		{CSV, "job_id,submit_s,gpus,duration_s,ending\n1,0,1,5,FAILED 1:0 2:0 3:0\n", `ending = "FAILED 1:0 2:0 3:0"`},
		{CSV, "job_id,submit_s,gpus,duration_s,failed_runs\n1,0,1,5,0 FAILED 1:0\n", `failed_runs = "0 FAILED 1:0": want runs such as 120 FAILED 1:0`},
		{CSV, "job_id,submit_s,gpus,duration_s,failed_runs\n1,0,1,5,7 FAILED 1:0;\n", `failed_runs = "7 FAILED 1:0;"`},
		{"yaml", "", `format "yaml"`},
		{SWF, "; nothing\n", "no jobs"},
		{SWF, "1 0 1\n", "t:1: 3 fields, want 18"},
		{SWF, ";\n1 x 10 3600 8 -1 -1 16 7200 2048 1 3 2 5 1 1 -1 -1\n", `t:2:1: submit time = "x": want a number from 0`},
		{SWF, "1 0 10 3600 -1 -1 -1 -1 7200 2048 1 3 2 5 1 1 -1 -1\n", `requested processors = "-1": want a whole number from 1`},
		{SWF, "-1 0 10 3600 1 -1 -1 -1 7200 2048 1 3 2 5 1 1 -1 -1\n", `job number = "-1"`},
		{Sacct, "", "empty"},
		{Sacct, "JobID|Submit\n", "t:1: no column Start"},
		{Sacct, sacct, "no jobs"},
		{Sacct, sacct + "1|x\n", "t:2: 2 columns, want 18"},
		{Sacct, sacct + "x|100|100|100|200|100|COMPLETED|0:0|0:0|60|1|||u|a|p|q|\n", `t:2:1: JobID = "x"`},
		{Sacct, sacct + "1|soon|100|100|200|100|COMPLETED|0:0|0:0|60|1|||u|a|p|q|\n", `t:2:3: Submit = "soon"`},
		{Sacct, sacct + "1|100|100|300|200|0|COMPLETED|0:0|0:0|60|1|||u|a|p|q|\n", `End = "200": want a time not before`},
		{Sacct, sacct + "1|100|100|100|200|100|COMPLETED|0:0|0:0|60|1||gpu|u|a|p|q|\n", `AllocTRES = "gpu"`},
		{Sacct, sacct + "1|100|100|100|200|100|COMPLETED|0:0|0:0|60|1|cpu=1|cpu=1|u|a|p|q|\n", "1 rows skipped: without gpus (does AccountingStorageTRES"},
	} {
		_, _, err := read(c.text, Options{Format: c.format})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: error %v, want %q", c.format, c.text, err, c.want)
		}
	}
}

func TestSkipBadAndSort(t *testing.T) {
	const text = "job_id,submit_s,gpus,duration_s\n1,5,1,5\n2,x,1,5\n3,4,1,5\n\"x\" y,1,1,1\n1,9,1,5\n4,4,1,5\n5\n"
	jobs, stats, err := read(text, Options{SkipBad: true, Sort: true})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	if diff := cmp.Diff([]string{"3", "4", "1"}, ids); diff != "" || stats.Bad != 4 || stats.Jobs != 3 {
		t.Error(diff, stats)
	}
	if _, _, err := read(text, Options{SkipBad: true}); err == nil || !strings.Contains(err.Error(), "sort the trace") {
		t.Error("jobs out of order are bad rows:", err)
	}
	if _, _, err := read("job_id,submit_s,gpus,duration_s\n1,x,1,5\n", Options{SkipBad: true}); err == nil || !strings.Contains(err.Error(), "1 bad rows") {
		t.Error(err)
	}
}

func TestReadSacct(t *testing.T) {
	const text = `Comment|JobID|JobName|Submit|Start|End|Elapsed|Timelimit|State|ReqTRES|AllocTRES|User|Account|QOS|NNodes
prio:type=te&grace=60&ckpt=600&v=1 mine|100|x|2024-03-01T10:00:00|2024-03-01T10:10:00|2024-03-01T11:10:00|01:00:00|02:00:00|COMPLETED|cpu=8,gres/gpu=2,mem=10G,node=1|cpu=16,gres/gpu:a100=2,gres/gpu=2,mem=20G,node=1|ann|ml|normal|1
|100.batch|batch|2024-03-01T10:10:00|2024-03-01T10:10:00|2024-03-01T11:10:00|01:00:00||COMPLETED||cpu=16,mem=20G|||normal|1
|101_3|x|2024-03-01T09:00:00|2024-03-01T09:00:05|2024-03-01T09:00:05|00:00:00|UNLIMITED|FAILED|cpu=1,gres/gpu:v100=1|cpu=1,gres/gpu:v100=1,gres/gpu=1|bob||debug|1
|102|x|2024-03-01T09:00:00|None|2024-03-01T09:30:00|00:00:00|01:00:00|CANCELLED by 0|gres/gpu=1||bob||normal|0
|103|x|2024-03-01T09:00:00|2024-03-01T09:10:00|Unknown|00:30:00|01:00:00|RUNNING|gres/gpu=1|gres/gpu=1|bob||normal|1
|104|x|2024-03-01T09:00:00|2024-03-01T09:10:00|2024-03-01T09:20:00|00:10:00|01:00:00|COMPLETED|cpu=1|cpu=1|bob||normal|1
|105|x|2024-03-01T08:00:00|2024-03-01T08:10:00|2024-03-01T09:20:00|01:10:00|Partition_Limit|NODE_FAIL|gres/gpu=1|gres/gpu=1|bob||normal|1
|105|x|2024-03-01T09:20:00|2024-03-01T09:25:00|2024-03-02T09:25:10|1-00:00:10|1-00:00:00|TIMEOUT|gres/gpu=1|gres/gpu=1|bob||normal|1
`
	jobs, stats, err := read(text, Options{Format: Sacct, TEQOS: []string{"debug"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Job{
		job(func(j *Job) { // both runs of 105: the first submission, the last run
			j.ID, j.User, j.GPUs, j.Nodes, j.Duration, j.Limit, j.Untagged = "105", "bob", 1, 1, 86410, 86410, true
			j.Start, j.End, j.Ran = 600, 91510, 4200+86410 // and all of what happened
			j.QOS, j.Trials, j.Ending.State = "normal", []Trial{{4200, Ending{State: "NODE_FAIL"}}}, "TIMEOUT"
		}),
		job(func(j *Job) {
			j.ID, j.User, j.GPUs, j.Nodes, j.CPUs, j.Submit, j.Duration = "101_3", "bob", 1, 1, 1, 3600, 1
			j.Limit, j.GPUType, j.Class, j.QOS, j.Ending.State = 365*86400, "v100", cluster.TE, "debug", "FAILED"
			j.Start, j.End, j.Ran = 3605, 3606, 1
		}),
		job(func(j *Job) { // without GPUs
			j.ID, j.User, j.CPUs, j.Nodes, j.Submit, j.Duration, j.Limit, j.Untagged = "104", "bob", 1, 1, 3600, 600, 3600, true
			j.QOS, j.Start, j.End, j.Ran = "normal", 4200, 4800, 600
		}),
		job(func(j *Job) {
			j.ID, j.User, j.Account, j.GPUs, j.Nodes, j.CPUs, j.MemMB, j.Submit = "100", "ann", "ml", 2, 1, 16, 20480, 7200
			j.Duration, j.Limit, j.Class, j.Grace, j.Ckpt = 3600, 7200, cluster.TE, 60, 600
			j.QOS, j.Start, j.End, j.Ran = "normal", 7800, 11400, 3600
		}),
	}
	if diff := cmp.Diff(want, jobs); diff != "" {
		t.Error(diff)
	}
	skipped := map[string]int{skipStep: 1, skipNotStarted: 1, skipRunning: 1}
	if diff := cmp.Diff(Stats{Jobs: 4, Unlisted: 3, Skipped: skipped, Origin: time.Date(2024, 3, 1, 8, 0, 0, 0, time.UTC)}, stats); diff != "" {
		t.Error(diff)
	}
	jobs, stats, err = read(text, Options{Format: Sacct, GPUsOnly: true})
	if err != nil || len(jobs) != 3 || stats.Skipped[skipNoGPUs] != 1 {
		t.Error("where GPUs alone are known:", err, jobs, stats)
	}
}

// Fields as the format's definition has them; jobs without processors asked for count those they got, jobs that never ran
// and parts of jobs are skipped.
const swfVector = `; Version: 2.2
; MaxJobs: 5
1 0 10 3600 8 -1 -1 16 7200 2048 1 3 2 5 1 1 -1 -1

  2   5  -1   60  4 -1 -1 -1   -1   -1 0 -1 -1 -1 -1 -1 -1 -1
3 6 0 100 1 -1 -1 1 60 -1 2 1 1 -1 -1 -1 -1 -1
4 7 5 0 1 -1 -1 1 60 -1 5 1 1 -1 -1 -1 -1 -1
`

func TestReadSWF(t *testing.T) {
	want := []Job{
		job(func(j *Job) {
			j.ID, j.User, j.Account, j.CPUs, j.MemMB, j.Duration, j.Limit, j.Untagged = "1", "u3", "g2", 16, 32, 3600, 7200, true
			j.Start, j.End, j.Ran = 10, 3610, 3600
		}),
		job(func(j *Job) { j.ID, j.Submit, j.CPUs, j.Duration, j.Untagged = "2", 5, 4, 60, true }),
	}
	jobs, stats, err := read(swfVector, Options{Format: SWF})
	if diff := cmp.Diff(want, jobs); diff != "" || err != nil || stats.Skipped[skipNotStarted] != 1 || stats.Skipped[skipEarlier] != 1 {
		t.Error(err, stats, diff)
	}
	if jobs, _, err = read(swfVector, Options{Format: SWFGPU}); err != nil || jobs[0].GPUs != 16 || jobs[0].CPUs != 0 {
		t.Error(err, jobs)
	}
}

// Of a job's runs those before the last one that failed are its trials, in order, wherever
// they stand; others are left out, and how the last one ended is told.
func TestTrials(t *testing.T) {
	const head = "JobID|Submit|Start|End|State|ExitCode|DerivedExitCode|AllocTRES|Timelimit|Comment\n"
	row := func(id string, start, end int, state, exit, derived string) string {
		return fmt.Sprintf("%s|10|%d|%d|%s|%s|%s|gres/gpu=1|00:00:10|prio:retry=infra&v=1\n", id, start, end, state, exit, derived)
	}
	jobs, stats, err := read(head+
		row("1", 300, 320, "NODE_FAIL", "1:0", "")+row("1", 500, 560, "COMPLETED", "0:0", "0:0")+row("1", 100, 130, "FAILED", "2:0", "137:0")+row("1", 400, 450, "REQUEUED", "0:0", "")+
		row("2", 100, 140, "OUT_OF_MEMORY", "0:125", "0:0")+row("3", 100, 140, "CANCELLED by 7", "0:15", "0:0")+row("4", 100, 140, "PREEMPTED", "0:15", "0:0")+row("5", 100, 140, "FAILED", "x", ""),
		Options{Format: Sacct, SkipBad: true})
	if err != nil {
		t.Fatal(err)
	}
	all := func(id string, seconds, limit float64) Job {
		return job(func(j *Job) {
			j.ID, j.GPUs, j.Duration, j.Limit, j.Untagged, j.Retry = id, 1, seconds, limit, true, "infra"
			j.Start, j.End, j.Ran = 90, 130, 40
		})
	}
	want := []Job{all("1", 60, 60), all("2", 40, 40), all("3", 40, 40), all("4", 40, 40)}
	want[0].End, want[0].Ran = 550, 30+20+50+60
	want[0].Trials = []Trial{{30, Ending{"FAILED", 2, 0, 137, 0}}, {20, Ending{State: "NODE_FAIL", ExitCode: 1}}}
	want[1].Ending = Ending{State: "OUT_OF_MEMORY", Signal: 125}
	if diff := cmp.Diff(want, jobs); diff != "" || stats.Bad != 1 || stats.Skipped[skipEarlier] != 1 {
		t.Error(diff, stats)
	}
	at := time.Unix(1e9, 0)
	past := slurmplug.Run{ID: slurmplug.Plain(7), Submit: at, Start: at, End: at.Add(time.Hour), State: "FAILED", Signal: 9, AllocTRES: "gres/gpu=1,gres/gpu:k80=1", Comment: "prio:v=1&workload=a3c"}
	again := past
	again.Start, again.End, again.State, again.Signal = at.Add(2*time.Hour), at.Add(3*time.Hour), "COMPLETED", 0
	jobs, _, err = FromRuns([]slurmplug.Run{again, past}, Options{Workloads: shared.Workloads(t)})
	if err != nil || len(jobs) != 1 || jobs[0].Ending.Failed() || len(jobs[0].Trials) != 1 || jobs[0].Trials[0] != (Trial{jobs[0].Steps, Ending{State: "FAILED", Signal: 9}}) {
		t.Error(jobs, err)
	}
}

// A tagged run becomes steps, so that its run time follows the GPU type.
func TestSacctWorkload(t *testing.T) {
	at := time.Unix(1e9, 0)
	runs := []slurmplug.Run{{
		ID: slurmplug.Plain(7), User: "ann", Submit: at, Eligible: at.Add(time.Minute), Start: at.Add(time.Hour), End: at.Add(2 * time.Hour),
		AllocTRES: "cpu=4,gres/gpu=1,gres/gpu:k80=1", Comment: "prio:v=1&workload=a3c",
	}}
	jobs, stats, err := FromRuns(runs, Options{Workloads: shared.Workloads(t)})
	want := []Job{job(func(j *Job) {
		j.ID, j.User, j.GPUs, j.CPUs, j.GPUType, j.Workload, j.Steps = "7", "ann", 1, 4, "k80", "a3c", 3600*3.4387678290723933
		j.Untagged = true
		j.Start, j.End, j.Ran = 3540, 7140, 3600
	})}
	if diff := cmp.Diff(want, jobs); diff != "" || err != nil || stats.Jobs != 1 {
		t.Error(err, stats, diff)
	}
	if jobs, _, _ = FromRuns(runs, Options{}); jobs[0].Duration != 3600 || jobs[0].Steps != 0 {
		t.Error(jobs)
	}
}

// Accounting says how many CPUs and nodes a job had, and in which partition.
func TestRunsWithoutGPUs(t *testing.T) {
	at := time.Unix(1e9, 0)
	run := slurmplug.Run{
		ID: slurmplug.Plain(7), User: "ann", Submit: at, Start: at, End: at.Add(time.Hour), Partition: "cpu",
		AllocTRES: "billing=96,cpu=96,mem=10G,node=3", Comment: "prio:v=1&type=be&workload=a3c",
	}
	gpu := run
	gpu.ID, gpu.AllocTRES, gpu.Comment = slurmplug.Plain(8), "cpu=1,gres/gpu=1,node=1", ""
	jobs, _, err := FromRuns([]slurmplug.Run{run, gpu}, Options{Workloads: shared.Workloads(t)})
	want := job(func(j *Job) {
		j.ID, j.User, j.CPUs, j.Billing, j.MemMB, j.Nodes, j.Partition = "7", "ann", 96, 96, 10240, 3, "cpu"
		j.Duration, j.Workload, j.End, j.Ran = 3600, "a3c", 3600, 3600
	})
	if err != nil || len(jobs) != 2 || cmp.Diff(want, jobs[0]) != "" || jobs[1].Nodes != 1 {
		t.Fatal(err, jobs, cmp.Diff(want, jobs[0]))
	}
	// Where no job has any, it is accounting that knows none.
	jobs, stats, err := FromRuns([]slurmplug.Run{run}, Options{})
	if err != nil || len(jobs) != 0 || stats.Skipped[skipNoGPUs] != 1 {
		t.Error(err, jobs, stats)
	}
}

// The papers' traces that lie beside the repository read as they are known to.
func TestReadData(t *testing.T) {
	for _, c := range []struct {
		path string
		opts Options
		jobs int
		gpus int
		last float64
	}{
		{"traces/expected/venus-1w.jobs.csv", Options{}, 6665, 0, 0},
	} {
		r, err := Open(shared.Path(t, c.path), c.opts)
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

// What is written reads back the same.
func TestCSVRoundTrip(t *testing.T) {
	seconds := rapid.Float64Range(0, maxSeconds)
	text := rapid.StringOfN(rapid.RuneFrom([]rune(`abc",;|'= ä日%`)), 0, 9, -1)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "jobs")
		jobs := make([]Job, n)
		at := 0.0
		for i := range jobs {
			j := NewJob()
			at = min(at+seconds.Draw(t, "gap")/10, maxSeconds)
			j.ID, j.Submit, j.GPUs = fmt.Sprint(i)+text.Draw(t, "id"), at, rapid.IntRange(1, maxGPUs).Draw(t, "gpus")
			j.Workload = text.Draw(t, "workload")
			if rapid.Bool().Draw(t, "steps") {
				j.Workload, j.Steps = "w", rapid.Float64Range(1e-9, 1e18).Draw(t, "n")
			} else {
				j.Duration = 1e-9 + seconds.Draw(t, "duration")/2
			}
			if rapid.Bool().Draw(t, "more") {
				j.Limit, j.Grace, j.Ckpt = seconds.Draw(t, "limit"), seconds.Draw(t, "grace"), seconds.Draw(t, "ckpt")
				j.CPUs, j.Nodes, j.MemMB = rapid.IntRange(0, maxGPUs).Draw(t, "cpus"), rapid.IntRange(0, maxGPUs).Draw(t, "nodes"), rapid.Int64Range(0, maxMemMB).Draw(t, "mem")
				j.User, j.Account, j.QOS, j.Partition, j.GPUType = text.Draw(t, "user"), text.Draw(t, "account"), text.Draw(t, "qos"), text.Draw(t, "partition"), text.Draw(t, "type")
				class := rapid.SampledFrom([]Job{{Class: cluster.TE}, {Class: cluster.BE}, {Class: cluster.BE, Untagged: true}, {Class: cluster.BE, Untagged: true, NoTag: true}}).Draw(t, "class")
				j.Class, j.Untagged, j.NoTag, j.Weight = class.Class, class.Untagged, class.NoTag, rapid.Float64Range(1e-300, 1e9).Draw(t, "weight")
				j.Deadline = rapid.SampledFrom([]float64{0, 1.5, maxSeconds, NoDeadline}).Draw(t, "deadline")
				j.Retry = rapid.SampledFrom(append(Retries, "")).Draw(t, "retry")
				drawn := rapid.Custom(func(t *rapid.T) Ending {
					status := rapid.IntRange(0, math.MaxInt32)
					return Ending{rapid.SampledFrom(failures).Draw(t, "state"), status.Draw(t, "exit"), status.Draw(t, "signal"), status.Draw(t, "step"), rapid.IntRange(0, 1).Draw(t, "step's signal")}
				})
				for range rapid.IntRange(0, 3).Draw(t, "trials") {
					j.Trials = append(j.Trials, Trial{rapid.Float64Range(1e-9, maxWork).Draw(t, "work"), drawn.Draw(t, "trial")})
				}
				if rapid.Bool().Draw(t, "fails") {
					j.Ending = drawn.Draw(t, "ending")
				}
			}
			if j.Steps == 0 && j.GPUType == "" && rapid.Bool().Draw(t, "without GPUs") {
				j.GPUs = 0
			}
			if rapid.Bool().Draw(t, "happened") && at < maxSeconds/2 {
				j.Start = at + seconds.Draw(t, "waited")/8
				j.End = j.Start + 1 + seconds.Draw(t, "to the end")/8
				j.Ran = (j.End - j.Start) * rapid.Float64Range(0.1, 1).Draw(t, "ran")
			}
			jobs[i] = j
		}
		var b bytes.Buffer
		if err := WriteCSV(&b, jobs); err != nil {
			t.Fatal(err)
		}
		again, _, err := read(b.String(), Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		if diff := cmp.Diff(jobs, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

// fuzz holds of every reader: no panic, and jobs that our own format carries.
func fuzz(f *testing.F, format Format, seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	w := shared.Workloads(f)
	f.Fuzz(func(t *testing.T, text string) {
		jobs, stats, err := read(text, Options{Format: format, SkipBad: true, Sort: true, Workloads: w})
		if err != nil {
			return
		}
		if stats.Jobs != len(jobs) || len(jobs) == 0 {
			t.Fatalf("%d jobs, counted %d", len(jobs), stats.Jobs)
		}
		var b bytes.Buffer
		if err := WriteCSV(&b, jobs); err != nil {
			t.Fatal(err)
		}
		again, _, err := read(b.String(), Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		if diff := cmp.Diff(jobs, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzCSV(f *testing.F) {
	fuzz(f, CSV, "job_id,submit_s,gpus,duration_s\n1,0,1,5\n", "job_id,submit_s,gpus,duration_s,retry,failed_runs,ending\n1,0,1,5,infra,7 FAILED 1:0;8.5 NODE_FAIL 0:9 1:0,TIMEOUT 0:0\n", "job_id,submit_s,gpus,workload,steps,type,weight,deadline_s\na,1,2,\"A,3C\",5,te,2,9\n")
}

func FuzzSWF(f *testing.F) {
	fuzz(f, SWF, swfVector, "1 0 -1 5 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1\n")
}

func FuzzSacct(f *testing.F) {
	head := strings.ReplaceAll(SacctColumns, ",", "|") + "\n"
	fuzz(f, Sacct, head+"1|100|100|100|200|100|COMPLETED|0:0|0:0|60|1|cpu=1|cpu=1,gres/gpu:k80=1|u|a|p|q|prio:v=1&workload=a3c x|y\n"+
		"1.0|1|1|1|1|1|x|1:0||1|1|||||||\n", "Start|End|JobID|Submit|ReqTRES|Timelimit|Elapsed\n2024-03-01T10:00:00|2024-03-01T10:10:00|1_2|2024-03-01T10:00:00|gres/gpu=2|1-00:00:00|10:00\n")
}

// What a job asked for is its GPU type, not what it got; what its evicted runs kept counts as work, at the speed of each; fewer CPUs than its
// program wants made it slower, and what its user asked for is what it asks for again.
func TestAccountingOfEvictedJobs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workloads.toml")
	if err := os.WriteFile(path, []byte("[[workload]]\nname = \"lm\"\nspeed.fast = { 1 = 10.0 }\nspeed.slow = { 1 = 2.0 }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := workload.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	at := func(s int64) time.Time { return time.Unix(1_000_000_000+s, 0) }
	run := func(id uint32, state, got, asked, tag string, start, end int64) slurmplug.Run {
		return slurmplug.Run{
			ID: slurmplug.Plain(id), RawID: id, User: "ann", State: state, Submit: at(0), Eligible: at(0), Start: at(start), End: at(end), TimeLimit: time.Hour,
			AllocTRES: "cpu=4,gres/gpu=1,gres/gpu:" + got + "=1,node=1", ReqTRES: asked, Comment: tag,
		}
	}
	const open, typed = "cpu=4,gres/gpu=1,node=1", "cpu=4,gres/gpu=1,gres/gpu:slow=1,node=1"
	task := run(4, "COMPLETED", "slow", open, "", 0, 30) // of an array whose size was written whole
	task.ID.Task = 7
	jobs, _, err := FromRuns([]slurmplug.Run{
		run(1, "PREEMPTED", "slow", open, "prio:ckpt=100&type=be&v=1&workload=lm", 0, 250), run(1, "COMPLETED", "fast", open, "prio:ckpt=100&type=be&v=1&workload=lm", 300, 330),
		run(2, "REQUEUED", "slow", typed, "prio:grace=9&signal=TERM&type=be&v=1", 0, 250), run(2, "COMPLETED", "slow", typed, "prio:grace=9&signal=TERM&type=be&v=1", 300, 330),
		run(3, "PREEMPTED", "slow", open, "", 0, 250), run(3, "COMPLETED", "slow", open, "", 300, 330), task,
	}, Options{Workloads: table, CPUs: map[string]int{"3": 2, "4": 3}})
	if err != nil || len(jobs) != 4 {
		t.Fatal(err, jobs)
	}
	type said struct {
		Type            string
		Steps, Duration float64
		CPUs            int
	}
	want := map[string]said{"1": {"", 30*10 + 200*2, 0, 4}, "2": {"slow", 0, 280, 4}, "3": {"", 0, 30, 2}, "4_7": {"", 0, 30, 3}}
	for _, j := range jobs {
		if got := (said{j.GPUType, j.Steps, j.Duration, j.CPUs}); got != want[j.ID] {
			t.Errorf("job %s: %+v, want %+v", j.ID, got, want[j.ID])
		}
	}
}

// Accounting keeps the partition in which a job ran, and the number of its nodes; the list that its user named is in the
// command line or the script, if these are known.
func TestPlacesOfAccounting(t *testing.T) {
	at := time.Unix(1e9, 0)
	gpus := slurmplug.Run{ID: slurmplug.Plain(8), RawID: 8, Partition: "v100", Submit: at.Add(1), Start: at.Add(1), End: at.Add(time.Hour), State: "COMPLETED", AllocTRES: "gres/gpu=1"}
	for i, c := range []struct {
		line, script, tres, partition string
		nodes                         int
		asked, unlisted               bool
	}{
		{"", "", "gres/gpu=4,node=1", "v100", 1, true, true},
		{"", "#!/bin/sh\n#SBATCH -p t4,v100\n", "gres/gpu=4,node=1", "t4,v100", 1, true, false},
		{"sbatch -p a100,v100 --gres=gpu:4 job.sh -p t4,v100", "", "gres/gpu=4,node=1", "a100,v100", 1, false, false},
		{"/opt/bin/sbatch --wrap sleep 5", "", "gres/gpu=8,node=2", "v100", 2, false, false},
		{"sbatch --partition=t4,v100,a100 -J x -pt4,v100 job.sh", "", "gres/gpu=5,node=2", "t4,v100", 0, false, false},
		{"sbatch --partition=a100,t4 job.sh", "", "gres/gpu=1", "v100", 0, false, false},
		{"srun --nonsense -p t4,v100 a", "", "gres/gpu=1", "v100", 0, false, false},
		{"sbatch job.sh", "", "gres/gpu=1", "v100", 0, true, true},
		{"sbatch job.sh", "#!/bin/sh\n#SBATCH -J x -p a100\n#SBATCH --partition=v100,t4 --mem=5 # more\nsleep 5\n#SBATCH -p a100,v100\n", "gres/gpu=1", "v100,t4", 0, true, false},
		{"sbatch job.sh", "#!/bin/sh\n#SBATCH -p a100\n#SBATCH hetjob\n#SBATCH -p t4,v100\n", "gres/gpu=1", "t4,v100", 0, true, false},
		{"sbatch job.sh", "#!/bin/sh\n#SBATCH -p a100,t4\n", "gres/gpu=1", "v100", 0, true, false},
		{"sbatch job.sh", "#!/bin/sh\n#SBATCH -p t4,v100 --comment='\n", "gres/gpu=1", "v100", 0, true, false},
		{"sbatch job.sh", "#!/bin/sh\n", "cpu=1", "v100", 0, false, false},
	} {
		run := slurmplug.Run{ID: slurmplug.Plain(7), RawID: 7, Partition: "v100", Submit: at, Start: at, End: at.Add(time.Hour), State: "COMPLETED", AllocTRES: c.tres}
		opts := Options{Lines: map[uint32]string{7: c.line}}
		if c.script != "" {
			opts.Scripts = map[uint32][]string{7: ListsIn([]byte(c.script))}
		}
		jobs, stats, err := FromRuns([]slurmplug.Run{run, gpus}, opts)
		if err != nil || len(jobs) != 2 || jobs[0].Partition != c.partition || jobs[0].Nodes != c.nodes || (stats.Unlisted == 2) != c.unlisted {
			t.Errorf("case %d: %+v, %+v, %v", i, jobs, stats, err)
		}
		if asked := Scripted([]slurmplug.Run{run, run}, opts.Lines); c.asked != (len(asked) == 1) || len(asked) > 1 {
			t.Errorf("case %d: the scripts of %v are asked for", i, asked)
		}
	}
}
