package nvidia

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics/gpu"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

func load(t testing.TB, name string) []byte {
	t.Helper()
	b := must.ReadFile(t, filepath.Join("testdata", name))
	return b
}

type values = map[string]float64

// TestDrivers reads what the drivers of seven years print. A value that is not in the
// table must not be on the page: N/A is absent, not zero.
func TestDrivers(t *testing.T) {
	const h100 = "NVIDIA H100 80GB HBM3"
	uuid := func(last string) string { return "GPU-00000000-0000-0000-0000-0000000000" + last }
	for name, want := range map[string][]gpu.Reading{
		"470-v100.xml": {{
			UUID: uuid("01"), Bus: "00000000:3B:00.0", Device: "nvidia0", Model: "Tesla V100-SXM2-32GB", Driver: "470.182.03",
			Values: values{
				gpu.SMClock: 1290, gpu.Reasons: 4,
				gpu.Temperature: 63, gpu.Power: 297.41, gpu.Utilization: 96,
				gpu.MemoryUsed: 29714, gpu.MemoryFree: 2796, gpu.DoubleBit: 1,
				gpu.PCIeReplays: 7,
			},
			Processes: []int{4101},
		}},
		"525-a10.xml": {{
			UUID: uuid("02"), Bus: "00000000:00:1E.0", Device: "nvidia0", Model: "NVIDIA A10", Driver: "525.105.17",
			Values: values{
				gpu.SMClock: 210, gpu.Reasons: 1,
				gpu.Temperature: 28, gpu.Utilization: 0,
				gpu.MemoryUsed: 0, gpu.MemoryFree: 22571, gpu.DoubleBit: 0,
				gpu.RemapFailure: 0,
				gpu.PCIeReplays:  0,
			},
		}},
		"535-a100-mig.xml": {{
			UUID: uuid("03"), Bus: "00000000:01:00.0", Device: "nvidia1", Model: "NVIDIA A100-SXM4-80GB", Driver: "535.129.03",
			Values: values{
				gpu.SMClock: 1275, gpu.Reasons: 0,
				gpu.Temperature: 41, gpu.Power: 151.2, gpu.MemoryUsed: 36248, gpu.MemoryFree: 44803,
				gpu.DoubleBit:   0,
				gpu.PCIeReplays: 0,
			},
			Processes: []int{5202},
		}},
		"550-h100-throttled.xml": {{
			UUID: uuid("40"), Bus: "00000000:19:00.0", Device: "nvidia0", Model: h100, Driver: "550.127.08",
			Values: values{
				gpu.SMClock: 1980, gpu.Reasons: 0,
				gpu.Temperature: 61, gpu.Power: 688.12, gpu.Utilization: 100,
				gpu.MemoryUsed: 74102, gpu.MemoryFree: 6905, gpu.DoubleBit: 0,
				gpu.RemapFailure: 0,
				gpu.PCIeReplays:  0,
			},
			Processes: []int{6001},
		}, {
			Index: 1, UUID: uuid("41"), Bus: "00000000:3B:00.0", Device: "nvidia1", Model: h100, Driver: "550.127.08",
			Values: values{
				gpu.SMClock: 855, gpu.Reasons: 0x8 | 0x20 | 0x40,
				gpu.Temperature: 88, gpu.Power: 402.77, gpu.Utilization: 100,
				gpu.MemoryUsed: 74102, gpu.MemoryFree: 6905, gpu.DoubleBit: 2,
				gpu.RemapFailure: 0,
				gpu.PCIeReplays:  3,
			},
			Processes: []int{6102},
		}},
		"570-h200.xml": {{
			UUID: uuid("05"), Bus: "00000000:04:00.0", Device: "nvidia0", Model: "NVIDIA H200", Driver: "570.133.20",
			Values: values{
				gpu.SMClock: 1830, gpu.Reasons: 4,
				gpu.Temperature: 57, gpu.Power: 699.32, gpu.Utilization: 87,
				gpu.MemoryUsed: 130226, gpu.MemoryFree: 12906, gpu.DoubleBit: 0,
				gpu.RemapFailure: 0,
				gpu.PCIeReplays:  0,
			},
			Processes: []int{7003},
		}},
		"580-rtx-pro-6000.xml": {{
			UUID: uuid("06"), Bus: "00000000:61:00.0", Device: "nvidia0", Model: "NVIDIA RTX PRO 6000 Blackwell Server Edition", Driver: "580.82.07",
			Values: values{
				gpu.SMClock: 180, gpu.Reasons: 1,
				gpu.Temperature: 24, gpu.Power: 13.97, gpu.Utilization: 0,
				gpu.MemoryUsed: 65720, gpu.MemoryFree: 31531,
				gpu.RemapFailure: 0,
				gpu.PCIeReplays:  0,
			},
			Processes: []int{8004},
		}, {Index: 1, Bus: "00000000:62:00.0", Driver: "580.82.07", Values: values{}}},
	} {
		got, err := Parse(load(t, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
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
