package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/config"
	"slurmprio/priod/store"
)

// outcome is a row of --jobs-out, with the user of the trace.
type outcome struct {
	job, user               string
	submit, start, end, ran float64
	preemptions             int
	nodes                   string
}

// replayOf records a replay of some jobs, and returns what became of each.
func replayOf(t *testing.T, jobs int) (dir string, rows map[string]*outcome) {
	t.Helper()
	work := t.TempDir()
	r := rand.New(rand.NewPCG(5, 6))
	text, rows := "job_id,submit_s,gpus,duration_s,limit_s,type,grace_s,user,account\n", map[string]*outcome{}
	for i := range jobs {
		class, gpus, duration := "be", []int{1, 2, 4, 8}[r.IntN(4)], 600+3600*r.ExpFloat64()
		if i%3 == 0 {
			class, gpus, duration = "te", 1, 60+300*r.Float64()
		}
		if i == 30 { // no cycle sees it
			gpus, duration = 1, 3
		}
		id, user := fmt.Sprint(7001+i), fmt.Sprintf("u%d", r.IntN(8))
		text += fmt.Sprintf("%s,%d,%d,%.0f,%.0f,%s,30,%s,a%d\n", id, i*90, gpus, duration, 2*duration, class, user, r.IntN(3))
		rows[id] = &outcome{job: id, user: user}
	}
	trace, out := filepath.Join(work, "jobs.csv"), filepath.Join(work, "out.csv")
	if err := os.WriteFile(trace, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(work, "replay")
	ran(t, "simulate", "--trace", trace, "--nodes", "3:a100:8", "--set", "preemption.enabled=true", "--set", "preemption.min_run=0s", "--state", dir, "--jobs-out", out)
	file, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	number := func(s string) float64 { n, _ := strconv.ParseFloat(s, 64); return n }
	for _, row := range all[1:] {
		o := rows[row[0]]
		o.submit, o.start, o.end, o.ran, o.preemptions, o.nodes = number(row[1]), number(row[2]), number(row[3]), number(row[5]), int(number(row[6])), row[11]
	}
	return dir, rows
}

// ran is the answer to a command line that succeeds.
func ran(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if status := Main("v", append([]string{"priod", "--config", os.DevNull}, args...), &out, &errs); status != exitDone {
		t.Fatalf("%q: exit status %d, %s", args, status, &errs)
	}
	return out.String()
}

func answerOf(t *testing.T, v any, args ...string) {
	t.Helper()
	if err := json.Unmarshal([]byte(ran(t, append(args, "--json")...)), v); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
}

// A person asks the replay alone: why a job waited, which user lost most, what priod brought. The simulation's own rows say the same.
func TestReplayAnswers(t *testing.T) {
	dir, rows := replayOf(t, 400)
	at := func(s float64) string {
		return monday.Add(time.Duration(s * float64(time.Second))).Format(time.RFC3339)
	}

	longest, evicted := &outcome{}, map[string]int{}
	for _, o := range rows {
		if o.start-o.submit > longest.start-longest.submit && o.preemptions == 0 {
			longest = o
		}
		evicted[o.user] += o.preemptions
	}
	var x struct {
		Job struct {
			State    string
			NodeList string `json:"node_list"`
			User     string
			Left     time.Time
		}
		Waits []struct{ Cause string }
		Now   *struct{} `json:"slurm_now"`
	}
	answerOf(t, &x, "explain", longest.job, "--state", dir, "--at", at((longest.submit+longest.start)/2))
	if x.Job.State != "pending" || x.Job.User != longest.user || len(x.Waits) == 0 || x.Now != nil {
		t.Errorf("while it waits: %+v", x)
	}
	said := ran(t, "explain", longest.job, "--state", dir, "--at", at((longest.submit+longest.start)/2))
	if !strings.Contains(said, "Why") || !strings.Contains(said, "requests") || strings.Contains(said, "priod eta") { // that is of now
		t.Errorf("why it waits: %s", said)
	}
	answerOf(t, &x, "explain", longest.job, "--state", dir, "--at", at(longest.start+120))
	if x.Job.State != "running" || x.Job.NodeList != longest.nodes {
		t.Errorf("as it runs on %q: %+v", longest.nodes, x)
	}
	answerOf(t, &x, "explain", longest.job, "--state", dir)
	if d := x.Job.Left.Sub(monday).Seconds() - longest.end; d < 0 || d > 60 {
		t.Errorf("it left %v s after its end", d)
	}

	if said := ran(t, "explain", "7031", "--state", dir); !strings.Contains(said, rows["7031"].user) {
		t.Errorf("a job that no cycle saw: %s", said)
	}

	var v struct {
		Evictions []struct {
			VictimUser string    `json:"victim_user"`
			Left       time.Time `json:"left"`
			Requeued   time.Time `json:"requeued"`
		}
	}
	answerOf(t, &v, "evictions", "--state", dir, "-n", "10000")
	lost := map[string]int{}
	for _, e := range v.Evictions {
		if !e.Requeued.IsZero() {
			lost[e.VictimUser]++
		}
	}
	total := 0
	for user, n := range evicted {
		if total += n; lost[user] != n {
			t.Errorf("evictions of %s: %d, by the rows %d", user, lost[user], n)
		}
	}
	if total == 0 {
		t.Error("no job was evicted")
	}

	brought, err := store.ReadValue(dir)
	if err != nil || brought == nil {
		t.Fatal("what it brought: ", brought, err)
	}
	mean := 0.0
	for _, o := range rows {
		mean += (o.end - o.submit) / float64(len(rows))
	}
	if math.Abs(brought.Completion.With-mean) > 1 || brought.Completion.Without == brought.Completion.With {
		t.Errorf("mean completion %v, by the rows %v s", brought.Completion, mean)
	}
	replayPages(t, dir, longest, at, mean)
}

// replayPages asks the same of /api/v1.
func replayPages(t *testing.T, dir string, longest *outcome, at func(float64) string, mean float64) {
	cfg, err := config.Load(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	cfg.State.Dir = dir
	pages := Pages("v")(cfg, nil)
	get := func(path string, status int) string {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "127.0.0.1"
		if pages.ServeHTTP(w, r); w.Code != status {
			t.Errorf("%s: status %d, %s", path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	half := "/at/" + strings.Replace(at((longest.submit+longest.start)/2), "+", "%2B", 1)
	if text := get(half+"/api/v1/jobs/"+longest.job, 200); !strings.Contains(text, `"pending"`) {
		t.Errorf("the job: %s", text)
	}
	for _, side := range []string{"", "/without"} {
		for _, page := range []string{"", "map", "queue", "evictions", "allocation", "users", "time", "health", "job?id=" + longest.job} {
			text := get(side+half+"/"+page, 200)
			for _, want := range []string{"Replay", "Nothing of it was written to Slurm", "/at/"} {
				if !strings.Contains(text, want) {
					t.Errorf("%s of %q has no %q", page, side, want)
				}
			}
			get(side+"/"+page, 200)
		}
	}
	if text := get("/", 200); !strings.Contains(text, "What priod brought") {
		t.Error("the first page does not say what priod brought")
	}
	get("/at/2020-01-01T00:00:00Z/queue", 404)
	get("/at/tomorrow/queue", 400)
	for _, side := range []string{dir, filepath.Join(dir, store.Without)} {
		r, err := store.OpenReader(t.Context(), side)
		if err != nil {
			t.Fatal(err)
		}
		jobs, err := r.JobsSince(t.Context(), time.Time{})
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i := range jobs {
			sum += jobs[i].Left.Sub(jobs[i].Submit).Seconds() / float64(len(jobs))
		}
		if off := sum - mean; side == dir && (off < 0 || off > 60) {
			t.Errorf("jobs leave %v s after their end, in the mean", off)
		}
	}
}

// What is no place for a replay is refused, with what to do; a folder is whole or not there.
func TestReplayRefused(t *testing.T) {
	work := t.TempDir()
	full := filepath.Join(work, "full")
	if err := os.MkdirAll(filepath.Join(full, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	live := filepath.Join(work, "live")
	s, err := store.Open(t.Context(), live, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	trace := filepath.Join(work, "jobs.csv")
	if err := os.WriteFile(trace, []byte("job_id,submit_s,gpus,duration_s,user\nfirst,0,1,60,<b>ann\nsecond,5,1,60,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cpus := filepath.Join(work, "cpus.csv")
	if err := os.WriteFile(cpus, []byte("job_id,submit_s,gpus,duration_s\n1,0,16,60\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		trace, dir string
		words      string
	}{
		{trace, full, "is not empty and holds no replay"},
		{trace, live, "is the state folder of a priod that runs"},
		{cpus, filepath.Join(work, "stuck"), "can never run"},
	} {
		var out, errs bytes.Buffer
		status := Main("v", []string{"priod", "--config", os.DevNull, "simulate", "--trace", c.trace, "--nodes", "1:a100:8", "--state", c.dir}, &out, &errs)
		if status == exitDone || !strings.Contains(errs.String(), c.words) {
			t.Errorf("%s: status %d, %s", c.dir, status, &errs)
		}
		if left, _ := filepath.Glob(filepath.Join(work, "*.unfinished")); len(left) > 0 {
			t.Errorf("%s: left behind %q", c.dir, left)
		}
	}
	dir := filepath.Join(work, "month")
	for range 2 { // the second takes the place of the first
		ran(t, "simulate", "--trace", trace, "--nodes", "1:a100:8", "--state", dir)
	}
	names, err := os.ReadDir(dir)
	if err != nil || !slices.ContainsFunc(names, func(n os.DirEntry) bool { return n.Name() == store.Without }) {
		t.Error(names, err)
	}
	for _, args := range [][]string{
		{"queue", "--state", dir, "--at", "1999-01-01"}, {"queue", "--state", dir, "--at", "soon"}, {"queue", "--state", dir, "--watch"}, {"explain", "1", "--state", dir, "--victims"},
		{"queue", "--state", filepath.Join(work, "nowhere")},
	} {
		var out, errs bytes.Buffer
		if status := Main("v", append([]string{"priod", "--config", os.DevNull}, args...), &out, &errs); status == exitDone || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%q: status %d, %s", args, status, &errs)
		}
	}
}

// A folder that is neither a replay nor a state folder is wrong usage, of each verb that reads one, with one line that names it.
func TestStateFolderUnfit(t *testing.T) {
	work := t.TempDir()
	trace, whole := filepath.Join(work, "jobs.csv"), filepath.Join(work, "whole")
	if err := os.WriteFile(trace, []byte("job_id,submit_s,gpus,duration_s\n1,0,1,600\n2,30,1,600\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ran(t, "simulate", "--trace", trace, "--nodes", "1:a100:8", "--state", whole)
	for name, c := range map[string]struct {
		make  func(dir string) error
		words string
	}{
		"nowhere": {func(string) error { return nil }, "there is no such folder"},
		"file":    {func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, "this is a file"},
		"empty":   {func(dir string) error { return os.Mkdir(dir, 0o700) }, "neither a replay"},
		"run":     {func(dir string) error { return os.MkdirAll(filepath.Join(dir, "run"), 0o700) }, "neither a replay"},
		"journal": {func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "journal.jsonl"), nil, 0o600))
		}, "neither a replay"},
		"torn": {func(dir string) error {
			return errors.Join(os.CopyFS(dir, os.DirFS(whole)), os.WriteFile(filepath.Join(dir, "replay.json"), []byte("{"), 0o600))
		}, "replay.json"},
		"without database": {func(dir string) error {
			return errors.Join(os.CopyFS(dir, os.DirFS(whole)), os.Remove(filepath.Join(dir, "priod.db")))
		}, "lacks its priod.db"},
		"without configuration": {func(dir string) error {
			return errors.Join(os.CopyFS(dir, os.DirFS(whole)), os.Remove(filepath.Join(dir, store.ReplayConfig)))
		}, "lacks its priod.toml"},
	} {
		dir := filepath.Join(work, name)
		if err := c.make(dir); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"web", "--listen", "unix:" + filepath.Join(work, "socket")}, {"queue"}, {"evictions"}, {"explain", "1"}, {"report", "waits"}, {"report", "history"}, {"report", "trial"},
		} {
			var out, errs bytes.Buffer
			status := Main("v", append([]string{"priod", "--config", os.DevNull}, append(args, "--state", dir)...), &out, &errs)
			if status != exitUsage || out.Len() > 0 || strings.Count(errs.String(), "\n") != 1 || !strings.Contains(errs.String(), c.words) || !strings.Contains(errs.String(), dir) {
				t.Errorf("%s, %q: status %d, %s%s", name, args, status, &out, &errs)
			}
		}
	}
}

// A month without GPU jobs is recorded, too.
func TestReplayWithoutGPUs(t *testing.T) {
	trace, dir := filepath.Join(t.TempDir(), "jobs.csv"), filepath.Join(t.TempDir(), "month")
	if err := os.WriteFile(trace, []byte("job_id,submit_s,gpus,duration_s,limit_s\n1,0,0,60,300\n2,30,0,60,300\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ran(t, "simulate", "--trace", trace, "--nodes", "1:a100:8", "--state", dir)
	if said := ran(t, "queue", "--state", dir); !strings.Contains(said, "0 jobs pending") {
		t.Error(said)
	}
}
