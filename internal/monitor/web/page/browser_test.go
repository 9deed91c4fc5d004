package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	neturl "net/url"
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
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
	"github.com/sixty-dev/sixty/internal/monitor/view"
)

var shots = flag.String("shots", "", "write screenshots of every view into this `directory`")

// An hour has 240; the test is content with fewer.
var evaluations = flag.Int("evaluations", 30, "after how `many` evaluations the page may not have grown")

// A tab is one of a real browser; what it complains of fails the test.
type tab struct {
	t    testing.TB
	ctx  context.Context
	shut func()

	mu        sync.Mutex
	complains []string
}

// started is one browser for all tests, ended with the process.
var started = sync.OnceValues(func() (context.Context, error) {
	path := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path == "" {
			path, _ = exec.LookPath(name)
		}
	}
	if path == "" {
		return nil, exec.ErrNotFound
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.WindowSize(1280, 900))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	end = stop
	ctx, _ = chromedp.NewContext(ctx)
	return ctx, chromedp.Do(ctx)
})

var end = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	end()
	os.Exit(code)
}

// chromium is a browser; the test is skipped where there is none.
func chromium(t testing.TB) context.Context {
	t.Helper()
	ctx, err := started()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		t.Skip("needs Chromium to drive the page (or CHROMIUM with its path)")
	case err != nil:
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
	must.Succeed(t, chromedp.Listen(ctx, b.hear))
	scheme := "light"
	if f.dark {
		scheme = "dark"
	}
	call(b, log.Enable, cdp.Empty{})
	call(b, runtime.Enable, cdp.Empty{})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
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
	must.Succeed(b.t, err)
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

// until waits for an expression to be true.
func (b *tab) until(js string) {
	b.t.Helper()
	if !polltest.True(func() bool { return eval[bool](b, "!!("+js+")") }) {
		b.t.Fatalf("never true: %s; complaints: %q; the page:\n%s", js, b.complaints(),
			eval[string](b, `document.body.innerText.slice(0, 1500)`))
	}
}

// text waits until an element is there whose text has the words.
func (b *tab) text(selector, words string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`[...document.querySelectorAll(%s)].some((e) => e.textContent.includes(%s))`, quote(selector),
		quote(words)))
}

func (b *tab) eval(js string) { b.t.Helper(); eval[any](b, js) }

func eval[T any](b *tab, js string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
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

// live is true when the script runs: the shell has no such element.
const live = `document.querySelector('#main')`

// tabNamed opens one of an incident's tabs.
func tabNamed(name string) string {
	return `[...document.querySelectorAll('[role=tab]')].find((t) => t.textContent.startsWith(` + quote(name) +
		`)).click()`
}

// settled is true when no panel in view is still asked for.
const settled = `[...document.querySelectorAll('.panel')].filter((p) => p.getBoundingClientRect().top < innerHeight).every((p) => p.querySelector('canvas, .none, .problem'))`

// drawn is true when all panels in view are.
const drawn = "document.querySelector('.panel') && " + settled

// TestShots writes screenshots, to be looked at: go test ./internal/monitor/web/page -run TestShots -shots /tmp/shots.
func TestShots(t *testing.T) {
	built(t)
	if *shots == "" {
		t.Skip("for looking at the page: -shots DIRECTORY")
	}
	m, url := start(t)
	m.replicas = 200
	if os.Getenv("APART") != "" {
		m.apart()
	}
	c := chromium(t)
	for _, view := range []struct{ name, path string }{
		{"overview", "/"},
		{"incidents", "/incidents"},
		{"incident", "/incident/" + m.incident.ID},
		{"explore", "/explore?from=-5m&board=serving"},
		{"eleven", "/explore?from=-5m&board=incident"},
		{"fleet", "/fleet"},
		{"whatif", "/whatif?load=1.4"},
		{"audit", "/audit"},
		{"runbooks", "/runbooks"},
		{"runbook", "/runbooks/saturation"},
		{"settings", "/settings"},
		{"none", "/nowhere"},
	} {
		if only := os.Getenv("ONLY"); only != "" && !slices.Contains(strings.Split(only, ","), view.name) {
			continue
		}
		for name, f := range map[string]form{
			"": {width: 1280, height: 900}, "-dark": {width: 1280, height: 900, dark: true},
			"-phone": {width: 390, height: 844, phone: true}, "-whole": {width: 1280, height: 900},
		} {
			b := open(t, c, url+view.path, f)
			b.until(`document.querySelector('#main') && !document.querySelector('.waiting') && ` + settled)
			b.do(chromedp.Sleep(300 * time.Millisecond))
			take := chromedp.CaptureScreenshot()
			if name == "-whole" {
				take = chromedp.FullScreenshot(100)
			}
			png, err := chromedp.Run(b.ctx, take)
			must.Succeed(t, err)
			must.Succeed(t, os.WriteFile(filepath.Join(*shots, view.name+name+".png"), png, 0o600))
			b.quiet("404")
			b.shut()
		}
	}
}

func TestTheVerdictAppearsWhenTheFleetFallsIll(t *testing.T) {
	built(t)
	m, url := start(t)
	m.set(func() { m.healthy = true })
	b := open(t, chromium(t), url+"/", form{})
	b.text("[data-verdict=healthy]", "Nothing is wrong.")
	m.set(func() { m.healthy = false })
	b.text("[data-verdict=kv-cache-thrashing]", "The KV cache cannot hold the running requests")
	b.text("nav .count", "1")
	b.until(`document.title.startsWith('(1)')`)
	m.set(func() { m.healthy = true })
	b.text("main h1", "tiny is healthy")
	b.quiet()
}

func TestWhatIsNotKnownIsNotShownAsWell(t *testing.T) {
	built(t)
	m, url := start(t)
	m.set(func() { m.healthy, m.every = true, 1 })
	b := open(t, chromium(t), url+"/fleet", form{})
	const well = `document.querySelectorAll('main .cell.healthy').length`
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(500 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				m.tell()
			}
		}
	}()
	b.until(well + " > 20")
	m.set(func() { m.state, m.problems = view.Partial, []string{"store-7 does not answer"} })
	b.text(".doubt", "store-7 does not answer")
	b.until(well + " === 0")
	m.set(func() { m.state, m.problems = view.OK, nil })
	b.until(well + " > 20 && !document.querySelector('.doubt')")
	close(stop) // nothing is heard any more
	<-done
	m.set(func() { m.away = true })
	b.text(".doubt", "No connection to sixty")
	b.until(well + " === 0")
	m.set(func() { m.away = false })
	b.until(well + " > 20 && !document.querySelector('.doubt')")
	b.quiet("503")
}

// TestTheIncidentNamesTheHop, and draws the path of its requests; on a phone it is as wide as the screen.
func TestTheIncidentNamesTheHop(t *testing.T) {
	built(t)
	m, url := start(t)
	m.apart()
	for _, f := range []form{{width: 1280, height: 900}, {width: 390, height: 844, phone: true}} {
		b := open(t, chromium(t), url+"/incident/"+m.incident.ID, f)
		b.text(".eyebrow", "hop: decode")
		if f.phone { // the picture would be too small to read
			b.until(`getComputedStyle(document.querySelector('.path svg')).display === 'none'`)
			b.text(".show .path .hops .bad", "KV transfers failing")
		} else {
			b.text(".show .path svg .bad .what", "KV transfers failing")
		}
		b.until(`document.documentElement.scrollWidth <= innerWidth`)
		b.quiet()
		b.shut()
	}
}

func TestADeepLinkOpensTheIncident(t *testing.T) {
	built(t)
	m, url := start(t)
	b := open(t, chromium(t), url+"/incident/"+m.incident.ID, form{width: 1280, height: 900})
	b.text("h1", "KV cache thrashing: ")
	b.text(".eyebrow", "failing")
	b.until(`document.title.includes('KV cache thrashing on tiny')`)
	b.until(`document.querySelectorAll('.chain [data-plot] path').length >= 2`)
	b.text("[data-fix]", "--max-num-seqs")
	// The first screen has name, since, impact, chain and the first fix, on a phone the first fix before the chain;
	// nothing scrolls within itself.
	b.until(`['h1', '.lead', 'time', '.kpis', '.chain .axis', '[data-fix] h3'].every((s) => document.querySelector('.incident ' + s)?.getBoundingClientRect().bottom < innerHeight)`)
	b.until(`[...document.querySelectorAll('.incident section')].every((s) => !s.closest('.scroll') && getComputedStyle(s).overflowY !== 'auto' || s.classList.contains('scroll'))`)
	phone := open(t, chromium(t), url+"/incident/"+m.incident.ID, form{width: 390, height: 844, phone: true})
	phone.until(`document.documentElement.scrollWidth <= 390 && document.querySelector('[data-fix] pre, [data-fix] h3').getBoundingClientRect().bottom < innerHeight`)
	phone.shut()
	b.eval(tabNamed("Runbook"))
	b.text("[role=tabpanel]", "What you see")
	b.until(`location.search.includes('tab=runbook')`)
	b.eval(tabNamed("History"))
	b.text(".timeline", "Saturation (ticket)")
	b.text("[role=tabpanel]", "Four replicas helped.")
	// A hand on the timeline reads the charts at its time.
	b.eval(`{ const r = document.querySelector('.chain input'); r.value = String((Number(r.min) + Number(r.max)) / 2); r.dispatchEvent(new Event('input')) }`)
	b.until(`document.querySelector('.chain .hand') && document.querySelector('.link .value').textContent.includes('at ') && location.search.includes('at=20')`)
	b.do(chromedp.Click(".actions .pick summary"), chromedp.SendKeys("[data-form=acknowledge] input", "Grace"),
		chromedp.Click("[data-form=acknowledge] button"))
	b.text(".actions", "Acknowledged by Grace")
	b.do(chromedp.SendKeys(".note textarea", "Took out the override <b>"), chromedp.Click(".note button"))
	b.text(".timeline", "Grace: Took out the override <b>")
	b.do(chromedp.Navigate(url + "/incident/none"))
	b.text("main", "There is no incident none")
	b.do(chromedp.Navigate(url + "/explore?from=-4m&board=incident&model=tiny"))
	b.until(`document.querySelectorAll('.panel canvas').length >= 6`)
	b.quiet("404")
}

func TestAQuietIncidentIsNeitherFailingNorHealthy(t *testing.T) {
	built(t)
	m, url := start(t)
	m.set(func() {
		m.healthy = true
		m.incident.Phase, m.incident.QuietSince, m.incident.ClosesAt = view.Quiet, ptr(m.end),
			ptr(m.end.Add(10*time.Minute))
	})
	b := open(t, chromium(t), url+"/", form{width: 1280, height: 900})
	b.text("h1", "tiny is quiet")
	for path, selector := range map[string]string{"/": ".eyebrow", "/incident/" + m.incident.ID: ".eyebrow",
		"/incidents": ".phase"} {
		b.do(chromedp.Navigate(url + path))
		b.text("#main "+selector, "closes at")
		if text := eval[string](b, `document.querySelector('#main `+selector+`').textContent`); strings.Contains(text,
			"healthy") || strings.Contains(text, "failing") {
			t.Errorf("%s: %s", path, text)
		}
	}
	b.quiet()
}

func TestTheKeyboardReachesEverything(t *testing.T) {
	built(t)
	m, url := start(t)
	b := open(t, chromium(t), url+"/", form{width: 1280, height: 900})
	b.until(live)
	b.text("h1", "tiny")
	b.keys("?")
	b.until(`document.querySelector('dialog').open`)
	b.keys(kb.Escape)
	b.until(`!document.querySelector('dialog').open`)
	for key, path := range map[string]string{"i": "/incidents", "e": "/explore", "f": "/fleet", "w": "/whatif",
		"a": "/audit", "r": "/runbooks", "s": "/settings", "o": "/"} {
		b.keys("g" + key)
		b.until("location.pathname === " + quote(path))
	}
	b.keys("gf")
	b.until(`document.querySelectorAll('.cell').length > 20`)
	b.keys("/")
	b.until(`document.activeElement.matches('input[type=search]')`)
	b.eval(`document.activeElement.select()`) // a real keyboard sends no character for a key that was taken
	b.keys("10.0.0.13")
	b.until(`document.querySelectorAll('.cell').length === 1`)
	b.keys(kb.Escape)
	b.until(`!document.activeElement.matches('input')`)
	b.keys("go")
	b.text("h1", "tiny")
	b.keys("j")
	b.until(`document.activeElement.dataset.verdict === 'kv-cache-thrashing'`)
	b.keys(kb.Enter)
	b.until("location.pathname === " + quote("/incident/"+m.incident.ID))
	b.do(chromedp.NavigateBack())
	b.until(`location.pathname === '/'`)
	b.keys("d")
	b.until(`document.documentElement.dataset.theme === 'dark'`)
	b.keys("ge")
	b.until(`location.pathname === '/explore'`)
	b.keys("[")
	b.until(`new URLSearchParams(location.search).get('to')?.endsWith('Z')`)
	b.quiet()
}

func TestHostileNamesAreInertInTheBrowser(t *testing.T) {
	built(t)
	m, url := start(t)
	m.set(func() { m.other = hostile })
	m.incident.Model, m.incident.Summary.Summary = hostile, hostile
	m.incident.Notes = []view.Note{{By: hostile, At: m.end, Text: hostile}}
	b := open(t, chromium(t), url+"/", form{})
	escaped := neturl.QueryEscape(hostile)
	for _, path := range []string{
		"/", "/fleet", "/incidents", "/incident/" + m.incident.ID, "/incident/" + neturl.PathEscape(hostile),
		"/runbooks/" + neturl.PathEscape(hostile),
		"/explore?from=-4m&each=1&model=" + escaped + "&instance=" + escaped, "/explore?board=" + escaped,
		"/whatif?model=" + escaped + "&--" + escaped + "=" + escaped, "/audit", "/settings",
	} {
		b.do(chromedp.Navigate(url + path))
		b.until(`document.querySelector('#main') && !document.querySelector('.waiting')`)
		if eval[bool](b, `'hostile' in window || document.querySelector('main img, main script') !== null`) {
			t.Errorf("%s: a name became markup", path)
		}
	}
	b.do(chromedp.Navigate(url + "/"))
	b.text("main", hostile)
	b.quiet("404")
}

func TestNoViewIsWiderThanTheWindow(t *testing.T) {
	built(t)
	m, url := start(t)
	long := strings.Repeat("m", 5000)
	m.set(func() { m.other = long })
	m.incident.Model = long
	for _, f := range []form{{width: 1280, height: 900}, {width: 390, height: 844, phone: true}} {
		for _, path := range []string{"/", "/fleet", "/incidents", "/incident/" + m.incident.ID} {
			b := open(t, chromium(t), url+path, f)
			b.until(`document.querySelector('#main') && !document.querySelector('.waiting') && document.body.textContent.includes('` + long + `')`)
			if wide := eval[int64](b, `document.documentElement.scrollWidth`); wide > f.width {
				t.Errorf("%s with a long name of a model is %d pixels wide in a window of %d", path, wide, f.width)
			}
			b.shut()
		}
	}
}

func TestWithoutJavaScriptTheVerdictReads(t *testing.T) {
	built(t)
	_, url := start(t)
	b := open(t, chromium(t), url+"/", form{noScript: true})
	page, err := chromedp.Run(b.ctx, chromedp.Text("main"))
	if err != nil || !strings.Contains(page, "The KV cache cannot hold the running requests") {
		t.Errorf("error %v, the page:\n%s", err, page)
	}
}

func TestTimesAreInTheViewersZone(t *testing.T) {
	built(t)
	m, url := start(t)
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	must.Succeed(t, err)
	b := open(t, chromium(t), url+"/incident/"+m.incident.ID, form{zone: "Asia/Tokyo"})
	b.text(".eyebrow time", m.incident.Began.In(tokyo).Format("15:04:05"))
}

func TestWhatIfFollowsItsSliders(t *testing.T) {
	built(t)
	_, url := start(t)
	b := open(t, chromium(t), url+"/whatif?load=2", form{})
	b.text("[data-answer]", "TTFT P95")
	b.text(".sliders", "× 2")
	before := eval[string](b, `document.querySelector('[data-answer]').textContent`)
	b.do(chromedp.Focus("[data-slider=replicas]"))
	b.keys(kb.ArrowRight + kb.ArrowRight)
	b.until(`location.search.includes('replicas=3')`)
	b.until(`document.querySelector('[data-answer]').textContent !== ` + quote(before))
	b.do(chromedp.Navigate(url + "/whatif?--max-num-seqs=0"))
	b.text(".problem", "cannot reproduce the present")
	b.quiet("409")
}

// The numbers that the page is to keep. Times are those for which the page's thread works, for others
// use this machine's processors too; the best of some tries counts.
const (
	firstVerdict = time.Second
	dayDrawn     = 500 * time.Millisecond
	growth       = 1 << 20 // bytes, in an hour
	tries        = 3
)

// worked returns for how long the page's thread has worked since measureWork.
func (b *tab) worked() time.Duration {
	for _, m := range call(b, performance.GetMetrics, cdp.Empty{}).Metrics {
		if m.Name == "TaskDuration" {
			return time.Duration(m.Value * 1e9)
		}
	}
	b.t.Fatal("no TaskDuration")
	return 0
}

func (b *tab) measureWork() {
	call(b, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
}

func best(measure func() time.Duration) time.Duration {
	least := measure()
	for range tries - 1 {
		least = min(least, measure())
	}
	return least
}

func TestTheFirstVerdictIsDrawnWithinASecond(t *testing.T) {
	built(t)
	m, url := start(t)
	m.replicas = 200
	b := open(t, chromium(t), url+"/", form{width: 1280, height: 900})
	b.measureWork()
	got := best(func() time.Duration {
		b.do(chromedp.Navigate("about:blank")) // another process: the measurement begins anew
		b.do(chromedp.Navigate(url + "/"))
		b.until(`performance.getEntriesByName('first-contentful-paint').length > 0 && document.querySelector('[data-verdict]')`)
		b.until(`performance.getEntriesByName('page').length > 0`)
		work := b.worked()
		t.Logf("201 replicas: %s of the page's own work; by the clock %.0f ms from the navigation to the script's page",
			work, eval[float64](b, `performance.getEntriesByName('page')[0].startTime`))
		return work
	})
	if got > firstVerdict {
		t.Errorf("the verdict was drawn in %s, want %s", got, firstVerdict)
	}
}

func TestADayOfTwentyReplicasIsDrawnAtOnce(t *testing.T) {
	built(t)
	m, url := start(t)
	m.set(func() { m.made = 20 })
	b := open(t, chromium(t), url+"/", form{width: 1280, height: 900})
	b.text("h1", "tiny")
	b.until(`document.querySelector('.chain [data-plot] path')`)
	b.measureWork()
	got := best(func() time.Duration {
		b.keys("go")
		b.until(`location.pathname === '/'`)
		b.keys("ge")
		b.until(drawn)
		before := b.worked()
		// From the click on 24 h with a line for each replica, to the last canvas of the window.
		ms := eval[[]float64](b, `(async () => {
			performance.clearResourceTimings()
			history.pushState(null, '', '/explore?from=-24h&each=1'); dispatchEvent(new PopStateEvent('popstate'))
			const began = performance.now()
			const frame = () => new Promise((f) => requestAnimationFrame(() => setTimeout(f)))
			const inView = () => [...document.querySelectorAll('.panel')].filter((p) => p.getBoundingClientRect().top < innerHeight)
			while (!inView().every((p) => Number(p.dataset.step) >= 360 && p.querySelector('canvas')) && performance.now() - began < 50000) await frame()
			const end = performance.now()
			const asked = performance.getEntriesByType('resource').filter((r) => r.name.includes('query_range'))
			return [end - began, end - Math.max(...asked.map((r) => r.responseEnd)), inView().length, asked.length]
		})()`)
		total := time.Duration(ms[0] * 1e6)
		after := time.Duration(ms[1] * 1e6)
		work := b.worked() - before
		t.Logf("%.0f panels in the window, %.0f questions: %s of the page's own work, reading the answers included; by the clock %s from the click, %s from the last answer", ms[2], ms[3], work, total, after)
		return work
	})
	if got > dayDrawn {
		t.Errorf("24 hours of 20 replicas were drawn in %s, want %s", got, dayDrawn)
	}
	b.quiet()
}

func TestTimeDoesNotGrowThePage(t *testing.T) {
	built(t)
	if testing.Short() {
		t.Skip("it takes a while")
	}
	m, url := start(t)
	m.set(func() { m.made = 6 })
	b := open(t, chromium(t), url+"/explore?from=-1h&each=1", form{width: 1280, height: 900})
	b.until(drawn)
	used := func() (bytes float64, nodes int) {
		for range 3 {
			call(b, heapprofiler.CollectGarbage, cdp.Empty{})
			b.eval(`new Promise((resolve) => requestIdleCallback(() => resolve()))`)
		}
		return call(b, runtime.GetHeapUsage, cdp.Empty{}).UsedSize,
			eval[int](b, `document.querySelectorAll('*').length`)
	}
	// Each step is an evaluation, 15 s later by the monitor's clock: all panels ask again.
	pass := func(steps int) {
		for range steps {
			eval[any](b, `document.querySelectorAll('.panel').forEach((p) => delete p.dataset.step)`)
			m.set(func() { m.skipped += 15 * time.Second })
			b.until(`document.querySelector('.panel').dataset.step`)
		}
	}
	pass(20)
	before, nodes := used()
	pass(*evaluations)
	after, more := used()
	t.Logf("after 20 evaluations %.2f MB and %d elements, after %d more %.2f MB and %d elements", before/1e6, nodes,
		*evaluations, after/1e6, more)
	if after-before > growth || more > nodes+20 {
		t.Errorf("the page grew by %.0f bytes and %d elements", after-before, more-nodes)
	}
	b.quiet()
}

// axe looks at every view, light and dark, wide and on a phone.
func TestAxeFindsNothing(t *testing.T) {
	built(t)
	axe, err := os.ReadFile(filepath.Join(sources, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Skip("needs axe-core: make page-tools installs it, where npm is")
	}
	m, url := start(t)
	c := chromium(t)
	for i, path := range []string{
		"/", "/incidents", "/incident/" + m.incident.ID, "/explore?from=-5m&each=1", "/fleet", "/whatif?load=1.4",
		"/audit", "/runbooks", "/runbooks/saturation", "/settings", "/nowhere",
	} {
		f := form{width: 1440, height: 900, dark: i%2 == 0}
		if i%3 == 0 {
			f.width, f.height, f.phone = 390, 844, true
		}
		b := open(t, c, "about:blank", f)
		call(b, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true})
		b.do(chromedp.Navigate(url + path))
		b.until(live + ` && !document.querySelector('.waiting') && ` + settled)
		b.eval(string(axe) + "; true")
		for _, found := range eval[[]string](b, `axe.run({resultTypes: ['violations']}).then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.target + ' ' + n.failureSummary).join('; ')))`) {
			t.Errorf("%s: %.600s", path, found)
		}
		b.shut()
	}
}
