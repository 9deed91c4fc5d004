package diagnose_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/report"
)

// counted counts questions.
type counted struct {
	metrics.Querier
	asked atomic.Int64
}

func (c *counted) Query(ctx context.Context, expr string, at time.Time) (model.Vector, error) {
	c.asked.Add(1)
	return c.Querier.Query(ctx, expr, at)
}

func (c *counted) Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error) {
	c.asked.Add(1)
	return c.Querier.Evaluate(ctx, e, at)
}

// With a memory fewer questions are asked, and the answers are the same: while the past grows, and when it is an hour.
func TestMemory(t *testing.T) {
	for name, scrapes := range map[string]int{"the first minutes": 60, "an hour": 400} {
		t.Run(name, func(t *testing.T) { testMemory(t, scrapes) })
	}
}

func testMemory(t *testing.T, scrapes int) {
	store := embeddedtest.New(t)
	const interval = 15 * time.Second
	began := time.Unix(1_800_000_000, 0).UTC()
	at := began
	tokens := 0
	scrape := func() {
		at = at.Add(interval)
		tokens += 3000
		for _, instance := range []string{"a:8000", "b:8000"} {
			page := strings.NewReplacer("N", fmt.Sprint(tokens), "R", fmt.Sprint(tokens/100)).Replace(`
vllm:num_requests_running{model_name="m",engine="0"} 4
vllm:num_requests_waiting{model_name="m",engine="0"} 0
vllm:generation_tokens_total{model_name="m",engine="0"} N
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="0.1"} R
vllm:time_to_first_token_seconds_bucket{model_name="m",engine="0",le="+Inf"} R
vllm:time_to_first_token_seconds_sum{model_name="m",engine="0"} R
vllm:time_to_first_token_seconds_count{model_name="m",engine="0"} R
`)
			embeddedtest.Append(t, store, embedded.Target{Instance: instance}, at, page)
		}
	}
	for range scrapes {
		scrape()
	}
	var memory diagnose.Memory
	q := &counted{Querier: store}
	run := func(m *diagnose.Memory) (diagnose.Diagnosis, int) {
		q.asked.Store(0)
		d, err := diagnose.Run(t.Context(), q, diagnose.Options{At: at, First: began, Interval: interval, Every: true, Memory: m})
		must.Succeed(t, err)
		return d, int(q.asked.Load())
	}
	run(&memory)
	all, fewer := 0, 0
	for range 20 {
		scrape()
		without, n := run(nil)
		all += n
		with, n := run(&memory)
		fewer += n
		if diff := gocmp.Diff(without.Verdict, with.Verdict, gocmp.AllowUnexported(diagnose.Verdict{})); diff != "" {
			t.Fatalf("at %s, with a memory (-without +with):\n%s", at, diff)
		}
	}
	if fewer > all*3/4 {
		t.Errorf("%d questions with a memory, %d without: want a quarter fewer", fewer, all)
	}

	// One that ran out of time leaves what it was told to the next one.
	_, whole := run(&diagnose.Memory{})
	var cut diagnose.Memory
	scrape()
	o := diagnose.Options{At: at, First: began, Interval: interval, Every: true, Memory: &cut}
	if _, err := diagnose.Run(t.Context(), &failing{Querier: store, after: int64(whole - 5)}, o); err == nil {
		t.Fatal("it has an answer")
	}
	if _, rest := run(&cut); rest > whole*3/4 {
		t.Errorf("%d questions after a diagnosis that lacked five of %d", rest, whole)
	}
}

// failing answers some questions.
type failing struct {
	metrics.Querier
	after int64
	asked atomic.Int64
}

func (f *failing) Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error) {
	if f.asked.Add(1) > f.after {
		return nil, context.DeadlineExceeded
	}
	return f.Querier.Evaluate(ctx, e, at)
}

// inJSON diagnoses as a reader of the JSON sees it. That an onset is kept as it was said is the
// one thing in which a memory differs on purpose.
func inJSON(t *testing.T, q metrics.Querier, o diagnose.Options) string {
	t.Helper()
	if o.Memory != nil {
		o.Memory.ForgetOnsets()
	}
	o.Pathologies = pathologies.All()
	var b bytes.Buffer
	d, err := diagnose.Run(t.Context(), q, o)
	if err != nil {
		fmt.Fprintln(&b, err)
	} else if err := report.JSON(&b, d, report.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Every recording is replayed from scrape to scrape, and every fifth of the repository's each 15 s
// where SIXTY_ACCURACY is not full: a diagnosis with the memory of those before is the one without it,
// to the byte.
func TestMemoryChangesNothing(t *testing.T) {
	var files []string
	patterns := []string{"../../testdata/recordings/*.tar.zst", "../../testdata/recordings/long/*.tar.zst"}
	full := os.Getenv("SIXTY_ACCURACY") == "full"
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		must.Succeed(t, err)
		files = append(files, found...)
	}
	if len(files) < 40 {
		t.Fatalf("%d recordings", len(files))
	}
	for i, file := range files {
		every := time.Second
		if !full {
			if every = 15 * time.Second; i%5 > 0 {
				continue
			}
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".tar.zst"), func(t *testing.T) {
			store, first, last := embeddedtest.Open(t, file, nil)
			pace, err := identity.ReadPace(t.Context(), store, nil, last)
			must.Succeed(t, err)
			o, memory := diagnose.Options{First: first, Interval: pace.Interval, Every: true}, diagnose.Memory{}
			for o.At = first; !o.At.After(last); o.At = o.At.Add(max(every, pace.Interval)) {
				o.Memory = nil
				want := inJSON(t, store, o)
				o.Memory = &memory
				if diff := gocmp.Diff(want, inJSON(t, store, o)); diff != "" {
					t.Fatalf("at %s, with a memory (-without +with):\n%s", o.At, diff)
				}
			}
		})
	}
}

// Nor does a memory change what is said of a fleet that lives for longer than scrapes are read one
// by one: servers restart, fail, leave and return, show a series late, are scraped for the first
// time, and their samples arrive late, or all at once after a time without any.
func TestMemoryOfAFleetThatLives(t *testing.T) {
	store := embeddedtest.New(t)
	const interval, scrapes = 10 * time.Second, 400
	began := time.Unix(1_800_000_003, 0).UTC()
	page := func(server string, n, of int) []byte { // the nth page of a process
		var b strings.Builder
		done, slow := 20*n, 0
		if server == "slow" && of > 250 {
			slow = 15 * (of - 250)
		}
		line := func(name, labels string, v int) {
			fmt.Fprintf(&b, "%s{model_name=\"m\",engine=\"0\"%s} %d\n", name, labels, v)
		}
		line("vllm:num_requests_running", "", 4+of%3)
		line("vllm:num_requests_waiting", "", slow/15)
		line("vllm:generation_tokens_total", "", 100*done)
		line("vllm:num_preemptions_total", "", slow)
		line("vllm:request_success_total", `,finished_reason="stop"`, done-1)
		if of > 200 {
			line("vllm:request_success_total", `,finished_reason="length"`, of/10)
		}
		for _, family := range []string{"vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds", "vllm:request_prompt_tokens", "vllm:request_generation_tokens"} {
			line(family+"_bucket", `,le="0.1"`, done-done/7-slow/2)
			if of > 150 {
				line(family+"_bucket", `,le="10"`, done-slow/3)
			}
			line(family+"_bucket", `,le="+Inf"`, done)
			line(family+"_sum", "", done/5+slow)
			line(family+"_count", "", done)
		}
		if of > 180 {
			fmt.Fprintf(&b, "http_requests_total{handler=\"/v1/chat/completions\",method=\"POST\",status=\"5xx\"} %d\n", of/9)
		}
		fmt.Fprintf(&b, "http_requests_total{handler=\"/v1/chat/completions\",method=\"POST\",status=\"2xx\"} %d\n", done)
		return []byte(b.String())
	}
	// What becomes of a scrape: when it arrives, in scrapes from then; never if that is negative.
	arrives := map[string]func(i int) int{
		"steady": func(int) int { return 0 }, "slow": func(int) int { return 0 }, "restarts": func(int) int { return 0 }, "fails": func(int) int { return 0 },
		"leaves":  func(i int) int { return -boolToInt(i > 150 && i < 230) },
		"misses":  func(i int) int { return -boolToInt(i%90 > 80) },
		"joins":   func(i int) int { return -boolToInt(i < 220) },
		"is late": func(i int) int { return i * i % 5 },
		"backlog": func(i int) int { return max(0, 170-i) * boolToInt(i > 130) },
	}
	var memory diagnose.Memory
	arriving, process, verdicts := map[int][]func(){}, map[string]int{}, map[string]bool{}
	for i := range scrapes {
		for k, server := range slices.Sorted(maps.Keys(arrives)) {
			process[server]++
			if server == "restarts" && i%130 == 100 {
				process[server] = 0
			}
			delay, text := arrives[server](i), page(server, process[server], i)
			at, target := began.Add(time.Duration(i)*interval+time.Duration(k)*time.Second), embedded.Target{Instance: server, Job: "vllm"}
			if delay < 0 {
				continue
			}
			arriving[i+delay] = append(arriving[i+delay], func() {
				if server == "fails" && i%120 > 110 {
					must.Succeed(t, store.AppendFailure(target, at))
				} else {
					embeddedtest.Append(t, store, target, at, string(text))
				}
			})
		}
		for _, arrive := range arriving[i] {
			arrive()
		}
		if i < 5 || i%4 > 0 && i%90 > 15 {
			continue
		}
		o := diagnose.Options{At: began.Add(time.Duration(i+1) * interval), First: began, Interval: interval, Every: true}
		if i > 300 && i < 350 { // as estimated: more is read one by one
			o.Interval += 3 * time.Second
		}
		want := inJSON(t, store, o)
		o.Memory = &memory
		if diff := gocmp.Diff(want, inJSON(t, store, o)); diff != "" {
			t.Fatalf("after %d scrapes, with a memory (-without +with):\n%s", i, diff)
		}
		id, _, _ := strings.Cut(want[strings.Index(want, `"id": "`)+7:], `"`)
		verdicts[id] = true
	}
	if len(verdicts) < 3 {
		t.Errorf("the verdicts are %v, want more", slices.Collect(maps.Keys(verdicts)))
	}
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestADeadServerIsKnown: one that died is known whenever the first look is, as soon as a
// minute later, and for as long as it is scraped in vain.
func TestADeadServerIsKnown(t *testing.T) {
	store := embeddedtest.New(t)
	const interval = 15 * time.Second
	began := time.Unix(1_800_000_000, 0).UTC()
	const page = "vllm:num_requests_running{model_name=\"m\",engine=\"0\"} 4\n"
	var memory diagnose.Memory
	looks := 0
	for i := range 5 * 60 * 2 {
		at := began.Add(time.Duration(i) * interval)
		for _, instance := range []string{"a:8000", "b:8000"} {
			target := embedded.Target{Instance: instance}
			if instance == "b:8000" && i >= 3 {
				must.Succeed(t, store.AppendFailure(target, at))
			} else {
				embeddedtest.Append(t, store, target, at, page)
			}
		}
		if i < 7 || i > 20 && i%20 > 0 {
			continue
		}
		// As a monitor looks, which was told of no server.
		pace, err := identity.ReadPace(t.Context(), store, nil, at)
		must.Succeed(t, err)
		for name, m := range map[string]*diagnose.Memory{"at first": {}, "again": &memory} {
			if name == "at first" && at.Sub(began) > 55*time.Minute {
				continue // nobody knows any more what was there
			}
			d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: at, First: pace.First, Interval: pace.Interval, Memory: m, Pathologies: pathologies.All(), Annotate: func(ts []identity.Target) {
				for i := range ts {
					ts[i].Failure = map[string]string{"b:8000": "connection refused"}[ts[i].Labels["instance"]]
				}
			}})
			must.Succeed(t, err)
			if !strings.HasSuffix(d.Verdict.Summary, "connection refused") {
				t.Fatalf("why it does not answer is not said: %s", d.Verdict.Summary)
			}
			if len(d.Targets) != 2 || d.Verdict.ID != "target-down" {
				t.Fatalf("%s, looked at %s: %d servers are known, want 2, and the verdict is %s", at.Sub(began), name, len(d.Targets), d.Verdict.ID)
			}
			looks++
		}
	}
	if looks < 50 {
		t.Fatalf("looked %d times", looks)
	}
}

// A server that was started again with another name for its model serves that one; the old name is no server that
// does not answer.
func TestARenamedModelIsGone(t *testing.T) {
	store, err := embedded.Open(embedded.Config{})
	must.Succeed(t, err)
	defer store.Close()
	at := time.Unix(1_700_000_000, 0)
	for n := range 40 {
		name := "old"
		if n >= 20 {
			name = "new"
		}
		page := fmt.Sprintf("vllm:num_requests_running{engine=\"0\",model_name=%q} 1\nvllm:num_requests_waiting{engine=\"0\",model_name=%q} 0\n"+
			"vllm:generation_tokens_total{engine=\"0\",model_name=%q} %d\nvllm:time_to_first_token_seconds_count{engine=\"0\",model_name=%q} %d\n", name, name, name, 900*(n%20), name, 10*(n%20))
		at = at.Add(15 * time.Second)
		_, err = store.Append(embedded.Target{Instance: "vllm-0:8000", Job: "vllm"}, at, []byte(page), "", 20*time.Millisecond)
		must.Succeed(t, err)
	}
	d, err := diagnose.Run(t.Context(), store, diagnose.Options{At: at, First: at.Add(-10 * time.Minute), Interval: 15 * time.Second, Every: true, Pathologies: pathologies.All()})
	must.Succeed(t, err)
	if len(d.Targets) != 1 || d.Targets[0].Labels["model_name"] != "new" || d.Verdict.ID == diagnose.InsufficientData {
		t.Errorf("%d targets, the first of %s: %s", len(d.Targets), d.Targets[0].Labels["model_name"], d.Verdict.Summary)
	}
	if !slices.ContainsFunc(d.Notes, func(n string) bool {
		return strings.HasPrefix(n, "no longer served where another model is now, last vllm-0:8000")
	}) {
		t.Errorf("notes %q", d.Notes)
	}
}
