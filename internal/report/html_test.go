package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
)

// plotted gives a diagnosis a plot of its verdict.
func plotted(d diagnose.Diagnosis, targets ...string) diagnose.Diagnosis {
	p := diagnose.Plot{
		Signal: indicator.TTFTP50, Over: 15 * time.Second, Now: indicator.Known(11.2), Normal: indicator.Known(0.11), Promised: math.NaN(),
		Window: d.Window, Baseline: d.Baseline,
	}
	for _, name := range targets {
		l := diagnose.Line{Target: name}
		for ago := 10 * time.Minute; ago >= 0; ago -= 10 * time.Second {
			l.At, l.Value = append(l.At, at.Add(-ago)), append(l.Value, ago.Seconds())
		}
		l.Value[3] = math.NaN()
		p.Lines = append(p.Lines, l)
	}
	d.Verdict.Plots = []diagnose.Plot{p}
	d.Verdicts[0].Plots = d.Verdict.Plots
	return d
}

func page(t *testing.T, d diagnose.Diagnosis) string {
	t.Helper()
	return rendered(t, func(b *bytes.Buffer) error { return HTML(b, d, Options{}) })
}

var svg = regexp.MustCompile(`(?s)<svg.*?</svg>`)

func TestThePageSaysWhatTheTextSays(t *testing.T) {
	got := page(t, plotted(firing(), "vllm-0:8000", "vllm-1:8000"))
	for _, want := range []string{
		`<header class="banner critical"><h1>KV cache thrashing (page, high confidence)</h1>`, "since 03:11:10 UTC", "Diagnosed at 2026-03-14 03:12:40 UTC",
		"<pre>--max-num-seqs 41</pre>", "replaces", "Predicted: TTFT P95", "<b>Cost:</b> Requests wait", "<b>Confirm:</b> Preemptions per request",
		"Or: Give the cache more memory.", "÷ 2,097 tokens a request at its end",
		"normal 110 ms", "threshold &gt; 270 ms", `class="onset"`, ">since 03:11:10<", "Coloured: vllm-0:8000; grey: vllm-1:8000.", "Each point covers the 15 s before it",
		"What changed", "Prompt tokens per request", "Each eviction throws away", "Explained by<span class=\"\"> kv-cache-thrashing", "Also firing", "Ruled out",
		"Not checked<", "<li>gpu-throttling, gpu-hardware-errors", "max-num-seqs = 256 (--engine-args)", "Written by sixty",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	drawn := svg.FindAllString(got, -1)
	if len(drawn) != 1 {
		t.Fatalf("%d charts, want 1", len(drawn))
	}
	for dec := xml.NewDecoder(strings.NewReader(drawn[0])); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, drawn[0])
		}
	}
	if strings.Contains(got, "NaN") || strings.Contains(got, "ZgotmplZ") {
		t.Error("a number that is none, or a value that the template refused")
	}
}

func TestEveryVerdictHasAPageInItsColour(t *testing.T) {
	for name, want := range map[string]string{
		"firing": "banner critical", "healthy": "banner good", "idle": "banner good", "uncertain": "banner uncertain", "unknown": "banner ", "fleet": "banner", "company": "banner",
	} {
		if got := page(t, examples[name]()); !strings.Contains(got, `<header class="`+want) || strings.Contains(got, "<figure") {
			t.Errorf("%s: no %q, or plots out of nothing", name, want)
		}
	}
	got := page(t, company())
	if n := strings.Count(got, `<header class="banner`); n != len(fullVerdicts(new(company()))) || !strings.Contains(got, "Also firing, below: ") {
		t.Errorf("%d banners; the first does not name the others", n)
	}
}

// What servers call themselves is text and nothing else, and a page asks nobody for
// anything.
func TestHostileNamesAreInertAndThePageIsAlone(t *testing.T) {
	const hostile = "<script>alert('x')</script><img src=x onerror=y>\"><b onload=z>\x1b[31m"
	d := plotted(firing(), hostile, hostile+"2")
	f := &d.Findings[0]
	f.Targets, f.Summary, f.Reasons = []string{hostile}, hostile, []string{hostile}
	f.Fixes[0].Changes = []catalog.Change{{Flag: hostile, From: hostile, To: hostile}}
	f.Fixes[0].Summary, f.Fixes[0].Verify, f.Fixes[0].Tradeoff, f.Fixes[0].Arithmetic = hostile, hostile, hostile, []string{hostile}
	f.Evidence[0].Source = hostile
	f.Pathology = &catalog.Pathology{ID: f.Pathology.ID, Title: hostile, Runbook: "# T\n\n" + hostile + "\n\n[x](javascript:alert(1))"}
	d.Targets[0].Name, d.Targets[0].Version = hostile, hostile
	d.Targets[0].Notes, d.Notes = []string{hostile}, []string{hostile}
	d.Coverage = []diagnose.Gap{{ID: hostile, Missing: []string{hostile}, Hint: hostile}}
	for _, v := range []*diagnose.Verdict{&d.Verdict, &d.Verdicts[0]} {
		v.Model, v.Targets, v.Summary = hostile, []string{hostile}, hostile
	}
	for i := range d.Findings {
		d.Findings[i].Model = hostile
	}
	got := page(t, d)
	for _, bad := range []string{"<script", "<img", "<b on", "\x1b", "javascript:", "http-equiv=\"refresh", "@import", "url("} {
		if strings.Contains(got, bad) {
			i := strings.Index(got, bad)
			t.Errorf("%q is in the page: …%s…", bad, got[max(0, i-80):min(len(got), i+80)])
		}
	}
	if refs := regexp.MustCompile(`(?:src|href)="[^"#][^"]*"`).FindAllString(got, -1); len(refs) > 0 {
		t.Errorf("the page refers to %q", refs)
	}
	if !strings.Contains(got, "&lt;script&gt;") {
		t.Error("the names are not there at all")
	}
}

// A page of a large fleet is still one to send.
func TestThePageOfAFleetIsBounded(t *testing.T) {
	d := plotted(firing(), "a", "b", "c", "d")
	first, targets := d.Verdicts[0], d.Targets[0]
	first.Plots = slices.Repeat(first.Plots, 9)
	for i := range 2000 {
		v := first
		v.Model = strings.Repeat("m", 1+i%200)
		d.Verdicts = append(d.Verdicts, v)
		d.Targets = append(d.Targets, targets)
	}
	if got := page(t, d); len(got) > 500_000 {
		t.Errorf("%d bytes", len(got))
	}
}
