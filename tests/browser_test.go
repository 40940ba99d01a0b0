package tests

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"slurmprio/tests/pagecheck"
)

// browser is a headless Chromium with one open tab.
type browser struct {
	*testing.T
	ctx  context.Context
	base string // of the pages, without a slash at its end

	mu     sync.Mutex
	asked  []string // addresses of all requests
	errors []string // of the console, and dialogs that a page opened
}

// newBrowser starts Chromium. Where there is none the test is skipped, but for
// SLURMPRIO_REQUIRE_BROWSER=1.
func newBrowser(t *testing.T, base string) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("SLURMPRIO_REQUIRE_BROWSER") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()), chromedp.Env("TMPDIR="+t.TempDir()),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true), chromedp.WindowSize(1280, 900))
	ctx, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...) // Cancel below ends it
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	b := &browser{T: t, ctx: ctx, base: base}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // waits for its end, so that its folder can go
		if err := chromedp.Cancel(ctx); err != nil {
			t.Error(err)
		}
	})
	b.run(command(network.Enable, network.EnableParams{}), command(log.Enable, cdp.Empty{}))
	return b
}

// command is a command of the browser as an action.
func command[P, R any](c cdp.Command[P, R], with P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, with)
		return err
	})
}

// hear takes note of what a page asks for and complains of.
func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			b.errors = append(b.errors, e.Entry.Text+" "+e.Entry.URL)
		}
	case *page.EventJavascriptDialogOpening:
		b.errors = append(b.errors, "a dialog: "+e.Message)
	}
}

// run does these in turn.
func (b *browser) run(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

// value is what an action returns.
func value[T any](b *browser, action chromedp.Action[T]) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// eval is the value of a JavaScript expression.
func eval[T any](b *browser, expression string) T {
	b.Helper()
	return value(b, chromedp.Evaluate[T](expression))
}

func (b *browser) open(path string) {
	b.Helper()
	b.run(chromedp.Navigate(b.base + path))
}

// screenshot keeps a picture of the page where SLURMPRIO_SCREENSHOTS names a folder.
func (b *browser) screenshot(name string) {
	b.Helper()
	dir := os.Getenv("SLURMPRIO_SCREENSHOTS")
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), value(b, chromedp.FullScreenshot(100)), 0o644); err != nil {
		b.Fatal(err)
	}
}

// faint lists the texts of a page whose contrast is below WCAG's level AA, 4.5 to 1.
const faint = `(() => {
  const rgb = (text) => text.match(/[\d.]+/g).map(Number);
  const light = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  for (let n; n = walk.nextNode();) {
    const e = n.parentElement;
    if (!n.textContent.trim() || e.closest("svg, script")) continue;
    texts++;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) found.push(e.tagName + " " + n.textContent.trim().slice(0, 40));
  }
  return texts === 0 ? ["no text at all"] : found;
})()`

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
	b := newBrowser(t, server.URL)
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

	b.showsTheCheck(s)
	b.navigates()
	b.follows(s)
	for _, scheme := range []string{"light", "dark"} {
		b.run(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
		for _, path := range append([]string{"job?id=" + trial}, pageNames...) {
			b.open("/" + path)
			if found := eval[[]string](b, faint); len(found) > 0 {
				t.Errorf("%s, %s: too little contrast: %q", path, scheme, found)
			}
			switch name, _, _ := strings.Cut(path, "?"); scheme + name { // those in docs/pages
			case "light":
				b.screenshot("overview")
			case "lightqueue", "darkjob":
				b.screenshot(name)
			}
		}
	}
	b.agreesWithJSON(trial)
	b.fitsAPhone(trial)
	b.worksWithoutScripts(trial)
	b.leavesTheHostAlone()
}

// pageNames are the addresses of the navigation.
var pageNames = []string{"", "nodes", "queue", "evictions", "allocation", "day", "health"}

func socketTransport(path string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}
}

// navigates goes through all pages by mouse, then by keyboard.
func (b *browser) navigates() {
	b.Helper()
	b.open("/")
	for i, path := range pageNames {
		b.run(chromedp.Click(fmt.Sprintf("nav a:nth-of-type(%d)", i+1)), chromedp.WaitVisible(fmt.Sprintf("nav a:nth-of-type(%d)[aria-current]", i+1)))
		if at := eval[string](b, "location.pathname"); at != "/"+path {
			b.Errorf("link %d leads to %s", i+1, at)
		}
		if n := eval[int](b, "document.querySelectorAll('h1').length"); n != 1 {
			b.Errorf("%s has %d titles", path, n)
		}
	}
	b.open("/")
	b.run(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Tab))
	if at := eval[string](b, "document.activeElement.textContent + getComputedStyle(document.activeElement).outlineStyle"); at != "nodessolid" {
		b.Errorf("the second stop of the Tab key is %q", at)
	}
	b.run(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("nav a:nth-of-type(2)[aria-current]"))
	// The browser may not have painted yet.
	if at := eval[float64](b, "(performance.getEntriesByName('first-contentful-paint')[0] ?? {startTime: 0}).startTime"); at > 0 {
		b.Logf("first paint %.0f ms after the request", at)
	}
}

// showsTheCheck waits until the page of health tells what the daemon's check found.
func (b *browser) showsTheCheck(s *site) {
	b.Helper()
	s.wait("the check on the page of health", func() bool {
		b.open("/health")
		return eval[bool](b, "document.querySelector('main tr.f-PASS') !== null")
	})
	if text := eval[string](b, "document.querySelector('main').innerText"); !strings.Contains(text, "priority/multifactor") {
		b.Errorf("the check on the page of health: %s", text)
	}
}

// follows waits until a page shows a job that came after it, without a reload.
func (b *browser) follows(s *site) {
	b.Helper()
	b.open("/queue")
	eval[bool](b, "window.same = true")
	late := s.submit("--begin=now+1hour", "--prio-type=te", "--gres=gpu:1", "--time=5", "--wrap", "sleep 600") // else it may start before a cycle sees it wait
	b.run(chromedp.WaitVisible(`main a[href="job?id=` + late + `"]`))
	if !eval[bool](b, "window.same === true") {
		b.Error("the page was loaded anew")
	}
}

// agreesWithJSON compares the numbers in each page's tables with its JSON. A cycle may come between
// the two.
func (b *browser) agreesWithJSON(job string) {
	b.Helper()
	for _, path := range append([]string{"job?id=" + job}, pageNames...) {
		var unknown []string
		for range 5 {
			b.open("/" + path)
			html := eval[string](b, "document.querySelector('main').outerHTML")
			join := "?"
			if strings.Contains(path, "?") {
				join = "&"
			}
			response, err := http.Get(b.base + "/" + path + join + "format=json")
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
func (b *browser) fitsAPhone(job string) {
	b.Helper()
	b.run(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile))
	for _, path := range append([]string{"job?id=" + job}, pageNames...) {
		b.open("/" + path)
		if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 390 {
			b.Errorf("%s is %d wide", path, wide)
		}
	}
	b.open("/queue")
	b.screenshot("phone")
	b.run(chromedp.EmulateReset())
}

// worksWithoutScripts opens pages with JavaScript switched off.
func (b *browser) worksWithoutScripts(job string) {
	b.Helper()
	b.run(command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	b.open("/queue")
	b.run(chromedp.WaitVisible("main tbody tr"))
	b.open("/")
	b.run(chromedp.SetValue("header input", job), chromedp.Submit("header form"), chromedp.WaitVisible("svg.line"))
	b.run(command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: false}))
}

// leavesTheHostAlone looks at all that happened: no page asked another host or complained.
func (b *browser) leavesTheHostAlone() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, address := range b.asked {
		if !strings.HasPrefix(address, b.base+"/") && !strings.HasPrefix(address, "data:") {
			b.Errorf("a page asked for %s", address)
		}
	}
	if len(b.asked) < 20 {
		b.Errorf("only %d requests were seen", len(b.asked))
	}
	for _, text := range b.errors {
		b.Errorf("the console: %s", text)
	}
}
