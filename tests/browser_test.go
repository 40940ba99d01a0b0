package tests

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"slurmprio/tests/browser"
	"slurmprio/tests/pagecheck"
)

// pageTest looks at pages in a browser.
type pageTest struct{ *browser.Browser }

// The pages of a daemon with everything on, behind a proxy as a site would have one, in a
// real browser: by mouse and keyboard, live and without JavaScript, dark and light, on
// a phone, with a job whose name is a script.
func TestPagesInABrowser(t *testing.T) {
	s := newOwnSite(t, "")
	socket := filepath.Join(s.dir, "web.sock")
	s.configure(together + fmt.Sprintf("[web]\nlisten = \"unix:%s\"\n[locality]\nenabled = true\n[retry]\nenabled = true\n", socket))
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "priod"}) },
		Transport: socketTransport(socket), FlushInterval: -1,
	})
	t.Cleanup(server.Close)
	b := &pageTest{browser.New(t, server.URL)}
	s.fill()
	for range 3 {
		s.submit("--prio-type=be", "--gres=gpu:2", "--time=60", "--job-name=<script>alert(1)</script>", "--wrap", "sleep 600")
	}
	trial := s.submit("--prio-type=te", "--gres=gpu:1", "--time=5", "--job-name=<img src=x onerror=alert(1)>", "--wrap", "sleep 600")
	s.daemon()
	s.wait("an eviction", func() bool {
		out, _, _ := s.priod("evictions") // fails before the first cycle
		return strings.Contains(out, trial)
	})
	s.wait("priod listens for pages", func() bool { // an eviction may come before
		response, err := http.Get(server.URL + "/health")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})

	b.showsTheCheck(s)
	b.navigates()
	b.follows(s)
	b.agreesWithJSON(trial)
	b.fitsAPhone(trial)
	b.worksWithoutScripts(trial)
	b.leavesTheHostAlone()
}

// pageNames are the addresses of the navigation.
var pageNames = []string{"", "map", "queue", "evictions", "allocation", "users", "time", "health"}

func socketTransport(path string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}
}

// navigates goes through all pages by mouse, then by keyboard.
func (b *pageTest) navigates() {
	b.Helper()
	b.Open("/")
	for i, path := range pageNames {
		b.Run(chromedp.Click(fmt.Sprintf("nav a:nth-of-type(%d)", i+1)), chromedp.WaitVisible(fmt.Sprintf("nav a:nth-of-type(%d)[aria-current]", i+1)))
		if at := browser.Eval[string](b.Browser, "location.pathname"); at != "/"+path {
			b.Errorf("link %d leads to %s", i+1, at)
		}
		if n := browser.Eval[int](b.Browser, "document.querySelectorAll('h1').length"); n != 1 {
			b.Errorf("%s has %d titles", path, n)
		}
	}
	b.Open("/")
	b.Run(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Tab))
	if at := browser.Eval[string](b.Browser, "document.activeElement.textContent + getComputedStyle(document.activeElement).outlineStyle"); at != "mapsolid" {
		b.Errorf("the second stop of the Tab key is %q", at)
	}
	b.Run(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("nav a:nth-of-type(2)[aria-current]"))
	// The browser may not have painted yet.
	if at := browser.Eval[float64](b.Browser, "(performance.getEntriesByName('first-contentful-paint')[0] ?? {startTime: 0}).startTime"); at > 0 {
		b.Logf("first paint %.0f ms after the request", at)
	}
}

// showsTheCheck waits until the page of health tells what the daemon's check found.
func (b *pageTest) showsTheCheck(s *site) {
	b.Helper()
	s.wait("the check on the page of health", func() bool {
		b.Open("/health")
		return browser.Eval[bool](b.Browser, "document.querySelector('main tr.f-PASS') !== null")
	})
	if text := browser.Eval[string](b.Browser, "document.querySelector('main').innerText"); !strings.Contains(text, "priority/multifactor") {
		b.Errorf("the check on the page of health: %s", text)
	}
}

// follows waits until a page shows a job that came after it, without a reload.
func (b *pageTest) follows(s *site) {
	b.Helper()
	b.Open("/queue")
	browser.Eval[bool](b.Browser, "window.same = true")
	late := s.submit("--begin=now+1hour", "--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600") // else it may start before a cycle sees it wait
	b.Run(chromedp.WaitVisible(`main a[href="job?id=` + late + `"]`))
	if !browser.Eval[bool](b.Browser, "window.same === true") {
		b.Error("the page was loaded anew")
	}
}

// agreesWithJSON compares the numbers in each page's tables with its JSON. A cycle may come between
// the two.
func (b *pageTest) agreesWithJSON(job string) {
	b.Helper()
	for _, path := range append([]string{"job?id=" + job}, pageNames...) {
		var unknown []string
		for range 5 {
			b.Open("/" + path)
			html := browser.Eval[string](b.Browser, "document.querySelector('main').outerHTML")
			response, err := http.Get(b.Base + "/api/v1/" + cmp.Or(strings.NewReplacer("job?id=", "jobs/", "map", "nodes", "time", "series").Replace(path), "overview"))
			if err != nil {
				b.Fatal(err)
			}
			text, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil {
				b.Fatal(err)
			}
			if unknown, err = pagecheck.Numbers(html, string(text), time.Now()); err != nil {
				b.Fatalf("%s: %v: %s", path, err, text)
			}
			if len(unknown) == 0 {
				break
			}
		}
		for _, n := range unknown {
			b.Errorf("%s: the JSON has no %s", path, n)
		}
	}
}

// fitsAPhone looks for pages that are wider than a phone's screen.
func (b *pageTest) fitsAPhone(job string) {
	b.Helper()
	b.Run(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	for _, path := range append([]string{"job?id=" + job}, pageNames...) {
		b.Open("/" + path)
		if wide := browser.Eval[int](b.Browser, "document.documentElement.scrollWidth"); wide > 390 {
			b.Errorf("%s is %d wide", path, wide)
		}
	}
	b.Run(chromedp.EmulateReset())
}

// worksWithoutScripts opens pages with JavaScript switched off.
func (b *pageTest) worksWithoutScripts(job string) {
	b.Helper()
	b.Run(browser.Command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	b.Open("/queue")
	b.Run(chromedp.WaitVisible("main tbody tr"))
	b.Open("/")
	b.Run(chromedp.SetValue("header input", job), chromedp.Submit("header form"), chromedp.WaitVisible("dl.answer"))
	b.Run(browser.Command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: false}))
}

// leavesTheHostAlone looks at all that happened: no page asked another host or complained.
func (b *pageTest) leavesTheHostAlone() {
	b.Helper()
	for _, address := range b.Asked {
		if !strings.HasPrefix(address, b.Base+"/") && !strings.HasPrefix(address, "data:") {
			b.Errorf("a page asked for %s", address)
		}
	}
	if len(b.Asked) < 20 {
		b.Errorf("only %d requests were seen", len(b.Asked))
	}
	for _, text := range b.Errors {
		b.Errorf("the console: %s", text)
	}
}
