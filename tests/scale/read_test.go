package scale

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"slurmprio/priod/cli"
	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/store"
	"slurmprio/tests/pagecheck"
)

// Every page and every report, with everything on, evictions, shares, failures, sizes and waits
// there, and with nothing stored: no nonsense, and no column that is empty in each row.
func TestEverythingIsRead(t *testing.T) {
	if testing.Short() {
		t.Skip("runs some hundred cycles")
	}
	s := newSoak(t, soakOptions{jobs: 300, minutes: 40, interval: time.Minute})
	for range 200 {
		s.life.pass(s.interval)
		s.cycle()
	}
	evictions := 0
	r, err := store.OpenReader(t.Context(), filepath.Join(s.dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.Evictions(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		if !x.Ended.IsZero() {
			evictions++
		}
	}
	r.Close()
	if evictions == 0 {
		t.Fatalf("none of %d evictions has ended: the pages of evictions are not tried", len(all))
	}
	for name, dir := range map[string]string{"everything": filepath.Join(s.dir, "state"), "nothing": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			if name == "nothing" {
				empty, err := store.Open(t.Context(), dir, store.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer empty.Close()
			}
			readPages(t, *s.config, dir, name == "everything")
			readVerbs(t, s, dir)
		})
	}
}

// The pages at 100,000 jobs, after some cycles.
func TestManyJobsAreRead(t *testing.T) {
	if os.Getenv("SLURMPRIO_LONG") != "1" {
		t.Skip("100,000 jobs; SLURMPRIO_LONG=1 runs it")
	}
	s := newSoak(t, soakOptions{jobs: 100_000, minutes: 40, interval: time.Minute})
	for range 3 {
		s.life.pass(s.interval)
		s.cycle()
	}
	readPages(t, *s.config, filepath.Join(s.dir, "state"), true)
	readVerbs(t, s, filepath.Join(s.dir, "state"))
}

// jobsToRead are the jobs in the queue, the victims of evictions and the jobs that these made room for.
func jobsToRead(t *testing.T, dir string) (ids []cluster.JobID) {
	t.Helper()
	r, err := store.OpenReader(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	queue, err := r.Queue(t.Context())
	if err != nil && !errors.Is(err, store.ErrNone) {
		t.Fatal(err)
	}
	for i := 0; i < len(queue); i += max(len(queue)/100, 1) {
		ids = append(ids, queue[i].Job.ID)
	}
	evictions, err := r.Evictions(t.Context(), 20)
	if err != nil && !errors.Is(err, store.ErrNone) {
		t.Fatal(err)
	}
	for i := range evictions {
		ids = append(ids, evictions[i].Victim, evictions[i].For)
	}
	return ids
}

func readPages(t *testing.T, cfg config.Config, dir string, full bool) {
	cfg.State.Dir = dir
	handler := cli.Pages("v1")(&cfg, func() daemon.State { return daemon.State{Healthy: true} })
	get := func(address string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, address, nil))
		return w
	}
	addresses := []string{"/", "/map", "/queue", "/evictions", "/allocation", "/users", "/time", "/health"}
	for _, id := range jobsToRead(t, dir) {
		addresses = append(addresses, "/job?id="+url.QueryEscape(id.String()))
	}
	if full && len(addresses) < 100 {
		t.Errorf("%d pages are read, want one of each kind of job", len(addresses))
	}
	for _, address := range addresses {
		w := get(address)
		if w.Code >= 500 && (full || w.Code != http.StatusServiceUnavailable) { // nothing stored: no cycle so far
			t.Errorf("%s: %d: %s", address, w.Code, w.Body)
			continue
		}
		text := w.Body.String()
		checkWords(t, address, pagecheck.Text(text))
		asJSON := address + "?format=json"
		if strings.Contains(address, "?") {
			asJSON = address + "&format=json"
		}
		if !full {
			continue
		}
		for _, head := range pagecheck.EmptyColumns(text) {
			t.Errorf("%s: no row has anything under %q", address, head)
		}
		unknown, err := pagecheck.Numbers(text, get(asJSON).Body.String(), time.Now())
		if err != nil {
			t.Errorf("%s as JSON: %v", address, err)
		}
		for _, n := range unknown {
			t.Errorf("%s: the JSON has no %s", address, n)
		}
	}
}

// readVerbs runs the verbs that show what is stored. Slurm is not there.
func readVerbs(t *testing.T, s *soak, dir string) {
	file := filepath.Join(t.TempDir(), "priod.toml")
	if err := os.WriteFile(file, []byte(everything+"[state]\ndir = \""+dir+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	since := strconv.Itoa(int(time.Since(s.life.now).Hours()/24)+2) + "d"
	for _, argv := range [][]string{
		{"evictions"}, {"queue", "--stored"}, {"report", "history"}, {"report", "preemptions"}, {"report", "sizing"}, {"report", "failures"}, {"report", "waits", "--since", since}, {"report", "usage", "--since", since}, {"report", "nodes"},
		{"config", "show"}, {"workloads", "list"},
	} {
		for _, more := range [][]string{nil, {"--json"}} {
			if more != nil && (argv[0] == "config") {
				continue
			}
			var out, errs bytes.Buffer
			status := cli.Main("v1", append(append([]string{"priod", "--config", file}, argv...), more...), &out, &errs)
			if status > 1 && !strings.Contains(errs.String(), "nothing") {
				t.Errorf("priod %s: exit %d: %s", strings.Join(argv, " "), status, &errs)
			}
			if argv[0] == "report" && argv[1] != "nodes" && argv[1] != "history" && more != nil && status == 0 {
				page := filepath.Join(t.TempDir(), "report.html")
				verb := append([]string{"priod", "--config", file}, append(argv, "--html", page)...)
				if status := cli.Main("v1", verb, io.Discard, &errs); status != 0 {
					t.Errorf("%s: exit %d: %s", strings.Join(verb, " "), status, &errs)
				}
				checkFile(t, page, out.String(), argv[1] != "waits") // the page of waits has parts and means, the JSON the sums
			}
			if more == nil {
				checkWords(t, "priod "+strings.Join(argv, " "), out.String()+errs.String())
			}
		}
	}
}

func checkWords(t *testing.T, where, text string) {
	t.Helper()
	for _, found := range pagecheck.Nonsense(text) {
		t.Errorf("%s says %s", where, found)
	}
}

// checkFile reads an HTML report, whose JSON is known and may have its numbers.
func checkFile(t *testing.T, path, asJSON string, numbers bool) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return
	}
	checkWords(t, filepath.Base(path), pagecheck.Text(string(page)))
	if !numbers {
		return
	}
	unknown, err := pagecheck.Numbers(string(page), asJSON, time.Now())
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	for _, n := range unknown {
		t.Errorf("%s: the JSON has no %s", filepath.Base(path), n)
	}
}

// The pages and the JSON of simulate and of its comparison, with everything on and failures.
func TestSimulationIsRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var jobs strings.Builder
	jobs.WriteString("job_id,submit_s,duration_s,gpus,type,user\n")
	for i := range 200 {
		class := "be"
		if i%4 == 0 {
			class = "te"
		}
		fmt.Fprintf(&jobs, "%d,%d,%d,%d,%s,u%d\n", i, i*20, 100+i*37%3000, 1+i%4, class, i%5)
	}
	trace, config := write("jobs.csv", jobs.String()), write("priod.toml", everything)
	nodes := ""
	for _, gpuType := range []string{"a100", "t4"} {
		nodes += fmt.Sprintf("[[nodes]]\ncount = 4\ngpu_type = %q\ngpus = 4\ncpus = 32\nmem_mb = 400000\nswitch = %q\n", gpuType, gpuType)
	}
	cluster := write("nodes.toml", nodes)
	for name, more := range map[string][]string{"simulate": {"--order", "priod", "--mtbf", "20h", "--repair", "10m"}, "compare": {"--compare"}} {
		t.Run(name, func(t *testing.T) {
			page := filepath.Join(t.TempDir(), name+".html")
			argv := append([]string{"priod", "--config", config, "simulate", "--trace", trace, "--cluster", cluster, "--backfill", "easy", "--html", page}, more...)
			for _, as := range []string{"", "--json"} {
				var out, errs bytes.Buffer
				if as != "" {
					argv = append(argv, as)
				}
				if status := cli.Main("v1", argv, &out, &errs); status != 0 {
					t.Fatalf("%s: exit %d: %s", strings.Join(argv, " "), status, &errs)
				}
				if as == "" {
					checkWords(t, name, out.String()+errs.String())
				} else {
					checkFile(t, page, out.String(), true)
				}
			}
		})
	}
}
