package anomaly

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sixty-dev/sixty/internal/pathologies"
)

// definition is the detector as it was first written down, word for word and without any
// care for speed: all values of a metric, of which the last hundred before a value count.
type definition struct{ all map[string][]float64 }

func (d *definition) observe(metric string, value float64) (anomaly bool, z float64) {
	window := d.all[metric]
	if len(window) > 100 {
		window = window[len(window)-100:]
	}
	if len(window) >= 20 {
		n := float64(len(window))
		sum, squares := 0.0, 0.0
		for _, v := range window {
			sum += v
		}
		mean := sum / n
		for _, v := range window {
			squares += math.Pow(v-mean, 2)
		}
		if std := math.Sqrt(squares / n); std > 0 {
			if z = (value - mean) / std; math.Abs(z) > 3 {
				anomaly = true
			}
		}
	}
	d.all[metric] = append(d.all[metric], value)
	return anomaly, z
}

func (d *definition) correlated() bool {
	kv, ttft := d.all[KVUsage], d.all[TTFTP95]
	kv, ttft = kv[max(0, len(kv)-100):], ttft[max(0, len(ttft)-100):]
	if !(len(kv) > 20 && len(ttft) > 20) {
		return false
	}
	kv, ttft = kv[len(kv)-20:], ttft[len(ttft)-20:]
	var sx, sy, sxx, syy, sxy float64
	for i := range kv {
		sx += kv[i]
		sy += ttft[i]
	}
	mx, my := sx/20, sy/20
	for i := range kv {
		sxx += (kv[i] - mx) * (kv[i] - mx)
		syy += (ttft[i] - my) * (ttft[i] - my)
		sxy += (kv[i] - mx) * (ttft[i] - my)
	}
	return sxy/math.Sqrt(sxx*syy) > 0.8 // not of NaN
}

func TestItIsTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := definition{all: map[string][]float64{}}
		var got Detector
		value := rapid.OneOf(rapid.Float64Range(0, 1), rapid.Float64Range(-1e6, 1e6), rapid.Just(0.5))
		for range rapid.IntRange(0, 300).Draw(t, "n") {
			metric := rapid.SampledFrom([]string{KVUsage, TTFTP95}).Draw(t, "metric")
			v := value.Draw(t, "value")
			anomaly, z := want.observe(metric, v)
			r, _ := got.Observe(metric, v)
			if math.Abs(math.Abs(z)-3) > 1e-9 && (r != 0) != anomaly {
				t.Fatalf("anomaly %v, want %v, at z %g", r != 0, anomaly, z)
			}
			if anomaly && (math.Abs(r-z) > 1e-6*math.Abs(z) || (r > 0) != (z > 0)) {
				t.Fatalf("z %g, want %g", r, z)
			}
			if c, raises := got.KVPressure(); !(math.Abs(c-0.8) <= 1e-9) && raises != want.correlated() {
				t.Fatalf("correlated %v (%g), want %v", raises, c, want.correlated())
			}
		}
	})
}

func TestTheBounds(t *testing.T) {
	var d Detector
	for i := range 19 {
		d.Observe("m", float64(i%2))
	}
	if z, _ := d.Observe("m", 100); z != 0 {
		t.Error("an anomaly after 19 values")
	}
	d = Detector{}
	for i := range 20 {
		d.Observe("m", float64(i%2)) // mean and deviation are a half
	}
	for _, tc := range []struct {
		value float64
		want  bool
		z     float64
	}{{2, false, 0}, {2.01, true, 3.02}, {-1, false, 0}, {-1.01, true, -3.02}} {
		copied := Detector{windows: map[string][]float64{"m": slices.Clone(d.windows["m"])}}
		if z, _ := copied.Observe("m", tc.value); (z != 0) != tc.want || math.Abs(z-tc.z) > 1e-9 {
			t.Errorf("%g: %g, want %v with z %g", tc.value, z, tc.want, tc.z)
		}
	}
	d = Detector{}
	for range 50 {
		d.Observe("m", 7)
	}
	if z, _ := d.Observe("m", 8); z != 0 {
		t.Error("an anomaly of what had never changed: the definition has none without deviation")
	}
	d = Detector{}
	for range 200 {
		d.Observe("m", 1)
	}
	if n := len(d.windows["m"]); n != 100 {
		t.Errorf("%d values are kept, want 100", n)
	}
}

func TestCorrelation(t *testing.T) {
	var d Detector
	for i := range 21 {
		if _, raises := d.KVPressure(); raises {
			t.Fatalf("after %d values", i)
		}
		d.Observe(KVUsage, float64(i)/21)
		d.Observe(TTFTP95, 2*float64(i)+1)
	}
	if r, raises := d.KVPressure(); math.Abs(r-1) > 1e-12 || !raises {
		t.Errorf("%g, %v", r, raises)
	}
	for i := range 20 {
		d.Observe(KVUsage, float64(i))
		d.Observe(TTFTP95, -float64(i))
	}
	if r, raises := d.KVPressure(); math.Abs(r+1) > 1e-12 || raises {
		t.Errorf("%g: what goes against each other", r)
	}
}

func TestItIsExplainedByTheCatalogue(t *testing.T) {
	if p := pressurePathology(pathologies.All()); p == nil || p.ID != "kv-cache-thrashing" {
		t.Errorf("KV usage with TTFT is %v, want kv-cache-thrashing", p)
	}
	if p := pressurePathology(nil); p != nil {
		t.Errorf("KV usage with TTFT is %s of no catalogue", p.ID)
	}
}
