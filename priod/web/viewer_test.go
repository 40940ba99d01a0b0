package web

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

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

// Readers who ask for much and read nothing stop no other reader: an answer is sent after its turn.
func TestSlowReaders(t *testing.T) {
	s := newSite(t, 250)
	s.cycle()
	sending, letGo := make(chan struct{}), make(chan struct{})
	defer close(letGo)
	for i := range 3 * atOnce {
		address := []string{"/api/v1/map", "/queue", "/api/v1/queue"}[i%3]
		go s.handle.ServeHTTP(stuck{httptest.NewRecorder(), sending, letGo}, httptest.NewRequest(http.MethodGet, address, nil))
		select {
		case <-sending:
		case <-time.After(time.Minute):
			t.Fatalf("%s: only %d answers are being sent", address, i)
		}
	}
	if w := s.get("/queue?page=2"); w.Code != http.StatusOK {
		t.Errorf("beside them: %d", w.Code)
	}
}

// Behind a proxy that names the user, no page and no JSON has anything of another user.
func TestViewers(t *testing.T) {
	s := newSite(t, 250)
	s.slurm.snapshot.Jobs[0].User = "u0"
	s.cycle()
	s.pages.Config.Web.UserHeader, s.pages.Config.Web.Operators = "X-User", []string{"boss"}
	s.handle = s.pages.Handler()
	as := func(address string, names ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, address, nil)
		r.Header["X-User"] = names
		w := httptest.NewRecorder()
		s.handle.ServeHTTP(w, r)
		return w
	}
	every := append(slices.Clone(addresses), "/events", "/style.css")
	for _, x := range pages {
		if x.name != "job" {
			every = append(every, "/api/v1/"+x.name)
		}
	}
	every = append(every, "/api/v1/jobs/1001", "/api/v1/openapi.json")
	for _, address := range every {
		for _, names := range [][]string{nil, {""}, {"u1", "boss"}, {"boss", "u1"}} {
			if w := as(address, names...); w.Code != http.StatusForbidden {
				t.Errorf("%s of %q: %d", address, names, w.Code)
			}
		}
	}
	others := regexp.MustCompile(`[^\\]\bu[02]\b|\bjob(s/|\?id=)?"?:? ?"?(7|1000|1002)\b`)
	for _, address := range every {
		if address == "/events" {
			continue
		}
		w := as(address, "u1")
		want := http.StatusOK
		switch {
		case strings.Contains(address, "health"):
			want = http.StatusForbidden
		case strings.Contains(address, "id="):
			want = http.StatusNotFound // 7, 1000
		}
		if w.Code != want {
			t.Errorf("%s: %d, want %d", address, w.Code, want)
		}
		if found := others.FindString(w.Body.String()); found != "" && want == http.StatusOK && !strings.HasSuffix(address, ".json") {
			t.Errorf("%s shows %q", address, found)
		}
	}
	own := as("/api/v1/queue", "u1").Body.String()
	if !strings.Contains(own, `"job": "1001"`) || strings.Contains(own, `"job": "1000"`) {
		t.Errorf("the queue of u1: %.600s", own)
	}
	if w := as("/api/v1/queue", "boss"); !strings.Contains(w.Body.String(), `"user": "u0"`) {
		t.Errorf("an operator does not see all: %.300s", w.Body)
	}
	if w := as("/api/v1/jobs/1001", "u1"); w.Code != http.StatusOK {
		t.Errorf("the user's own job: %d", w.Code)
	}
	if w := as("/queue?user=u0", "u1"); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "job?id=1000") {
		t.Errorf("another user's jobs by a filter: %d", w.Code)
	}
}
