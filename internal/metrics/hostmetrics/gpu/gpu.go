// Package gpu holds what a vendor's tool says of the GPUs of one machine, under the names
// and in the units of NVIDIA's dcgm-exporter, and writes it as a metrics page. It
// performs no I/O.
package gpu

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Reading is what is known of one GPU at one moment. A value that the tool does not
// give is absent, never zero.
type Reading struct {
	Index     int    // as the vendor's tool counts
	UUID      string // "" where unknown
	Bus       string // PCI address
	Device    string // such as nvidia0
	Model     string
	Driver    string
	Values    map[string]float64 // by the exporter's name
	Processes []int              // that compute on it, as far as they can be seen
}

// The names that are written: those that signals of package indicator read. Clocks are in
// MHz, power in W, temperatures in C, utilization in %, memory in MiB.
const (
	SMClock      = "DCGM_FI_DEV_SM_CLOCK"
	Reasons      = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS" // why clocks are lowered: bits of nvmlClocksEventReason
	Temperature  = "DCGM_FI_DEV_GPU_TEMP"
	Power        = "DCGM_FI_DEV_POWER_USAGE"
	Utilization  = "DCGM_FI_DEV_GPU_UTIL"
	MemoryUsed   = "DCGM_FI_DEV_FB_USED"
	MemoryFree   = "DCGM_FI_DEV_FB_FREE"
	XID          = "DCGM_FI_DEV_XID_ERRORS"        // the last in the kernel's log, 0 without one
	DoubleBit    = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL" // since the driver was loaded
	RemapFailure = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
	LinkErrors   = "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL" // of all links
	PCIeReplays  = "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"
	EngineActive = "DCGM_FI_PROF_GR_ENGINE_ACTIVE" // share of time
	SMActive     = "DCGM_FI_PROF_SM_ACTIVE"        // share of cycles in which an SM has a warp resident
)

// families are the names in the order of a page, with their types.
var families = []struct{ name, kind string }{
	{SMClock, "gauge"},
	{Reasons, "gauge"},
	{Temperature, "gauge"},
	{Power, "gauge"},
	{Utilization, "gauge"},
	{MemoryUsed, "gauge"},
	{MemoryFree, "gauge"},
	{XID, "gauge"},
	{DoubleBit, "counter"},
	{RemapFailure, "gauge"},
	{LinkErrors, "counter"},
	{PCIeReplays, "counter"},
	{EngineActive, "gauge"},
	{SMActive, "gauge"},
}

// Exposition writes readings as dcgm-exporter shows them; nil where there is no value.
func Exposition(hostname string, readings []Reading) []byte {
	var page, b []byte
	for _, f := range families {
		b = b[:0]
		for i := range readings {
			r := &readings[i]
			if v, ok := r.Values[f.name]; ok {
				b = AppendSample(b, f.name, v, "gpu", strconv.Itoa(r.Index), "UUID", r.UUID, "pci_bus_id", r.Bus,
					"device", r.Device, "modelName", r.Model, "Hostname", hostname, "DCGM_FI_DRIVER_VERSION", r.Driver)
			}
		}
		if len(b) > 0 {
			page = fmt.Appendf(page, "# TYPE %s %s\n", f.name, f.kind)
			page = append(page, b...)
		}
	}
	return page
}

// AppendSample writes a line of the text format with pairs of a label's name and value,
// without those that have no value.
func AppendSample(b []byte, name string, v float64, labels ...string) []byte {
	b = append(b, name...)
	sep := byte('{')
	for i := 0; i+1 < len(labels); i += 2 {
		if labels[i+1] == "" {
			continue
		}
		b = append(append(b, sep), labels[i]...)
		b = append(append(b, `="`...), escaper.Replace(Clean(labels[i+1]))...)
		b = append(b, '"')
		sep = ','
	}
	if sep == ',' {
		b = append(b, '}')
	}
	b = strconv.AppendFloat(append(b, ' '), v, 'g', -1, 64)
	return append(b, '\n')
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Clean is foreign text without what is no text, at most 200 bytes of it.
func Clean(s string) string {
	const most = 200
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\ufffd' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return strings.TrimSpace(s)
}

// Number reads a quantity with its unit, such as "45 C" with the unit "C". What is no
// finite number ("N/A", "[Unknown Error]", "Requested functionality has been
// deprecated") or has another unit is not known.
func Number(text, unit string) (float64, bool) {
	digits, ok := strings.CutSuffix(strings.TrimSpace(text), unit)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || math.IsNaN(v) || math.Abs(v) > 1e18 || v < 0 && unit != "C" {
		return 0, false
	}
	return v, true
}

// Bus makes addresses on the PCI bus comparable, however many digits their domain has
// and whether or not they name the function: "00000000:3B:00.0" and "0000:3b:00".
func Bus(address string) string {
	address, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(address)), ".")
	domain, rest, ok := strings.Cut(address, ":")
	if !ok {
		return address
	}
	return strings.TrimLeft(domain, "0") + ":" + rest
}

// Text removes from a tool's output what readers of text choke on.
func Text(b []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, bytes.ToValidUTF8(b, nil))
}
