// Package gpu holds the readings of one machine's GPUs, under the names and in the units of NVIDIA's dcgm-exporter,
// and writes metrics pages. It performs no I/O.
package gpu

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// A Reading holds the values of one GPU at one time. A value that the tool does not report is absent, never zero.
type Reading struct {
	Index     int    // as the vendor's tool counts
	UUID      string // "" where unknown
	Bus       string // PCI address
	Device    string // such as nvidia0
	Model     string
	Driver    string
	Values    map[string]float64 // by the exporter's name
	Processes []int              // the visible processes that compute on it
}

// Names of the metrics that signals of package indicator read. Clocks are in MHz, power in W, temperatures in C,
// utilization in %, memory in MiB.
const (
	SMClock      = "DCGM_FI_DEV_SM_CLOCK"
	Reasons      = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS" // why clocks are lowered: bits of nvmlClocksEventReason
	Temperature  = "DCGM_FI_DEV_GPU_TEMP"
	Power        = "DCGM_FI_DEV_POWER_USAGE"
	Utilization  = "DCGM_FI_DEV_GPU_UTIL"
	MemoryUsed   = "DCGM_FI_DEV_FB_USED"
	MemoryFree   = "DCGM_FI_DEV_FB_FREE"
	XID          = "DCGM_FI_DEV_XID_ERRORS"        // the last one; nvidia-smi has none
	DoubleBit    = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL" // since the driver was loaded
	RemapFailure = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
	LinkErrors   = "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL" // sum over all links
	PCIeReplays  = "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"
	EngineActive = "DCGM_FI_PROF_GR_ENGINE_ACTIVE" // share of time
	SMActive     = "DCGM_FI_PROF_SM_ACTIVE"        // share of cycles in which an SM has a warp resident
)

// Exposition writes readings as dcgm-exporter exposes them; nil without any value.
func Exposition(hostname string, readings []Reading) []byte {
	var p Page
	for i := range readings {
		r := &readings[i]
		for _, name := range slices.Sorted(maps.Keys(r.Values)) {
			p.Add(name, r.Values[name], "gpu", strconv.Itoa(r.Index), "UUID", r.UUID, "pci_bus_id", r.Bus,
				"device", r.Device, "modelName", r.Model, "Hostname", hostname, "DCGM_FI_DRIVER_VERSION", r.Driver)
		}
	}
	return p.Bytes()
}

// A Page collects samples for a page in Prometheus' text format. The zero value is empty.
type Page struct{ families []*dto.MetricFamily } // in the order in which they were added

// Add adds a sample. labels are pairs of a name and a value; pairs without a value are left out.
func (p *Page) Add(name string, v float64, labels ...string) {
	i := slices.IndexFunc(p.families, func(f *dto.MetricFamily) bool { return f.GetName() == name })
	if i < 0 {
		i, p.families = len(p.families),
			append(p.families, &dto.MetricFamily{Name: &name, Type: dto.MetricType_GAUGE.Enum()})
		if end := strings.ToLower(name); strings.HasSuffix(end, "_total") || strings.HasSuffix(end, "_counter") {
			p.families[i].Type = dto.MetricType_COUNTER.Enum()
		}
	}
	// The family's type selects the field.
	m := &dto.Metric{Gauge: &dto.Gauge{Value: &v}, Counter: &dto.Counter{Value: &v}}
	for at := 0; at+1 < len(labels); at += 2 {
		if value := Clean(labels[at+1]); value != "" {
			m.Label = append(m.Label, &dto.LabelPair{Name: &labels[at], Value: &value})
		}
	}
	p.families[i].Metric = append(p.families[i].Metric, m)
}

// Bytes returns the page.
func (p *Page) Bytes() []byte {
	var b bytes.Buffer
	for _, f := range p.families {
		_, _ = expfmt.MetricFamilyToText(&b, f) // fails only for a family without samples
	}
	return b.Bytes()
}

// Clean removes control characters and invalid UTF-8 from foreign text, and cuts it to 200 bytes.
func Clean(s string) string {
	const most = 200
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\ufffd' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return strings.TrimSpace(strings.ToValidUTF8(s[:min(len(s), most)], ""))
}

// Number parses a quantity with its unit, such as "45 C" with the unit "C". Other units, and texts such as "N/A",
// "[Unknown Error]" and "Requested functionality has been deprecated", are unknown.
func Number(text, unit string) (float64, bool) {
	digits, ok := strings.CutSuffix(strings.TrimSpace(text), unit)
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if !ok || err != nil || math.IsNaN(v) || math.Abs(v) > 1e18 || v < 0 && unit != "C" {
		return 0, false
	}
	return v, true
}

// Text removes characters from a tool's output that break text formats.
func Text(b []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, bytes.ToValidUTF8(b, nil))
}
