package web

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"slurmprio/priod/cluster"
	"slurmprio/priod/config"
	"slurmprio/priod/evict"
	"slurmprio/priod/guarantee"
	"slurmprio/priod/plan"
	"slurmprio/priod/store"
	"slurmprio/slurmplug"
	"slurmprio/slurmplug/jobtag"
	"slurmprio/tests/browser"
	"slurmprio/tests/pagecheck"
)

// full fills the site with a cluster of so many nodes of three types, racks of 16, most of them in use, and that many waiting jobs;
// a day of samples; expected starts and ends; and users whose names are hostile.
func (s *site) full(nodes, waiting int) {
	s.Helper()
	now := time.Now()
	snap := cluster.Snapshot{At: now.Add(-time.Minute), Cluster: "test"}
	users := []string{"ada", "bob", "cyn", "dee", "eve", "fay", "gus", "hal", "ivy", "jon", hostile, strings.Repeat("x", 4000)}
	tags := []string{"prio:type=te&v=1", "prio:type=be&v=1"}
	job := func(i int) cluster.Job {
		tag, err := jobtag.Parse(tags[min(i%4, 1)])
		if err != nil {
			s.Fatal(err)
		}
		return cluster.Job{
			ID: slurmplug.Plain(uint32(1000 + i)), RawID: uint32(1000 + i), User: users[i%len(users)], Account: fmt.Sprint("group", i%7), Partition: "gpu", GPUs: 1 + i%4, Nodes: 1, CPUs: 4, TimeLimit: time.Duration(1+i%30) * time.Hour,
			Tag: tag, TagText: tags[min(i%4, 1)], Priority: int64(1_000_000 - i), Submit: now.Add(-time.Duration(1+i%600) * time.Minute), Eligible: now.Add(-time.Duration(1+i%600) * time.Minute),
		}
	}
	starts, ends, n := map[cluster.JobID]store.ExpectedStart{}, map[cluster.JobID]store.ExpectedEnd{}, 0
	for i := range nodes {
		x := cluster.Node{Name: fmt.Sprintf("r%02dn%02d", i/16, i%16), Usable: true, State: "IDLE", GPUType: []string{"a100", "v100", "t4"}[i*3/nodes], GPUs: 8, CPUs: 64, MemMB: 512 << 10}
		if x.GPUType == "t4" {
			x.GPUs = 4
		}
		switch {
		case i%37 == 5:
			x.State, x.Usable = "IDLE+DRAIN", false
		case i%23 == 7:
			x.CPUsUsed = x.CPUs
			fallthrough
		case i%11 != 3:
			j := job(n)
			j.State, j.NodeList, j.GPUType, j.Start, j.GPUs = cluster.Running, x.Name, x.GPUType, now.Add(-time.Duration(1+i%300)*time.Minute), x.GPUs-i%3
			x.State, x.GPUsUsed, x.CPUsUsed = "MIXED", j.GPUs, max(x.CPUsUsed, 4*j.GPUs)
			snap.Jobs = append(snap.Jobs, j)
			ends[j.ID] = store.ExpectedEnd{Median: now.Add(time.Duration(10+i%200) * time.Minute), P90: now.Add(time.Duration(30+i%400) * time.Minute)}
			n++
		}
		snap.Nodes = append(snap.Nodes, x)
	}
	for i := range waiting {
		j := job(n + i)
		j.State, j.Reason = cluster.Pending, "Resources"
		snap.Jobs = append(snap.Jobs, j)
		if i < 10_000 {
			at := now.Add(time.Duration(i+5) * time.Minute)
			starts[j.ID] = store.ExpectedStart{At: at.Add(3 * time.Hour), Median: at, P90: at.Add(time.Hour), RunS: float64(600 + 60*(i%100))}
		}
	}
	s.slurm.snapshot = snap
	s.cycle()
	save := func(err error) {
		if err != nil {
			s.Fatal(err)
		}
	}
	save(s.store.SaveStarts(s.Context(), now, starts))
	save(s.store.SaveEnds(s.Context(), now, ends))
	for i := range 24 * 60 {
		busy := nodes*5 + i*nodes/1500
		save(s.store.SaveSample(s.Context(), &store.Sample{
			At: now.Add(-time.Duration(i) * time.Minute), GPUs: nodes * 7, InUse: busy, Stranded: nodes / 10, Down: i * nodes / 6000, Reserved: i / 300 * nodes / 20, Idle: nodes/2 + i%200*nodes/800, Running: n, WaitingTE: i % 40, WaitingBE: waiting, TookS: 0.2 + float64(i%60)/100,
			Causes: map[plan.Cause]int{plan.Capacity: 100 + i%300, plan.Fragmentation: 50, plan.Precedence: max(0, 300-i%200-i/4)}, Slow: map[string]float64{"r00n03": 1.4},
			Reservations: []slurmplug.NodeReservation{{Name: "maint_of_december", Nodes: "r00n[00-09]", Start: now.Add(time.Hour), End: now.Add(9 * time.Hour)}, {Name: "login", Nodes: "login1", Start: now.Add(200 * time.Hour), End: now.Add(209 * time.Hour)}},
		}))
	}
	const number = 9001
	save(s.store.SaveEvictions(s.Context(), &evict.Changes{
		Claims: []evict.Claim{{Number: number, Purpose: evict.ForWindow, Job: slurmplug.Plain(1000), User: users[0], GPUs: 8, State: evict.Released, Reason: "the window maint_of_november", At: now.Add(-50 * time.Hour), Changed: now, Ended: now}},
		Evictions: []evict.Eviction{{Number: number, Claim: number, Job: slurmplug.Plain(1000), User: users[0], Start: now.Add(-60 * time.Hour), GPUs: 8, At: now.Add(-50 * time.Hour), SignalledAt: now.Add(-50 * time.Hour),
			LeftAt: now.Add(-49 * time.Hour), How: evict.Exited, Paid: 3600, State: evict.Done, Ended: now.Add(-40 * time.Hour)}},
	}))
	s.pages.Config.Shares = []config.Share{{Account: "group1", GPUs: 64}, {Account: "group2", Part: 0.25}}
	save(s.store.SaveStatement(s.Context(), shares(now, users)))
	save(s.store.SaveFindings(s.Context(), &store.Findings{At: now, Findings: []store.Finding{{Level: "FAIL", Name: "rights", Text: "user priod may not change others' jobs", Fix: "sacctmgr -i add user priod"}, {Level: "PASS", Name: "version", Text: "Slurm 24.11"}}}))
	save(store.SaveValue(s.dir, &store.Value{
		Since: now.Add(-7 * 24 * time.Hour), Until: now, Jobs: 4211, Completion: store.ValueOf{With: 57, Without: 100}, Low: 0.4, High: 0.45, Replays: 5,
		Gained: []store.ValueOwner{{User: "ada", Jobs: 10, ValueOf: store.ValueOf{With: 4000, Without: 9000}}}, Lost: []store.ValueOwner{{User: "bob", Jobs: 3, ValueOf: store.ValueOf{With: 5000, Without: 4500}}},
	}))
}

// shares are what became of two accounts' over two days.
func shares(now time.Time, users []string) *guarantee.Taken {
	t := &guarantee.Taken{}
	for i := range 48 {
		at := now.Add(-time.Duration(i) * time.Hour).Truncate(time.Hour)
		within := float64(3600 * (20 + i%40))
		t.Hours = append(t.Hours,
			guarantee.Hour{At: at, Account: "group1", Accounts: []string{"group1", "group3"}, GPUs: 64, Sums: guarantee.Sums{Entitled: 64 * 3600, Within: within, Lent: 4 * 3600, Wanted: float64(7 * i), Borrowed: 90 * float64(i)}},
			guarantee.Hour{At: at, Account: "group2", Accounts: []string{"group2"}, GPUs: 700, Sums: guarantee.Sums{Entitled: 700 * 3600, Within: 10 * within}})
	}
	for i, user := range users {
		since := now.Add(-time.Duration(i+1) * time.Hour)
		r := guarantee.Return{Job: slurmplug.Plain(uint32(1000 + i)), Account: "group1", User: user, GPUs: 4, Tasks: 1, Since: since, Until: since.Add(time.Duration(10+31*i) * time.Second), Started: i%3 > 0, Promise: 2 * time.Minute, Why: []string{"claimed", guarantee.Down, "no-victims"}[i%3]}
		if i == 0 {
			r.Until = time.Time{}
		}
		t.Ended = append(t.Ended, r)
	}
	return t
}

// paths are the pages, each with data of its own.
var paths = []string{"", "map", "map?colour=user&group=name", "queue", "queue?class=te&user=ada", "job?id=1000", "evictions", "allocation", "users", "shares", "time", "time?span=week", "health"}

// Every page in Chromium, wide and light, narrow and dark (make test-long: each width with each), empty and full, and with
// a database that is gone: no complaint of the console, none of axe-core, nothing wider than the screen, and every file from
// the site itself.
func TestPagesInChromium(t *testing.T) {
	long := os.Getenv("SLURMPRIO_LONG") == "1"
	nodes, waiting := 64, 300 // TestFullPages has the largest
	if long {
		nodes, waiting = 400, 2000
	}
	for name, fill := range map[string]func(s *site){
		"full": func(s *site) { s.full(nodes, waiting) }, "empty": func(s *site) { s.slurm.snapshot = cluster.Snapshot{At: time.Now(), Cluster: "test"}; s.cycle() },
		"one node": func(s *site) { s.full(1, 1) },
		"locked": func(s *site) { // by another program: readers go on
			s.full(8, 8)
			db, err := sql.Open("sqlite3", "file:"+filepath.Join(s.dir, "priod.db"))
			if err == nil {
				db.SetMaxOpenConns(1)
				_, err = db.Exec("BEGIN EXCLUSIVE")
			}
			if err != nil {
				s.Fatal(err)
			}
			s.Cleanup(func() { db.Close() })
		},
		"broken": func(s *site) {
			s.cycle()
			if err := os.Rename(filepath.Join(s.dir, "priod.db"), filepath.Join(s.dir, "away")); err != nil {
				s.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, 0)
			fill(s)
			server := httptest.NewServer(s.handle)
			t.Cleanup(server.Close)
			b := browser.New(t, server.URL)
			shown := paths
			if name == "broken" || name == "locked" {
				shown = paths[:2] // all are alike
			}
			for _, width := range []int{1400, 390} {
				for _, scheme := range []string{"light", "dark"} {
					if !long && ((width == 390) != (scheme == "dark") || width == 390 && name == "empty" || width == 1400 && name == "one node") {
						continue // colours depend on no width, and what is full is the widest
					}
					b.Run(chromedp.EmulateViewport(int64(width), 900), browser.Command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
					for i, path := range shown {
						b.Open("/" + path)
						browser.Eval[bool](b, "new Promise((ok) => setTimeout(() => ok(true), 60))")
						b.Screenshot(fmt.Sprintf("%s-%d-%s-%02d", name, width, scheme, i))
						if wide := browser.Eval[int](b, "document.documentElement.scrollWidth"); wide > width {
							t.Errorf("%s, %d px: %d wide", path, width, wide)
						}
						if found := b.Violations(); len(found) > 0 {
							t.Errorf("%s, %d px, %s: axe: %q", path, width, scheme, found)
						}
						for _, text := range b.Complaints() {
							if !strings.Contains(text, map[string]string{"broken": " 503 ", "empty": "/job?id="}[name]) || name == "full" {
								t.Errorf("%s, %d px, %s: console: %s", path, width, scheme, text)
							}
						}
					}
				}
			}
			for _, address := range b.Asked {
				if !strings.HasPrefix(address, server.URL+"/") && !strings.HasPrefix(address, "data:") {
					t.Errorf("a page asked for %s", address)
				}
			}
		})
	}
}

// A page that follows the daemon keeps what its reader zoomed and opened, and is not loaded again.
func TestPageFollowsWithoutAFlicker(t *testing.T) {
	s := newSite(t, 0)
	s.full(40, 300)
	server := httptest.NewServer(s.handle)
	t.Cleanup(server.Close)
	b := browser.New(t, server.URL)
	b.Run(chromedp.EmulateViewport(1400, 900))
	b.Open("/time")
	b.Run(chromedp.WaitVisible("#f-the-longest-cycle canvas"))
	const ticks = "[...document.querySelectorAll('#f-the-longest-cycle .uplot')].length"
	browser.Eval[bool](b, `window.same = true, document.querySelector('#f-the-longest-cycle details').open = true,
		document.querySelector('#f-the-longest-cycle .plot').dispatchEvent(new KeyboardEvent('keydown', { key: '+' })), window.canvas = document.querySelector('#f-the-longest-cycle canvas'), true`)
	rows := browser.Eval[string](b, "document.querySelector('#f-the-longest-cycle details tbody').textContent")
	if err := s.store.SaveSample(t.Context(), &store.Sample{At: s.slurm.snapshot.At, TookS: 9}); err != nil {
		t.Fatal(err)
	}
	s.slurm.snapshot.Jobs = s.slurm.snapshot.Jobs[:100]
	s.cycle()
	browser.Value(b, chromedp.Poll[bool]("document.querySelector('#f-the-longest-cycle details tbody').textContent !== "+fmt.Sprintf("%q", rows)))
	if !browser.Eval[bool](b, "window.same && document.querySelector('#f-the-longest-cycle details').open && window.canvas === document.querySelector('#f-the-longest-cycle canvas')") {
		t.Error("the page was loaded anew, its table closed, or the figure drawn on another canvas")
	}
	if n := browser.Eval[int](b, ticks); n != 1 {
		t.Errorf("%d plots in one figure", n)
	}
	b.Run(chromedp.EmulateViewport(900, 900)) // the figure fits the window
	browser.Value(b, chromedp.Poll[bool]("document.querySelector('#f-the-longest-cycle canvas').getBoundingClientRect().width <= 900"))
	for _, text := range b.Complaints() {
		t.Error(text)
	}
	server.CloseClientConnections() // the daemon goes: the page stays, and says so
	server.Close()
	browser.Value(b, chromedp.Poll[bool]("document.getElementById('last').textContent.endsWith(' (priod does not answer now)')"))
	if !browser.Eval[bool](b, "window.same && document.querySelectorAll('#f-the-longest-cycle canvas').length === 1") {
		t.Error("the page went with the daemon")
	}
}

// A replay is walked through by play and by the slider, wide and narrow: each step has the page, the address and the links of its
// moment, pause stops, and the end is the end.
func TestPlayWalksThroughAReplay(t *testing.T) {
	s := newSite(t, 40)
	jobs := s.slurm.snapshot.Jobs
	from := s.slurm.snapshot.At.Add(-4 * time.Hour).Truncate(time.Second)
	for i := range 5 { // at each hour eight more jobs wait
		s.slurm.snapshot.At, s.slurm.snapshot.Jobs = from.Add(time.Duration(i)*time.Hour-10*time.Second), jobs[:9+8*i]
		s.cycle()
	}
	until := from.Add(4 * time.Hour)
	said, err := json.Marshal(store.Replay{Version: "v0", Policy: "order priod", Jobs: 41, From: from, Until: until})
	if err := cmp.Or(err, os.WriteFile(filepath.Join(s.dir, "replay.json"), said, 0o600)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.handle)
	t.Cleanup(server.Close)
	b := browser.New(t, server.URL)
	const slide, play, waits = "document.getElementById('slide')", "document.querySelector('#moment .play')", `Number(document.querySelector('p.state').textContent.match(/(\d+) jobs wait/)[1])`
	where := func(at time.Time) string { return "/at/" + at.UTC().Format(momentForm) + "/queue" }
	for _, width := range []int{1400, 390} {
		b.Run(chromedp.EmulateViewport(int64(width), 900))
		b.Open("/queue")
		if browser.Eval[bool](b, play+".hidden || "+play+".getBoundingClientRect().right > innerWidth || "+play+".getBoundingClientRect().height < 10") {
			t.Errorf("%d px: play is not to be seen", width)
		}
		browser.Eval[bool](b, "window.seen = [], new MutationObserver(() => seen.push("+waits+")).observe(document.querySelector('main'), { childList: true }), "+play+".click(), true")
		browser.Value(b, chromedp.Poll[bool](play+".textContent === 'play' && "+slide+".value === "+slide+".max && "+waits+" === 40"))
		seen := browser.Eval[[]int](b, "seen")
		if want := []int{8, 16, 16, 24, 24, 32, 32, 40}; !slices.Equal(slices.Compact(slices.Clone(seen)), slices.Compact(slices.Clone(want))) || len(seen) < len(want) {
			t.Errorf("%d px: jobs that wait: %v, want %v", width, seen, want)
		}
		if path := browser.Eval[string](b, "location.pathname"); path != where(until) {
			t.Errorf("%d px: after play at %s", width, path)
		}
		if link := browser.Eval[string](b, "document.querySelector('nav a[href$=map]').href"); link != server.URL+strings.Replace(where(until), "/queue", "/map", 1) {
			t.Errorf("%d px: leads to %s", width, link)
		}
		// Again, and a pause; then the slider, twice at once: what it was last set to is shown.
		browser.Eval[bool](b, play+".click(), true")
		browser.Value(b, chromedp.Poll[bool](waits+" === 16"))
		browser.Eval[bool](b, play+".click(), true")
		if stopped := browser.Eval[bool](b, "new Promise((ok) => { const at = "+slide+".value; setTimeout(() => ok(at === "+slide+".value && "+play+".textContent === 'play'), 1600) })"); !stopped {
			t.Errorf("%d px: pause goes on", width)
		}
		browser.Eval[bool](b, "(() => { for (const at of [60, 200, 180]) { "+slide+".value = at; "+slide+".dispatchEvent(new Event('change')); } return true; })()")
		browser.Value(b, chromedp.Poll[bool](waits+" === 32"))
		if path := browser.Eval[string](b, "location.pathname"); path != where(from.Add(3*time.Hour)) {
			t.Errorf("%d px: after the slider at %s", width, path)
		}
		if wide := browser.Eval[int](b, "document.documentElement.scrollWidth"); wide > width {
			t.Errorf("%d px: %d wide", width, wide)
		}
		b.Screenshot(fmt.Sprintf("play-%d", width))
	}
	for _, text := range b.Complaints() {
		t.Error(text)
	}
}

// Clock times are those of priod's host, in whatever zone the browser is.
func TestClockOfTheHost(t *testing.T) {
	s := newSite(t, 0)
	s.full(40, 30)
	server := httptest.NewServer(s.handle)
	t.Cleanup(server.Close)
	b := browser.New(t, server.URL)
	b.Run(browser.Command(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Pacific/Auckland"}))
	b.Open("/queue")
	now := browser.Eval[int64](b, "JSON.parse(document.querySelector('figure.chart script').textContent).now")
	shown := browser.Eval[string](b, fmt.Sprintf("charts.moment(JSON.parse(document.querySelector('figure.chart script').textContent).zone, %d)", now))
	if want := time.Unix(now, 0).Local().Format("Jan 2 15:04"); shown != want {
		t.Errorf("%s, want %s", shown, want)
	}
}

// The map by mouse and keyboard: a GPU tells its node and job, and leads to the job.
func TestMapTellsAndLeads(t *testing.T) {
	s := newSite(t, 0)
	s.full(40, 30)
	server := httptest.NewServer(s.handle)
	t.Cleanup(server.Close)
	b := browser.New(t, server.URL)
	b.Run(chromedp.EmulateViewport(1400, 900))
	b.Open("/map?group=name&colour=left")
	browser.Value(b, chromedp.Poll[bool]("document.querySelectorAll('.map .key li').length > 0"))
	if group := browser.Eval[string](b, "document.querySelector('select[name=group]').value + document.querySelector('select[name=colour]').value"); group != "nameleft" {
		t.Error(group)
	}
	browser.Eval[bool](b, "document.querySelector('.map canvas').focus(), true")
	b.Run(chromedp.KeyEvent(kb.ArrowRight))
	if tip := browser.Eval[string](b, "document.querySelector('.map .tip').textContent"); !strings.HasPrefix(tip, "r00n00 (a100, mixed), 8 of 8 GPUs in use. Job 1000 of ada (group0), te, 8 GPUs, runs for ") || !strings.Contains(tip, "expected to end in ") {
		t.Error(tip)
	}
	b.Run(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown))
	if tip := browser.Eval[string](b, "document.querySelector('.map .tip').textContent"); !strings.Contains(tip, "r00n03 (a100, idle), 0 of 8 GPUs in use; slow: jobs run 1.4 times as long. This GPU is free.") {
		t.Error(tip)
	}
	b.Run(chromedp.KeyEvent(kb.ArrowUp), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("main h1"))
	browser.Value(b, chromedp.Poll[bool]("location.pathname === '/job'"))
	b.Open("/map")
	browser.Value(b, chromedp.Poll[bool]("document.querySelectorAll('.map .key li').length > 0"))
	browser.Eval[bool](b, `(() => { const c = document.querySelector('.map canvas'), r = c.getBoundingClientRect();
		for (const type of ['mousemove', 'click']) c.dispatchEvent(new MouseEvent(type, { bubbles: true, clientX: r.left + 6, clientY: r.top + 40 })); return true; })()`)
	if tip := browser.Eval[string](b, "document.querySelector('.map .tip').textContent"); !strings.HasPrefix(tip, "r00n00 ") {
		t.Error(tip)
	}
	for _, text := range b.Complaints() {
		t.Error(text)
	}
}

// A full cluster: the first paint, the weight and the time of an interaction. Figures are logged, limits of size asserted.
func TestFullPages(t *testing.T) {
	if testing.Short() {
		t.Skip("10,000 nodes and 100,000 jobs")
	}
	s := newSite(t, 0)
	s.full(10_000, 100_000)
	s.pages.Keep = time.Minute // a page and its JSON are of one reading
	server := httptest.NewServer(s.handle)
	t.Cleanup(server.Close)
	b := browser.New(t, server.URL)
	b.Run(chromedp.EmulateViewport(1400, 900))
	for _, path := range []string{"", "map", "map?colour=user&group=name", "queue", "time"} {
		b.Open("/" + path)
		browser.Eval[bool](b, "new Promise((ok) => setTimeout(() => ok(true), 1000))")
		weight := browser.Eval[int](b, "performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation')).reduce((n, r) => n + r.transferSize, 0)")
		t.Logf("/%s: first paint %.0f ms, %d kB", path, browser.Eval[float64](b, "(performance.getEntriesByName('first-contentful-paint')[0] ?? {startTime: -1}).startTime"), weight>>10)
		if wide := browser.Eval[int](b, "document.documentElement.scrollWidth"); wide > 1400 {
			t.Errorf("/%s: %d wide", path, wide)
		}
		if found := b.Violations(); len(found) > 0 {
			t.Errorf("/%s: axe: %q", path, found)
		}
		name, query, _ := strings.Cut(path, "?")
		_, v := s.json(server.URL + "/api/v1/" + cmp.Or(strings.NewReplacer("map", "nodes", "time", "series").Replace(name), "overview") + "?" + query)
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		unknown, err := pagecheck.Numbers(browser.Eval[string](b, "document.querySelector('main').outerHTML"), string(text), time.Now())
		if err != nil || len(unknown) > 0 {
			t.Errorf("/%s: the JSON lacks %q, %v", path, unknown[:min(len(unknown), 5)], err)
		}
		if weight > 400<<10 {
			t.Errorf("/%s: %d kB over the wire, want at most 400", path, weight>>10)
		}
		if strings.HasPrefix(path, "map") {
			took := browser.Eval[float64](b, "(() => { const s = document.querySelector('select[name=colour]'), began = performance.now(); s.value = 'user'; s.dispatchEvent(new Event('change')); return performance.now() - began; })()")
			t.Logf("/%s: another colour after %.0f ms", path, took)
			b.Screenshot("all-" + strings.NewReplacer("?", "-", "&", "-", "=", "-").Replace(path))
		}
		for _, text := range b.Complaints() {
			t.Errorf("/%s: console: %s", path, text)
		}
	}
}

// Each answer under /api/v1 agrees with its description.
func (s *site) json(path string) (status int, v any) {
	s.Helper()
	answer, err := http.Get(path)
	if err != nil {
		s.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		s.Fatalf("%s: %v: %.200s", path, err, text)
	}
	return answer.StatusCode, v
}
