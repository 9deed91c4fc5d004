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

	"github.com/prometheus/common/model"

	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/generate/dashboard/preview"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/embedded/embeddedtest"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

var out = flag.String("out", "", "write the page of the test to this file")

func boards(t testing.TB) []dashboard.Dashboard {
	t.Helper()
	d, err := dialect.Named("vllm-0.23.0")
	if err != nil {
		t.Fatal(err)
	}
	ds, err := dashboard.Build(dashboard.Config{Pathologies: pathologies.All(), Deployment: generate.Deployment{Dialects: []dialect.Dialect{d}}})
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
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	again, err := preview.Fetch(t.Context(), store, boards(t), o)
	if err != nil {
		t.Fatal(err)
	}
	var same bytes.Buffer
	if err := again.Write(&same); err != nil || !bytes.Equal(b.Bytes(), same.Bytes()) {
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
		`class="critical"`, `class="cell"`, `class="bar"`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
	if strings.Contains(b.String(), "ZgotmplZ") {
		t.Error("the template refused a value")
	}
}

type failing struct{}

func (failing) Query(context.Context, string, time.Time) (model.Vector, error) {
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
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "<img", "<b>200", "<i>,"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("%s is in the page", bad)
		}
	}
}
