package preview_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/generate/dashboard/preview"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/report"
)

var out = flag.String("out", "", "write the page of the test to this file")

func boards(t testing.TB) []dashboard.Dashboard {
	t.Helper()
	d, err := dialect.Named("vllm-0.23.0")
	if err != nil {
		t.Fatal(err)
	}
	ds, err := dashboard.Build(dashboard.Config{Pathologies: pathologies.All(), Deployment: dialect.Deployment{Dialects: []dialect.Dialect{d}}})
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

func loaded(t testing.TB, name string) (*embedded.Store, preview.Options) {
	t.Helper()
	store, first, last := embeddedtest.Open(t, "../../../../testdata/recordings/"+name+".tar.zst", nil)
	return store, preview.Options{From: first, To: last, Beginning: true, Interval: time.Second, Source: "the recording " + name}
}

var svg = regexp.MustCompile(`(?s)<svg.*?</svg>`)

func TestAPageOfARecordingIsWholeAndShowsItsNumbers(t *testing.T) {
	store, o := loaded(t, "thrashing-deep")
	p, err := preview.Fetch(t.Context(), store, boards(t), o)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.Document().HTML(&b); err != nil {
		t.Fatal(err)
	}
	again, err := preview.Fetch(t.Context(), store, boards(t), o)
	if err != nil {
		t.Fatal(err)
	}
	var same bytes.Buffer
	if err := again.Document().HTML(&same); err != nil || !bytes.Equal(b.Bytes(), same.Bytes()) {
		t.Errorf("a second time the page differs (%v)", err)
	}
	if *out != "" {
		if err := os.WriteFile(*out, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	drawn := svg.FindAllString(b.String(), -1)
	if len(drawn) < 55 {
		t.Errorf("%d charts", len(drawn))
	}
	for _, s := range drawn {
		dec := xml.NewDecoder(strings.NewReader(s))
		for {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("not well-formed: %v\n%.500s", err, s)
			}
		}
		if strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
			t.Errorf("a coordinate that is no number: %.300s", s)
		}
	}
	for _, want := range []string{
		"the recording thrashing-deep", "Start here", "KV cache usage",
		"No data because no GPU exporter", // which the recording has not
		`class="critical"`, `class="bar"`, ">P90 ",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
	if strings.Contains(b.String(), "ZgotmplZ") {
		t.Error("the template refused a value")
	}
}

// Three numbers that are below their thresholds are no comfort in an incident.
func TestAVerdictColoursTheTilesAndMarksItsOnset(t *testing.T) {
	store, o := loaded(t, "thrashing-deep")
	page := func(verdicts ...preview.Verdict) string {
		o.Verdicts = verdicts
		p, err := preview.Fetch(t.Context(), store, boards(t), o)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := p.Document().HTML(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	tile := regexp.MustCompile(`<tr><td>(?:TTFT P95|KV cache usage|Queue depth) [^<]*</td><td(?: class="(\w*)")?>`)
	classes := func(page string) (out []string) {
		for _, m := range tile.FindAllStringSubmatch(page, -1) {
			out = append(out, m[1])
		}
		return out
	}
	onset := o.To.Add(-time.Minute)
	sick := preview.Verdict{
		Answer: report.Answer{Verdict: &diagnose.Verdict{ID: "kv-cache-thrashing"}, Style: render.Bad, Head: "<it> thrashes", Text: "since then"},
		Onset:  onset, Bad: []*indicator.Signal{indicator.TTFTP50, indicator.WaitingFloor},
	}
	other := sick
	other.Verdict = &diagnose.Verdict{ID: "kv-cache-thrashing", Model: "another"}
	well := preview.Verdict{Answer: report.Answer{Verdict: &diagnose.Verdict{}, Style: render.Good, Head: "healthy"}}
	for name, tt := range map[string]struct {
		verdicts []preview.Verdict
		want     []string
	}{
		"the verdict rests on two of them":        {[]preview.Verdict{sick}, []string{"critical", "warning", "critical"}},
		"another model's verdict":                 {[]preview.Verdict{other}, []string{"", "warning", ""}},
		"a healthy one":                           {[]preview.Verdict{well}, []string{"good", "warning", "good"}},
		"none: a threshold alone is no all-clear": {nil, []string{"", "warning", ""}},
	} {
		if diff := cmp.Diff(tt.want, classes(page(tt.verdicts...))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	got := page(sick)
	if n, drawn := strings.Count(got, `class="onset"`), strings.Count(got, "<svg"); n != drawn {
		t.Errorf("the onset is in %d of %d charts", n, drawn)
	}
	if !strings.Contains(got, `<header class="banner critical"><h1>&lt;it&gt; thrashes</h1>`) {
		t.Error("no banner")
	}
	// What has no data takes a line, not a card.
	if !strings.Contains(got, "<b>GPU activity and GPU memory used:</b>") && !strings.Contains(got, "<b>GPU activity:</b>") {
		t.Error("panels without data are not collapsed")
	}
}

// A time is never negative: what is subtracted is of the same requests.
func TestNoTimeIsNegative(t *testing.T) {
	for _, name := range []string{"thrashing-deep", "prefill-starvation-deep", "saturation-long-prompts", "mass-cancel", "queue-timeouts", "full-but-quiet", "engine-hung", "prefix-churn"} {
		store, o := loaded(t, name)
		ds := boards(t)
		for i := range ds {
			for _, r := range ds[i].Rows {
				for _, p := range r.Panels {
					for _, s := range p.Series {
						if s.Unit != indicator.Seconds && s.Unit != indicator.SecondsPerToken {
							continue
						}
						m, err := store.QueryRange(t.Context(), anyValue.ReplaceAllString(strings.ReplaceAll(s.Expr, dashboard.RateInterval, "15s"), ".*"),
							metrics.Range{Start: o.From.Add(15 * time.Second), End: o.To, Step: time.Second})
						if err != nil {
							t.Fatal(err)
						}
						for _, stream := range m {
							for _, v := range stream.Values {
								if v.Value < 0 {
									t.Fatalf("%s, %s, panel %q: %g s at %s", name, ds[i].UID, p.Title, v.Value, v.Timestamp.Time())
								}
							}
						}
					}
				}
			}
		}
	}
}

var anyValue = regexp.MustCompile(`\$\w+`)

type failing struct{}

func (failing) Query(context.Context, string, time.Time) (model.Vector, error) {
	return nil, errors.New("refused")
}

func (failing) Evaluate(context.Context, indicator.Expr, time.Time) (model.Vector, error) {
	return nil, errors.New("refused")
}

func (failing) Samples(context.Context, string, time.Time, time.Duration) (model.Matrix, error) {
	return nil, errors.New("refused")
}

func (failing) QueryRange(context.Context, string, metrics.Range) (model.Matrix, error) {
	return nil, errors.New("refused")
}

func TestErrorsAreTold(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	if _, err := preview.Fetch(t.Context(), failing{}, boards(t), preview.Options{From: now, To: now.Add(time.Minute)}); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a backend that refuses: %v", err)
	}
	if _, err := preview.Fetch(t.Context(), failing{}, boards(t), preview.Options{From: now, To: now}); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("no time: %v", err)
	}
}

// Labels come from strangers.
type hostile struct{}

func (hostile) Query(context.Context, string, time.Time) (model.Vector, error) { return nil, nil }

func (h hostile) Evaluate(ctx context.Context, e indicator.Expr, at time.Time) (model.Vector, error) {
	return h.Query(ctx, e.String(), at)
}

func (hostile) Samples(context.Context, string, time.Time, time.Duration) (model.Matrix, error) {
	return nil, nil
}

func (hostile) QueryRange(_ context.Context, _ string, r metrics.Range) (model.Matrix, error) {
	s := model.SampleStream{Metric: model.Metric{"model_name": `<script>alert("x")</script>`, "instance": `"><img src=x>`, "le": "7", "status": "<b>"}}
	for at := r.Start; !at.After(r.End); at = at.Add(r.Step) {
		s.Values = append(s.Values, model.SamplePair{Timestamp: model.TimeFromUnixNano(at.UnixNano()), Value: 1})
	}
	return model.Matrix{&s}, nil
}

func TestLabelsAreEscaped(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	p, err := preview.Fetch(t.Context(), hostile{}, boards(t), preview.Options{From: now, To: now.Add(time.Hour), Source: "<i>"})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.Document().HTML(&b); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "<img", "<b>200", "<i>,"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("%s is in the page", bad)
		}
	}
}
