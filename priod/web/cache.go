package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"slurmprio/priod/daemon"
	"slurmprio/priod/report"
)

const mostCached = 64 // answers

// answerCache has answers that many ask for at once: each is made once and holds for a moment, as a page and as JSON.
type answerCache struct {
	flight singleflight.Group
	mu     sync.Mutex
	of     map[string]*answer
}

// answer is what was read for a page.
type answer struct {
	made   time.Time
	status int
	data   page
	once   [2]sync.Once
	text   [2]*rendered // as a page, as JSON
}

// rendered is an answer as it is sent, to all who ask for it.
type rendered struct {
	status int
	kind   string
	body   []byte
	zipped []byte // nil: too short
}

func newRendered(status int, kind string, body []byte) *rendered {
	x := &rendered{status: status, kind: kind, body: body}
	if len(body) < 1<<10 {
		return x
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(body); err == nil && z.Close() == nil {
		x.zipped = b.Bytes()
	}
	return x
}

// send is not in a turn: the asker may read slowly.
func (x *rendered) send(w http.ResponseWriter, r *http.Request) {
	h, body := w.Header(), x.body
	h.Set("Content-Type", x.kind)
	h.Add("Vary", "Accept-Encoding")
	if x.zipped != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = x.zipped
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if x.status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "5")
	}
	daemon.Sending(w)
	w.WriteHeader(x.status)
	_, _ = w.Write(body) // fails when the asker has gone
}

// get is the answer of that name that is not older than age, else a new one.
func (k *answerCache) get(name string, age time.Duration, read func() (status int, data page)) *answer {
	k.mu.Lock()
	a := k.of[name]
	k.mu.Unlock()
	if a != nil && time.Since(a.made) < age {
		return a
	}
	made, _, _ := k.flight.Do(name, func() (any, error) {
		a := &answer{}
		a.status, a.data = read()
		a.made = time.Now()
		if age == 0 {
			return a, nil
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.of == nil || len(k.of) >= mostCached {
			k.of = map[string]*answer{}
		}
		k.of[name] = a
		return a, nil
	})
	return made.(*answer)
}

// in is the answer as a page, or as JSON.
func (a *answer) in(asJSON bool) *rendered {
	at, render := 0, renderPage
	if asJSON {
		at, render = 1, renderJSON
	}
	a.once[at].Do(func() { a.text[at] = render(a.status, a.data) })
	return a.text[at]
}

func renderJSON(status int, data page) *rendered {
	const kind = "application/json"
	var body bytes.Buffer
	if err := report.JSON(&body, data.json()); err != nil {
		return newRendered(http.StatusInternalServerError, kind, []byte("{\"error\": \"the answer cannot be made\"}\n"))
	}
	return newRendered(status, kind, body.Bytes())
}

func renderPage(status int, data page) *rendered {
	var body bytes.Buffer // so that a page is whole or not there
	if err := templates.ExecuteTemplate(&body, "page.html", data); err != nil {
		return newRendered(http.StatusInternalServerError, "text/plain; charset=utf-8", []byte("the page cannot be made: "+report.Safe(err.Error())))
	}
	return newRendered(status, "text/html; charset=utf-8", body.Bytes())
}

// failed is the answer that there is none.
func (p *Pages) failed(asJSON bool, status int, err error) *rendered {
	a := answer{status: status, data: page{Name: "error", Error: err.Error(), Version: p.Version}}
	return a.in(asJSON)
}
