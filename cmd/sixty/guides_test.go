package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/base/polltest"
	"github.com/sixty-dev/sixty/internal/fleet"
)

// An item of a guide is a comment with its number; the commands and what must be seen follow it.
var guideItem = regexp.MustCompile(`(?m)^# (\d+)\. `)

// expectation matches a line of a script that checks something.
var expectation = regexp.MustCompile(`(?m)^(! )?(stdout|stderr|grep|exists|cmp) `)

// guideItems is the number of things that the guides ask for.
const guideItems = 86

// TestGuides runs what two public guides to monitoring vLLM ask for, item by item: "Monitoring vLLM in Production:
// Metrics, PromQL, Alerts, and Runbooks" (items 67 to 86), and one on metrics, dashboards, pathologies, profiling, load
// tests, tuning and anomaly detection. Besides what TestScripts provides, a script finds in $BUSY a server with a full
// KV cache and a long queue, in $FLEET an idle one, in $WEBHOOK a receiver that shows what it got, and in $ADDRESS1 to
// $ADDRESS5 free addresses.
func TestGuides(t *testing.T) {
	checkItemsAreComplete(t, "testdata/guides")
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("the items are commands of a shell")
	}
	text := must.ReadFile(t, "testdata/guides/busy.yaml")
	busy, err := fleet.ReadScenario("busy", string(text))
	must.Succeed(t, err)
	busy.Phases = busy.Phases[1:] // without the healthy phase before it
	addresses := map[string]string{}
	for name, cfg := range map[string]fleet.Config{
		"FLEET": {}, "BUSY": {Scenario: busy, Warm: 2 * time.Minute, Accelerate: 20},
	} {
		servers, err := fleet.Start(cfg)
		must.Succeed(t, err)
		t.Cleanup(func() { servers.Close() })
		addresses[name] = servers.URL(0)
	}
	runScripts(t, "testdata/guides", func(env *testscript.Env) error {
		for name, address := range addresses {
			env.Setenv(name, address)
		}
		receiver := httptest.NewServer(newEcho())
		env.Defer(receiver.Close)
		env.Setenv("WEBHOOK", receiver.URL)
		for i := 1; i <= 5; i++ {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			env.Setenv(fmt.Sprint("ADDRESS", i), l.Addr().String())
			l.Close()
		}
		return nil
	})
}

// checkItemsAreComplete fails if an item is missing, or checks nothing.
func checkItemsAreComplete(t *testing.T, dir string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	must.Succeed(t, err)
	seen := map[string]bool{}
	for _, path := range paths {
		text := must.ReadFile(t, path)
		items := guideItem.FindAllSubmatchIndex(text, -1)
		for i, at := range items {
			number, end := string(text[at[2]:at[3]]), len(text)
			if i+1 < len(items) {
				end = items[i+1][0]
			}
			if seen[number] || !expectation.Match(text[at[0]:end]) {
				t.Errorf("%s: item %s is there twice, or expects nothing", path, number)
			}
			seen[number] = true
		}
	}
	for n := 1; n <= guideItems; n++ {
		if !seen[strconv.Itoa(n)] {
			t.Errorf("no script in %s has item %d", dir, n)
		}
	}
}

// newEcho returns a handler that keeps what is posted and shows it.
func newEcho() http.Handler {
	var mu sync.Mutex
	var got bytes.Buffer
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPost {
			_, _ = io.Copy(&got, r.Body)
			return
		}
		_, _ = w.Write(got.Bytes())
	})
}

// get is a command of scripts: get [-until REGEXP] [-post BODY] URL [NAME=VALUE…] repeats a request until the answer
// matches, and prints the answer. The names and values become the query.
func get() {
	flags := flag.NewFlagSet("get", flag.ExitOnError)
	until := flags.String("until", "", "")
	body := flags.String("post", "", "")
	_ = flags.Parse(os.Args[1:])
	query := url.Values{}
	for _, arg := range flags.Args()[1:] {
		name, value, _ := strings.Cut(arg, "=")
		query.Add(name, value)
	}
	address := strings.TrimSuffix(flags.Arg(0)+"?"+query.Encode(), "?")
	want, answer := regexp.MustCompile("(?s)"+*until), ""
	answers := func() bool {
		answer = ask(address, *body)
		return want.MatchString(answer)
	}
	if !polltest.True(answers) {
		fmt.Fprintln(os.Stderr, answer)
		os.Exit(1)
	}
	fmt.Println(answer)
}

// ask returns the answer to a request, or why there is none.
func ask(address, body string) string {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return cmp.Or(string(answer), fmt.Sprint(resp.Status, err))
}

// growing matches a number of a page that grows with each scrape: {100+5n}.
var growing = regexp.MustCompile(`\{(\d+)\+(\d+)n\}`)

// writePages is a command of scripts: pages FILE SCRAPES TARGET writes a recording of a target, with a scrape
// every 15 s, from a page with growing numbers.
func writePages() {
	page, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	count, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	if err := os.MkdirAll(os.Args[3], 0o700); err != nil {
		panic(err)
	}
	for n := range count {
		text := growing.ReplaceAllFunc(page, func(number []byte) []byte {
			m := growing.FindSubmatch(number)
			from, _ := strconv.Atoi(string(m[1]))
			step, _ := strconv.Atoi(string(m[2]))
			return strconv.AppendInt(nil, int64(from+n*step), 10)
		})
		name := fmt.Sprintf("%d.prom", 1_790_000_000_000+int64(n)*15_000)
		if err := os.WriteFile(filepath.Join(os.Args[3], name), text, 0o600); err != nil {
			panic(err)
		}
	}
}
