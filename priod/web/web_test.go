package web

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/net/html"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/cycle"
	"slurmprio/priod/daemon"
	"slurmprio/priod/order"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
)

// hostile is a name that upsets a page, a terminal or a script that does not escape it.
const hostile = "<script>alert(1)</script>\"'&\x1b[31m\u202e}}{{.Version}}"

// slurm is a cluster that takes every write.
type slurm struct{ snapshot cluster.Snapshot }

func (s *slurm) Observe(context.Context) (cluster.Snapshot, error) { return s.snapshot, nil }

func (s *slurm) Apply(_ context.Context, actions []plan.Action) []plan.Outcome {
	outcomes := make([]plan.Outcome, len(actions))
	for i, a := range actions {
		outcomes[i] = plan.Outcome{Action: a, Status: slurmplug.Applied}
	}
	return outcomes
}

// site is a state folder and the pages of it.
type site struct {
	testing.TB
	dir    string
	store  *store.Store
	known  *cluster.History
	slurm  slurm
	pages  *Pages
	handle http.Handler
}

func newSite(t testing.TB, waiting int) *site {
	t.Helper()
	s := &site{TB: t, dir: t.TempDir()}
	var err error
	if s.store, err = store.Open(t.Context(), s.dir, store.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.store.Close() })
	if s.known, err = s.store.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(-time.Minute)
	snap := cluster.Snapshot{At: now, Cluster: "test", Nodes: []cluster.Node{
		{Name: "n1", Usable: true, State: "MIXED", GPUType: "a100", GPUs: 4, GPUsUsed: 2, CPUs: 16, CPUsUsed: 16, MemMB: 64 << 10, MemUsedMB: 8 << 10},
		{Name: "n2", Usable: true, State: "IDLE", GPUType: "v100", GPUs: 4, CPUs: 16, MemMB: 64 << 10},
		{Name: "n3", State: "IDLE+DRAIN", GPUType: "v100", GPUs: 4, CPUs: 16, MemMB: 64 << 10},
	}}
	tag, err := jobtag.Parse("prio:type=te&v=1")
	if err != nil {
		t.Fatal(err)
	}
	snap.Jobs = append(snap.Jobs, cluster.Job{
		ID: slurmplug.Plain(7), RawID: 7, User: hostile, Account: hostile, Partition: "gpu", State: cluster.Running, GPUs: 2, Nodes: 1, NodeList: "n1", GPUType: "a100",
		Submit: now.Add(-time.Hour), Start: now.Add(-time.Minute), Tag: tag, TagText: "prio:type=te&v=1",
	})
	for i := range waiting {
		snap.Jobs = append(snap.Jobs, cluster.Job{
			ID: slurmplug.Plain(uint32(1000 + i)), RawID: uint32(1000 + i), User: "u" + fmt.Sprint(i%3), Account: hostile, Partition: "gpu", State: cluster.Pending, Reason: "Resources",
			GPUs: 1, Nodes: 1, Priority: int64(10 + i), Submit: now.Add(-time.Hour), Eligible: now.Add(-time.Hour), Tag: tag, TagText: "prio:type=te&v=1", Features: hostile,
		})
	}
	s.slurm.snapshot = snap
	cfg, err := config.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	cfg.State.Dir = s.dir
	s.pages = &Pages{Config: cfg, Version: "v0", Health: func() daemon.State { return daemon.State{Healthy: false, Reason: hostile, Blocked: daemon.Rival} }}
	s.handle = s.pages.Handler()
	return s
}

// cycle runs one, as the daemon does.
func (s *site) cycle() {
	s.Helper()
	s.slurm.snapshot.At = s.slurm.snapshot.At.Add(10 * time.Second)
	_, err := cycle.Step(s.Context(), &s.slurm, s.store, s.known, cycle.Settings{Order: order.Feature{Settings: order.Settings{
		Top: 1_000_000, Step: 1000,
	}}})
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) get(address string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.handle.ServeHTTP(w, httptest.NewRequest(http.MethodGet, address, nil))
	return w
}

var addresses = []string{"/", "/map", "/map?type=v100", "/queue", "/queue?page=2", "/queue?user=u1&class=te&cause=capacity", "/job?id=7", "/job?id=1000", "/job?id=1000&if=1", "/evictions", "/allocation", "/users", "/shares", "/time", "/time?span=month", "/health"}

// Every page is whole, escapes what users wrote, leads to no other host, and is JSON too.
func TestPages(t *testing.T) {
	s := newSite(t, 250)
	s.cycle()
	for _, address := range addresses {
		w := s.get(address)
		if w.Code != http.StatusOK {
			t.Errorf("%s: status %d: %s", address, w.Code, w.Body)
			continue
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", address, policy)
		}
		checkPage(t, address, w.Body.String())
		join := "?"
		if strings.Contains(address, "?") {
			join = "&"
		}
		w = s.get(address + join + "format=json")
		var v map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Header().Get("Content-Type") != "application/json" || v["cycle"] == nil && !strings.HasPrefix(address, "/job") {
			t.Errorf("%s as JSON: %v: %.200s", address, err, w.Body)
		}
		if strings.Contains(w.Body.String(), "\x1b") {
			t.Errorf("%s as JSON: an escape code", address)
		}
	}
}

// The JSON of a job's page is what explains it, and nothing around that.
func TestJobAsJSON(t *testing.T) {
	s := newSite(t, 3)
	s.cycle()
	var v store.Story
	if err := json.Unmarshal(s.get("/job?id=1000&format=json").Body.Bytes(), &v); err != nil || v.Job.ID != slurmplug.Plain(1000) || v.Decision == nil {
		t.Errorf("%v: %+v", err, v)
	}
}

// What a check found stands on the page of health, the worst first, with its age and the line
// to add; the first page names what fails.
func TestFindings(t *testing.T) {
	s := newSite(t, 3)
	s.cycle()
	if text := s.get("/health").Body.String(); !strings.Contains(text, "No check by the daemon yet") {
		t.Error(text)
	}
	if text := s.get("/").Body.String(); strings.Contains(text, "priod check fails") {
		t.Error(text)
	}
	found := &store.Findings{At: time.Now().Add(-2 * time.Hour), Findings: []store.Finding{
		{Level: "PASS", Name: "version", Text: "Slurm 24.11", Fix: "not shown"}, {Level: "WARN", Name: "steps", Text: "only 3 places"},
		{Level: "FAIL", Name: "rights", Text: "user " + hostile + " may not", Fix: "sacctmgr -i add user " + hostile}, {Level: "FAIL", Name: "rights"}, {Level: "FAIL", Name: hostile},
	}}
	if err := s.store.SaveFindings(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"/", "/health"} {
		if text := s.get(address).Body.String(); !strings.Contains(text, "<code>rival</code>") {
			t.Errorf("%s does not say why nothing is written", address)
		}
		checkPage(t, address, s.get(address).Body.String())
	}
	if text := s.get("/").Body.String(); strings.Count(text, "priod check fails: rights") != 1 || !strings.Contains(text, `<a href="health">priod check fails: &lt;script`) {
		t.Error(text)
	}
	text := s.get("/health").Body.String()
	worst, mild, good := strings.Index(text, "may not"), strings.Index(text, "only 3 places"), strings.Index(text, "Slurm 24.11")
	if !strings.Contains(text, "1 passed, 1 warned, 3 failed") || !strings.Contains(text, ", 2h0") || !strings.Contains(text, "<code>sacctmgr -i add user") ||
		strings.Contains(text, "not shown") || worst < 0 || worst > mild || mild > good {
		t.Error(text)
	}
	var v struct{ Health view.Health }
	if err := json.Unmarshal(s.get("/health?format=json").Body.Bytes(), &v); err != nil || len(v.Health.Check.Findings) != 5 || v.Health.Check.Findings[0].Fix == "" {
		t.Errorf("%v: %+v", err, v.Health.Check)
	}
}

// The queue says when a job is expected to start, where that is known.
func TestExpectedStarts(t *testing.T) {
	s := newSite(t, 4)
	s.cycle()
	now := time.Now()
	if err := s.store.SaveStarts(t.Context(), now, map[cluster.JobID]store.ExpectedStart{slurmplug.Plain(1000): {At: now}, slurmplug.Plain(1001): {At: now.Add(2*time.Hour + 5*time.Minute)}, slurmplug.Plain(1002): {At: now.Add(5 * time.Hour), Median: now.Add(time.Hour), P90: now.Add(2 * time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	var v struct{ Queue view.QueuePage }
	if err := json.Unmarshal(s.get("/queue?format=json").Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	for _, j := range v.Queue.Jobs {
		want := map[uint32]string{1000: "starts now", 1001: "starts within 2h0", 1002: "starts in about "}[j.Job.ID]
		if !strings.HasPrefix(j.Starts(), want) || (want == "") != (j.Start == nil) {
			t.Errorf("job %s: %q, want %q", j.Job, j.Starts(), want)
		}
	}
	if text := s.get("/queue").Body.String(); !strings.Contains(text, `title="starts now">now<`) || !strings.Contains(text, `title="starts within 2h0`) || !strings.Contains(text, "nine of ten within") {
		t.Error(text)
	}
}

// The queue's page, the job's page, the API, explain and eta say one time of a job's start, whatever steering thought when it gave the job
// its GPU type. Times are days away, where words are of whole hours.
func TestOneStartWhoeverIsAsked(t *testing.T) {
	s := newSite(t, 4)
	s.cycle()
	id, now := slurmplug.Plain(1002), time.Now().Add(30*time.Minute)
	median, p90 := now.Add(50*time.Hour), now.Add(75*time.Hour)
	if err := s.store.SaveStarts(t.Context(), now, map[cluster.JobID]store.ExpectedStart{id: {At: now.Add(100 * time.Hour), Median: median, P90: p90}}); err != nil {
		t.Fatal(err)
	}
	want := "in about 2d02h, nine of ten within 3d03h (by time limits within 4d04h)"
	for _, address := range []string{"/queue", "/job?id=1002"} {
		if text := s.get(address).Body.String(); !strings.Contains(text, want) {
			t.Errorf("%s does not say %q:\n%s", address, want, text)
		}
	}
	r, err := store.OpenReader(t.Context(), s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var explained strings.Builder
	all, err := view.ExplainStored(t.Context(), s.pages.Config, r, &view.RunTimes{}, []string{"1002"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if all[0].Show(&explained, false); !strings.Contains(explained.String(), "Start      "+want) {
		t.Errorf("explain does not say %q:\n%s", want, explained.String())
	}
	etas, err := view.Expectations(t.Context(), s.pages.Config, r, nil, []string{"1002"}, "", false)
	if err != nil {
		t.Fatal(err)
	}
	at := func(after *int64) time.Time { return time.Now().Add(time.Duration(*after) * time.Second) }
	same := func(a, b time.Time) bool { return a.Sub(b).Abs() < 20*time.Minute } // the hours differ by 25
	if e := etas[0]; e.StartS == nil || e.P90S == nil || !same(at(e.StartS), median) || !same(at(e.P90S), p90) {
		t.Errorf("eta says %+v", e)
	}
	var job struct {
		Start store.ExpectedStart `json:"expected_start"`
	}
	if err := json.Unmarshal(s.get("/api/v1/jobs/1002").Body.Bytes(), &job); err != nil || !same(job.Start.Median, median) || !same(job.Start.P90, p90) {
		t.Errorf("the API says %+v: %v", job, err)
	}
}

// The first page says what priod brought, once that was replayed.
func TestValueOnTheFirstPage(t *testing.T) {
	s := newSite(t, 2)
	s.cycle()
	if text := s.get("/").Body.String(); !strings.Contains(text, "not replayed yet") {
		t.Error(text)
	}
	until := time.Now()
	v := &store.Value{Since: until.Add(-7 * 24 * time.Hour), Until: until, Jobs: 4211, Completion: store.ValueOf{With: 57, Without: 100}, Low: 0.4, High: 0.45, Replays: 5}
	if err := store.SaveValue(s.dir, v); err != nil {
		t.Fatal(err)
	}
	text := s.get("/").Body.String()
	checkPage(t, "/", text)
	if err := os.WriteFile(filepath.Join(s.dir, "value.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if w := s.get("/"); w.Code != http.StatusOK {
		t.Errorf("with a spoiled file the first page answers %d", w.Code)
	}
	if !strings.Contains(text, `<p class="big">43 % sooner</p>`) || !strings.Contains(text, "40 to 45 % in 5 replays, 4211 GPU jobs since") {
		t.Error(text)
	}
}

// checkPage looks for elements and links that a template never has, which users' text would have made.
func checkPage(t *testing.T, address, text string) {
	t.Helper()
	if strings.ContainsAny(text, "\x1b\u202e") {
		t.Errorf("%s: text of users came through unescaped", address)
	}
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		for _, a := range n.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on") || a.Key == "style":
				t.Errorf("%s: <%s %s=%q>", address, n.Data, a.Key, a.Val)
			case a.Key == "href" || a.Key == "src" || a.Key == "action":
				u, err := url.Parse(a.Val)
				if err != nil || u.Host != "" || u.Scheme != "" && u.Scheme != "data" || strings.HasPrefix(a.Val, "/") {
					t.Errorf("%s: leads elsewhere: <%s %s=%q>", address, n.Data, a.Key, a.Val)
				}
			}
		}
		if n.Data == "script" && attribute(n, "type") != "application/json" && (n.FirstChild != nil || assets[attribute(n, "src")] != "text/javascript") {
			t.Errorf("%s: a script of its own", address)
		}
	}
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func TestPagesOfAQueue(t *testing.T) {
	s := newSite(t, 250)
	s.cycle()
	var v struct{ Queue view.QueuePage }
	read := func(address string) {
		t.Helper()
		v.Queue = view.QueuePage{}
		if err := json.Unmarshal(s.get(address).Body.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
	}
	seen, places := map[cluster.JobID]bool{}, 0
	for n := 1; n <= 3; n++ {
		read(fmt.Sprintf("/queue?format=json&page=%d", n))
		if v.Queue.Of != 3 || v.Queue.All != 250 || v.Queue.Page != n {
			t.Errorf("page %d: %+v", n, v.Queue.Part)
		}
		for _, j := range v.Queue.Jobs {
			if places++; seen[j.Job] || j.Place != places {
				t.Errorf("job %s at %d, want %d", j.Job, j.Place, places)
			}
			seen[j.Job] = true
		}
	}
	if len(seen) != 250 {
		t.Errorf("%d jobs on all pages", len(seen))
	}
	if read("/queue?format=json&page=99"); v.Queue.Page != 3 || len(v.Queue.Jobs) != 50 {
		t.Errorf("beyond the last page: page %d with %d jobs", v.Queue.Page, len(v.Queue.Jobs))
	}
	if read("/queue?format=json&user=u1"); v.Queue.All != 83 {
		t.Errorf("%d jobs of u1, want 83", v.Queue.All)
	}
}

// What is free and stranded says why.
func TestNodes(t *testing.T) {
	s := newSite(t, 1)
	s.cycle()
	var v struct{ Nodes view.NodePage }
	if err := json.Unmarshal(s.get("/map?format=json").Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if n := v.Nodes.Nodes[0]; n.Name != "n1" || n.Stranded != "no CPU is free next to them" || len(n.Holders) != 1 || n.Holders[0].Job.ID != 7 {
		t.Errorf("n1: %+v", n)
	}
	if n := v.Nodes.Nodes[2]; n.Stranded != "" || n.State != "IDLE+DRAIN" {
		t.Errorf("n3: %+v", n)
	}
	for _, x := range v.Nodes.Types {
		want := map[string]view.TypeUse{
			"a100": {GPUType: "a100", Nodes: 1, GPUs: 4, InUse: 2, Stranded: 2}, "v100": {GPUType: "v100", Nodes: 2, GPUs: 8, Free: 4, Down: 4},
		}[x.GPUType]
		if *x != want {
			t.Errorf("%+v, want %+v", *x, want)
		}
	}
}

func TestWrongRequests(t *testing.T) {
	s := newSite(t, 3)
	if w := s.get("/queue"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("before the first cycle: %d", w.Code)
	}
	s.cycle()
	huge := strings.Repeat("9", 10000)
	for address, want := range map[string]int{
		"/queue?page=0": 400, "/queue?page=-1": 400, "/queue?page=x": 400, "/queue?page=99999999999999999999": 400, "/map?page=%00": 400,
		"/job": 400, "/job?id=abc": 400, "/job?id=99": 404, "/job?id=7%2B3": 404, "/queue?%zz": 400,
		"/nodes": 301, "/day?format=json": 301, "/api/v1/nothing": 404, "/api/v1/jobs/abc": 400, "/api/v1/job": 404, "/api/v1/series?span=year": 400,
		"/queue?cause=nosuch": 400, "/queue?class=x": 400, "/queue?type=x": 400, "/queue?type=v100": 200, "/queue?cause=held&class=-&user=x&account=x&partition=x": 200, "/map?type=x": 400,
		"/job?id=" + huge: 400, "/job?id=4294967296": 400, "/job?id=7_4294967295": 400, "/job?id=-7": 400, "/job?id=7&if=1": 200, "/api/v1/jobs/" + huge: 400, "/api/v1/jobs/99?if=1": 404,
		"/api/v1/jobs/7_99": 404, "/api/v1/jobs/%00": 400, "/api/v1/queue?cause=" + huge: 400, "/api/v1/queue?user=" + huge: 200, "/api/v1/nodes?type=" + huge: 400, "/api/v1/series?span=" + huge: 400,
		"/nothing": 404, "/pages/page.html": 404, "/%2e%2e/etc/passwd": 404, "/queue/": 404,
	} {
		if w := s.get(address); w.Code != want {
			t.Errorf("%s: %d, want %d", address, w.Code, want)
		}
	}
	if to := s.get("/nodes?type=v100").Header().Get("Location"); to != "map?type=v100" {
		t.Errorf("an address of earlier leads to %q", to)
	}
	for _, address := range []string{"/", "/queue", "/api/v1/queue", "/api/v1/jobs/7", "/events", "/style.css", "/nodes", "/nothing"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
			w := httptest.NewRecorder()
			s.handle.ServeHTTP(w, httptest.NewRequest(method, address, nil))
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d, %s", method, address, w.Code, w.Header().Get("Allow"))
			}
		}
	}
}

// A page of another site that has a browser look up its own name as 127.0.0.1 gets nothing.
func TestNamesOfOthersAreRefused(t *testing.T) {
	s := newSite(t, 3)
	s.cycle()
	server := httptest.NewUnstartedServer(nil)
	server.Config = daemon.Server(s.handle, hclog.NewNullLogger())
	server.Start()
	defer server.Close()
	for host, want := range map[string]int{"evil.example": http.StatusMisdirectedRequest, "127.0.0.1:9818": 200, "localhost": 200, "[::1]:80": 200, "127.0.0.1.evil.example": http.StatusMisdirectedRequest} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/queue", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("X-Forwarded-Host", "localhost") // not believed
		r.Header.Set("Forwarded", "host=localhost")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("host %s: %d, want %d", host, answer.StatusCode, want)
		}
	}
}

// The state folder's loss, or one of a newer priod, is an answer, and the next page is whole again.
func TestDatabaseLostAndBack(t *testing.T) {
	s := newSite(t, 3)
	s.cycle()
	path := filepath.Join(s.dir, "priod.db")
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if w := s.get("/queue"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "no database in") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	if w := s.get("/queue"); w.Code != http.StatusOK {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// A database of an older schema is an answer that says so.
func TestOlderSchema(t *testing.T) {
	s := newSite(t, 3)
	s.cycle()
	s.store.Close()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(s.dir, "priod.db"))
	if err == nil {
		_, err = db.Exec("DELETE FROM goose_db_version WHERE version_id > 12")
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"/queue", "/api/v1/queue"} {
		if w := s.get(address); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "schema 12") {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	}
}

// What many ask for at once is read once, and anew when it is old; without an age always.
func TestAnswerCache(t *testing.T) {
	var k answerCache
	reads := 0
	ask := func(name string, age time.Duration) *answer {
		return k.get(name, age, func() (int, page) {
			reads++
			time.Sleep(20 * time.Millisecond)
			return http.StatusOK, page{Name: "error", Error: fmt.Sprint(reads)}
		})
	}
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() { ask("queue", time.Minute).in(true) })
	}
	group.Wait()
	if reads != 1 {
		t.Errorf("%d reads for 200 who ask at once", reads)
	}
	if ask("map", time.Minute); reads != 2 {
		t.Errorf("%d reads of two answers", reads)
	}
	if ask("queue", time.Nanosecond); reads != 3 {
		t.Errorf("%d reads once it is old", reads)
	}
	if ask("queue", 0); ask("queue", 0).data.Error != "5" {
		t.Errorf("%d reads without an age", reads)
	}
	for i := range 3 * mostCached {
		k.get(fmt.Sprint(i), time.Minute, func() (int, page) { return http.StatusOK, page{} })
	}
	if len(k.of) > mostCached {
		t.Errorf("%d answers are kept", len(k.of))
	}
}

// However many ask, few pages are made at once, and everybody gets an answer.
func TestFlood(t *testing.T) {
	s := newSite(t, 250)
	s.cycle()
	server := httptest.NewServer(s.handle)
	defer server.Close()
	var group sync.WaitGroup
	answers := make(chan int, 200)
	for range cap(answers) {
		group.Go(func() {
			answer, err := http.Get(server.URL + "/queue")
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			answers <- answer.StatusCode
		})
	}
	group.Wait()
	close(answers)
	good := 0
	for status := range answers {
		switch status {
		case http.StatusOK:
			good++
		case http.StatusServiceUnavailable:
		default:
			t.Errorf("status %d", status)
		}
	}
	if good == 0 {
		t.Error("nobody got a page")
	}
}

// A stream tells of each new cycle, and only so many are open at once.
func TestStream(t *testing.T) {
	s := newSite(t, 3)
	s.cycle()
	server := httptest.NewServer(s.handle)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	open := func() *http.Response {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		return answer
	}
	lines := bufio.NewScanner(open().Body)
	next := func() string {
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return text
			}
		}
		t.Fatal("the stream ended: ", lines.Err())
		return ""
	}
	first := next()
	s.slurm.snapshot.Jobs = s.slurm.snapshot.Jobs[:2]
	s.cycle()
	if second := next(); second == first || !strings.HasPrefix(second, "2 ") {
		t.Errorf("told %q and then %q", first, second)
	}
	for range listeners - 1 {
		if answer := open(); answer.StatusCode != http.StatusOK {
			t.Fatal(answer.Status)
		}
	}
	if answer := open(); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one too many: %s", answer.Status)
	}
}

// What a viewer costs the daemon who has a page open for a cycle of ten seconds, with 99 others.
func BenchmarkViewers(b *testing.B) {
	s := newSite(b, 0)
	s.full(10_000, 100_000)
	s.pages.Keep = 2 * time.Second
	for _, addresses := range [][]string{{"/", "/api/v1/map"}, {"/queue"}, {"/time"}} {
		b.Run(addresses[0], func(b *testing.B) {
			const viewers = 100
			for b.Loop() {
				s.pages.cache = answerCache{} // a new cycle
				for range viewers {
					for _, address := range addresses {
						r := httptest.NewRequest(http.MethodGet, address, nil)
						r.Header.Set("Accept-Encoding", "gzip")
						s.handle.ServeHTTP(httptest.NewRecorder(), r)
					}
				}
			}
			b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N)/viewers/10, "%-of-a-core/viewer")
		})
	}
}

// Curves over long spans hold longer, nothing holds without Keep, and an unknown span as short as the rest.
func TestAge(t *testing.T) {
	p := &Pages{Keep: 2 * time.Second}
	for asked, want := range map[string]time.Duration{"queue": p.Keep, "users": time.Minute, "series": 90 * time.Second, "series?span=hour": 6 * time.Second, "series?span=month": 36 * time.Minute, "series?span=year": p.Keep} {
		name, query, _ := strings.Cut(asked, "?")
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.age(name, values); got != want {
			t.Errorf("%s: %s, want %s", asked, got, want)
		}
		if got := (&Pages{}).age(name, values); got != 0 {
			t.Errorf("%s holds for %s without Keep", asked, got)
		}
	}
}
