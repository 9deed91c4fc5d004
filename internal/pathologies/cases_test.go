package pathologies_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/generate/history"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/pathologies"
)

// TestCases diagnoses the cases in every pathology's testdata. On fires.txt (and fires-*.txt) it must be the verdict;
// on nearmiss.txt (and nearmiss-*.txt), which look much like it, it must be ruled out; on nodata.txt, which lacks what
// its condition needs, it must be unknown. Package history describes the format.
func TestCases(t *testing.T) {
	for _, p := range pathologies.All() {
		dir := strings.ReplaceAll(p.ID, "-", "") + "/testdata"
		t.Run(p.ID, func(t *testing.T) {
			t.Run("fires on the sick server", func(t *testing.T) {
				t.Parallel()
				for _, name := range casesOf(t, dir, "fires") {
					d, f := diagnoseCase(t, dir, name, p)
					checkStory(t, p.ID+" "+name, &d)
					want := wantVerdict(t, dir, name, p)
					if f.Status != diagnose.Firing || d.Verdict.ID != want && !f.Note {
						t.Errorf("%s: status %s, verdict %s; want firing, %s\n%s", name, f.Status, d.Verdict.ID, want,
							explain(d, f))
					}
				}
			})
			t.Run("is ruled out on the one that comes near", func(t *testing.T) {
				t.Parallel()
				for _, name := range casesOf(t, dir, "nearmiss") {
					d, f := diagnoseCase(t, dir, name, p)
					if f.Status != diagnose.OK {
						t.Errorf("%s: status %s, want ok\n%s", name, f.Status, explain(d, f))
					}
				}
			})
			t.Run("is unknown without the data", func(t *testing.T) {
				t.Parallel()
				d, f := diagnoseCase(t, dir, "nodata", p)
				if f.Status != diagnose.Unknown {
					t.Errorf("status %s, want unknown\n%s", f.Status, explain(d, f))
				}
				gap := func(g diagnose.Gap) bool { return g.ID == p.ID && len(g.Missing) > 0 }
				if !slices.ContainsFunc(d.Coverage, gap) {
					t.Errorf("no coverage gap says what is missing: %+v", d.Coverage)
				}
			})
		})
	}
}

// otherVerdict matches the comment of a case in which another pathology leads.
var otherVerdict = regexp.MustCompile(`(?m)^# verdict: (\S+)`)

func wantVerdict(t *testing.T, dir, name string, p *catalog.Pathology) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name+".txt"))
	must.Succeed(t, err)
	if m := otherVerdict.FindSubmatch(text); m != nil {
		return string(m[1])
	}
	return p.ID
}

// casesOf lists the cases of a kind.
func casesOf(t *testing.T, dir, kind string) (names []string) {
	t.Helper()
	all, err := filepath.Glob(dir + "/" + kind + "*.txt")
	if err != nil || len(all) == 0 {
		t.Fatalf("no case %s: %v", kind, err)
	}
	for _, file := range all {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".txt"))
	}
	return names
}

// TestHealthyServerIsHealthy judges the server that the cases begin with.
func TestHealthyServerIsHealthy(t *testing.T) {
	c, err := history.Parse(os.DirFS("."), "every 1s for 120s\nlike healthy\n")
	must.Succeed(t, err)
	d := diagnoseSeries(t, c)
	if d.Verdict.ID != diagnose.Healthy {
		t.Errorf("verdict %s: %s", d.Verdict.ID, d.Verdict.Summary)
	}
	for _, f := range d.Findings {
		if f.Status == diagnose.Firing || f.Status == diagnose.Pending {
			t.Errorf("%s %s\n%s", f.Pathology.ID, f.Status, explain(d, f))
		}
	}
}

func diagnoseCase(t *testing.T, dir, name string, p *catalog.Pathology) (diagnose.Diagnosis, diagnose.Finding) {
	t.Helper()
	d := diagnoseSeries(t, openCase(t, dir, name, p))
	i := slices.IndexFunc(d.Findings, func(f diagnose.Finding) bool { return f.Pathology == p })
	if i < 0 {
		t.Fatalf("no finding of %s", p.ID)
	}
	return d, d.Findings[i]
}

// openCase reads a case. Behind the gateway of a case there are two healthy servers.
func openCase(t *testing.T, dir, name string, p *catalog.Pathology) *history.Case {
	t.Helper()
	c, err := history.Open(os.DirFS(dir), name)
	if err == nil && p.Scope() == indicator.Gateway {
		err = c.Add(behind...)
	}
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	return c
}

// behind are the servers behind the gateway that cases begin with.
var behind = []string{`like healthy instance="b:8000"`, `like healthy instance="c:8000"`}

var truths = map[catalog.Truth]string{catalog.Unknown: "unknown", catalog.False: "false", catalog.True: "true"}

// explain returns a finding's evidence, and what else fires.
func explain(d diagnose.Diagnosis, f diagnose.Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "window %.0f s, baseline %.0f s (%v), inhibited by %q\n", d.Window.Length().Seconds(),
		d.Baseline.Length().Seconds(), d.Source, f.InhibitedBy)
	for _, e := range f.Evidence {
		fmt.Fprintf(&b, "  %s = %.4g (baseline %.4g) %v %s %.4g (%s): %v %s\n", e.Signal.Name, e.Value.V, e.Baseline.V,
			e.Op, e.Name, e.Threshold, e.Source, truths[e.Holds], e.Value.Reason)
	}
	for _, g := range d.Findings {
		if g.Status == diagnose.Firing {
			fmt.Fprintf(&b, "  firing: %s on %v, inhibited by %q\n", g.Pathology.ID, g.Targets, g.InhibitedBy)
		}
	}
	return b.String()
}

// diagnoseSeries scrapes a case into a store and diagnoses it.
func diagnoseSeries(t *testing.T, c *history.Case, promised ...slo.Objective) diagnose.Diagnosis {
	t.Helper()
	return diagnoseBeside(t, c, nil, "", promised...)
}

// diagnoseBeside is diagnoseSeries with another case, which is one server of another model and ends at the same time.
func diagnoseBeside(t *testing.T, c, beside *history.Case, model string, promised ...slo.Objective) diagnose.Diagnosis {
	t.Helper()
	store, err := embedded.Open(embedded.Config{})
	must.Succeed(t, err)
	defer store.Close()
	scrape := func(c *history.Case, series map[string][]history.Series, begin time.Time, prefix string) {
		target := func(instance string) embedded.Target { return embedded.Target{Instance: prefix + instance} }
		for at, err := range scrapeCase(store, c, series, begin, target) {
			if err != nil {
				t.Fatalf("after %s: %v", at.Sub(begin), err)
			}
		}
	}
	scrape(c, c.Series(), history.Start, "")
	if beside != nil {
		renamed := beside.Series()
		for _, list := range renamed {
			for i, s := range list {
				if s.Labels.Has("model_name") {
					list[i].Labels = labels.NewBuilder(s.Labels).Set("model_name", model).Labels()
				}
			}
		}
		begin := history.Start.Add(time.Duration(c.Scrapes-1)*c.Every - time.Duration(beside.Scrapes-1)*beside.Every)
		scrape(beside, renamed, begin, model+"-")
	}
	if w := store.Warnings(); len(w) > 0 {
		t.Errorf("the store complains: %q", w)
	}
	created, _ := store.FirstCreated(embedded.Target{Instance: history.UsualInstance})
	var set diagnose.Settings
	if len(promised) > 0 {
		set.Objectives = &slo.File{Objectives: promised}
	}
	return run(t, store, diagnose.Options{Settings: set, At: history.Start.Add(c.At), First: history.Start,
		Created: created, Interval: c.Every, Every: true})
}
