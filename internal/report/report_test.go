package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/render"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var examples = map[string]func() diagnose.Diagnosis{
	"firing": firing, "healthy": healthy, "idle": idle, "uncertain": uncertain, "unknown": unknown, "fleet": fleet, "company": company,
}

// Screens are diagnoses whose short answers must fit a screen.
func Screens() map[string]func() diagnose.Diagnosis {
	all := maps.Clone(examples)
	all["crowded"] = crowded
	return all
}

func rendered(t *testing.T, format func(*bytes.Buffer) error) string {
	t.Helper()
	var b bytes.Buffer
	must.Succeed(t, format(&b))
	return b.String()
}

func TestGolden(t *testing.T) {
	for name, example := range examples {
		for file, format := range map[string]func(*bytes.Buffer) error{
			name + ".txt":      func(b *bytes.Buffer) error { return Text(b, example(), Options{Commands: true}) },
			name + ".full.txt": func(b *bytes.Buffer) error { return Text(b, example(), Options{Full: true}) },
			name + ".md":       func(b *bytes.Buffer) error { return Markdown(b, example(), Options{}) },
			name + ".json":     func(b *bytes.Buffer) error { return JSON(b, example(), Options{}) },
		} {
			t.Run(file, func(t *testing.T) {
				got := rendered(t, format)
				path := filepath.Join("testdata", file)
				if *update {
					must.Succeed(t, os.WriteFile(path, []byte(got), 0o644))
				}
				want := must.ReadFile(t, path)
				if diff := cmp.Diff(string(want), got); diff != "" {
					t.Errorf("-want +got (go test -update accepts it):\n%s", diff)
				}
			})
		}
	}
}

func TestTextFitsTheTerminal(t *testing.T) {
	for name, example := range examples {
		for _, full := range []bool{false, true} {
			for _, width := range []int{60, 80, 100, 160} {
				got := rendered(t, func(b *bytes.Buffer) error {
					return Text(b, example(), Options{Options: render.Options{Width: width}, Full: full, Commands: true})
				})
				for line := range strings.Lines(got) {
					if n := render.Cells(strings.TrimSuffix(line, "\n")); n > width {
						t.Errorf("%s at width %d has a line of %d: %s", name, width, n, line)
					}
				}
			}
		}
	}
}

// crowded returns a diagnosis with more text than a screen holds.
func crowded() diagnose.Diagnosis {
	d := company()
	long := strings.Repeat("far too long to be read at night ", 20)
	for i := range 40 {
		v := d.Verdicts[1]
		v.Model = fmt.Sprintf("a/model-of-which-there-are-many-and-whose-name-is-long-%d", i)
		d.Verdicts = append(d.Verdicts, v)
		d.Notes = append(d.Notes, fmt.Sprintf("remark %d: %s", i, long))
		t := server(fmt.Sprintf("https://vllm-%d.some-namespace.svc.cluster.local.example.com:8000/a/path/that/is/long", i))
		d.Targets, d.Verdict.Targets = append(d.Targets, t), append(d.Verdict.Targets, t.Name)
	}
	d.Verdict.Summary += ": " + long
	for i := range d.Findings {
		f := &d.Findings[i]
		f.Targets = append(f.Targets, d.Verdict.Targets...)
		for k := range f.Fixes {
			x := &f.Fixes[k]
			x.Summary += ": " + long
			x.Verify += long
			for n := range 12 {
				x.Changes = append(x.Changes, catalog.Change{Flag: fmt.Sprintf("--some-long-option-%d", n), To: "some-long-value"})
			}
			if x.Predicted != nil {
				x.Predicted.Caveats = append(x.Predicted.Caveats, long)
			}
		}
	}
	return d
}

func TestShortKeepsWhatCastsDoubt(t *testing.T) {
	d := company()
	d.Notes = append(d.Notes, "partial: 3 queries had no answer in time; checks that need them are unknown")
	got := rendered(t, func(b *bytes.Buffer) error { return Text(b, d, Options{}) })
	for _, want := range []string{"partial: 3 queries had no answer", "2 of 6 targets not judged"} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
}

func TestColorChangesNothingButColor(t *testing.T) {
	for name, example := range examples {
		plain := rendered(t, func(b *bytes.Buffer) error { return Text(b, example(), Options{}) })
		colored := rendered(t, func(b *bytes.Buffer) error { return Text(b, example(), Options{Options: render.Options{Color: true}}) })
		if strings.Contains(plain, "\x1b") {
			t.Errorf("%s without colour holds an escape sequence", name)
		}
		if !strings.Contains(colored, "\x1b[") {
			t.Errorf("%s with colour holds none", name)
		}
		if diff := cmp.Diff(plain, ansi.Strip(colored)); diff != "" {
			t.Errorf("%s: -plain +coloured:\n%s", name, diff)
		}
	}
}

func TestForeignTextCannotControlTheTerminalOrTheMarkup(t *testing.T) {
	text := rendered(t, func(b *bytes.Buffer) error { return Text(b, fleet(), Options{Full: true}) })
	if strings.ContainsRune(text, '\x1b') {
		t.Error("an escape sequence of a label reached the terminal")
	}
	md := rendered(t, func(b *bytes.Buffer) error { return Markdown(b, fleet(), Options{}) })
	if strings.Contains(md, "<b>") || strings.ContainsRune(md, '\x1b') {
		t.Error("markup of a label reached the Markdown")
	}
}

// mayBeNull lists the fields of the JSON that may be null; slices never are.
var mayBeNull = map[string]bool{
	"benefit": true, "onset": true, "window_from": true, "normal": true,
	"since": true, "dated_by": true, "from": true, "to": true, "value": true, "value_bound": true, "baseline": true, "threshold": true, "holds": true,
	"ruled_out_by": true, "inhibited_by": true, "predicted": true, "reason": true, "measured": true, "share_of_ttft_change": true, "share_of_output_change": true, "confidence": true, "severity": true,
}

func TestJSONHoldsNullOnlyWhereDocumented(t *testing.T) {
	for name, example := range examples {
		got := rendered(t, func(b *bytes.Buffer) error { return JSON(b, example(), Options{}) })
		var v any
		if err := json.Unmarshal([]byte(got), &v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		walk(v, "", func(field string, v any) {
			if v == nil && !mayBeNull[field] {
				t.Errorf("%s: %q is null", name, field)
			}
		})
	}
	got := rendered(t, func(b *bytes.Buffer) error { return JSON(b, diagnose.Diagnosis{}, Options{}) })
	for _, field := range []string{"findings", "coverage", "targets", "notes", "factors"} {
		if !strings.Contains(got, `"`+field+`": []`) {
			t.Errorf("%q of an empty diagnosis is no empty list:\n%s", field, got)
		}
	}
}

func TestTheJSONHoldsThePlotsThatThePageDraws(t *testing.T) {
	var v struct {
		Plots []struct {
			Signal, Onset, Op        string
			Threshold, Value, Normal float64
			Evidence                 bool
			Lines                    []struct {
				Name   string
				Points [][2]*float64
			}
		}
	}
	d := plotted(firing(), "vllm-0:8000", "vllm-1:8000")
	must.Succeed(t, json.Unmarshal([]byte(rendered(t, func(b *bytes.Buffer) error { return JSON(b, d, Options{}) })), &v))
	if len(v.Plots) != 1 || len(v.Plots[0].Lines) != 2 {
		t.Fatalf("plots %+v, want one of two lines", v.Plots)
	}
	p := v.Plots[0]
	if p.Signal != "ttft_p50" || p.Onset != "2026-03-14T03:11:10.250Z" || p.Op != ">" || p.Threshold != 0.27 || p.Value != 11.2 || p.Normal != 0.11 || !p.Evidence {
		t.Errorf("plot %+v", p)
	}
	if points := p.Lines[0].Points; len(points) != 61 || *points[0][1] != 600 || points[3][1] != nil {
		t.Errorf("points %v, want 61, the fourth without a value", points)
	}
}

func TestEveryFieldOfTheJSONIsDocumented(t *testing.T) {
	var doc []byte
	for _, page := range []string{"json.md", "json-findings.md", "json-parts.md"} {
		text := must.ReadFile(t, "../../docs/"+page)
		doc = append(doc, text...)
	}
	var v any
	must.Succeed(t, json.Unmarshal([]byte(rendered(t, func(b *bytes.Buffer) error { return JSON(b, plotted(firing(), "vllm-0:8000"), Options{}) })), &v))
	walk(v, "", func(field string, _ any) {
		if field != "max-num-seqs" && field != "block-size" && !bytes.Contains(doc, []byte("`"+field+"`")) {
			t.Errorf("docs/json.md and its parts do not mention %q", field)
		}
	})
}

func walk(v any, field string, visit func(field string, v any)) {
	if field != "" {
		visit(field, v)
	}
	switch v := v.(type) {
	case map[string]any:
		for k, sub := range v {
			walk(sub, k, visit)
		}
	case []any:
		for _, sub := range v {
			walk(sub, "", visit)
		}
	}
}

func TestNumbersThatJSONLacksAreNull(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if b, err := json.Marshal(render.Finite(v)); err != nil || string(b) != "null" {
			t.Errorf("%v is written as %s, %v", v, b, err)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errClosed }

var errClosed = errors.New("closed")

func TestErrorsOfTheWriterAreReturned(t *testing.T) {
	for name, err := range map[string]error{
		"text": Text(brokenPipe{}, firing(), Options{}), "Markdown": Markdown(brokenPipe{}, firing(), Options{}), "JSON": JSON(brokenPipe{}, firing(), Options{}),
	} {
		if !errors.Is(err, errClosed) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyWhatDiffersIsCalledDifferent(t *testing.T) {
	of := func(now float64) string {
		w := diagnose.Workload{Known: true, Factors: []diagnose.Factor{
			{Signal: indicator.FirstTokenRate, Name: "request_rate", Value: 1.01, Baseline: 1, ShareOfTTFTChange: -1, ShareOfOutputChange: -1},
			{Signal: indicator.ITLMean, Name: "decode_step_time", Value: now, Baseline: 0.01, ShareOfTTFTChange: -1, ShareOfOutputChange: -1},
		}}
		intro, _ := changes(&diagnose.Diagnosis{}, &w, true)
		return intro
	}
	if got, want := of(0.0103), "The traffic and the server are as normal."; got != want {
		t.Errorf("3 %% slower: %q, want %q", got, want)
	}
	if got, want := of(0.03), "The traffic is normal; the server behaves differently."; got != want {
		t.Errorf("three times as slow: %q, want %q", got, want)
	}
}
