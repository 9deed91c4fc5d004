package health_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/monitor/health"
	"github.com/sixty-dev/sixty/internal/monitor/health/healthreport"
	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/render"
)

var (
	began = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	end   = began.Add(2 * time.Hour)
)

const every = 15 * time.Second

// play stores two hours of two replicas of a model, and of a GPU exporter beside the first.
// In the second hour each replica serves two requests a second, half as many in the first; a
// first token takes 0.25 to 0.5 s, and 0.5 to 1 s in the last half hour; one request in ten
// fails in the second hour, and none before. Both replicas hold one request, and the second
// one waits with three.
func play(t *testing.T, modelName string) *embedded.Store {
	t.Helper()
	return playPages(t, modelName, func(page string) string { return page })
}

// playPages plays the same, with the pages of the servers as a function makes them.
func playPages(t *testing.T, modelName string, paged func(string) string) *embedded.Store {
	t.Helper()
	store := embeddedtest.New(t)
	name := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(modelName)
	for k, instance := range []string{"10.0.0.1:8000", "10.0.0.2:8000"} {
		quick, slow, failed := 0, 0, 0
		for i := 0; i <= int(2*time.Hour/every); i++ {
			at := began.Add(time.Duration(i) * every)
			n := 15
			if at.After(began.Add(time.Hour)) {
				n = 30
				failed += 3
			}
			if at.After(end.Add(-30 * time.Minute)) {
				slow += n
			} else {
				quick += n
			}
			all := quick + slow
			page := fmt.Sprintf(`# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{model_name="%[1]s",le="0.25"} 0
vllm:time_to_first_token_seconds_bucket{model_name="%[1]s",le="0.5"} %[2]d
vllm:time_to_first_token_seconds_bucket{model_name="%[1]s",le="1"} %[3]d
vllm:time_to_first_token_seconds_bucket{model_name="%[1]s",le="+Inf"} %[3]d
vllm:time_to_first_token_seconds_sum{model_name="%[1]s"} %[3]d
vllm:time_to_first_token_seconds_count{model_name="%[1]s"} %[3]d
# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{model_name="%[1]s"} %[4]d
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{model_name="%[1]s"} %[5]d
vllm:num_requests_running{model_name="%[1]s"} 1
vllm:num_requests_waiting{model_name="%[1]s"} %[6]d
vllm:kv_cache_usage_perc{model_name="%[1]s"} 0.5
# TYPE http_requests counter
http_requests_total{handler="/v1/completions",method="POST",status="2xx"} %[3]d
http_requests_total{handler="/v1/completions",method="POST",status="5xx"} %[7]d
`, name, quick, all, 100*all, 50*all, 3*k, failed)
			embeddedtest.Append(t, store, embedded.Target{Instance: instance}, at, paged(page))
		}
	}
	for i := 0; i <= int(2*time.Hour/every); i++ {
		at := began.Add(time.Duration(i) * every)
		page := "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 80\nDCGM_FI_DEV_FB_USED{gpu=\"0\"} 60\nDCGM_FI_DEV_FB_FREE{gpu=\"0\"} 20\n"
		embeddedtest.Append(t, store, embedded.Target{Instance: "10.0.0.1:9400"}, at, page)
	}
	return store
}

func measure(t *testing.T, store *embedded.Store, c health.Config) *health.Report {
	t.Helper()
	c.From, c.To, c.Interval = end.Add(-time.Hour), end, every
	d, err := diagnose.Run(t.Context(), store, diagnose.Options{
		At: end, First: began, Interval: every, Pathologies: pathologies.All(), Settings: c.Settings})
	must.Succeed(t, err)
	c.Now = told(&d)
	r, err := health.Measure(t.Context(), store, c)
	must.Succeed(t, err)
	return r
}

// told are the models of a diagnosis as a monitor's overview has them.
func told(d *diagnose.Diagnosis) []view.Model {
	return monitor.NewOverview(&monitor.Evaluation{At: end, Diagnosis: *d}, every, end, nil, nil).Models
}

func row(t *testing.T, r *health.Report, area, id string) health.Row {
	t.Helper()
	for _, a := range r.Models[0].Areas {
		for _, w := range a.Rows {
			if a.ID == area && w.ID == id {
				return w
			}
		}
	}
	t.Fatalf("no row %s in %s", id, area)
	return health.Row{}
}

func near(v *float64, want float64) bool {
	return v != nil && math.Abs(*v-want) <= 0.02*math.Abs(want)+1e-9
}

func value(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprint(*v)
}

func TestMeasure(t *testing.T) {
	store := play(t, "m")
	file, err := slo.Parse("slo.yaml", []byte("objectives:\n- ttft_p95: 500ms\n"))
	must.Succeed(t, err)
	r := measure(t, store, health.Config{Settings: diagnose.Settings{Objectives: file}})
	if len(r.Models) != 1 || r.Models[0].Replicas != 2 || len(r.Models[0].Areas) != 7 {
		t.Fatalf("got %+v", r)
	}
	unknown := math.NaN()
	for _, tc := range []struct {
		area, id     string
		value, worst float64
	}{
		// Half of the second hour's are in the first bucket, half in the second: the 95th is
		// nine tenths into the latter.
		{"user-experience", "ttft_p95", 0.95, 0.975},
		{"user-experience", "ttft_p50", 0.5, 0.75},
		{"offered-load", "first_tokens", 14400, unknown},
		{"offered-load", "first_token_rate", 4, 4},
		{"offered-load", "http_5xx", 1440, unknown},
		{"offered-load", "http_5xx_share", 1. / 11, unknown},
		{"scheduler", "waiting", 3, 3},
		{"scheduler", "running", 2, 2},
		{"memory", "kv_cache_usage", 0.5, 0.5},
		{"work", "prompt_token_rate", 400, unknown},
		{"work", "generation_token_rate", 200, unknown},
		{"infrastructure", "up", 1, 1},
		{"infrastructure", "restarts", 0, 0},
		{"infrastructure", "gpu_utilization", 0.8, 0.8},
		{"infrastructure", "gpu_memory_used", 0.75, 0.75},
	} {
		w := row(t, r, tc.area, tc.id)
		if !near(w.Value, tc.value) || !math.IsNaN(tc.worst) && !near(w.Worst, tc.worst) {
			t.Errorf("%s: %s, worst %s: %s; want %g, worst %g", tc.id, value(w.Value), value(w.Worst), w.Reason,
				tc.value, tc.worst)
		}
	}
	if w := row(t, r, "user-experience", "ttft_p95"); !near(w.Limit, 0.5) || !near(w.Kept, 0.5) {
		t.Errorf("kept %s of the time to %s, want half of it to 0.5", value(w.Kept), value(w.Limit))
	}
	if w := row(t, r, "scheduler", "queue_time_p95"); w.Value != nil || !strings.Contains(w.Reason, "not exposed") {
		t.Errorf("got %+v of what is not exposed", w)
	}
	n := r.Models[0].Now
	if !near(n.KVCacheUtilization, 0.5) || !near(n.QueueDepth, 3) || !near(n.ActiveSequences, 2) ||
		!near(n.GPUUtilization, 0.8) {
		t.Errorf("now %s, %s, %s, %s", value(n.KVCacheUtilization), value(n.QueueDepth), value(n.ActiveSequences),
			value(n.GPUUtilization))
	}
	if r.Status != view.HealthFailing || r.Models[0].Status != view.HealthFailing {
		t.Errorf("status %s while one request in eleven fails", r.Status)
	}
}

func TestTooShortAndInterrupted(t *testing.T) {
	store := play(t, "m")
	if _, err := health.Measure(t.Context(), store, health.Config{
		From: end.Add(-30 * time.Second), To: end, Interval: every}); err == nil {
		t.Error("no error for two scrapes")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := health.Measure(ctx, store, health.Config{
		From: end.Add(-time.Hour), To: end, Interval: every}); err == nil {
		t.Error("no error though it was interrupted")
	}
}

// TestReports writes the report in every form, of a model with a hostile name.
func TestReports(t *testing.T) {
	const hostile = "<script>alert(1)</script>|`x`\x1b[31m"
	r := measure(t, play(t, hostile), health.Config{Incidents: []view.Summary{{
		ID: "2026-03-02-0930-http-errors", Pathology: "http-errors", Severity: "page", Model: hostile,
		Began: end.Add(-30 * time.Minute), Targets: []string{"a"},
		Acknowledged: &view.Acknowledgement{By: "<b>ann</b>", At: end},
		Notes:        []view.Note{{By: "ann", Text: "rolled <i>back</i>\x1b[2J"}},
	}}})
	var text, full, md, page, js bytes.Buffer
	d := healthreport.Document(r)
	for _, err := range []error{
		d.Text(&text, render.Options{}, false), d.Text(&full, render.Options{}, true),
		d.Markdown(&md), d.HTML(&page), render.JSON(&js, r),
	} {
		must.Succeed(t, err)
	}
	for name, b := range map[string]*bytes.Buffer{"text": &text, "full": &full, "Markdown": &md, "HTML": &page} {
		for _, want := range []string{"User experience", "Infrastructure", "http-errors"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("the %s lacks %q", name, want)
			}
		}
		if strings.Contains(b.String(), "\x1b") {
			t.Errorf("the %s hands an escape sequence on", name)
		}
		if name != "text" && name != "full" && (strings.Contains(b.String(), "<script") ||
			strings.Contains(b.String(), "<b>ann") || strings.Contains(b.String(), "<i>back")) {
			t.Errorf("the %s hands markup on", name)
		}
	}
	for name, b := range map[string]*bytes.Buffer{"text": &text, "full": &full} {
		for line := range strings.Lines(b.String()) {
			if n := render.Cells(strings.TrimRight(line, "\n")); n > render.DefaultWidth {
				t.Errorf("the %s has a line of %d columns: %s", name, n, line)
			}
		}
	}
	var v struct {
		Schema string
		Models []struct{ Areas []struct{ ID string } }
	}
	if err := json.Unmarshal(js.Bytes(), &v); err != nil || v.Schema != health.Schema || len(v.Models[0].Areas) != 7 ||
		bytes.Contains(js.Bytes(), []byte(`"rows": null`)) {
		t.Errorf("JSON: %v, %+v", err, v)
	}
}

// TestAPromiseThatIsNotKnownIsTold: of what was promised and cannot be measured, every form says that it is unknown.
func TestAPromiseThatIsNotKnownIsTold(t *testing.T) {
	promised := &slo.File{Objectives: []slo.Objective{{
		TTFTP95: 500 * time.Millisecond, ITLP95: 50 * time.Millisecond, E2EP95: 10 * time.Second}}}
	r := measure(t, play(t, "m"), health.Config{Settings: diagnose.Settings{Objectives: promised}})
	var text, full, md, page bytes.Buffer
	d := healthreport.Document(r)
	for _, err := range []error{d.Text(&text, render.Options{}, false), d.Text(&full, render.Options{}, true),
		d.Markdown(&md), d.HTML(&page)} {
		must.Succeed(t, err)
	}
	for _, id := range []string{"itl_p95", "e2e_p95"} {
		w := row(t, r, "user-experience", id)
		if w.Value != nil || w.Limit == nil {
			t.Errorf("%s is %s, promised %s", id, value(w.Value), value(w.Limit))
		}
		_, unknown, _ := strings.Cut(strings.Join(strings.Fields(text.String()), " "), " Unknown ")
		if want := w.Title + " (objective " + w.Number(w.Limit) + ")"; !strings.Contains(unknown, want) {
			t.Errorf("the text lacks %q:\n%s", want, &text)
		}
		for name, b := range map[string]*bytes.Buffer{"full": &full, "Markdown": &md, "HTML": &page} {
			if _, after, _ := strings.Cut(b.String(), "objective "+w.Number(w.Limit)); !strings.Contains(b.String(),
				w.Title) || after == "" || !strings.Contains(b.String(), "unknown: ") {
				t.Errorf("the %s does not say that %s is unknown", name, w.Title)
			}
		}
	}
}

// TestModelsApart: what is of a server's process or of its GPUs belongs to the model that it serves.
func TestModelsApart(t *testing.T) {
	store := embeddedtest.New(t)
	for i := 0; i <= int(2*time.Hour/every); i++ {
		at := began.Add(time.Duration(i) * every)
		for k, name := range []string{"a", "b"} {
			host := fmt.Sprintf("10.0.0.%d", k+1)
			for instance, page := range map[string]string{
				host + ":8000": fmt.Sprintf("# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total{model_name=%q} %d\nvllm:num_requests_running{model_name=%q} %d\nprocess_resident_memory_bytes %d\n", name, i, name, k+1, 100*(k+1)),
				host + ":9400": fmt.Sprintf("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} %d\n", 40*(k+1)),
			} {
				embeddedtest.Append(t, store, embedded.Target{Instance: instance}, at, page)
			}
		}
	}
	r := measure(t, store, health.Config{})
	for k, m := range r.Models {
		got := map[string]float64{}
		for _, a := range m.Areas {
			for _, w := range a.Rows {
				if w.Value != nil {
					got[w.ID] = *w.Value
				}
			}
		}
		n := float64(k + 1)
		if m.Model != string(rune('a'+k)) || got["running"] != n || got["resident_memory"] != 100*n ||
			!near(m.Now.GPUUtilization, 0.4*n) || got["up"] != 1 || m.Cost.GPUHours == nil ||
			!near(m.Cost.GPUHours, 1) {
			t.Errorf("model %d, %s: %v, now %s, %s GPU hours", k, m.Model, got, value(m.Now.GPUUtilization),
				value(m.Cost.GPUHours))
		}
	}
	if len(r.Models) != 2 {
		t.Errorf("%d models", len(r.Models))
	}
}

// TestWhatIsNotCertainIsNoHealth: the status, the model's and the sentence say so.
func TestWhatIsNotCertainIsNoHealth(t *testing.T) {
	v := diagnose.Verdict{ID: diagnose.NotCertain, Status: diagnose.Pending,
		Summary: "Not certain yet: 14 requests wait, and nobody got a first token for 20 s on a"}
	r, err := health.Measure(t.Context(), play(t, "m"), health.Config{
		From: end.Add(-10 * time.Minute), To: end, Interval: every,
		Now: told(&diagnose.Diagnosis{Status: v.Status, Verdict: v, Verdicts: []diagnose.Verdict{v}}),
	})
	must.Succeed(t, err)
	const want = "Not certain at the end: 14 requests wait, and nobody got a first token for 20 s on a"
	if r.Status != view.HealthUncertain || r.Models[0].Status != view.HealthUncertain ||
		r.Models[0].Verdict != diagnose.NotCertain || !strings.HasPrefix(r.Summary, want) {
		t.Errorf("status %s, model %s, %q; want %q", r.Status, r.Models[0].Status, r.Summary, want)
	}
}

// TestImpactWithoutAPastCountsNobodyAsSlow: where nothing is promised and nothing was before, nothing is known to be
// slow.
func TestImpactWithoutAPastCountsNobodyAsSlow(t *testing.T) {
	i, err := health.Impact(t.Context(), playPages(t, "m", withStreams("inter_token_latency")),
		health.Config{From: end.Add(-24 * time.Hour), To: end, Interval: every}, view.Summary{Model: "m"})
	must.Succeed(t, err)
	if i == nil || i.Slow != nil || i.Failed == 0 {
		t.Errorf("%+v", i)
	}
	if _, err := json.Marshal(i); err != nil {
		t.Error(err)
	}
}

// TestImpactCountsWhoIsHurt: of the last half hour all first tokens are late and a third of the answers come slowly,
// and one request in eleven of the hour failed.
func TestImpactCountsWhoIsHurt(t *testing.T) {
	promised := func(o slo.Objective) *slo.File { return &slo.File{Objectives: []slo.Objective{o}} }
	const month = 30 * 24 * 7200 // requests, as in the hour before
	for name, tc := range map[string]struct {
		of         string
		objectives *slo.File
		page       func(string) string // of the servers, where it is another one
		want       string
		share      float64 // of the month's budget; 0 for none
	}{
		"late": {"m", promised(slo.Objective{TTFTP95: 500 * time.Millisecond}), nil,
			"7230 of 15840 requests late, 1440 failed in 60 min", 7200 / (0.05 * month)},
		"failed": {"m", promised(slo.Objective{Availability: 0.99}), nil,
			"1440 of 15840 requests failed in 60 min", 1440 / (0.01 * month)},
		"nothing set": {"m", nil, nil, "1440 of 15840 requests failed in 60 min", 0},
		"slow answers": {"m", promised(slo.Objective{ITLP95: 50 * time.Millisecond}),
			withStreams("request_time_per_output_token"),
			"1440 of 15840 requests failed, 2410 of 14400 answers slow in 60 min", 0},
		"slow tokens": {"m", promised(slo.Objective{ITLP95: 50 * time.Millisecond}),
			withStreams("inter_token_latency"), "1440 of 15840 requests failed, 2410 of 14400 tokens slow in 60 min",
			0},
		"slower by twice": {"m", nil, withStreams("inter_token_latency"),
			"1440 of 15840 requests failed, 2410 of 14400 tokens slow in 60 min", 0},
		"no tokens":     {"m", nil, withoutTokens, "485 of 16325 requests late, 1440 failed in 60 min", 0},
		"another model": {"other", nil, nil, "", 0},
	} {
		if tc.page == nil {
			tc.page = func(page string) string { return page }
		}
		i, err := health.Impact(t.Context(), playPages(t, "m", tc.page),
			health.Config{From: end.Add(-time.Hour), To: end, Interval: every,
				Settings: diagnose.Settings{Objectives: tc.objectives}}, view.Summary{Model: tc.of})
		must.Succeed(t, err)
		switch {
		case tc.want == "":
			if i != nil {
				t.Errorf("%s: %+v, want nothing", name, i)
			}
		case i == nil || !strings.HasPrefix(i.Text, tc.want) || strings.Contains(i.Text, "budget") != (tc.share > 0):
			t.Errorf("%s: %+v, want %q", name, i, tc.want)
		case (i.BudgetShare == nil) != (tc.share == 0) || tc.share > 0 && !near(i.BudgetShare, tc.share):
			t.Errorf("%s: %s of the budget, want %.3g", name, value(i.BudgetShare), tc.share)
		}
	}
}

// withoutTokens is a page of an engine that makes no tokens, whose clients come and wait: one each scrape of the last
// hour.
func withoutTokens(page string) string {
	_, rest, _ := strings.Cut(page, `count{model_name="m"} `)
	n := 0
	fmt.Sscan(rest, &n)
	before, _, _ := strings.Cut(page, "vllm:generation_tokens_total")
	_, after, _ := strings.Cut(page, "vllm:num_requests_running")
	return fmt.Sprintf("%svllm:generation_tokens_total{model_name=\"m\"} 1000\nvllm:num_requests_running%sprocess_open_fds %d\n", before, after, 40+max(0, n-3600)/30)
}

// withStreams adds to a page a histogram of vLLM's whose observations are all the page's first tokens: 20 ms, and a
// third of those that are late 60 ms.
func withStreams(family string) func(string) string {
	return func(page string) string {
		counted := func(le string) (n int) {
			_, rest, _ := strings.Cut(page, fmt.Sprintf(`le="%s"} `, le))
			fmt.Sscan(rest, &n)
			return n
		}
		all, late := counted("+Inf"), counted("+Inf")-counted("0.5")
		for le, n := range map[string]int{"0.025": all - late/3, "0.05": all - late/3, "0.075": all, "+Inf": all} {
			page += fmt.Sprintf("vllm:%s_seconds_bucket{model_name=\"m\",le=\"%s\"} %d\n", family, le, n)
		}
		return page + fmt.Sprintf(
			"vllm:%[1]s_seconds_sum{model_name=\"m\"} %[2]d\nvllm:%[1]s_seconds_count{model_name=\"m\"} %[2]d\n",
			family, all)
	}
}
