package checks

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/audit/files"
	"github.com/sixty-dev/sixty/internal/base/must"
)

var update = flag.Bool("update", false, "write the golden files")

// A File is the input of a test.
type File struct {
	Name string
	Data []byte
}

// readFile reads a file of the test data.
func readFile(t *testing.T, path string) File {
	t.Helper()
	return File{Name: filepath.Base(path), Data: must.ReadFile(t, path)}
}

// read parses files.
func read(all []File) (docs []*files.Document, errs []error) {
	for _, f := range all {
		d, err := files.Read(f.Name, f.Data)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		docs = append(docs, d)
	}
	return docs, errs
}

func lint(all []File, s *Surface, ignore ...string) ([]Finding, []error) {
	docs, errs := read(all)
	return Lint(docs, s, ignore...), errs
}

func fix(t *testing.T, f File, s *Surface) (fixed *files.Document, repaired int) {
	t.Helper()
	docs, errs := read([]File{f})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return Fix(docs[0], Lint(docs, s))
}

func newest(t *testing.T) *Surface {
	t.Helper()
	s, err := SurfaceOf("vllm-v1")
	must.Succeed(t, err)
	return s
}

func places(all []Finding) []string {
	var out []string
	for _, f := range all {
		out = append(out, fmt.Sprintf("%d %s", f.Line, f.Check))
	}
	return out
}

// seen returns the surface of a dialect as if it had been read from servers.
func seen(t *testing.T, id string) *Surface {
	t.Helper()
	s, err := SurfaceOf(id)
	must.Succeed(t, err)
	s.Live = true
	return s
}

// broken lists files with faults of public ones, and every finding that the linter must have: its line and check.
var broken = []struct {
	file string
	want []string
}{
	{"01-renamed-gauge.yaml", []string{"6 impossible-threshold", "6 removed-metric"}},
	{"02-missing-le.yaml", []string{"14 missing-le"}},
	{"03-summed-ratio.yaml", []string{"6 ratio-summed", "8 ratio-summed"}},
	{"06-below-the-first-bucket.yaml", []string{"6 bucket-edge", "9 bucket-edge"}},
	{"07-no-such-bucket.yaml", []string{"7 no-such-bucket", "11 no-such-bucket"}},
	{"09-labels.yaml", []string{"13 unknown-label", "13 unknown-label"}},
	{"10-raw-counter.yaml", []string{"9 raw-counter"}},
	{"11-renamed-names.json", []string{"20 removed-metric", "40 removed-metric", "60 removed-metric", "60 removed-metric"}},
	{"13-average-of-percentiles.json", []string{"20 average-of-percentiles"}},
	{"14-rate-on-gauge.json", []string{"15 rate-on-gauge", "30 rate-on-gauge"}},
	{"16-lifetime.json", []string{"21 raw-counter", "21 raw-counter", "36 raw-counter", "56 raw-counter"}},
	{"17-perses.yaml", []string{"23 ratio-summed"}},
	{"18-engine-of-old.json", []string{"20 removed-metric", "35 removed-metric", "50 removed-metric", "70 removed-metric"}},
	{"19-names-that-never-were.json", []string{"15 unknown-metric", "35 histogram-name", "50 histogram-name", "65 unknown-metric"}},
	{"21-never-or-always.yaml", []string{"14 impossible-threshold", "23 impossible-threshold", "58 impossible-threshold"}},
	{"26-managed-alerts.yaml", []string{"15 alert-condition", "30 impossible-threshold", "45 alert-condition"}},
}

func TestEveryPlantedFaultIsFoundAndNoOther(t *testing.T) {
	files, err := filepath.Glob("testdata/broken/*")
	if err != nil || len(files) != len(broken) {
		t.Fatalf("%d files, %d in the table (%v)", len(files), len(broken), err)
	}
	for _, tc := range broken {
		t.Run(tc.file, func(t *testing.T) {
			got, errs := lint([]File{readFile(t, filepath.Join("testdata", "broken", tc.file))}, newest(t), "internal-event")
			if diff := cmp.Diff(tc.want, places(got)); diff != "" || len(errs) > 0 {
				t.Errorf("(-want +got)\n%s%v", diff, errors.Join(errs...))
			}
			for _, f := range got {
				if f.Why == "" || f.Fix == "" || f.Where == "" || f.Fragment == "" {
					t.Errorf("a finding says too little: %+v", f)
				}
			}
		})
	}
}

func TestARepairedFileHoldsNothingThatCouldBeRepaired(t *testing.T) {
	for _, tc := range broken {
		t.Run(tc.file, func(t *testing.T) {
			f := readFile(t, filepath.Join("testdata", "broken", tc.file))
			fixed, repaired := fix(t, f, newest(t))
			golden := filepath.Join("testdata", "repaired", tc.file)
			if *update && repaired > 0 {
				must.Succeed(t, os.WriteFile(golden, fixed.Data, 0o644))
			}
			want, err := os.ReadFile(golden)
			if errors.Is(err, fs.ErrNotExist) { // nothing to repair
				want, err = f.Data, nil
			}
			must.Succeed(t, err)
			must.Equal(t, string(want), string(fixed.Data))
			if again, more := fix(t, File{Name: f.Name, Data: fixed.Data}, newest(t)); string(again.Data) != string(fixed.Data) || more > 0 {
				t.Error("a second repair changes something")
			}
		})
	}
}

func TestCommentsAndLayoutSurviveARepair(t *testing.T) {
	for _, tc := range broken {
		f := readFile(t, filepath.Join("testdata", "broken", tc.file))
		fixed, _ := fix(t, f, newest(t))
		before, after := strings.Split(string(f.Data), "\n"), strings.Split(string(fixed.Data), "\n")
		if len(before) != len(after) {
			t.Errorf("%s: %d lines became %d", tc.file, len(before), len(after))
			continue
		}
		for i := range before {
			indent := func(s string) string { return s[:len(s)-len(strings.TrimLeft(s, " \t"))] }
			comment := func(s string) string { _, c, _ := strings.Cut(s, "#"); return c }
			if indent(before[i]) != indent(after[i]) || strings.HasSuffix(tc.file, "yaml") && comment(before[i]) != comment(after[i]) {
				t.Errorf("%s:%d: %q became %q", tc.file, i+1, before[i], after[i])
			}
		}
	}
}

func TestNoAlarmOnCleanFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/clean/*")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, path := range files {
		got, errs := lint([]File{readFile(t, path)}, newest(t), "internal-event")
		for _, f := range got {
			t.Errorf("%s:%d: %s: %s (%s)", f.File, f.Line, f.Check, f.Why, f.Fragment)
		}
		if len(errs) > 0 {
			t.Error(errs)
		}
	}
}

func TestServersDecideWhatIsWrong(t *testing.T) {
	rule := func(expr string) File {
		return File{Name: "r.yaml", Data: []byte("groups:\n- name: g\n  rules:\n  - record: x\n    expr: '" + expr + "'\n")}
	}
	for _, tc := range []struct {
		name, dialect, expr string
		want                []string // "check → repaired expression", or the check
	}{
		{"a new name on an old server", "vllm-0.9.1", "avg(vllm:kv_cache_usage_perc)", []string{"not-exposed → avg(vllm:gpu_cache_usage_perc)"}},
		{"an old name on an old server", "vllm-0.9.1", "avg(vllm:gpu_cache_usage_perc)", nil},
		{"both names while both are there", "vllm-0.10.2", "avg(vllm:gpu_cache_usage_perc)", nil},
		{"Ray's prefix", "vllm-v1-ray", "avg(vllm:kv_cache_usage_perc)", []string{"not-exposed → avg(ray_vllm_kv_cache_usage_perc)"}},
		{"Ray's prefix of old and a name of old", "vllm-v1-ray", "avg(ray_vllm:gpu_cache_usage_perc)", []string{"removed-metric → avg(ray_vllm_kv_cache_usage_perc)"}},
		{"a store without colons", "vllm-v1-normalized", "sum(vllm:num_requests_waiting)", []string{"not-exposed → sum(vllm_num_requests_waiting)"}},
		{"a metric that came later", "vllm-0.16", "sum(vllm:num_requests_waiting_by_reason)", []string{"not-exposed"}},
		{"a feature that may be on", "vllm-v1", "sum(rate(vllm:spec_decode_num_drafts_total[5m]))", nil},
		{"V0's names on V0", "vllm-v0", "sum(vllm:num_requests_swapped)", nil},
		{"vLLM's name on SGLang", "sglang", "sum(vllm:num_requests_running)", []string{"not-exposed → sum(sglang:num_running_reqs)"}},
		{"TTFT ended at ten seconds", "vllm-0.8.3", "histogram_quantile(0.95, sum by (le, model_name) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > 10", []string{"bucket-edge"}},
		{"written for old and new servers", "vllm-v1", "(vllm:kv_cache_usage_perc or vllm:gpu_cache_usage_perc) > 0.9", nil},
		{"written for two servers that are both old", "vllm-v1", "(vllm:cpu_cache_usage_perc or vllm:gpu_cache_usage_perc) > 0.9", []string{"removed-metric", "removed-metric → (vllm:cpu_cache_usage_perc or vllm:kv_cache_usage_perc) > 0.9"}},
		{"underscores that no store made", "vllm-v1", "sum(vllm_gpu_cache_usage_perc * 0)", []string{"removed-metric → sum(vllm:kv_cache_usage_perc * 0)"}},
		{"the production stack's router", "vllm-v1", "sum(vllm:current_qps)", nil},
		{"somebody else's metric", "vllm-v1", "sum(rate(nginx_requests_total[5m]))", nil},
		{"a recording rule that is not at hand", "vllm-v1", "vllm:ttft:p95 > 3", []string{"unknown-metric"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := SurfaceOf(tc.dialect)
			must.Succeed(t, err)
			f := rule(tc.expr)
			found, errs := lint([]File{f}, s)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			var got []string
			for _, x := range found {
				text := x.Check
				if x.Fixable {
					text += " → " + strings.ReplaceAll(tc.expr, x.rename.Name, x.rename.To)
				}
				got = append(got, text)
			}
			must.Equal(t, tc.want, got)
		})
	}
}

func TestServersThatWereSeenKnowTheirLabelsEdgesAndModels(t *testing.T) {
	s := seen(t, "vllm-v1")
	for _, series := range []labels.Labels{
		labels.FromStrings(labels.MetricName, "vllm:num_requests_waiting", "model_name", "m", "engine", "0"),
		labels.FromStrings(labels.MetricName, "vllm:request_queue_time_seconds_bucket", "model_name", "m", "engine", "0", "le", "0.05"),
		labels.FromStrings(labels.MetricName, "vllm:request_queue_time_seconds_bucket", "model_name", "m", "engine", "0", "le", "0.4"),
		labels.FromStrings(labels.MetricName, "vllm:request_queue_time_seconds_bucket", "model_name", "m", "engine", "0", "le", "+Inf"),
		labels.FromStrings(labels.MetricName, "http_requests_total", "code", "200"),
	} {
		s.AddName(series.Get(labels.MetricName), series.Get(labels.BucketLabel))
	}
	for expr, want := range map[string][]string{
		"sum(rate(vllm:spec_decode_num_drafts_total[5m]))":                                                             {"info not-exposed"},
		"histogram_quantile(0.9, sum by (le, model_name) (rate(vllm:request_queue_time_seconds_bucket[5m]))) > 0.05":   nil,
		"histogram_quantile(0.9, sum by (le, model_name) (rate(vllm:request_queue_time_seconds_bucket[5m]))) > 1":      {"page bucket-edge"},
		"sum by (model_name) (rate(vllm:request_queue_time_seconds_bucket{le=\"0.3\"}[5m]))":                           {"page no-such-bucket"},
		"sum by (model) (vllm:num_requests_waiting)":                                                                   {"page unknown-label"},
		"sum by (code) (rate(http_requests_total[5m]))":                                                                nil,
		"sum by (instance) (vllm:num_requests_waiting) and sum by (instance) (rate(vllm:prompt_tokens_total[5m])) > 0": nil,
	} {
		f := File{Name: "r.yaml", Data: []byte("groups:\n- name: g\n  rules:\n  - record: x\n    expr: |\n      " + expr + "\n")}
		found, errs := lint([]File{f}, s)
		var got []string
		for _, x := range found {
			got = append(got, x.Severity.String()+" "+x.Check)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(errs) > 0 {
			t.Errorf("%s (-want +got)\n%s%v", expr, diff, errs)
		}
	}
}

func TestWithoutADialectPrefixesAreTakenAsTheyAre(t *testing.T) {
	s, err := SurfaceOf()
	must.Succeed(t, err)
	for expr, want := range map[string]string{
		"avg(vllm:gpu_cache_usage_perc)":        "avg(vllm:kv_cache_usage_perc)",
		"avg(ray_vllm:gpu_cache_usage_perc)":    "avg(ray_vllm_kv_cache_usage_perc)",
		"avg(ray_vllm_gpu_cache_usage_perc)":    "avg(ray_vllm_kv_cache_usage_perc)",
		"avg(kserve_vllm:gpu_cache_usage_perc)": "avg(kserve_vllm:kv_cache_usage_perc)",
		"avg(vllm_gpu_cache_usage_perc)":        "avg(vllm_kv_cache_usage_perc)",
		"avg(sglang:token_usage)":               "avg(sglang:token_usage)",
		"avg(kserve_vllm:kv_cache_usage_perc)":  "avg(kserve_vllm:kv_cache_usage_perc)",
	} {
		f := File{Name: "r.yaml", Data: []byte("groups:\n- name: g\n  rules:\n  - record: x\n    expr: " + expr + "\n")}
		fixed, _ := fix(t, f, s)
		if got := string(fixed.Data); !strings.Contains(got, "expr: "+want+"\n") {
			t.Errorf("%s became %s", expr, got)
		}
	}
}

func TestRepairsKeepEveryWayOfWriting(t *testing.T) {
	const before, after = "sum(vllm:gpu_cache_usage_perc) > 0.9", "sum(vllm:kv_cache_usage_perc) > 0.9"
	for name, format := range map[string]string{
		"plain":                  "    expr: %s # as it was\n",
		"single quotes":          "    expr: '%s'\n    labels: {a: 'it''s'}\n",
		"double quotes":          "    expr: \"%s\"\n",
		"an anchor":              "    expr: &x %s\n    labels: {a: *x}\n",
		"a tag":                  "    expr: !!str %s\n",
		"a block":                "    expr: |\n      # of the fleet\n      %s\n",
		"a block with its width": "    expr: |2-\n        %s\n",
		"a folded block":         "    expr: >-\n      %s\n      and absent(up)\n",
		"CRLF":                   "    expr: |\r\n      %s\r\n",
		"beyond ASCII":           "    labels: {é: ü}\n    expr: \"%s\" # ö\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := func(expr string) string {
				return "groups:\n- name: g\n  rules:\n  - alert: A\n    for: 5m\n" + fmt.Sprintf(format, expr)
			}
			fixed, _ := fix(t, File{Name: "r", Data: []byte(file(before))}, newest(t))
			if got := string(fixed.Data); got != file(after) {
				t.Errorf("got\n%s", got)
			}
		})
	}
	const board = `{"panels":[{"title":"a","targets":[{"refId":"A","expr":"sum by (pod) (vllm:gpu_cache_usage_perc{a=\"b\"}) \u003e 90\n"}]}]}`
	want := strings.NewReplacer("gpu_", "kv_").Replace(board)
	fixed, _ := fix(t, File{Name: "d", Data: []byte(board)}, newest(t))
	if got := string(fixed.Data); got != want {
		t.Errorf("JSON became %s", got)
	}
	const managed = `{"groups":[{"rules":[{"title":"A","condition":"C","data":[{"refId":"A","model":{"expr":"max(vllm:gpu_cache_usage_perc)","instant":true}},` +
		`{"refId":"C","model":{"type":"threshold","expression":"A","conditions":[{"evaluator":{"type":"gt","params":[0.9]}}]}}]}]}]}`
	fixed, _ = fix(t, File{Name: "m", Data: []byte(managed)}, newest(t))
	if got := string(fixed.Data); got != strings.Replace(managed, "gpu_", "kv_", 1) {
		t.Errorf("a managed alert became %s", got)
	}
}

func TestVariablesOfADashboardAreJudgedToo(t *testing.T) {
	const panels = `"panels":[{"title":"a","targets":[{"refId":"A","expr":"up"}]}]`
	for _, tc := range []struct{ name, data, want, place string }{
		{"label_values", `{` + panels + `,"templating":{"list":[{"name":"m","query":"label_values(vllm:gpu_cache_usage_perc{job=\"$job\"}, model_name)"}]}}`, "label_values(vllm:kv_cache_usage_perc{", "1 removed-metric"},
		{"label_values in an object", `{` + panels + `,"templating":{"list":[{"name":"m","query":{"query":"label_values(vllm:gpu_cache_usage_perc,model_name)","refId":"x"}}]}}`, "label_values(vllm:kv_cache_usage_perc,model_name)", "1 removed-metric"},
		{"query_result", `{` + panels + `,"templating":{"list":[{"name":"m","query":"query_result(topk(5, max by (model_name) (vllm:gpu_cache_usage_perc)))"}]}}`, "(topk(5, max by (model_name) (vllm:kv_cache_usage_perc)))", ""},
		{"Perses", "kind: PersesDashboard\nspec:\n  variables:\n  - kind: ListVariable\n    spec: {name: m, plugin: {kind: PrometheusLabelValuesVariable, spec: {labelName: model_name, matchers: ['vllm:gpu_cache_usage_perc{}']}}}\n  panels:\n    a: {kind: Panel, spec: {queries: [{kind: PrometheusTimeSeriesQuery, spec: {query: 'up{x=\"$m\"}'}}]}}\n", "matchers: ['vllm:kv_cache_usage_perc{}']", "5 removed-metric"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := File{Name: "d", Data: []byte(tc.data)}
			found, errs := lint([]File{f}, newest(t))
			if len(errs) > 0 || len(found) == 0 || tc.place != "" && !slices.Equal(places(found), []string{tc.place}) {
				t.Errorf("%v %v", places(found), errs)
			}
			if fixed, _ := fix(t, f, newest(t)); !strings.Contains(string(fixed.Data), tc.want) {
				t.Errorf("repaired: %s", fixed.Data)
			}
		})
	}
	for _, quiet := range []string{`label_values(model_name)`, `label_values(up{job=~\"a,b\"})`, `5m,10m`, `prometheus`, `label_values(vllm:num_requests_running, model_name)`, `*`} {
		f := File{Name: "d", Data: []byte(`{` + panels + `,"templating":{"list":[{"name":"m","query":"` + quiet + `"}]}}`)}
		if found, errs := lint([]File{f}, newest(t)); len(found)+len(errs) > 0 {
			t.Errorf("%s: %v %v", quiet, places(found), errs)
		}
	}
}

// FuzzExpressions lints and repairs any text in a panel. Nothing may panic, and a repaired expression must still parse.
func FuzzExpressions(f *testing.F) {
	for _, tc := range broken {
		data := must.ReadFile(f, filepath.Join("testdata", "broken", tc.file))
		file := File{Name: tc.file, Data: data}
		if d, err := files.Read(file.Name, file.Data); err == nil {
			for _, q := range d.Queries {
				f.Add(q.Expr)
			}
		}
	}
	s, err := SurfaceOf("vllm-v1")
	must.Succeed(f, err)
	f.Fuzz(func(t *testing.T, expr string) {
		if len(expr) > 1<<12 || !utf8.ValidString(expr) {
			return
		}
		data, err := json.Marshal(map[string]any{"panels": []any{map[string]any{"title": "x", "targets": []any{map[string]any{"expr": expr}}}}})
		if err != nil {
			return
		}
		file := File{Name: "f", Data: data}
		if _, errs := lint([]File{file}, s); len(errs) > 0 {
			return
		}
		fixed, repaired := fix(t, file, s)
		if !json.Valid(fixed.Data) {
			t.Fatalf("%q became %s", expr, fixed.Data)
		}
		for _, q := range fixed.Queries {
			if q.Err != nil && repaired > 0 {
				t.Errorf("%q was PromQL and became %s", expr, fixed.Data)
			}
		}
	})
}

// FuzzFiles feeds the reader and the repair: no panic, and a repaired file still reads.
func FuzzFiles(f *testing.F) {
	files, err := filepath.Glob("testdata/broken/*")
	must.Succeed(f, err)
	for _, path := range files {
		data := must.ReadFile(f, path)
		f.Add(data)
	}
	f.Add([]byte("groups:\n- rules:\n  - record: a\n    expr: \"sum(vllm:gpu_cache_usage_perc) > \\x34\"\n"))
	f.Add([]byte(`{"panels":[{"targets":[{"expr":"rate(vllm:num_requests_waiting[$__interval])\u0020"}]}]}`))
	f.Add([]byte("groups:\r- rules:\r  - record: \"a\u2028\u0085b\"\r    expr: sum(vllm:gpu_cache_usage_perc)\r"))
	s, err := SurfaceOf("vllm-v1")
	must.Succeed(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		file := File{Name: "f", Data: data}
		if _, errs := lint([]File{file}, s); len(errs) > 0 {
			return
		}
		fixed, _ := fix(t, file, s)
		if _, errs := lint([]File{{Name: "f", Data: fixed.Data}}, s); len(errs) > 0 {
			t.Errorf("the repaired file does not read: %v", errs)
		}
	})
}

// A name of one engine is not another engine's where both are at hand: each has servers of its own.
func TestANameIsNotReplacedByAnotherEngines(t *testing.T) {
	const query = "sum(rate(vllm:estimated_flops_per_gpu_total[5m]))"
	s, err := SurfaceOf("vllm-0.16", "sglang")
	must.Succeed(t, err)
	found, _ := lint([]File{{Name: "r.yaml", Data: []byte(alerting(query + " > 1"))}}, s)
	if len(found) != 1 || found[0].Check != "not-exposed" || strings.Contains(found[0].Why+found[0].Fix, "sglang:") {
		t.Errorf("%+v", found)
	}
}
