package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sixty-dev/sixty/internal/base/polltest"
)

// TestLoginInABrowser: Chromium logs in, and a link of another site, with which it sends no
// cookie, leads to the page all the same.
func TestLoginInABrowser(t *testing.T) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not on PATH")
	}
	base, _ := browsed(t, "/sixty", true)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<a id="link" href="` + base + `/incident/a?b=c">the incident</a>`))
	}))
	defer other.Close()
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	do := func(steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(ctx, steps...); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(want string) {
		t.Helper()
		got := ""
		shown := func() bool {
			if text, err := chromedp.Run(ctx, chromedp.Text("body")); err == nil {
				got = strings.TrimSpace(text)
			}
			return got == want
		}
		if !polltest.True(shown) {
			t.Fatalf("the browser shows %q, want %q", got, want)
		}
	}
	do(chromedp.Navigate(base+"/fleet"), chromedp.SendKeys("#token", token), chromedp.Click("form button"))
	shows("the page at /fleet")
	if cookies, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.cookie")); err != nil || cookies != "" {
		t.Errorf("a script reads the cookies %q, %v", cookies, err)
	}
	do(chromedp.Navigate(strings.Replace(other.URL, "127.0.0.1", "localhost", 1)), chromedp.Click("#link"))
	shows("the page at /incident/a?b=c")
}
