// Package browser drives a real Chromium in tests of pages.
package browser

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Browser is a headless Chromium with one open tab.
type Browser struct {
	*testing.T
	ctx  context.Context
	Base string // of the pages, without a slash at its end

	mu     sync.Mutex
	Asked  []string // addresses of all requests
	Errors []string // of the console, and dialogs that a page opened
}

// New starts Chromium. Where there is none the test is skipped, but for
// SLURMPRIO_REQUIRE_BROWSER=1.
func New(t *testing.T, base string) *Browser {
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
	b := &Browser{T: t, ctx: ctx, Base: base}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // waits for its end, so that its folder can go
		if err := chromedp.Cancel(ctx); err != nil {
			t.Error(err)
		}
	})
	b.Run(Command(network.Enable, network.EnableParams{}), Command(log.Enable, cdp.Empty{}))
	return b
}

// Command is a command of the browser as an action.
func Command[P, R any](c cdp.Command[P, R], with P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, with)
		return err
	})
}

// hear takes note of what a page asks for and complains of.
func (b *Browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.Asked = append(b.Asked, e.Request.URL)
	case *runtime.EventExceptionThrown:
		b.Errors = append(b.Errors, e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			b.Errors = append(b.Errors, e.Entry.Text+" "+e.Entry.URL)
		}
	case *page.EventJavascriptDialogOpening:
		b.Errors = append(b.Errors, "a dialog: "+e.Message)
	}
}

// Run does these in turn.
func (b *Browser) Run(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

// Value is what an action returns.
func Value[T any](b *Browser, action chromedp.Action[T]) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Minute)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// Eval is the value of a JavaScript expression.
func Eval[T any](b *Browser, expression string) T {
	b.Helper()
	return Value(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Open goes to a page of the site.
func (b *Browser) Open(path string) {
	b.Helper()
	b.Run(chromedp.Navigate(b.Base + path))
}

// Screenshot keeps a picture of the page where SLURMPRIO_SCREENSHOTS names a folder.
func (b *Browser) Screenshot(name string) {
	b.Helper()
	dir := os.Getenv("SLURMPRIO_SCREENSHOTS")
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), Value(b, chromedp.FullScreenshot(100)), 0o644); err != nil {
		b.Fatal(err)
	}
}

// ScreenshotOf keeps a picture of one element, "": of what the window shows, where SLURMPRIO_SCREENSHOTS names a folder.
func (b *Browser) ScreenshotOf(name, selector string) {
	b.Helper()
	dir := os.Getenv("SLURMPRIO_SCREENSHOTS")
	if dir == "" {
		return
	}
	shot := chromedp.CaptureScreenshot()
	if selector != "" {
		shot = chromedp.Screenshot(selector)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), Value(b, shot), 0o644); err != nil {
		b.Fatal(err)
	}
}

//go:embed testdata/axe.min.js
var axe string

// Violations are what axe-core finds against WCAG 2.2, levels A and AA, and its own good practice.
func (b *Browser) Violations() []string {
	b.Helper()
	Eval[bool](b, axe+"; true")
	return Eval[[]string](b, `axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.target.join(" ")).slice(0, 3).join(", ")))`)
}

// Complaints are what the console said so far, and forgets it.
func (b *Browser) Complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.Errors
	b.Errors = nil
	return all
}
