package live

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cluster"
	"slurmprio/priod/plan"
	"slurmprio/slurmplug"
)

// vector is Prometheus' answer with these series.
func vector(series ...string) string {
	return `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(series, ",") + `]}}`
}

func series(value string, labels ...string) string {
	var pairs []string
	for i := 0; i < len(labels); i += 2 {
		pairs = append(pairs, fmt.Sprintf("%q:%q", labels[i], labels[i+1]))
	}
	return fmt.Sprintf(`{"metric":{%s},"value":[1700000000.1,%q]}`, strings.Join(pairs, ","), value)
}

func dcgm(value, job, gpu string) string {
	return series(value, "metric", dcgmUse, "hpc_job", job, "gpu", gpu, "UUID", "GPU-"+gpu, "Hostname", "n1.example.org")
}

// What each exporter says of a job with two GPUs.
func TestExporters(t *testing.T) {
	job := cluster.Job{ID: slurmplug.Plain(7), RawID: 7, GPUs: 2, NodeList: "n1"}
	jobstats := func(use1, use2 string) string {
		one := func(metric, value, gpu string) string {
			return series(value, "metric", metric, "instance", "n1:9445", "minor_number", gpu, "uuid", "GPU-"+gpu)
		}
		return vector(one(jobstatsUse, use1, "0"), one(jobstatsUse, use2, "1"), one(jobstatsJob, "7", "0"), one(jobstatsJob, "7", "1"), one(jobstatsUse, "99", "2"), one(jobstatsJob, "0", "2"))
	}
	exporter := func(use1, use2 string) string {
		one := func(value, gpu string) string {
			return series(value, "metric", exporterUse, "slurmjobid", "7", "user", "ada", "gpu", gpu, "instance", "n1:9798")
		}
		return vector(one(use1, "0"), one(use2, "1"))
	}
	host := func(use1, use2 string) string {
		one := func(value, gpu string) string {
			return series(value, "metric", dcgmUse, "gpu", gpu, "UUID", "GPU-"+gpu, "Hostname", "n1.example.org")
		}
		return vector(one(use1, "0"), one(use2, "1"))
	}
	for _, c := range []struct {
		name, body   string
		sharers      int
		tells, works bool
		dropped      int
	}{
		{"DCGM, works", vector(dcgm("0", "7", "0"), dcgm("87", "7", "1")), 1, true, true, 0},
		{"DCGM, does not", vector(dcgm("0", "7", "0"), dcgm("1", "7", "1")), 1, true, false, 0},
		{"DCGM, two Prometheus servers hold it twice", vector(dcgm("0", "7", "0"), dcgm("0", "7", "0")), 1, false, false, 0},
		{"DCGM without jobs, alone", host("0", "45"), 1, true, true, 0},
		{"DCGM without jobs, shared and busy", host("0", "45"), 2, false, false, 0},
		{"DCGM without jobs, shared and quiet", host("0", "0"), 2, true, false, 0},
		{"jobstats, works", jobstats("0", "12.5"), 1, true, true, 0},
		{"jobstats, does not", jobstats("0", "0"), 1, true, false, 0},
		{"slurm-job-exporter, works", exporter("0", "30"), 1, true, true, 0},
		{"slurm-job-exporter, does not", exporter("0", "0"), 1, true, false, 0},
		{"lies: 900 %", vector(dcgm("900", "7", "0"), dcgm("0", "7", "1")), 1, false, false, 1},
		{"lies: NaN and below 0", vector(dcgm("NaN", "7", "0"), dcgm("-3", "7", "1")), 1, false, false, 2},
		{"loses labels", vector(series("0", "metric", dcgmUse), series("50", "metric", dcgmUse)), 1, false, false, 0},
		{"a GPU is missing", vector(dcgm("0", "7", "0")), 1, false, false, 0},
		{"another job", vector(dcgm("90", "8", "0"), dcgm("90", "8", "1")), 1, false, false, 0},
		{"a label that is no job", vector(dcgm("90", "x; drop", "0")), 1, false, false, 1},
		{"nothing", vector(), 1, false, false, 0},
	} {
		r, err := parseGPUs([]byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		sign, tells := r.sign(&job, []string{"n1"}, map[string]int{"n1": c.sharers})
		if tells != c.tells || tells && sign.Works != c.works || r.dropped != c.dropped {
			t.Errorf("%s: tells %v, works %v, dropped %d", c.name, tells, sign.Works, r.dropped)
		}
	}
}

// The use of a node within a time may be that of a job that ended there before this one started; a series of the job is its own.
func TestUseBeforeAJob(t *testing.T) {
	node := vector(series("50", "metric", dcgmUse, "gpu", "0", "UUID", "GPU-0", "Hostname", "n1"))
	for _, c := range []struct {
		name, body string
		ran        time.Duration
		tells      bool
	}{
		{"began within the time", node, 30 * time.Second, false},
		{"began before", node, 60 * time.Second, true},
		{"its own series", vector(dcgm("50", "7", "0")), 30 * time.Second, true},
	} {
		r, err := parseGPUs([]byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.at, r.within = time.Now(), time.Minute
		job := cluster.Job{ID: slurmplug.Plain(7), RawID: 7, GPUs: 1, NodeList: "n1", Start: r.at.Add(-c.ran)}
		if sign, tells := r.sign(&job, []string{"n1"}, map[string]int{"n1": 1}); tells != c.tells || tells && !sign.Works {
			t.Errorf("%s: tells %v, %+v", c.name, tells, sign)
		}
	}
}

func FuzzPrometheus(f *testing.F) {
	f.Add([]byte(vector(dcgm("0", "7", "0"), dcgm("87", "7", "1"))))
	f.Add([]byte(`{"status":"error","errorType":"bad_data","error":"x"}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"value":[1,2]}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := parseGPUs(body)
		if err != nil {
			return
		}
		for id, u := range r.jobs {
			if id == 0 || u.gpus < 1 || !(u.most >= 0 && u.most <= 100) {
				t.Fatalf("job %d: %+v", id, u)
			}
		}
	})
}

// A Prometheus that hangs, answers too much, an error, a redirect or nonsense.
func TestPrometheusFails(t *testing.T) {
	answers := map[string]func(w http.ResponseWriter, r *http.Request){
		"no answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"more than 32 MB": func(w http.ResponseWriter, _ *http.Request) {
			chunk := []byte(strings.Repeat(" ", 1<<20))
			for range 50 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		},
		"503": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", http.StatusServiceUnavailable) },
		"302": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		},
		"no answer of Prometheus": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		`status "error"`:          func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"status":"error","error":"x"}`) },
	}
	for want, answer := range answers {
		server := httptest.NewServer(http.HandlerFunc(answer))
		ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, errors.New("no answer"))
		if want == "no answer" {
			cancel()
			ctx, cancel = context.WithTimeoutCause(t.Context(), 200*time.Millisecond, errors.New("no answer"))
		}
		if _, err := askPrometheus(ctx, server.URL, time.Minute); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		cancel()
		server.CloseClientConnections()
		server.Close()
	}
}

func watcher(jobs ...cluster.Job) *working {
	w := New(nil).Watching(Sources{Every: time.Minute}).working
	for i := range jobs {
		w.jobs[jobs[i].ID] = &seen{start: jobs[i].Start, signs: map[string]stamped{}}
	}
	return w
}

// CPU time that stands still, goes on, or is not known.
func TestSstatShowsWork(t *testing.T) {
	j := cluster.Job{ID: slurmplug.Plain(7), RawID: 7, GPUs: 2}
	at := time.Now()
	for _, c := range []struct {
		name         string
		reads        []int // CPU seconds, a minute apart; -1: not measured
		tells, works bool
	}{
		{"once", []int{10}, false, false}, {"stands still", []int{10, 10}, true, false}, {"goes on", []int{10, 40}, true, true},
		{"hardly", []int{10, 12}, true, false}, {"a step ended", []int{40, 10}, false, false}, {"lost between", []int{10, -1, 10}, false, false},
	} {
		w := watcher(j)
		for i, cpu := range c.reads {
			used := map[uint32]slurmplug.Work{}
			if cpu >= 0 {
				used[7] = slurmplug.Work{CPU: time.Duration(cpu) * time.Second}
			}
			w.sawWork([]cluster.Job{j}, used, at.Add(time.Duration(i)*time.Minute))
		}
		sign, tells := w.jobs[j.ID].signs[cluster.FromSstat]
		if tells != c.tells || sign.Works != c.works {
			t.Errorf("%s: tells %v, works %v", c.name, tells, sign.Works)
		}
	}
}

func TestStepsShowNoWork(t *testing.T) {
	batch, shell := cluster.Job{ID: slurmplug.Plain(7)}, cluster.Job{ID: slurmplug.Plain(8), Interactive: true}
	jobs := []cluster.Job{batch, shell}
	w := watcher(jobs...)
	quiet := func(id uint32) bool { _, is := w.jobs[slurmplug.Plain(id)].signs[cluster.FromSteps]; return is }
	w.sawSteps(jobs, map[slurmplug.JobID]slurmplug.RunningSteps{batch.ID: {Batch: true}})
	if quiet(7) || !quiet(8) {
		t.Errorf("a batch script that never had a step: %v; a shell without one: %v", quiet(7), quiet(8))
	}
	w.sawSteps(jobs, map[slurmplug.JobID]slurmplug.RunningSteps{batch.ID: {Batch: true, Tasks: 1}, shell.ID: {Interactive: true}})
	if quiet(7) || quiet(8) {
		t.Error("steps run")
	}
	w.sawSteps(jobs, map[slurmplug.JobID]slurmplug.RunningSteps{batch.ID: {Batch: true}, shell.ID: {Interactive: true}})
	if !quiet(7) || quiet(8) {
		t.Errorf("its steps have ended: %v; the shell runs on a node: %v", quiet(7), quiet(8))
	}
}

// Output that stands still counts of a job that has written often, and never of two jobs that share a file.
func TestOutputShowsWork(t *testing.T) {
	a, b := cluster.Job{ID: slurmplug.Plain(7)}, cluster.Job{ID: slurmplug.Plain(8)}
	w, at := watcher(a, b), time.Now()
	x := w.jobs[a.ID]
	x.path = "/home/ada/out"
	see := func(bytes int64) (tells, works bool) {
		at = at.Add(time.Minute)
		w.sawOutput(x, plan.Mark{Bytes: bytes}, at)
		sign, tells := x.signs[cluster.FromOutput]
		return tells, sign.Works
	}
	for i, c := range []struct {
		bytes        int64
		tells, works bool
	}{{10, false, false}, {10, false, false}, {20, true, true}, {20, false, false}, {30, true, true}, {40, true, true}, {40, true, false}} {
		if tells, works := see(c.bytes); tells != c.tells || works != c.works {
			t.Errorf("look %d: tells %v, works %v", i, tells, works)
		}
	}
	w.jobs[b.ID].path = x.path
	if tells, _ := see(50); tells {
		t.Error("a file that two jobs write tells something")
	}
}
