package runbookpage_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/runbookpage"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// pages renders and returns the pages by name.
func pages(t *testing.T, c runbookpage.Config) map[string]string {
	t.Helper()
	files, err := runbookpage.Markdown(c)
	must.Succeed(t, err)
	out := map[string]string{}
	for _, f := range files {
		if out[f.Path] != "" {
			t.Errorf("%s is written twice", f.Path)
		}
		out[f.Path] = string(f.Content)
	}
	if len(out) != len(c.Pathologies)+1 {
		t.Errorf("%d pages for %d pathologies and an index", len(out), len(c.Pathologies))
	}
	return out
}

func all() runbookpage.Config { return runbookpage.Config{Pathologies: pathologies.All()} }

func TestEveryPageHasItsSectionsAndThresholds(t *testing.T) {
	md := pages(t, all())
	for _, p := range pathologies.All() {
		text := md[p.ID+".md"]
		for _, heading := range append(slices.Clone(catalog.Sections), "Condition", "Causes and symptoms", "What it reads") {
			if !strings.Contains(text, "\n## "+heading+"\n") {
				t.Errorf("%s.md has no section %q", p.ID, heading)
			}
		}
		p.When.Leaves(func(c catalog.Cond) {
			if !strings.Contains(text, c.Threshold.Name) || !strings.Contains(text, c.Signal.Name) {
				t.Errorf("%s.md lacks %s or %s", p.ID, c.Threshold.Name, c.Signal.Name)
			}
		})
		if !strings.Contains(md["README.md"], generate.AlertNames(&dialect.Deployment{}, p)[0]) {
			t.Errorf("the index lacks %s", p.Alert)
		}
	}
}

var markdownLink = regexp.MustCompile(`\]\(([^)#]+)\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	md := pages(t, all())
	for name, text := range md {
		for _, m := range markdownLink.FindAllStringSubmatch(text, -1) {
			if md[m[1]] == "" {
				t.Errorf("%s links %s", name, m[1])
			}
		}
	}
}

func TestARunbookThatNamesAPathologyLinksIt(t *testing.T) {
	text := pages(t, all())["severe-degradation.md"]
	if !strings.Contains(text, "see [`kv-cache-thrashing`](kv-cache-thrashing.md)") {
		t.Error("no link")
	}
}

// one returns a catalogue of one pathology, to be made odd.
func one(p catalog.Pathology) runbookpage.Config {
	threshold := &catalog.Threshold{Name: "limit", Unit: indicator.Seconds, Why: "a reason", Default: 3}
	if p.ID == "" {
		p.ID = "odd"
	}
	if p.When.Signal == nil && p.When.All == nil && p.When.Any == nil {
		p.When = catalog.Above(indicator.TTFTP95, threshold)
	}
	if p.Template == "" {
		p.Template = "# Odd\n\n## What you see\n\nNothing.\n"
	}
	return runbookpage.Config{Pathologies: []*catalog.Pathology{&p}}
}

// TestForeignTextStaysText holds that what a page takes from elsewhere than the catalogue's own
// runbooks (titles, reasons, the address of a panel) is no HTML and begins no block of code.
func TestForeignTextStaysText(t *testing.T) {
	const attack = "<script>alert(1)</script> ``` <img src=https://example.com/x.png>"
	threshold := &catalog.Threshold{Name: "limit", Unit: indicator.Seconds, Why: attack, Default: 3}
	c := one(catalog.Pathology{Title: attack, Alert: "A", When: catalog.Above(indicator.TTFTP95, threshold)})
	c.Dashboard = func(*catalog.Pathology) string { return "https://example.com/>\n<script>" }
	for name, text := range pages(t, c) {
		for _, bad := range []string{"<script", "<img", "\n```\n<"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s holds %q", name, bad)
			}
		}
	}
}

func TestConditionsInWords(t *testing.T) {
	above := func(name string, t catalog.Threshold) catalog.Cond {
		t.Name, t.Unit, t.Why = name, indicator.Seconds, "why"
		return catalog.Above(indicator.TTFTP95, &t)
	}
	plain := catalog.Threshold{Default: 3}
	tests := map[string]struct {
		when catalog.Cond
		want string
	}{
		"a comparison": {above("a", plain), "It holds while\n\n- **TTFT P95** is above 3 s (`a`)\n"},
		"an All in an All is one": {
			catalog.All(above("a", plain), catalog.All(above("b", plain), above("c", plain))),
			"all of these hold:\n\n- **TTFT P95** is above 3 s (`a`)\n- **TTFT P95** is above 3 s (`b`)\n- **TTFT P95** is above 3 s (`c`)\n",
		},
		"an Any in an All is a list of its own": {
			catalog.All(above("a", plain), catalog.Any(above("b", plain), above("c", plain))),
			"- **TTFT P95** is above 3 s (`a`)\n- At least one of these holds:\n  - **TTFT P95** is above 3 s (`b`)\n",
		},
		"an objective comes before a default": {
			above("a", catalog.Threshold{Objective: "ttft_p95", Default: 3}), "above the objective ttft\\_p95; without it 3 s",
		},
		"an error budget": {
			above("a", catalog.Threshold{Objective: "availability", BurnRate: 14.4, Default: catalog.None}), "above 14.4 × the error budget of the objective availability (`a`)",
		},
		"a baseline with all its parts": {
			above("a", catalog.Threshold{Default: catalog.None, Baseline: &catalog.Relative{Factor: 0.6, Offset: -0.05, Per: indicator.DecodeBatch, Exponent: 0.4, History: true}}),
			"above 0.6 × normal × (growth of Decode batch size)^0.4 − 50 ms, of earlier samples (`a`)",
		},
	}
	share := &catalog.Threshold{Name: "a", Unit: indicator.Ratio, Why: "why", Default: catalog.None, Baseline: &catalog.Relative{Factor: 2, Offset: 0.1}}
	tests["a share grows by percentage points"] = struct {
		when catalog.Cond
		want string
	}{catalog.Above(indicator.AbandonedShare, share), "above 2 × normal + 10 percentage points (`a`)"}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text := pages(t, one(catalog.Pathology{When: tt.when}))["odd.md"]
			if !strings.Contains(text, tt.want) {
				t.Errorf("want %q in\n%s", tt.want, text)
			}
		})
	}
}

func TestPagesShowTheDeployment(t *testing.T) {
	c := one(catalog.Pathology{Alert: "Odd", Template: "# Odd\n\n## What you see\n\nTTFT is above {{limit}}.\n"})
	d, err := dialect.Named("vllm-v0")
	must.Succeed(t, err)
	c.Deployment = &dialect.Deployment{Dialects: []dialect.Dialect{d}, Instance: dialect.UsualInstance, Model: dialect.UsualModel}
	c.Limit = func(*catalog.Threshold) (float64, string, bool) { return 0.8, "slo.yaml", true }
	c.Dashboard = func(p *catalog.Pathology) string { return "https://grafana.example.com/d/x?var=" + p.ID }
	c.Notice = func(p *catalog.Pathology) string {
		if p == nil {
			return "About all"
		}
		return "About " + p.ID
	}
	if index := pages(t, c)["README.md"]; !strings.HasPrefix(index, "<!-- About all -->") {
		t.Error("the index has another notice")
	}
	text := pages(t, c)["odd.md"]
	for _, want := range []string{
		"<!-- About odd -->", "above 800 ms (slo.yaml)", "TTFT is above 800 ms (slo.yaml).", "[open the panel](<https://grafana.example.com/d/x?var=odd>)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestAPageSaysHowToRunItsCommands(t *testing.T) {
	text := pages(t, one(catalog.Pathology{
		Template: "# Odd\n\n1. Cap the model's concurrent requests at the gateway.\n\n```sh\ncurl $HOST/$MODEL $HOST\n```\n",
	}))["odd.md"]
	for _, want := range []string{"`export HOST=… MODEL=…`", "docs/cap-requests.md>"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if text = pages(t, one(catalog.Pathology{}))["odd.md"]; !strings.Contains(text, "`export HOST=…`\n") {
		t.Errorf("a page without commands asks for more than the server:\n%s", text)
	}
}

func TestARunbookWithoutATitleIsAnError(t *testing.T) {
	if _, err := runbookpage.Markdown(one(catalog.Pathology{Template: "no title"})); err == nil || !strings.Contains(err.Error(), "odd") {
		t.Errorf("error %v", err)
	}
}
