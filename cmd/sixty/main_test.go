package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
)

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	if err := flag.Set("test.parallel", "4"); err != nil { // commands wait more than they compute
		panic(err)
	}
	testscript.Main(m, map[string]func(){"sixty": main, "get": get, "pages": writePages})
}

// asCommand is the environment variable that makes the test binary the command itself.
const asCommand = "SIXTY_TEST_AS_COMMAND"

// TestScripts runs the binary as a user does. A script finds recordings in $RECORDINGS, outputs of nvidia-smi in
// $NVIDIA, and servers behind $VLLM; see serve.
func TestScripts(t *testing.T) {
	runScripts(t, "testdata/script", func(*testscript.Env) error { return nil })
}

// runScripts runs the scripts in a directory. more completes a script's environment.
func runScripts(t *testing.T, dir string, more func(*testscript.Env) error) {
	t.Helper()
	recordings, err := filepath.Abs("../../testdata/recordings")
	must.Succeed(t, err)
	nvidia, err := filepath.Abs("../../internal/metrics/hostmetrics/nvidia/testdata")
	must.Succeed(t, err)
	pages := map[string][][]byte{}
	for _, name := range []string{"thrashing-deep", "full-but-quiet", "higher-rate"} {
		pages[name] = load(t, filepath.Join(recordings, name+".tar.zst"))
	}
	testscript.Run(t, testscript.Params{
		Dir:             dir,
		ContinueOnError: true, // each step that fails is shown
		Setup: func(env *testscript.Env) error {
			server := httptest.NewServer(serve(pages))
			env.Defer(server.Close)
			env.Setenv("RECORDINGS", recordings)
			env.Setenv("TRACES", filepath.Join(filepath.Dir(recordings), "traces"))
			env.Setenv("NVIDIA", nvidia)
			env.Setenv("OLDPATH", env.Getenv("PATH"))
			env.Setenv("VLLM", server.URL)
			env.Setenv("TMPDIR", env.WorkDir)
			return more(env)
		},
	})
}

func load(t *testing.T, path string) [][]byte {
	t.Helper()
	rec, err := recording.Open(t.Context(), path)
	must.Succeed(t, err)
	defer rec.Close()
	var pages [][]byte
	must.Succeed(t, rec.Scrapes(func(s recording.Scrape) error { pages = append(pages, s.Body); return nil }))
	return pages
}

// sickSince is the position in a recording, in seconds, at which serve begins.
const sickSince = 75

// serve serves several inference servers. The first part of the path chooses one:
//
//   - thrashing-deep, full-but-quiet and higher-rate replay a recording, a page a second, from the first request for an
//     address on. A query makes another address, because a script may take longer than the recording; ?from=40 begins at
//     another second. higher-rate is another process than the other two.
//   - silent has no engine metrics (--disable-log-stats), bare has two of them, dcgm is a GPU exporter, node is another
//     program.
//   - secret is full-but-quiet behind a bearer token; recovering is full-but-quiet after three failed pages.
//   - garbage, json, html and broken give answers that no server should give.
//   - frozen answers nothing. All others have a healthy /health.
func serve(pages map[string][][]byte) http.Handler {
	var began sync.Map // the time of the first page, by address
	var recovering atomic.Int32
	replay := func(w http.ResponseWriter, r *http.Request, name string) {
		from := sickSince
		if first, asked := r.URL.Query()["from"]; asked {
			from, _ = strconv.Atoi(first[0])
		}
		first, _ := began.LoadOrStore(r.URL.String(), time.Now())
		p := pages[name]
		_, _ = w.Write(p[min(from+int(time.Since(first.(time.Time))/time.Second), len(p)-1)])
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server, path, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
		switch {
		case server == "frozen":
			_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client is gone
			<-r.Context().Done()
		case server == "refusing":
			http.Error(w, "", http.StatusBadGateway)
		case path == "health":
		case path == "version":
			fmt.Fprint(w, `{"version":"0.23.0"}`)
		case path == "v1/models":
			fmt.Fprint(w, `{"data":[{"id":"tiny","max_model_len":1024}]}`)
		case path == "v1/completions":
			w.Header().Set("Content-Type", "text/event-stream")
			for range 3 {
				fmt.Fprint(w, `data: {"choices":[{"text":"a"}]}`+"\n\n")
			}
			fmt.Fprint(w, "data: [DONE]\n\n")
		case path != "metrics":
			http.NotFound(w, r)
		case server == "secret" && r.Header.Get("Authorization") != "Bearer open-sesame":
			http.Error(w, "who are you?", http.StatusUnauthorized)
		case server == "secret":
			replay(w, r, "full-but-quiet")
		case server == "recovering" && recovering.Add(1) <= 3:
			http.Error(w, "", http.StatusServiceUnavailable)
		case server == "recovering":
			replay(w, r, "full-but-quiet")
		case pages[server] != nil:
			replay(w, r, server)
		case server == "silent":
			fmt.Fprint(w, "python_info{version=\"3.12\"} 1\n")
		case server == "bare":
			fmt.Fprint(w, "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 1\nvllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 1\n")
		case server == "dcgm":
			fmt.Fprint(w, "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 5\n")
		case server == "node":
			fmt.Fprint(w, "node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 3\nnode_load1 2\n")
		case server == "json":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"object":"list"}`)
		case server == "garbage":
			fmt.Fprint(w, "what are you looking for?\n")
		case server == "html":
			fmt.Fprint(w, "<!doctype html><title>hello</title>")
		case server == "broken":
			http.Error(w, "", http.StatusInternalServerError)
		default:
			http.NotFound(w, r)
		}
	})
}

// TestMainIsShort holds that main.go contains no logic.
func TestMainIsShort(t *testing.T) {
	b := must.ReadFile(t, "main.go")
	if n := strings.Count(string(b), "\n"); n > 50 {
		t.Errorf("main.go has %d lines, want at most 50", n)
	}
}
