// Package web serves what priod knows as pages, and as JSON under /api/v1: read-only, from the
// state folder alone, with or without the daemon.
//
//	web.go         addresses, limits, headers
//	cache.go       answers that many ask for at once
//	page.go        what all pages share
//	overview.go, clustermap.go, queue.go, job.go, evictions.go, allocation.go, users.go, series.go, health.go
//	               what each page shows, as data
//	live.go        the stream that tells a page of the next cycle
//	pages/         templates, style and scripts; figures are drawn by priod/report/charts
package web

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"slurmprio/etc"
	"slurmprio/priod/daemon"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
)

const (
	atOnce    = 4                // answers made at the same time
	patience  = 5 * time.Second  // that a request waits for its turn
	deadline  = 20 * time.Second // of one answer
	listeners = 256              // open streams
)

// Pages answers requests for pages. What is nil is not offered.
type Pages struct {
	Dir      string // the state folder
	Journals string // the folder of its journals; "": Dir
	Version  string
	On       []string      // features that are switched on, where Health is nil
	Keep     time.Duration // that an answer holds for others who ask for the same, at least; 0: not
	// Explain says all that is stored of a job, as data and in words. The name is as squeue
	// prints it. The error is store.ErrNone for a job that was never seen.
	Explain func(ctx context.Context, r *store.Reader, name string) (view any, lines []Line, err error)
	// Alternatives says what a waiting job could expect that asked for something else. It may read Slurm's queue.
	Alternatives func(ctx context.Context, r *store.Reader, name string) ([]Alternative, error)
	// Budget is how many TE GPU-hours of a day a "user" or an "account" may use on a cluster of so many GPUs; 0: any number.
	Budget func(kind, name string, gpus int) float64
	// Health is the daemon's own word; nil where pages are served without it.
	Health func() daemon.State

	cache   answerCache
	waiting waiting
	starts  cached[[]store.FirstStart] // of the last week
	latest  latest
}

// usage is a wrong request.
type usage struct{ error }

func usagef(format string, a ...any) error { return usage{fmt.Errorf(format, a...)} }

// view makes the data of one page.
type view func(ctx context.Context, r *store.Reader, last *store.Cycle, asked url.Values) (any, error)

// stamp tells one cycle from the next.
func stamp(c *store.Cycle) string { return fmt.Sprintf("%d %d", c.Number, c.Until.UnixMilli()) }

// assets are the files that pages load.
var assets = map[string]string{"style.css": "text/css", "chart.css": "text/css", "uPlot.min.css": "text/css", "live.js": "text/javascript", "map.js": "text/javascript", "chart.js": "text/javascript", "uPlot.iife.min.js": "text/javascript"}

func asset(name string) []byte {
	if text, err := files.ReadFile("pages/" + name); err == nil {
		return text
	}
	return report.Chart(name)
}

// answers are what can be asked for: under its path as a page, "" where there is none, and under /api/v1/ and its name as JSON.
func (p *Pages) answers() []struct {
	path, name string
	view       view
} {
	return []struct {
		path, name string
		view       view
	}{
		{"/{$}", "overview", p.overview}, {"/map", "nodes", nodes}, {"", "map", clusterMap}, {"/queue", "queue", p.queue}, {"/job", "job", p.job},
		{"/evictions", "evictions", evictions}, {"/allocation", "allocation", allocation}, {"/users", "users", p.users}, {"/time", "series", series}, {"/health", "health", p.health},
	}
}

// pageNames are the pages whose data has another name.
var pageNames = map[string]string{"nodes": "map", "series": "time"}

// Handler answers GET and HEAD.
func (p *Pages) Handler() http.Handler {
	mux, turns := http.NewServeMux(), make(chan struct{}, atOnce)
	serve := func(pattern, name string, make view, asJSON bool) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			select {
			case turns <- struct{}{}:
				defer func() { <-turns }()
			case <-time.After(patience):
				p.fail(w, asJSON, http.StatusServiceUnavailable, errors.New("too many pages are asked for at once: try again in a moment"))
				return
			case <-r.Context().Done():
				return
			}
			p.answer(w, r, name, make, asJSON)
		})
	}
	for _, x := range p.answers() {
		if x.path != "" {
			serve("GET "+x.path, x.name, x.view, false)
		}
		if x.name != "job" {
			serve("GET /api/v1/"+x.name, x.name, x.view, true)
		}
	}
	serve("GET /api/v1/jobs/{id}", "job", p.job, true)
	file := func(path, kind string, text []byte, age string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Cache-Control", age)
			_, _ = w.Write(text) // fails when the asker has gone
		})
	}
	for name, kind := range assets {
		file("/"+name, kind+"; charset=utf-8", asset(name), "max-age=300")
	}
	file("/api/v1/openapi.json", "application/json", etc.OpenAPI, "max-age=300")
	for old, now := range map[string]string{"/nodes": "map", "/day": "time"} { // addresses of earlier versions
		mux.HandleFunc("GET "+old, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", strings.TrimSuffix(now+"?"+r.URL.RawQuery, "?"))
			w.WriteHeader(http.StatusMovedPermanently)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, wantsJSON(r), http.StatusNotFound, errors.New("there is no such page"))
	})
	whole := http.NewServeMux()
	whole.Handle("GET /events", p.stream(listeners))
	whole.Handle("/", gzhttp.GzipHandler(mux))
	return guard(whole)
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

// answer reads the state folder and writes one page, or its JSON.
func (p *Pages) answer(w http.ResponseWriter, r *http.Request, name string, make view, asJSON bool) {
	asJSON = asJSON || wantsJSON(r)
	asked, err := url.ParseQuery(r.URL.RawQuery)
	asked.Del("format")
	if err != nil {
		p.fail(w, asJSON, http.StatusBadRequest, fmt.Errorf("the address cannot be read: %w", err))
		return
	}
	if id := r.PathValue("id"); id != "" {
		asked.Set("id", id)
	}
	made := p.cache.get(fmt.Sprint(name, "?", asked.Encode()), p.age(name, asked), func() (int, page) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), deadline) // others may wait for the same
		defer cancel()
		return p.read(ctx, name, make, asked)
	})
	status, body := made.in(asJSON)
	send(w, asJSON, status, body)
}

// age is how long an answer holds: longer where it is of a week or a month, which change little and cost much.
func (p *Pages) age(name string, asked url.Values) time.Duration {
	switch {
	case p.Keep == 0:
		return 0
	case name == "users":
		return max(p.Keep, time.Minute)
	case name == "series":
		return max(p.Keep, spans[cmp.Or(asked.Get("span"), "day")].bin/10)
	}
	return p.Keep
}

// read makes the data of one page.
func (p *Pages) read(ctx context.Context, name string, make view, asked url.Values) (status int, data page) {
	data = page{Name: cmp.Or(pageNames[name], name), Data: name, Version: p.Version, On: p.On}
	if p.Health != nil {
		data.On = p.Health().On
	}
	failed := func(status int, err error) (int, page) {
		data.Name, data.Data, data.View, data.Error = "error", "", nil, err.Error()
		return status, data
	}
	reader, err := store.OpenReader(ctx, p.Dir)
	if err != nil {
		return failed(http.StatusServiceUnavailable, err)
	}
	defer reader.Close()
	last, err := reader.LastCycle(ctx)
	if err != nil {
		return failed(http.StatusServiceUnavailable, err)
	}
	last.Hold = store.HoldNow(cmp.Or(p.Journals, p.Dir), last.Hold)
	data.Cycle = &last
	data.View, err = make(ctx, reader, &last, asked)
	var wrong usage
	switch {
	case errors.As(err, &wrong):
		data.Cycle = nil
		return failed(http.StatusBadRequest, err)
	case errors.Is(err, store.ErrNone):
		data.Cycle = nil
		return failed(http.StatusNotFound, err)
	case err != nil:
		return failed(http.StatusServiceUnavailable, err)
	}
	return http.StatusOK, data
}

// json is what a program gets.
func (d *page) json() any {
	switch {
	case d.Error != "":
		return map[string]string{"error": d.Error}
	case d.Data == "job": // it has the cycle of its own
		return d.View
	}
	return map[string]any{"cycle": d.Cycle, d.Data: d.View}
}

func renderJSON(status int, data page) (int, []byte) {
	var body bytes.Buffer
	if err := report.JSON(&body, data.json()); err != nil {
		return http.StatusInternalServerError, []byte("{\"error\": \"the answer cannot be made\"}\n")
	}
	return status, body.Bytes()
}

func renderPage(status int, data page) (int, []byte) {
	var body bytes.Buffer // so that a page is whole or not there
	if err := templates.ExecuteTemplate(&body, "page.html", data); err != nil {
		return http.StatusInternalServerError, []byte("the page cannot be made: " + report.Safe(err.Error()))
	}
	return status, body.Bytes()
}

func send(w http.ResponseWriter, asJSON bool, status int, body []byte) {
	kind := "text/html; charset=utf-8"
	switch {
	case asJSON:
		kind = "application/json"
	case status == http.StatusInternalServerError:
		kind = "text/plain; charset=utf-8"
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails when the asker has gone
}

func (p *Pages) fail(w http.ResponseWriter, asJSON bool, status int, err error) {
	a := answer{status: status, data: page{Name: "error", Error: err.Error(), Version: p.Version}}
	status, body := a.in(asJSON)
	send(w, asJSON, status, body)
}

func wantsJSON(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Query().Get("format") == "json" || strings.HasPrefix(r.Header.Get("Accept"), "application/json")
}
