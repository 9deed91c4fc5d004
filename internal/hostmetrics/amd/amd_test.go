package amd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/hostmetrics/gpu"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

func load(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type values = map[string]float64

func TestAMDSMI(t *testing.T) {
	want := []gpu.Reading{{
		Bus: "0000:0c:00.0", Model: "AMD Instinct MI300X",
		Values: values{
			gpu.SMClock: 1311, gpu.MemClock: 1300, gpu.Reasons: 0x44, gpu.Temperature: 97, gpu.MemTemperature: 68, gpu.Power: 712,
			gpu.Utilization: 98, gpu.MemUtilization: 41, gpu.MemoryUsed: 176004, gpu.MemoryFree: 20588,
			gpu.SingleBit: 2, gpu.DoubleBit: 1, gpu.PCIeReplays: 5, gpu.PCIeWidth: 16,
		},
		Processes: []gpu.Process{{PID: 4711}, {PID: 4712}},
	}, {
		Index: 1, Bus: "0000:22:00.0", Model: "AMD GPU",
		Values: values{gpu.Temperature: 31, gpu.MemoryUsed: 283, gpu.MemoryFree: 196309, gpu.PCIeWidth: 16},
	}}
	bare := strings.TrimSuffix(strings.TrimSpace(strings.Replace(string(load(t, "amd-smi-mi300x.json")), `{
    "gpu_data":`, "", 1)), "}") // as before ROCm 7
	for name, log := range map[string][]byte{"gpu_data": load(t, "amd-smi-mi300x.json"), "a list": []byte(bare)} {
		got, err := Parse(log)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := Name(got, load(t, "amd-smi-static.json")); err != nil {
			t.Error(err)
		}
		if err := AddProcesses(got, load(t, "amd-smi-process.json")); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestROCmSMI(t *testing.T) {
	const mib = 1 << 20
	want := []gpu.Reading{{
		Bus: "0000:83:00.0", Model: "Arcturus GL-XL [Instinct MI100]",
		Values: values{
			gpu.SMClock: 1502, gpu.MemClock: 1200, gpu.Temperature: 71, gpu.MemTemperature: 58, gpu.Power: 231, gpu.PowerLimit: 290,
			gpu.Utilization: 93, gpu.MemUtilization: 37, gpu.MemoryUsed: 20480, gpu.MemoryFree: (34342961152 - 21474836480) / mib, gpu.PCIeReplays: 4,
		},
	}, {
		Index: 1, Bus: "0000:A3:00.0", Model: "AMD GPU",
		Values: values{
			gpu.SMClock: 300, gpu.MemClock: 1200, gpu.Temperature: 44, gpu.Utilization: 0, gpu.MemUtilization: 0,
			gpu.MemoryUsed: 6750208. / mib, gpu.MemoryFree: (34342961152. - 6750208.) / mib, gpu.PCIeReplays: 0,
		},
	}}
	got, err := ParseROCm(load(t, "rocm-smi-6.0.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestBadJSON(t *testing.T) {
	for _, log := range []string{"", "{", "[]", `{"gpu_data":"N/A"}`, `"N/A"`, "null", "WARNING: no GPU", strings.Repeat(" ", MaxLog+1)} {
		if got, err := Parse([]byte(log)); err == nil {
			t.Errorf("amd-smi %.40q: %+v", log, got)
		}
		if got, err := ParseROCm([]byte(log)); err == nil {
			t.Errorf("rocm-smi %.40q: %+v", log, got)
		}
	}
}

// FuzzParse reads what no tool prints: it ends, and what it gives is a metrics page.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"amd-smi-mi300x.json", "amd-smi-static.json", "amd-smi-process.json", "rocm-smi-6.0.json"} {
		f.Add(load(f, name))
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		for _, parse := range []func([]byte) ([]gpu.Reading, error){Parse, ParseROCm} {
			readings, err := parse(log)
			if err != nil {
				continue
			}
			_, _ = Name(readings, log), AddProcesses(readings, log)
			if page := gpu.Page("host", readings); page != nil {
				if _, err := scrape.Parse(page, "", func(labels.Labels, int64, float64) {}); err != nil {
					t.Errorf("%v\n%s", err, page)
				}
			}
		}
	})
}
