// Package nvidia reads what nvidia-smi prints: the XML of nvidia-smi -q -x of drivers
// from 418 to 595, whose elements were renamed on the way, the error counters of
// nvidia-smi nvlink -e, and the XID errors in the kernel's log. It performs no I/O.
package nvidia

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics/gpu"
)

// Limits on what is read. A GPU's part is some 20 kB, 120 kB with all its supported
// clocks; a machine has at most 16.
const (
	MaxLog       = 8 << 20 // bytes
	maxGPUs      = 128
	maxProcesses = 1024 // on one GPU
	maxDepth     = 32
	maxText      = 1024 // bytes of one element that are kept
)

// ErrTooLarge is the error of an output that is larger than any machine's.
var ErrTooLarge = errors.New("more than a machine's GPUs")

// A field is a metric, and where nvidia-smi's XML has it.
type field struct {
	name, unit string
	paths      []string // the first one that holds a value counts
	parts      []string // without any: the sum of those that do
}

// flag is the unit of Yes and No.
const flag = "flag"

// fields are those of a GPU. Names changed with the drivers: power_readings became
// gpu_power_readings in 535 and power_draw average_power_draw in 570; uncorrectable
// errors in SRAM are counted by kind since 550, and GPUs before Ampere count double bits.
var fields = []field{
	{gpu.SMClock, "MHz", []string{"clocks/sm_clock"}, nil},
	{gpu.Temperature, "C", []string{"temperature/gpu_temp"}, nil},
	{gpu.Power, "W", []string{
		"gpu_power_readings/power_draw", "gpu_power_readings/average_power_draw",
		"gpu_power_readings/instant_power_draw", "power_readings/power_draw",
	}, nil},
	{gpu.Utilization, "%", []string{"utilization/gpu_util"}, nil},
	{gpu.DoubleBit, "", []string{"ecc_errors/volatile/double_bit/total"}, []string{
		"ecc_errors/volatile/sram_uncorrectable", "ecc_errors/volatile/sram_uncorrectable_parity",
		"ecc_errors/volatile/sram_uncorrectable_secded", "ecc_errors/volatile/dram_uncorrectable",
	}},
	{gpu.RemapFailure, flag, []string{"remapped_rows/remapped_row_failure"}, nil},
	{gpu.PCIeReplays, "", []string{"pci/replay_counter"}, nil},
	{gpu.MemoryUsed, "MiB", []string{"fb_memory_usage/used"}, nil},
	{gpu.MemoryFree, "MiB", []string{"fb_memory_usage/free"}, nil},
}

// reasons are the bits of nvmlClocksEventReason (nvml.h) by their elements, which are
// clocks_throttle_reason_… before driver 535.
var reasons = []struct {
	name string
	bit  uint
}{
	{"gpu_idle", 0x1},
	{"applications_clocks_setting", 0x2},
	{"sw_power_cap", 0x4},
	{"hw_slowdown", 0x8},
	{"sync_boost", 0x10},
	{"sw_thermal_slowdown", 0x20},
	{"hw_thermal_slowdown", 0x40},
	{"hw_power_brake_slowdown", 0x80},
	{"display_clocks_setting", 0x100},
}

// node is an element of nvidia-smi's XML.
type node struct {
	XMLName xml.Name
	Text    string `xml:",chardata"`
	Nodes   []node `xml:",any"`
}

// element is what an element that stands for a thing holds: its texts by their paths.
type element map[string]string

// Elements that stand for things of their own within a GPU: its instances (MIG), whose memory
// is not the GPU's, and what computes on it.
const instances, processes = "mig_devices", "processes"

// flat returns what a node holds, without what stands for a thing of its own.
func (n *node) flat() element {
	e := element{}
	var walk func(n *node, path string, depth int)
	walk = func(n *node, path string, depth int) {
		if text := strings.TrimSpace(n.Text); text != "" {
			e[path] = text[:min(len(text), maxText)]
		}
		for i := range n.Nodes {
			c := &n.Nodes[i]
			if name := c.XMLName.Local; name != instances && name != processes && depth < maxDepth {
				walk(c, strings.TrimPrefix(path+"/"+name, "/"), depth+1)
			}
		}
	}
	walk(n, "", 0)
	return e
}

// processes are those that a GPU lists.
func (n *node) processes() (out []element) {
	for i := range n.Nodes {
		if n.Nodes[i].XMLName.Local != processes {
			continue
		}
		for k := range n.Nodes[i].Nodes {
			if len(out) < maxProcesses {
				out = append(out, n.Nodes[i].Nodes[k].flat())
			}
		}
	}
	return out
}

// Parse reads the output of nvidia-smi -q -x. Values that the driver does not give are
// left out.
func Parse(log []byte) ([]gpu.Reading, error) {
	if len(log) > MaxLog {
		return nil, ErrTooLarge
	}
	d := xml.NewDecoder(bytes.NewReader(gpu.Text(log)))
	d.Strict = false // process names are not always escaped
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	var root node
	if err := d.Decode(&root); err != nil {
		return nil, fmt.Errorf("read nvidia-smi's XML: %w", err)
	}
	if root.XMLName.Local != "nvidia_smi_log" {
		return nil, errors.New("read nvidia-smi's XML: no nvidia_smi_log in it")
	}
	var out []gpu.Reading
	driver := ""
	for i := range root.Nodes {
		switch n := &root.Nodes[i]; n.XMLName.Local {
		case "driver_version":
			driver = gpu.Clean(n.Text)
		case "gpu":
			if len(out) == maxGPUs {
				return nil, ErrTooLarge
			}
			out = append(out, n.reading(len(out), driver))
		}
	}
	return out, nil
}

// reading is what the element of a GPU holds.
func (n *node) reading(index int, driver string) gpu.Reading {
	e := n.flat()
	g := gpu.Reading{
		Index: index, UUID: known(e["uuid"]), Bus: known(e["pci/pci_bus_id"]), Model: known(e["product_name"]),
		Driver: driver, Values: e.values(fields),
	}
	if _, err := strconv.ParseUint(e["minor_number"], 10, 16); err == nil {
		g.Device = "nvidia" + e["minor_number"]
	}
	if mask, ok := e.reasons(); ok {
		g.Values[gpu.Reasons] = float64(mask)
	}
	for _, p := range n.processes() {
		pid, err := strconv.Atoi(p["pid"])
		if kind := p["type"]; err != nil || pid <= 0 || kind != "" && !strings.Contains(kind, "C") {
			continue
		}
		g.Processes = append(g.Processes, pid)
	}
	return g
}

// known is a name that the driver gives.
func known(s string) string {
	if s == "N/A" || strings.HasPrefix(s, "[") || strings.Contains(s, "Unknown") || strings.HasPrefix(s, "Requested functionality") {
		return ""
	}
	return gpu.Clean(s)
}

func (e element) values(fields []field) map[string]float64 {
	out := map[string]float64{}
	for _, f := range fields {
		at := slices.IndexFunc(f.paths, func(path string) bool { _, ok := f.read(e[path]); return ok })
		if at >= 0 {
			out[f.name], _ = f.read(e[f.paths[at]])
			continue
		}
		for _, path := range f.parts {
			if v, ok := f.read(e[path]); ok {
				out[f.name] += v
			}
		}
	}
	return out
}

func (f *field) read(text string) (float64, bool) {
	if f.unit != flag {
		return gpu.Number(text, f.unit)
	}
	switch text {
	case "Yes":
		return 1, true
	case "No":
		return 0, true
	}
	return 0, false
}

// reasons is the bit mask of why clocks are lowered.
func (e element) reasons() (mask uint, known bool) {
	for _, r := range reasons {
		for _, word := range []string{"event", "throttle"} {
			switch e["clocks_"+word+"_reasons/clocks_"+word+"_reason_"+r.name] {
			case "Active":
				mask, known = mask|r.bit, true
			case "Not Active":
				known = true
			}
		}
	}
	return mask, known
}

var (
	linkGPU    = regexp.MustCompile(`^GPU (\d{1,4}): `)
	linkErrors = regexp.MustCompile(`^\s+Links? [\d-]{1,8}: CRC Errors: (\d{1,18})\s*$`)
)

// LinkErrors reads the CRC errors of all NVLinks of each GPU, by its index, from the
// output of nvidia-smi nvlink -e. A GPU without a link is not in it.
func LinkErrors(out []byte) map[int]float64 {
	errs, index := map[int]float64{}, -1
	for line := range strings.Lines(string(out[:min(len(out), MaxLog)])) {
		line = strings.TrimRight(line, "\r\n")
		if m := linkGPU.FindStringSubmatch(line); m != nil {
			index, _ = strconv.Atoi(m[1]) // four digits
		} else if m := linkErrors.FindStringSubmatch(line); m != nil && index >= 0 {
			n, _ := strconv.ParseFloat(m[1], 64) // digits
			errs[index] += n
		}
	}
	return errs
}

var xid = regexp.MustCompile(`NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{5,20})\): (\d{1,5})\b`)

// XID finds an XID error in a line of the kernel's log: the GPU's address, as gpu.Bus
// has it, and the code of NVIDIA's catalogue.
func XID(line string) (bus string, code int, ok bool) {
	m := xid.FindStringSubmatch(line)
	if m == nil {
		return "", 0, false
	}
	code, _ = strconv.Atoi(m[2]) // five digits
	return gpu.Bus(m[1]), code, true
}
