package web_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var shots = flag.String("shots", "", "write screenshots of every view into this `directory`")

// A tab is one of a real browser; what it complains of fails the test.
type tab struct {
	t    testing.TB
	ctx  context.Context
	shut func()

	mu        sync.Mutex
	complains []string
}

// chromium starts a browser, or skips.
func chromium(t testing.TB) context.Context {
	t.Helper()
	path := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path == "" {
			path, _ = exec.LookPath(name)
		}
	}
	if path == "" {
		t.Skip("needs Chromium to drive the page (or CHROMIUM with its path)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 900))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	return ctx
}

// A form is how a tab shows the page.
type form struct {
	width, height int64
	dark, phone   bool
	noScript      bool
	zone          string
}

// open opens a tab on a page.
func open(t testing.TB, browser context.Context, url string, f form) *tab {
	t.Helper()
	ctx, stop := chromedp.NewContext(browser)
	t.Cleanup(stop)
	b := &tab{t: t, ctx: ctx, shut: stop}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	scheme := "light"
	if f.dark {
		scheme = "dark"
	}
	call(b, log.Enable, cdp.Empty{})
	call(b, runtime.Enable, cdp.Empty{})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: f.noScript})
	if f.zone != "" {
		call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: f.zone})
	}
	if f.phone {
		b.do(chromedp.EmulateViewport(f.width, f.height, chromedp.EmulateMobile))
	} else if f.width > 0 {
		b.do(chromedp.EmulateViewport(f.width, f.height))
	}
	b.do(chromedp.Navigate(url))
	return b
}

// call sends a command of the protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	r, err := chromedp.Call(b.ctx, command, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// hear keeps what the browser complains of.
func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		b.complains = append(b.complains, text)
	case *log.EventEntryAdded: // violations of the content security policy among them
		if e.Entry.Level == log.EntryLevelError {
			b.complains = append(b.complains, e.Entry.Text+" "+e.Entry.URL)
		}
	case *page.EventJavascriptDialogOpening:
		b.complains = append(b.complains, "dialog: "+e.Message)
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatalf("%v; the page complains: %q", err, b.complaints())
	}
}

func (b *tab) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.complains...)
}

// quiet fails where the page complained, but of what contains one of the texts.
func (b *tab) quiet(but ...string) {
	b.t.Helper()
	for _, c := range b.complaints() {
		if !slices.ContainsFunc(but, func(text string) bool { return strings.Contains(c, text) }) {
			b.t.Errorf("the page complains: %s", c)
		}
	}
}

// patience is how long the page may take for anything, on a machine that is busy.
const patience = 30 * time.Second

// until waits for an expression to be true.
func (b *tab) until(js string) {
	b.t.Helper()
	for began := time.Now(); !eval[bool](b, "!!("+js+")"); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > patience {
			b.t.Fatalf("not true within %s: %s; complaints: %q; the page:\n%s", patience, js, b.complaints(), eval[string](b, `document.body.innerText.slice(0, 1500)`))
		}
	}
}

// text waits until an element is there whose text has the words.
func (b *tab) text(selector, words string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`[...document.querySelectorAll(%s)].some((e) => e.textContent.includes(%s))`, quote(selector), quote(words)))
}

func eval[T any](b *tab, js string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](js))
	if err != nil {
		b.t.Fatalf("%s: %v", js, err)
	}
	return v
}

// keys types at the page as a person does.
func (b *tab) keys(keys string) { b.t.Helper(); b.do(chromedp.KeyEvent(keys)) }

func quote(s string) string {
	raw, _ := json.Marshal(s) // a string always can be
	return string(raw)
}

// drawn is true when all panels in view are.
const drawn = `(() => { const all = [...document.querySelectorAll('.panel')].filter((p) => p.getBoundingClientRect().top < innerHeight);
	return all.length > 0 && all.every((p) => p.querySelector('canvas, .none, .problem')); })()`

// TestShots writes screenshots, to be looked at: go test ./internal/web -run TestShots -shots /tmp/shots.
func TestShots(t *testing.T) {
	if *shots == "" {
		t.Skip("for looking at the page: -shots DIRECTORY")
	}
	m, url := start(t)
	m.replicas = 200
	c := chromium(t)
	for _, view := range []struct{ name, path string }{
		{"now", "/"}, {"incidents", "/incidents"}, {"incident", "/incident/" + m.incident.ID}, {"explore", "/explore?from=-5m&board=serving"}, {"eleven", "/explore?from=-5m&board=incident"},
		{"fleet", "/fleet"}, {"whatif", "/whatif?load=1.4"}, {"audit", "/audit"}, {"runbooks", "/runbooks"}, {"runbook", "/runbooks/saturation"}, {"settings", "/settings"}, {"none", "/nowhere"},
	} {
		if only := os.Getenv("ONLY"); only != "" && !slices.Contains(strings.Split(only, ","), view.name) {
			continue
		}
		for name, f := range map[string]form{
			"": {width: 1280, height: 900}, "-dark": {width: 1280, height: 900, dark: true}, "-phone": {width: 390, height: 844, phone: true}, "-whole": {width: 1280, height: 900},
		} {
			b := open(t, c, url+view.path, f)
			b.do(chromedp.Sleep(1500 * time.Millisecond))
			take := chromedp.CaptureScreenshot()
			if name == "-whole" {
				take = chromedp.FullScreenshot(100)
			}
			png, err := chromedp.Run(b.ctx, take)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(*shots, view.name+name+".png"), png, 0o600); err != nil {
				t.Fatal(err)
			}
			b.quiet("404")
			b.shut()
		}
	}
}
