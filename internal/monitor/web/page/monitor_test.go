package page_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/diagnose"
	servers "github.com/sixty-dev/sixty/internal/fleet"
	judge "github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/planning"
	monitoring "github.com/sixty-dev/sixty/internal/serve"
)

// A browser looks at a monitor that watches simulated servers: every view has what it
// asks for, and the verdict and its incident appear when the servers die.
func TestTheMonitorIsShown(t *testing.T) {
	built(t)
	browser := chromium(t)
	fl, err := servers.Start(servers.Config{Addr: "127.0.0.1:0", Replicas: 2, Warm: 2 * time.Minute})
	must.Succeed(t, err)
	dead := false
	defer func() {
		if !dead {
			fl.Close()
		}
	}()
	ready, failed := make(chan string, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		failed <- monitoring.Run(ctx, monitoring.Config{
			Dir: t.TempDir(), Addr: "127.0.0.1:0", Every: time.Second, Log: slog.New(slog.DiscardHandler),
			Ready:      func(url string, _ bool) { ready <- url },
			Diagnose:   diagnose.Options{Pathologies: pathologies.All(), Predict: planning.PredictFixes},
			Settings:   func(*judge.Section) (s diagnose.Settings, err error) { return s, nil },
			Deployment: monitoring.Deployment{Interval: time.Second, Targets: fl.URLs(), NoHost: true},
		})
	}()
	defer func() {
		stop()
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}()
	var url string
	select {
	case url = <-ready:
	case err := <-failed:
		failed <- nil
		t.Fatal(err)
	}
	now := open(t, browser, url+"/", form{width: 1280, height: 900})
	now.text("main h1", "idle")
	for _, view := range []struct{ path, selector, words string }{
		{"/explore", ".panel", "Queue depth"},
		{"/fleet", "main", "2 replicas"},
		{"/whatif", "main", "eplicas"},
		{"/audit", "main", "time to first token"},
		{"/runbooks", "main", "Engine hung"},
		{"/runbooks/engine-hung", "main", "engine"},
		{"/settings", "main", "scrape"},
		{"/incidents", "main", "ncident"},
	} {
		b := open(t, browser, url+view.path, form{width: 1280, height: 900})
		b.text(view.selector, view.words)
		if problem := eval[string](b,
			`[...document.querySelectorAll('.problem')].map((p) => p.textContent).join('; ')`); problem != "" &&
			view.path != "/whatif" { // of servers without traffic nothing can be simulated
			t.Errorf("%s: %s", view.path, problem)
		}
		if view.path != "/whatif" {
			b.quiet()
		}
		if *shots != "" {
			b.shot(filepath.Join(*shots, "monitor-"+filepath.Base(view.path)+".png"))
		}
		b.shut()
	}
	must.Succeed(t, fl.Close())
	dead = true
	now.text("main h1", "Target down")
	now.until(`document.querySelector('a[href^="/incident/"]')`)
	now.eval(`document.querySelector('a[href^="/incident/"]').click()`)
	now.text(".incident h1", "Target down")
	now.quiet()
	if *shots != "" {
		now.shot(filepath.Join(*shots, "monitor-incident.png"))
	}
}

// shot writes what a tab shows.
func (b *tab) shot(file string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(file, png, 0o600)
	}
	if err != nil {
		b.t.Error(err)
	}
}
