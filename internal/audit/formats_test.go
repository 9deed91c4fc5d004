package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/audit/checks"
	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/base/must"
)

// reported is a report on two files, one of them with every severity, and a file that
// could not be read.
func reported(t *testing.T) *Report {
	t.Helper()
	bad := rulesOf(t, "a dir/alerts, new.yaml", `groups:
- name: g
  rules:
  - alert: Full
    expr: vllm:gpu_cache_usage_perc > 0.9
    for: 5m
  - alert: Low
    expr: sum(vllm:kv_cache_usage_perc) < 0.1
    for: 5m
  - alert: "100 %\nof it: <now>"
    expr: vllm:kv_cache_usage_perc > 0.95
`)
	good := rulesOf(t, "good.yaml", "groups:\n- name: g\n  rules:\n  - record: x\n    expr: up\n")
	s := seen(t, "vllm-v1")
	s.Live = false
	r := &Report{Surface: s, Files: []string{bad.Name, good.Name}, Errors: []error{errors.New("c.yaml:1:2: not YAML")}}
	r.Findings = checks.Lint([]*files.Document{bad, good}, s)
	var got []string
	for _, f := range r.Findings {
		got = append(got, fmt.Sprintf("%d %s", f.Line, f.Check))
	}
	if !slices.Equal(got, []string{"5 removed-metric", "8 ratio-summed", "11 internal-event"}) {
		t.Fatal(got)
	}
	return r
}

// TestSARIFKeepsItsSchema holds the document against what the schema of SARIF 2.1.0 and
// GitHub's code scanning demand of what is written.
func TestSARIFKeepsItsSchema(t *testing.T) {
	var out bytes.Buffer
	must.Succeed(t, reported(t).SARIF(&out))
	var doc struct {
		Version string
		Schema  string `json:"$schema"`
		Runs    []struct {
			Tool struct {
				Driver struct {
					Name, InformationURI string
					Rules                []struct {
						ID                   string
						ShortDescription     struct{ Text string }
						DefaultConfiguration struct{ Level string }
					}
				}
			}
			Invocations []struct {
				ExecutionSuccessful        *bool
				ToolExecutionNotifications []struct{ Message struct{ Text string } }
			}
			Results []struct {
				RuleID              string
				RuleIndex           int
				Level               string
				Message             struct{ Text string }
				PartialFingerprints map[string]string
				Locations           []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
			}
		}
	}
	d := json.NewDecoder(&out)
	if err := d.Decode(&doc); err != nil || doc.Version != "2.1.0" || doc.Schema == "" || len(doc.Runs) != 1 {
		t.Fatalf("%v %+v", err, doc)
	}
	run := doc.Runs[0]
	levels := []string{"error", "warning", "note"} // none is the fourth
	for _, rule := range run.Tool.Driver.Rules {
		if rule.ID == "" || rule.ShortDescription.Text == "" || !slices.Contains(levels, rule.DefaultConfiguration.Level) {
			t.Errorf("%+v", rule)
		}
	}
	if len(run.Results) != 3 || run.Tool.Driver.Name == "" || !strings.HasPrefix(run.Tool.Driver.InformationURI, "https://") {
		t.Errorf("%+v", run)
	}
	prints := map[string]bool{}
	for i, r := range run.Results {
		place := r.Locations[0].PhysicalLocation
		if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID || r.Level != levels[i] || r.Message.Text == "" || prints[r.PartialFingerprints["sixty/v1"]] ||
			place.ArtifactLocation.URI != "a%20dir/alerts,%20new.yaml" || place.Region.StartLine < 1 {
			t.Errorf("%+v", r)
		}
		prints[r.PartialFingerprints["sixty/v1"]] = true
	}
	if v := run.Invocations[0]; v.ExecutionSuccessful == nil || *v.ExecutionSuccessful || len(v.ToolExecutionNotifications) != 1 {
		t.Errorf("%+v", v)
	}

	// A server's own rules have no lines, and nothing to report is an empty list.
	remote := &Report{Surface: seen(t, "vllm-v1"), Findings: []checks.Problem{{Check: "no-for", File: "http://p:9090", Fragment: "x"}}}
	out.Reset()
	if err := remote.SARIF(&out); err != nil || strings.Contains(out.String(), "startLine") {
		t.Errorf("%v\n%s", err, out.String())
	}
	out.Reset()
	if err := (&Report{Surface: seen(t, "vllm-v1")}).SARIF(&out); err != nil || !strings.Contains(out.String(), `"results": []`) {
		t.Errorf("%v\n%s", err, out.String())
	}
}
