// Package web serves what priod knows as pages, and as JSON under /api/v1: read-only, from the
// state folder alone, with or without the daemon.
//
//	web.go         addresses, limits, headers
//	viewer.go      who asks, where the site's proxy names the user
//	cache.go       answers that many ask for at once; how they are sent
//	page.go        what all pages share
//	live.go        the stream that tells a page of the next cycle
//	moment.go      pages of the past, and of replays
//	pages/         templates, style and scripts; figures are drawn by priod/report/charts
//
// What each page shows, as data, is in priod/view.
package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"slurmprio/etc"
	"slurmprio/priod/config"
	"slurmprio/priod/daemon"
	"slurmprio/priod/report"
	"slurmprio/priod/store"
	"slurmprio/priod/view"
)

const (
	atOnce    = 4                // answers made at the same time
	patience  = 5 * time.Second  // that a request waits for its turn
	deadline  = 20 * time.Second // of one answer
	listeners = 256              // open streams

	askingOne = 128 // requests of one user that wait for their turn; the site's proxy may be one for all
	askingAll = 512
)

// Pages answers requests for pages.
type Pages struct {
	Config  *config.Config
	Version string
	Keep    time.Duration       // that an answer holds for others who ask for the same, at least; 0: not
	Health  func() daemon.State // the daemon's own word; nil where pages are served without it

	cache  answerCache
	kept   view.Kept
	latest latest
}

// assets are the files that pages load.
var assets = map[string]string{"style.css": "text/css", "chart.css": "text/css", "uPlot.min.css": "text/css", "live.js": "text/javascript", "moment.js": "text/javascript", "map.js": "text/javascript", "chart.js": "text/javascript", "uPlot.iife.min.js": "text/javascript"}

func asset(name string) []byte {
	if text, err := files.ReadFile("pages/" + name); err == nil {
		return text
	}
	return report.Chart(name)
}

// pages are what can be asked for: under its path as a page, "" where there is none, and under /api/v1/ and its name as JSON.
var pages = []struct{ path, name string }{
	{"/{$}", "overview"}, {"/map", "nodes"}, {"", "map"}, {"/queue", "queue"}, {"/job", "job"}, {"/evictions", "evictions"}, {"/allocation", "allocation"},
	{"/users", "users"}, {"/shares", "shares"}, {"/time", "series"}, {"/health", "health"},
}

// pageNames are the pages whose data has another name.
var pageNames = map[string]string{"nodes": "map", "series": "time"}

// Handler answers GET and HEAD.
func (p *Pages) Handler() http.Handler {
	mux, turns := http.NewServeMux(), make(chan struct{}, atOnce)
	p.kept.Hold = p.age("users", nil)
	var asking daemon.Seats[string]
	serve := func(pattern, name string, asJSON bool) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			asJSON := asJSON || wantsJSON(r)
			made := p.failed(asJSON, http.StatusServiceUnavailable, errors.New("too many pages are asked for at once: try again in a moment"))
			if who := asker(r); asking.Take(who, askingOne, askingAll) {
				daemon.InTurn(r, turns, patience, func() { made = p.answer(r, name, asJSON) })
				asking.Leave(who)
			}
			made.send(w, r)
		})
	}
	for _, x := range pages {
		if x.path != "" {
			serve("GET "+x.path, x.name, false)
		}
		if x.name != "job" {
			serve("GET /api/v1/"+x.name, x.name, true)
		}
	}
	serve("GET /api/v1/jobs/{id}", "job", true)
	file := func(path, kind string, text []byte, age string) {
		made := newRendered(http.StatusOK, kind, text)
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", age)
			made.send(w, r)
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
		p.failed(wantsJSON(r), http.StatusNotFound, errors.New("there is no such page")).send(w, r)
	})
	mux.Handle("GET /events", p.stream(listeners))
	mux.HandleFunc("GET /moment", p.choose)
	return p.guard(p.dated(mux))
}

// guard lets through who may ask, and sets what every answer carries.
func (p *Pages) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			p.failed(wantsJSON(r), http.StatusMethodNotAllowed, errors.New("these pages can only be read: GET or HEAD")).send(w, r)
			return
		}
		user, err := p.viewer(r)
		if err != nil {
			p.failed(wantsJSON(r), http.StatusForbidden, err).send(w, r)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), viewerKey{}, user)))
	})
}

// answer reads the state folder and makes one page, or its JSON.
func (p *Pages) answer(r *http.Request, name string, asJSON bool) *rendered {
	asked, err := url.ParseQuery(r.URL.RawQuery)
	asked.Del("format")
	if err != nil {
		return p.failed(asJSON, http.StatusBadRequest, fmt.Errorf("the address cannot be read: %w", err))
	}
	if id := r.PathValue("id"); id != "" {
		asked.Set("id", id)
	}
	m := momentOf(r.Context())
	made := p.cache.get(fmt.Sprint(m.prefix(), name, "?", asked.Encode(), " ", viewer(r.Context())), p.age(name, asked), func() (int, page) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), deadline) // others may wait for the same
		defer cancel()
		return p.read(ctx, m, name, asked)
	})
	return made.in(asJSON)
}

// age is how long an answer holds: longer where it is of a week or a month, which change little and cost much.
func (p *Pages) age(name string, asked url.Values) time.Duration {
	switch {
	case p.Keep == 0:
		return 0
	case name == "users", name == "shares":
		return max(p.Keep, time.Minute)
	case name == "series":
		return max(p.Keep, view.Bin(asked.Get("span"))/10)
	}
	return p.Keep
}

// read makes the data of one page.
func (p *Pages) read(ctx context.Context, m moment, name string, asked url.Values) (status int, data page) {
	data = page{Name: cmp.Or(pageNames[name], name), Data: name, Version: p.Version, On: p.Config.On(), Shared: len(p.Config.Shares) > 0, Viewer: viewer(ctx)}
	question := view.Asked{Config: p.Config, Values: asked, User: data.Viewer, Kept: &p.kept}
	if p.Health != nil {
		state := p.Health()
		question.Health, data.On = &state, state.On
	}
	failed := func(status int, err error) (int, page) {
		data.Name, data.Data, data.View, data.Error = "error", "", nil, err.Error()
		return status, data
	}
	reader, err := store.OpenReaderAt(ctx, m.dir(p.Config), m.at)
	outside := err
	if errors.As(err, new(*store.OutsideError)) { // the page says what is there
		reader, err = store.OpenReader(ctx, m.dir(p.Config))
	}
	if err != nil {
		return failed(http.StatusServiceUnavailable, err)
	}
	defer reader.Close()
	data.Slider, err = p.slider(ctx, m, reader, address(data.Name, asked))
	if err == nil && outside != nil {
		return failed(http.StatusNotFound, outside)
	}
	var last store.Cycle
	if err == nil {
		last, err = reader.LastCycle(ctx)
	}
	if err != nil {
		return failed(http.StatusServiceUnavailable, err)
	}
	if !reader.Moment().IsZero() { // of the past nothing is kept for other answers
		question.Config, question.Kept, question.Health = at(p.Config, m), &view.Kept{}, nil
	}
	if m.without {
		data.On = nil
	}
	last.Hold = reader.Hold(p.Config.Journals(), &last)
	data.Cycle = &last
	question.Store, question.Last = reader, &last
	data.View, err = question.Answer(ctx, name)
	switch {
	case errors.As(err, new(view.Wrong)):
		data.Cycle = nil
		return failed(http.StatusBadRequest, err)
	case errors.Is(err, view.ErrOperators):
		data.Cycle = nil
		return failed(http.StatusForbidden, err)
	case errors.Is(err, store.ErrNone):
		data.Cycle = nil
		return failed(http.StatusNotFound, err)
	case err != nil:
		return failed(http.StatusServiceUnavailable, err)
	}
	return http.StatusOK, data
}

// at is the configuration of a moment.
func at(c *config.Config, m moment) *config.Config {
	own := *c
	own.State.Dir, own.State.Shared = m.dir(c), ""
	return &own
}

// address is that of a page from its folder.
func address(name string, asked url.Values) string {
	if name == "overview" {
		name = ""
	}
	return strings.TrimSuffix(name+"?"+asked.Encode(), "?")
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

func wantsJSON(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Query().Get("format") == "json" || strings.HasPrefix(r.Header.Get("Accept"), "application/json")
}
