package slo

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
)

func TestParse(t *testing.T) {
	chat, err := ForUseCase("chat")
	must.Succeed(t, err)
	chatWith := func(change func(*Objective)) Objective {
		o := chat
		change(&o)
		return o
	}
	tests := map[string]struct {
		yaml string
		want []Objective
	}{
		"a use case": {
			"objectives:\n- use_case: chat\n", []Objective{chat},
		},
		"one's own number over a use case": {
			"objectives:\n- use_case: chat\n  ttft_p95: 1.5s\n",
			[]Objective{chatWith(func(o *Objective) { o.TTFTP95 = 1500 * time.Millisecond })},
		},
		"every key": {
			"objectives:\n- model: meta-llama/*\n  namespace: prod\n  cluster: eu-?\n  service: api\n  ttft_p95: 500ms\n  itl_p95: 50ms\n  e2e_p95: 10s\n  availability: 99.9%\n",
			[]Objective{{Model: "meta-llama/*", Namespace: "prod", Cluster: "eu-?", Service: "api", TTFTP95: 500 * time.Millisecond, ITLP95: 50 * time.Millisecond, E2EP95: 10 * time.Second, Availability: 0.999}},
		},
		"availability as a share": {
			"objectives:\n- availability: 0.995\n", []Objective{{Availability: 0.995}},
		},
		"a number shared by a YAML alias": {
			"objectives:\n- ttft_p95: &fast 200ms\n- model: b\n  ttft_p95: *fast\n",
			[]Objective{{TTFTP95: 200 * time.Millisecond}, {Model: "b", TTFTP95: 200 * time.Millisecond}},
		},
		"another percentile, which promises the P95 no less": {
			"objectives:\n- name: fast\n  ttft: {p: 99, target: 2s}\n",
			[]Objective{{Name: "fast", TTFTP95: 2 * time.Second, TTFT: Percentile{0.99, 2 * time.Second}}},
		},
		"a P99 beside a use case's P95": {
			"objectives:\n- use_case: chat\n  ttft: {p: 99, target: 2s}\n",
			[]Objective{chatWith(func(o *Objective) { o.TTFT = Percentile{0.99, 2 * time.Second} })},
		},
		"a P95 and a P99.9": {
			"objectives:\n- e2e_p95: 5s\n  e2e: {p: 99.9, target: 30s}\n",
			[]Objective{{E2EP95: 5 * time.Second, E2E: Percentile{0.999, 30 * time.Second}}},
		},
		"a median promises nothing of the P95": {
			"objectives:\n- itl: {p: 50, target: 20ms}\n",
			[]Objective{{ITL: Percentile{0.5, 20 * time.Millisecond}}},
		},
		"the P95 in the long form": {
			"objectives:\n- use_case: chat\n  itl: {target: 40ms, p: 95}\n",
			[]Objective{chatWith(func(o *Objective) { o.ITLP95 = 40 * time.Millisecond })},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := Parse("slo.yaml", []byte(tt.yaml))
			must.Succeed(t, err)
			near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })
			if diff := cmp.Diff(tt.want, f.Objectives, near); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := map[string]struct {
		yaml string
		want string
	}{
		"an empty file":               {"", "slo.yaml: no objectives"},
		"a file of comments":          {"# later\n", "slo.yaml: no objectives"},
		"a list for a name":           {"objectives:\n- model: [a, b]\n  ttft_p95: 1s\n", "line 2, column 10: a list where text is wanted"},
		"a mapping for the list":      {"objectives:\n  chat: 1s\n", "line 2, column 3: a mapping where a list is wanted"},
		"broken YAML":                 {"objectives:\n- model: [a\n", "did not find expected"},
		"no list":                     {"objectives: []\n", "slo.yaml: no objectives"},
		"a misspelt target":           {"objectives:\n- model: a\n  tftt_p95: 1s\n", `line 3, column 3: unknown key "tftt_p95"`},
		"a key repeated":              {"objectives:\n- model: a\n  model: b\n", `line 3, column 3: key "model" was given already, at line 2`},
		"a duration without a unit":   {"objectives:\n- model: a\n  ttft_p95: 500\n", `objective 1: line 3, column 13: ttft_p95: "500" is not a duration`},
		"a negative duration":         {"objectives:\n- itl_p95: -1s\n", `line 2, column 12: itl_p95: "-1s" is not a duration`},
		"a duration of nothing":       {"objectives:\n- e2e_p95: 0s\n", `line 2, column 12: e2e_p95: "0s" is not a duration`},
		"a list for a duration":       {"objectives:\n- model: a\n  e2e_p95: [1s]\n", "line 3, column 12: e2e_p95"},
		"an unknown use case":         {"objectives:\n- use_case: chat\n- use_case: poetry\n", `objective 2: line 3, column 13: unknown use case "poetry": want one of chat`},
		"an availability above one":   {"objectives:\n- model: a\n\n  availability: 99.9\n", `line 4, column 17: availability: "99.9" leaves no error budget`},
		"an availability of all":      {"objectives:\n- availability: 100%\n", "leaves no error budget"},
		"an availability of none":     {"objectives:\n- availability: 0\n", "leaves no error budget"},
		"an availability of NaN":      {"objectives:\n- availability: nan\n", "leaves no error budget"},
		"an availability in words":    {"objectives:\n- availability: high\n", `line 2, column 17: availability: "high" is not a share`},
		"a percentile of all":         {"objectives:\n- ttft: {p: 100, target: 1s}\n", `line 2, column 9: ttft: p: "100" is no percentile`},
		"a percentile of none":        {"objectives:\n- ttft: {p: 0, target: 1s}\n", `p: "0" is no percentile`},
		"a percentile without target": {"objectives:\n- ttft: {p: 99}\n", "ttft: want {p: 99, target: 500ms}"},
		"a percentile of no time":     {"objectives:\n- e2e: {p: 99, target: 0s}\n", `e2e: target: "0s" is not a duration`},
		"a percentile misspelt":       {"objectives:\n- itl: {q: 99, target: 1s}\n", `itl: unknown key "q"`},
		"a scalar for a percentile":   {"objectives:\n- model: a\n  itl: 1s\n", "line 3, column 8: itl: want {p: 99, target: 500ms}"},
		"two of the P95":              {"objectives:\n- ttft_p95: 1s\n  ttft: {p: 95, target: 2s}\n", "ttft_p95 says"},
		"a promise of nothing":        {"objectives:\n- model: a\n", "objective 1: promises nothing"},
		"a matcher that is no glob":   {"objectives:\n- model: \"[\"\n  ttft_p95: 1s\n", `objective 1: matcher "["`},
		"a scalar for the whole file": {"chat\n", "line 1, column 1: a value (str) `chat` where a mapping is wanted"},
		"a second document":           {"objectives:\n- use_case: chat\n---\nobjectives:\n- use_case: rag\n", "something follows the first YAML document"},
		"a file that is too large":    {strings.Repeat("#", maxFile+1), "more than a list of objectives can need"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := Parse("slo.yaml", []byte(tt.yaml))
			if err == nil {
				t.Fatalf("accepted: %+v", f)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestAMisspeltKeySaysWhereTheKeysAre(t *testing.T) {
	_, err := Parse("slo.yaml", []byte("objectives:\n- tftt: 1s\n"))
	if got := hint.Of(err); !strings.Contains(got, "docs/slo.md") {
		t.Errorf("hint %q of %v", got, err)
	}
}

func TestFor(t *testing.T) {
	f := &File{Objectives: []Objective{
		{Model: "meta-llama/*", Namespace: "prod", TTFTP95: 1},
		{Model: "*-70?", TTFTP95: 2},
		{Cluster: "eu", Service: "*", TTFTP95: 3},
	}}
	tests := map[string]struct {
		labels map[string]string
		want   time.Duration // 0: none
	}{
		"every matcher holds":                {map[string]string{"model_name": "meta-llama/Llama-3", "namespace": "prod"}, 1},
		"one matcher of two holds":           {map[string]string{"model_name": "meta-llama/Llama-3", "namespace": "test"}, 0},
		"the first of two entries":           {map[string]string{"model_name": "meta-llama/L-70B", "namespace": "prod"}, 1},
		"a star crosses the slash of a name": {map[string]string{"model_name": "meta-llama/L-70B"}, 2},
		"a star matches a label not there":   {map[string]string{"cluster": "eu"}, 3},
		"no label at all":                    {nil, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o, ok := f.For(tt.labels)
			if ok != (tt.want != 0) || o.TTFTP95 != tt.want {
				t.Errorf("got %v, %v; want %v", o.TTFTP95, ok, tt.want)
			}
		})
	}
	if _, ok := (*File)(nil).For(nil); ok {
		t.Error("no file promised something")
	}
}

func TestValueIsInBaseUnits(t *testing.T) {
	o, err := ForUseCase("rag")
	must.Succeed(t, err)
	for key, want := range map[Key]float64{TTFTP95: 1, ITLP95: 0.08, E2EP95: 15} {
		if got, ok := o.Value(key); !ok || got != want {
			t.Errorf("%s: %v, %v; want %v", key, got, ok, want)
		}
	}
	for _, key := range []Key{Availability, "nonsense"} {
		if got, ok := o.Value(key); ok {
			t.Errorf("%s was promised: %v", key, got)
		}
	}
	if o.Source() != "rag" || (Objective{}).Source() != "slo" {
		t.Errorf("sources %q, %q", o.Source(), Objective{}.Source())
	}
}

func TestTheDocumentedExampleParses(t *testing.T) {
	page, err := os.ReadFile("../../../docs/slo.md")
	must.Succeed(t, err)
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/slo.md has no example")
	}
	f, err := Parse("docs/slo.md", []byte(example))
	must.Succeed(t, err)
	o, _ := f.For(map[string]string{"model_name": "meta-llama/Llama-3", "namespace": "prod"})
	if o.UseCase != "chat" || o.TTFTP95 != 800*time.Millisecond {
		t.Errorf("the example gives %+v", o)
	}
	for _, u := range UseCases() {
		if !strings.Contains(string(page), "| `"+u+"` |") {
			t.Errorf("docs/slo.md does not list %s", u)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"objectives:\n- use_case: chat\n  ttft_p95: 1s\n  availability: 99.9%\n",
		"objectives:\n- model: \"[a-\"\n  e2e_p95: 1h\n",
		"objectives:\n- &a {use_case: rag}\n- *a\n", "objectives:\n- ttft: {p: 99, target: 1s}\n  itl: &b {p: 50, target: 1ms}\n  e2e: *b\n",
		"objectives: {ttft_p95: ~}\n", "---\n---\n", "\xff", "objectives:\n- availability: 1e-400\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		file, err := Parse("slo.yaml", content)
		if err != nil {
			return
		}
		for _, o := range file.Objectives {
			for _, k := range []Key{TTFTP95, ITLP95, E2EP95, Availability} {
				v, _ := o.Value(k)
				if math.IsNaN(v) || v < 0 || k == Availability && v >= 1 {
					t.Errorf("accepted %s = %v", k, v)
				}
			}
			for _, p := range o.Promises() {
				if !(p.Share > 0 && p.Share < 1) || (p.Target > 0) == (p.Quantity == Succeeded) {
					t.Errorf("accepted the promise %+v", p)
				}
			}
			if len(o.Promises()) == 0 {
				t.Errorf("accepted an objective that promises nothing: %+v", o)
			}
		}
		file.For(map[string]string{"model_name": "a/b"})
	})
}

func TestPromises(t *testing.T) {
	for name, tt := range map[string]struct {
		o    Objective
		want []Promise
	}{
		"nothing": {Objective{}, nil},
		"a use case": {
			Objective{TTFTP95: 2, ITLP95: 1, E2EP95: 3, Availability: 0.99},
			[]Promise{{TTFT, 0.95, 2}, {ITL, 0.95, 1}, {E2E, 0.95, 3}, {Succeeded, 0.99, 0}},
		},
		"a P95 that a P99 implies":         {Objective{TTFTP95: 2, TTFT: Percentile{0.99, 2}}, []Promise{{TTFT, 0.99, 2}}},
		"a P95 that is tighter than a P99": {Objective{TTFTP95: 1, TTFT: Percentile{0.99, 2}}, []Promise{{TTFT, 0.95, 1}, {TTFT, 0.99, 2}}},
		"a P95 beside a median":            {Objective{TTFTP95: 2, TTFT: Percentile{0.5, 1}}, []Promise{{TTFT, 0.95, 2}, {TTFT, 0.5, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.o.Promises()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
