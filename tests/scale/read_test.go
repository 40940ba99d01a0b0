package scale

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"slurmprio/priod/cli"
	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/store"
)

// nonsense is what a person should never read: Go's words for a value that a format does not
// fit, addresses, values that are no numbers, and times before they began.
var nonsense = regexp.MustCompile(`%!|\b0x[0-9a-f]{4,}|<nil>|&lt;nil&gt;|\bNaN\b|\bInf\b|\+Inf|map\[|(^|[ >(])-[0-9.]+(s|m|h|d|ms)\b`)

// mayBeNegative are the columns of what a job had beyond its due.
var mayBeNegative = map[string]bool{"owed": true}

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
	handler := cli.Pages("v1", &cfg)(func() daemon.State { return daemon.State{Healthy: true} })
	get := func(address string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, address, nil))
		return w
	}
	addresses := []string{"/", "/nodes", "/queue", "/evictions", "/allocation", "/day", "/health"}
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
		checkWords(t, address, plain(text))
		if full {
			checkColumns(t, address, text)
		}
		var v any
		asJSON := address + "?format=json"
		if strings.Contains(address, "?") {
			asJSON = address + "&format=json"
		}
		if err := json.Unmarshal(get(asJSON).Body.Bytes(), &v); err != nil && full {
			t.Errorf("%s as JSON: %v", address, err)
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
		{"evictions"}, {"history"}, {"report", "preemptions"}, {"report", "sizing"}, {"report", "failures"}, {"report", "waits", "--since", since}, {"report", "usage", "--since", since}, {"report", "nodes"},
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
			if more == nil {
				checkWords(t, "priod "+strings.Join(argv, " "), out.String()+errs.String())
			}
		}
	}
}

func checkWords(t *testing.T, where, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if at := nonsense.FindString(line); at != "" {
			t.Errorf("%s says %q: %.300s", where, at, line)
		}
	}
}

// plain is a page's text, a line for each row, without what may be negative.
func plain(page string) string {
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return page
	}
	var b strings.Builder
	for _, table := range tables(root) {
		for _, row := range table.rows {
			for i, cell := range row {
				if i < len(table.heads) && mayBeNegative[table.heads[i]] {
					continue
				}
				b.WriteString(cell + " ")
			}
			b.WriteString("\n")
		}
	}
	for n := range root.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "td" && n.Parent.Data != "style" && n.Parent.Data != "script" {
			b.WriteString(strings.TrimSpace(n.Data) + "\n")
		}
		for _, a := range n.Attr {
			if u, err := url.QueryUnescape(a.Val); err == nil && !strings.HasPrefix(a.Val, "data:") {
				b.WriteString(u + "\n")
			}
		}
	}
	return b.String()
}

type table struct {
	heads []string
	rows  [][]string
}

func tables(root *html.Node) (all []table) {
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "table":
			all = append(all, table{})
		case "th":
			if t := &all[len(all)-1]; len(t.rows) <= 1 {
				t.heads = append(t.heads, text(n))
			}
		case "tr":
			all[len(all)-1].rows = append(all[len(all)-1].rows, nil)
		case "td":
			t := &all[len(all)-1]
			t.rows[len(t.rows)-1] = append(t.rows[len(t.rows)-1], text(n))
		}
	}
	return all
}

func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.TrimSpace(b.String())
}

// mayBeEmpty are the columns of what need not be there: no GPU is stranded, no victim is in its
// grace just now, no write was held back.
var mayBeEmpty = map[string]bool{"free and useless, since": true, "grace left": true, "held": true}

// checkColumns finds columns that no row fills, in tables of ten rows and more.
func checkColumns(t *testing.T, where, page string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for _, tab := range tables(root) {
		for i, head := range tab.heads {
			filled := 0
			for _, row := range tab.rows {
				if i < len(row) && row[i] != "" {
					filled++
				}
			}
			if filled == 0 && len(tab.rows) > 10 && !mayBeEmpty[head] {
				t.Errorf("%s: no row has anything under %q", where, head)
			}
		}
	}
}
