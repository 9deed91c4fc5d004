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
	Instances []MIGInstance      // of a GPU that is divided (MIG)
	Processes []Process          // that compute on it, as far as they can be seen
}

// A MIGInstance is one instance of a divided GPU.
type MIGInstance struct {
	ID     string
	Values map[string]float64
}

// A Process computes on a GPU, or on one instance of it.
type Process struct {
	PID      int
	Instance string // "" for the whole GPU
}

// family is a metric: as dcgm-exporter's lists of fields describe it.
type family struct{ name, kind, help string }

// The names that are written, those that signals of package indicator read first.
const (
	SMClock        = "DCGM_FI_DEV_SM_CLOCK"
	MemClock       = "DCGM_FI_DEV_MEM_CLOCK"
	MaxSMClock     = "DCGM_FI_DEV_MAX_SM_CLOCK"
	MaxMemClock    = "DCGM_FI_DEV_MAX_MEM_CLOCK"
	Reasons        = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
	Temperature    = "DCGM_FI_DEV_GPU_TEMP"
	MemTemperature = "DCGM_FI_DEV_MEMORY_TEMP"
	Power          = "DCGM_FI_DEV_POWER_USAGE"
	PowerLimit     = "DCGM_FI_DEV_POWER_MGMT_LIMIT"
	Utilization    = "DCGM_FI_DEV_GPU_UTIL"
	MemUtilization = "DCGM_FI_DEV_MEM_COPY_UTIL"
	MemoryUsed     = "DCGM_FI_DEV_FB_USED"
	MemoryFree     = "DCGM_FI_DEV_FB_FREE"
	MemoryReserved = "DCGM_FI_DEV_FB_RESERVED"
	XID            = "DCGM_FI_DEV_XID_ERRORS"
	SingleBit      = "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"
	DoubleBit      = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
	SingleBitEver  = "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL"
	DoubleBitEver  = "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"
	RetiredSingle  = "DCGM_FI_DEV_RETIRED_SBE"
	RetiredDouble  = "DCGM_FI_DEV_RETIRED_DBE"
	RetiredPending = "DCGM_FI_DEV_RETIRED_PENDING"
	RemappedUnc    = "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"
	RemappedCorr   = "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"
	RemapPending   = "DCGM_FI_DEV_ROW_REMAP_PENDING"
	RemapFailure   = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
	LinkErrors     = "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"
	PCIeReplays    = "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"
	PCIeGeneration = "DCGM_FI_DEV_PCIE_LINK_GEN"
	PCIeWidth      = "DCGM_FI_DEV_PCIE_LINK_WIDTH"
	PCIeSent       = "DCGM_FI_DEV_PCIE_TX_THROUGHPUT"
	PCIeReceived   = "DCGM_FI_DEV_PCIE_RX_THROUGHPUT"
	EngineActive   = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
	SMActive       = "DCGM_FI_PROF_SM_ACTIVE"
)

var families = []family{
	{SMClock, "gauge", "SM clock frequency (in MHz)."},
	{MemClock, "gauge", "Memory clock frequency (in MHz)."},
	{MaxSMClock, "gauge", "Highest SM clock frequency (in MHz)."},
	{MaxMemClock, "gauge", "Highest memory clock frequency (in MHz)."},
	{Reasons, "gauge", "Why clocks are lowered (bit mask of nvmlClocksEventReason)."},
	{Temperature, "gauge", "GPU temperature (in C)."},
	{MemTemperature, "gauge", "Memory temperature (in C)."},
	{Power, "gauge", "Power draw (in W)."},
	{PowerLimit, "gauge", "Power limit in force (in W)."},
	{Utilization, "gauge", "GPU utilization (in %)."},
	{MemUtilization, "gauge", "Memory utilization (in %)."},
	{MemoryUsed, "gauge", "Framebuffer memory used (in MiB)."},
	{MemoryFree, "gauge", "Framebuffer memory free (in MiB)."},
	{MemoryReserved, "gauge", "Framebuffer memory reserved (in MiB)."},
	{XID, "gauge", "Last XID error in the kernel's log, 0 without one."},
	{SingleBit, "counter", "Single-bit memory errors since the driver was loaded."},
	{DoubleBit, "counter", "Double-bit memory errors since the driver was loaded."},
	{SingleBitEver, "counter", "Single-bit memory errors of the GPU's life."},
	{DoubleBitEver, "counter", "Double-bit memory errors of the GPU's life."},
	{RetiredSingle, "counter", "Pages retired for single-bit errors."},
	{RetiredDouble, "counter", "Pages retired for double-bit errors."},
	{RetiredPending, "gauge", "Whether pages wait for their retirement."},
	{RemappedUnc, "counter", "Rows remapped for uncorrectable errors."},
	{RemappedCorr, "counter", "Rows remapped for correctable errors."},
	{RemapPending, "gauge", "Whether rows wait to be remapped."},
	{RemapFailure, "gauge", "Whether remapping of rows failed."},
	{LinkErrors, "counter", "NVLink flit CRC errors of all links."},
	{PCIeReplays, "counter", "PCIe retries."},
	{PCIeGeneration, "gauge", "PCIe generation that the link runs at."},
	{PCIeWidth, "gauge", "PCIe lanes that the link uses."},
	{PCIeSent, "gauge", "PCIe throughput from the GPU (in KB/s)."},
	{PCIeReceived, "gauge", "PCIe throughput to the GPU (in KB/s)."},
	{EngineActive, "gauge", "Share of time the graphics engine is active."},
	{SMActive, "gauge", "Share of cycles in which an SM has a warp resident."},
}

// Exposition writes readings as dcgm-exporter shows them; nil where there is no value.
func Exposition(hostname string, readings []Reading) []byte {
	var page, b []byte
	for _, f := range families {
		b = b[:0]
		for i := range readings {
			r := &readings[i]
			if v, ok := r.Values[f.name]; ok {
				b = sample(b, f.name, r, hostname, "", v)
			}
			for _, p := range r.Instances {
				if v, ok := p.Values[f.name]; ok {
					b = sample(b, f.name, r, hostname, p.ID, v)
				}
			}
		}
		if len(b) > 0 {
			page = fmt.Appendf(page, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
			page = append(page, b...)
		}
	}
	return page
}

func sample(b []byte, name string, r *Reading, hostname, part string, v float64) []byte {
	return AppendSample(b, name, v, "gpu", strconv.Itoa(r.Index), "UUID", r.UUID, "pci_bus_id", r.Bus, "device", r.Device,
		"modelName", r.Model, "Hostname", hostname, "DCGM_FI_DRIVER_VERSION", r.Driver, "GPU_I_ID", part)
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
