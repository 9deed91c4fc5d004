package baseline

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

func TestParseReadsWhatMarshalWrites(t *testing.T) {
	want := &File{
		Schema: Schema, Created: time.Unix(1_700_000_000, 0).UTC(), Model: "m", Source: "a load test",
		Normal:     map[string]float64{"ttft_p95": 0.2},
		Thresholds: []Threshold{{Signal: "ttft_p95", Op: ">", Value: 0.3, Normal: 0.2, Why: "1.5 times"}},
		Capacity:   7,
	}
	text, err := want.Marshal()
	must.Succeed(t, err)
	got, err := Parse("b.json", text)
	must.Succeed(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if v, ok := got.Signal(indicator.TTFTP95); !ok || v != 0.2 {
		t.Errorf("normal TTFT P95 %v, %v", v, ok)
	}
	if v, ok := got.Threshold("ttft_p95", ">"); !ok || v.Value != 0.3 {
		t.Errorf("threshold %v, %v", v, ok)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"what is no JSON":           {"normal: 1", "b.json"},
		"another schema":            {`{"schema":"sixty.bench/v1"}`, `want "sixty.baseline/v1"`},
		"a signal that is unknown":  {`{"schema":"sixty.baseline/v1","normal":{"tftt":1}}`, `unknown signal "tftt"`},
		"a comparison without side": {`{"schema":"sixty.baseline/v1","thresholds":[{"signal":"ttft_p95","op":"=","value":1}]}`, `op "="`},
		"a file that is too large":  {strings.Repeat(" ", MaxFile+1), "more than a baseline can need"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("b.json", []byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestForPrefersTheModelsOwn(t *testing.T) {
	every, mine := &File{}, &File{Model: "m"}
	if got := For([]*File{every, mine}, "m"); got != mine {
		t.Errorf("got %+v", got)
	}
	if got := For([]*File{mine, every}, "other"); got != every {
		t.Errorf("got %+v", got)
	}
	none := For([]*File{mine}, "other")
	if none != nil {
		t.Errorf("got %+v", none)
	}
	if _, ok := none.Signal(indicator.TTFTP95); ok {
		t.Error("nothing measured something")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"schema":"sixty.baseline/v1","normal":{"ttft_p95":1},"thresholds":[{"signal":"x","op":">"}]}`))
	f.Add([]byte(`{"schema":"sixty.baseline/v1","normal":null,"created":"x"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := Parse("b.json", text)
		if err != nil {
			return
		}
		if _, err := b.Marshal(); err != nil {
			t.Errorf("it cannot be written again: %v", err)
		}
	})
}
