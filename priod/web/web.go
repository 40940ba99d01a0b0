// Package web serves what priod knows as pages: read-only, from the state folder alone,
// with or without the daemon. Each page is also JSON at the same address, for a request
// that accepts application/json or says ?format=json.
//
//	web.go       addresses, limits, headers
//	views.go     what each page shows, as data
//	day.go       the last day as plots
//	live.go      the stream that tells a page of the next cycle
//	pages/       templates, style and script
package web

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"slurmprio/priod/daemon"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

const (
	atOnce    = 4                // pages made at the same time
	patience  = 2 * time.Second  // that a request waits for its turn
	deadline  = 20 * time.Second // of one page
	listeners = 32               // open streams
)

// Line is a line of an explanation: a name, "" where the last one goes on, and a sentence.
type Line struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Pages answers requests for pages.
type Pages struct {
	Dir      string // the state folder
	Journals string // the folder of its journals; "": Dir
	Version  string
	// Explain says all that is stored of a job, as data and in words. The name is as squeue
	// prints it. The error is store.ErrNone for a job that was never seen.
	Explain func(ctx context.Context, r *store.Reader, name string) (view any, lines []Line, err error)
	// Health is the daemon's own word; nil where pages are served without it.
	Health func() daemon.State
}

// usage is an error of who asks.
type usage struct{ error }

func usagef(format string, a ...any) error { return usage{fmt.Errorf(format, a...)} }

// view makes the data of one page.
type view func(ctx context.Context, r *store.Reader, asked url.Values) (any, error)

//go:embed pages
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"safe": report.Safe, "ago": report.Ago, "clock": clock, "since": func(t time.Time) string { return report.Ago(time.Since(t)) },
	"fixed":   fixed,
	"seconds": func(s float64) string { return report.Ago(time.Duration(s * float64(time.Second))) },
}).ParseFS(files, "pages/*.html"))

// fixed is a number with so many decimals. html/template hands on pointers as they are, and
// fmt prints those as addresses: what is no number ends the page with an error.
func fixed(decimals int, v any) (string, error) {
	switch n := v.(type) {
	case float64:
		return strconv.FormatFloat(n, 'f', decimals, 64), nil
	case *float64:
		if n == nil {
			return "", nil
		}
		return strconv.FormatFloat(*n, 'f', decimals, 64), nil
	}
	return "", fmt.Errorf("%T is no number", v)
}

func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// Handler answers GET and HEAD.
func (p *Pages) Handler() http.Handler {
	mux, turns := http.NewServeMux(), make(chan struct{}, atOnce)
	for _, x := range []struct {
		path, name string
		view       view
	}{
		{"/{$}", "overview", p.overview}, {"/nodes", "nodes", nodes}, {"/queue", "queue", queue}, {"/job", "job", p.job},
		{"/evictions", "evictions", evictions}, {"/allocation", "allocation", allocation}, {"/day", "day", day}, {"/health", "health", p.health},
	} {
		mux.HandleFunc("GET "+x.path, func(w http.ResponseWriter, r *http.Request) {
			select {
			case turns <- struct{}{}:
				defer func() { <-turns }()
			case <-time.After(patience):
				p.fail(w, r, http.StatusServiceUnavailable, errors.New("too many pages are asked for at once: try again in a moment"))
				return
			case <-r.Context().Done():
				return
			}
			p.answer(w, r, x.name, x.view)
		})
	}
	for path, kind := range map[string]string{"style.css": "text/css", "live.js": "text/javascript"} {
		text, err := files.ReadFile("pages/" + path)
		if err != nil {
			panic(err) // it is embedded
		}
		mux.HandleFunc("GET /"+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind+"; charset=utf-8")
			w.Header().Set("Cache-Control", "max-age=300")
			_, _ = w.Write(text) // fails when the asker has gone
		})
	}
	mux.Handle("GET /events", p.stream(listeners))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, r, http.StatusNotFound, errors.New("there is no such page"))
	})
	return guard(mux)
}

// guard refuses other names of this host than its own, so that no page of another site can
// have a browser read these (DNS rebinding), and sets what every answer carries.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && local.Network() == "tcp" && !loopback(r.Host) {
			http.Error(w, "ask for this host by 127.0.0.1, [::1] or localhost; a proxy has to set the header Host to that", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// answer reads the state folder and writes one page.
func (p *Pages) answer(w http.ResponseWriter, r *http.Request, name string, make view) {
	ctx, cancel := context.WithTimeout(r.Context(), deadline)
	defer cancel()
	asked, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		p.fail(w, r, http.StatusBadRequest, fmt.Errorf("the address cannot be read: %w", err))
		return
	}
	reader, err := store.OpenReader(ctx, p.Dir)
	if err != nil {
		p.fail(w, r, http.StatusServiceUnavailable, err)
		return
	}
	defer reader.Close()
	last, err := reader.LastCycle(ctx)
	if err != nil {
		p.fail(w, r, http.StatusServiceUnavailable, err)
		return
	}
	last.Hold = store.HoldNow(cmp.Or(p.Journals, p.Dir), last.Hold)
	data, err := make(ctx, reader, asked)
	var wrong usage
	switch {
	case errors.As(err, &wrong):
		p.fail(w, r, http.StatusBadRequest, err)
	case errors.Is(err, store.ErrNone):
		p.fail(w, r, http.StatusNotFound, err)
	case err != nil:
		p.fail(w, r, http.StatusServiceUnavailable, err)
	case wantsJSON(r) && name == "job":
		p.json(w, http.StatusOK, data) // it has the cycle of its own
	case wantsJSON(r):
		p.json(w, http.StatusOK, map[string]any{"cycle": last, name: data})
	default:
		p.page(w, http.StatusOK, page{Name: name, Cycle: &last, View: data, Version: p.Version})
	}
}

// page is what the templates get.
type page struct {
	Name    string
	Cycle   *store.Cycle // nil when nothing could be read
	View    any
	Error   string
	Version string
}

// Stale says that the last cycle is older than cycles should be.
func (p page) Stale() bool { return p.Cycle != nil && time.Since(p.Cycle.Until) > 5*time.Minute }

// Pages are the names in the navigation.
func (page) Pages() []string {
	return []string{"overview", "nodes", "queue", "evictions", "allocation", "day", "health"}
}

func (p *Pages) page(w http.ResponseWriter, status int, data page) {
	var body bytes.Buffer // so that a page is whole or not there
	if err := templates.ExecuteTemplate(&body, "page.html", data); err != nil {
		http.Error(w, "the page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = body.WriteTo(w) // fails when the asker has gone
}

func (p *Pages) json(w http.ResponseWriter, status int, v any) {
	var body bytes.Buffer
	if err := report.JSON(&body, v); err != nil {
		http.Error(w, "the answer cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = body.WriteTo(w)
}

func (p *Pages) fail(w http.ResponseWriter, r *http.Request, status int, err error) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	if wantsJSON(r) {
		p.json(w, status, map[string]string{"error": err.Error()})
		return
	}
	p.page(w, status, page{Name: "error", Error: err.Error(), Version: p.Version})
}

func wantsJSON(r *http.Request) bool {
	return r.URL.Query().Get("format") == "json" || strings.HasPrefix(r.Header.Get("Accept"), "application/json")
}
