package tests

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"slurmprio/etc"
	"slurmprio/priod/view"
	"slurmprio/tests/lab"
)

// The pages of a running daemon follow the queue, on a socket that its group alone can
// open; without the daemon priod web shows the same.
func TestPagesOfADaemon(t *testing.T) {
	s := newSite(t, "")
	socket := filepath.Join(s.dir, "web.sock")
	s.configure(quick + fmt.Sprintf("[web]\nlisten = \"unix:%s\"\n", socket))
	s.fill()
	first := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--job-name=<script>alert(1)</script>", "--wrap", "sleep 600")
	s.eligible(1)
	d := s.daemon()
	asker := scraper{d, "unix:" + socket}
	s.wait("the first page", func() bool {
		r, err := asker.get("/")
		if err == nil {
			r.Body.Close()
		}
		return err == nil && r.StatusCode == http.StatusOK
	})
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	stream, err := asker.get("/events")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	told := make(chan string, 1000)
	go func() {
		for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				told <- text
			}
		}
		close(told)
	}()
	before, _, _ := strings.Cut(<-told, " ")
	second := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600")
	for {
		select {
		case text, open := <-told:
			if !open {
				t.Fatal("the stream ended")
			}
			if number, _, _ := strings.Cut(text, " "); number == before {
				continue
			}
		case <-time.After(lab.Patience):
			t.Fatal("no cycle was told")
		}
		if pagesHave(t, asker, first, second) {
			break
		}
	}
	for _, path := range []string{"/", "/nodes", "/queue", "/evictions", "/allocation", "/day", "/health", "/job?id=" + first} {
		text, status := read(t, asker, path)
		if status != http.StatusOK || strings.Contains(text, "<script>alert") {
			t.Errorf("%s: %d: %s", path, status, text)
		}
	}
	if text, _ := read(t, asker, "/job?id="+first); !strings.Contains(text, "because its tag says type=te") {
		t.Errorf("the job's page does not explain it: %s", text)
	}
	s.explainsAsJSON(asker, first, second)
	s.wait("the daemon's check on its page", func() bool {
		text, _ := read(t, asker, "/health")
		return strings.Contains(text, "priority/multifactor") && strings.Contains(text, " failed; looked at ")
	})
	d.stop()

	s.servesAlone(d, first, second)
	if _, errs, status := s.priod("web", "--listen", "0.0.0.0:80"); status != 2 || !strings.Contains(errs, "loopback") {
		t.Errorf("%d: %s", status, errs)
	}
}

// servesAlone looks at what priod web serves of the state folder.
func (s *site) servesAlone(d *running, first, second string) {
	s.Helper()
	socket := filepath.Join(s.dir, "alone.sock")
	c := s.command("web", "--listen", "unix:"+socket)
	out, err := c.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := c.Start(); err != nil {
		s.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "serving ") {
		s.Errorf("%q, %v", line, err)
	}
	alone := scraper{d, "unix:" + socket}
	if !pagesHave(s, alone, first, second) {
		s.Error("priod web does not show what the daemon saw")
	}
	if text, _ := read(s, alone, "/health"); !strings.Contains(text, "priod is not running") || !strings.Contains(text, " failed; looked at ") {
		s.Error(text)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		s.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		s.Error(err)
	}
}

// explainsAsJSON asks the page and priod explain of jobs that are known, and of one that is not.
func (s *site) explainsAsJSON(asker scraper, first, second string) {
	s.Helper()
	text, _ := read(s, asker, "/job?format=json&id="+first)
	checkExplanation(s, "the page", text)
	checkExplanation(s, "explain", s.must("explain", "--json", first))
	var many struct {
		Jobs    []json.RawMessage
		Unknown []struct{ Job, Error string }
	}
	text, _, status := s.priod("explain", "--json", first, "999999", second)
	if err := json.Unmarshal([]byte(text), &many); err != nil || status != 1 || len(many.Jobs) != 2 || len(many.Unknown) != 1 || many.Unknown[0].Job != "999999" {
		s.Errorf("several jobs: status %d, %v: %s", status, err, text)
	}
	for _, x := range many.Jobs {
		checkExplanation(s, "one of several", string(x))
	}
}

// checkExplanation checks an explanation against the schema that is handed out.
func checkExplanation(t testing.TB, name, text string) {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(etc.ExplainSchema), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var data any
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		t.Fatalf("%s: %v: %s", name, err, text)
	}
	if err := resolved.Validate(data); err != nil {
		t.Errorf("%s: %v: %s", name, err, text)
	}
}

func read(t testing.TB, s scraper, path string) (text string, status int) {
	t.Helper()
	r, err := s.get(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body), r.StatusCode
}

// pagesHave reports whether the page of the queue has all of these jobs.
func pagesHave(t testing.TB, s scraper, jobs ...string) bool {
	t.Helper()
	text, status := read(t, s, "/queue?format=json")
	var v struct{ Queue view.QueuePage }
	if err := json.Unmarshal([]byte(text), &v); err != nil || status != http.StatusOK {
		t.Fatalf("%d: %v: %s", status, err, text)
	}
	has := map[string]bool{}
	for _, j := range v.Queue.Jobs {
		has[j.Job.String()] = true
	}
	for _, j := range jobs {
		if !has[j] {
			return false
		}
	}
	return true
}
