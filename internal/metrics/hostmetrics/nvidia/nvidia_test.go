package nvidia

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics/gpu"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

func load(t testing.TB, name string) []byte {
	t.Helper()
	return must.ReadFile(t, filepath.Join("testdata", name))
}

// TestDrivers reads what the drivers of seven years print. A value that is not in the JSON
// beside it must not be on the page: N/A is absent, not zero.
func TestDrivers(t *testing.T) {
	logs, err := filepath.Glob("testdata/*.xml")
	must.Succeed(t, err)
	if len(logs) < 6 {
		t.Fatalf("%d logs", len(logs))
	}
	for _, path := range logs {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var want []gpu.Reading
			must.Succeed(t, json.Unmarshal(must.ReadFile(t, strings.TrimSuffix(path, ".xml")+".json"), &want))
			got, err := Parse(must.ReadFile(t, path))
			must.Succeed(t, err)
			must.Equal(t, want, got)
		})
	}
}

// TestSignalsAreServed asks of the page what the catalogue's signals of GPUs read. What
// nvidia-smi does not tell is listed.
func TestSignalsAreServed(t *testing.T) {
	readings, err := Parse(load(t, "550-h100-throttled.xml"))
	must.Succeed(t, err)
	has := map[string]bool{}
	if _, err := scrape.Parse(gpu.Exposition("h", readings), "", func(l labels.Labels, _ int64, v float64) {
		has[l.Get(labels.MetricName)] = true
		if l.Get("gpu") == "" || l.Get("UUID") == "" || l.Get("Hostname") != "h" || l.Get("modelName") == "" {
			t.Errorf("a sample without the exporter's labels: %s", l)
		}
	}); err != nil {
		t.Fatal(err)
	}
	untold := map[string]bool{"DCGM_FI_PROF_SM_ACTIVE": true, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": true, gpu.XID: true, gpu.LinkErrors: true}
	for _, s := range indicator.All() {
		if s.Scope != indicator.GPU {
			continue
		}
		names, err := indicator.Metrics(s.PromQL())
		must.Succeed(t, err)
		for _, n := range names {
			if has[n] == untold[n] {
				t.Errorf("%s reads %s: on the page %t, said to be untold %t", s.Name, n, has[n], untold[n])
			}
		}
	}
}

func TestBadLogs(t *testing.T) {
	good := load(t, "570-h200.xml")
	for name, log := range map[string][]byte{
		"nothing":        nil,
		"no XML":         []byte("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
		"another XML":    []byte("<html><body>hello</body></html>"),
		"cut off":        good[:len(good)/2],
		"an entity":      []byte(`<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><nvidia_smi_log><gpu><uuid>&x;</uuid>`),
		"too many GPUs":  []byte("<nvidia_smi_log>" + strings.Repeat("<gpu></gpu>", maxGPUs+1) + "</nvidia_smi_log>"),
		"larger than it": bytes.Repeat([]byte(" "), MaxLog+1),
	} {
		if got, err := Parse(log); err == nil {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
	if _, err := Parse(bytes.Repeat([]byte(" "), MaxLog+1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	none, err := Parse([]byte("<nvidia_smi_log><attached_gpus>0</attached_gpus></nvidia_smi_log>"))
	if err != nil || len(none) > 0 {
		t.Errorf("no GPU: %+v, %v", none, err)
	}
	// Names of processes are written as they are.
	odd := bytes.Replace(good, []byte("VLLM::Worker_TP0"), []byte("a & b \xff\x01"), 1)
	if got, err := Parse(odd); err != nil || len(got) != 1 || len(got[0].Processes) != 1 {
		t.Errorf("an odd name: %+v, %v", got, err)
	}
}

func BenchmarkParse(b *testing.B) {
	log := load(b, "550-h100-throttled.xml")
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		if _, err := Parse(log); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzParse reads what no driver prints: it ends, and what it gives is a metrics page.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.xml")
	must.Succeed(f, err)
	for _, name := range files {
		f.Add(load(f, filepath.Base(name)))
	}
	f.Add([]byte("<nvidia_smi_log><gpu><uuid>a\"\\\n</uuid><clocks><sm_clock>1e308 MHz</sm_clock></clocks><mig_devices><mig_device><gpu_instance_id>\xff</gpu_instance_id></gpu></nvidia_smi_log>"))
	f.Fuzz(func(t *testing.T, log []byte) {
		readings, err := Parse(log)
		if err != nil {
			return
		}
		for i := range readings {
			for name, v := range readings[i].Values {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Errorf("%s is %v", name, v)
				}
			}
		}
		if page := gpu.Exposition("host", readings); page != nil {
			if _, err := scrape.Parse(page, "", func(labels.Labels, int64, float64) {}); err != nil {
				t.Errorf("%v\n%s", err, page)
			}
		}
	})
}
