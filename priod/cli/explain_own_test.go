package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
)

// ownQuestions is the handler of a state folder with jobs of others, which root asks.
func ownQuestions(t *testing.T) func(w http.ResponseWriter, method, path string, body io.Reader) {
	t.Helper()
	dir := t.TempDir()
	state, file := filepath.Join(dir, "state"), filepath.Join(dir, "priod.toml")
	if err := os.WriteFile(file, []byte("[state]\ndir = \""+state+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fillWaits(t, state)
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	h := ownHandler(cfg)
	return func(w http.ResponseWriter, method, path string, body io.Reader) {
		r := httptest.NewRequest(method, path, body)
		h.ServeHTTP(w, r.WithContext(daemon.WithAsker(r.Context(), 0)))
	}
}

// Whatever a user asks about what is not the user's, unknown, or no job at all: it is the question that is wrong.
func TestWrongQuestions(t *testing.T) {
	ask := ownQuestions(t)
	huge := strings.Repeat("9", 5000)
	for _, path := range []string{"/explain", "/eta"} {
		for job, want := range map[string]int{"abc": 400, "%00": 400, "-1": 400, huge: 400, "4294967296": 400, "1_4294967295": 400, "99": 404, "1": 404, "3": 404, "1_5": 404, "99%2B1": 404, "1%2B1": 404, "sABCDEFGHJKMNP": 404} {
			for _, more := range []string{"", "&json=1&all=1", "&job=99"} {
				w := httptest.NewRecorder()
				if ask(w, http.MethodGet, path+"?job="+job+more, nil); w.Code != want {
					t.Errorf("%s?job=%.40s%s: %d, want %d: %.200s", path, job, more, w.Code, want, w.Body)
				}
			}
		}
	}
	for _, x := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/explain", "", 400}, {"GET", "/eta", "", 200}, {"GET", "/explain?" + strings.Repeat("job=1&", 21), "", 400}, {"GET", "/eta?" + strings.Repeat("job=1&", 21), "", 400},
		{"POST", "/explain?job=1", "", 405}, {"PUT", "/eta", "", 405}, {"GET", "/nothing", "", 404}, {"POST", "/eta", "", 400}, {"POST", "/eta", "x", 400}, {"POST", "/eta", "[]", 400}, {"POST", "/eta", "[null]", 400},
		{"POST", "/eta", "[{}]", 400}, {"POST", "/eta", "{}", 400}, {"POST", "/eta", "[" + huge + "]", 400}, {"POST", "/eta", strings.Repeat(" ", ownMaxText+1), 400},
	} {
		w := httptest.NewRecorder()
		if ask(w, x.method, x.path, strings.NewReader(x.body)); w.Code != x.want {
			t.Errorf("%s %.40s %.40q: %d, want %d: %.200s", x.method, x.path, x.body, w.Code, x.want, w.Body)
		}
	}
}

// stuck is a reader who takes nothing until let go.
type stuck struct {
	*httptest.ResponseRecorder
	sending, letGo chan struct{}
}

func (s stuck) Write(b []byte) (int, error) {
	s.sending <- struct{}{}
	<-s.letGo
	return len(b), nil
}

// unread is a question that never ends.
type unread struct{ asked, letGo chan struct{} }

func (u unread) Read([]byte) (int, error) {
	u.asked <- struct{}{}
	<-u.letGo
	return 0, io.EOF
}

// Users who do not read their answers, or do not finish their questions, stop no other's.
func TestSlowUsers(t *testing.T) {
	ask := ownQuestions(t)
	began, letGo := make(chan struct{}), make(chan struct{})
	defer close(letGo)
	for range 2 * ownAtOnce {
		for _, path := range []string{"/explain?job=1", "/eta"} {
			go ask(stuck{httptest.NewRecorder(), began, letGo}, http.MethodGet, path, nil)
			<-began
		}
		go ask(httptest.NewRecorder(), http.MethodPost, "/eta", unread{began, letGo})
		<-began
	}
	for _, path := range []string{"/explain?job=1", "/eta?job=1"} {
		w := httptest.NewRecorder()
		if ask(w, http.MethodGet, path, nil); w.Code != http.StatusNotFound {
			t.Errorf("%s beside them: %d: %s", path, w.Code, w.Body)
		}
	}
}
