// Package nvidia parses the XML of nvidia-smi -q -x, of drivers from 418 to 595, which renamed some elements. It
// performs no I/O.
package nvidia

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/metrics/hostmetrics/gpu"
)

// Limits on the output of nvidia-smi. A GPU takes about 20 kB, 120 kB with all supported clocks; a machine has at
// most 16.
const (
	MaxLog       = 8 << 20 // bytes
	maxGPUs      = 128
	maxProcesses = 1024 // on one GPU
)

// ErrTooLarge is the error for an output that is larger than any machine's.
var ErrTooLarge = errors.New("more than a machine's GPUs")

// device holds the elements of nvidia-smi's XML for a GPU. Names changed with the drivers: power_readings became
// gpu_power_readings in 535 and power_draw average_power_draw in 570; uncorrectable errors in SRAM are counted by
// kind since 550, and GPUs before Ampere count double bits. Its instances (MIG), whose memory is not the GPU's, are
// left out.
type device struct {
	UUID         string `xml:"uuid"`
	Bus          string `xml:"pci>pci_bus_id"`
	Model        string `xml:"product_name"`
	Minor        string `xml:"minor_number"`
	Clock        string `xml:"clocks>sm_clock"`
	Temperature  string `xml:"temperature>gpu_temp"`
	PowerDraw    string `xml:"gpu_power_readings>power_draw"`
	PowerAverage string `xml:"gpu_power_readings>average_power_draw"`
	PowerInstant string `xml:"gpu_power_readings>instant_power_draw"`
	PowerBefore  string `xml:"power_readings>power_draw"`
	Utilization  string `xml:"utilization>gpu_util"`
	DoubleBit    string `xml:"ecc_errors>volatile>double_bit>total"`
	SRAM         string `xml:"ecc_errors>volatile>sram_uncorrectable"`
	SRAMParity   string `xml:"ecc_errors>volatile>sram_uncorrectable_parity"`
	SRAMSecDed   string `xml:"ecc_errors>volatile>sram_uncorrectable_secded"`
	DRAM         string `xml:"ecc_errors>volatile>dram_uncorrectable"`
	RemapFailure string `xml:"remapped_rows>remapped_row_failure"`
	Replays      string `xml:"pci>replay_counter"`
	Used         string `xml:"fb_memory_usage>used"`
	Free         string `xml:"fb_memory_usage>free"`

	Reasons       states `xml:"clocks_event_reasons"`
	ReasonsBefore states `xml:"clocks_throttle_reasons"` // 535
	Processes     []struct {
		PID  string `xml:"pid"`
		Type string `xml:"type"`
	} `xml:"processes>process_info"`
}

// states holds elements that each have a state.
type states struct {
	List []struct {
		XMLName xml.Name
		State   string `xml:",chardata"`
	} `xml:",any"`
}

// reasons are the bits of nvmlClocksEventReason (nvml.h) by the ends of their elements' names.
var reasons = map[string]uint{
	"gpu_idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4, "hw_slowdown": 0x8, "sync_boost": 0x10,
	"sw_thermal_slowdown": 0x20, "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80,
	"display_clocks_setting": 0x100,
}

// Parse reads the output of nvidia-smi -q -x. Values that the driver does not report are left out.
func Parse(log []byte) (out []gpu.Reading, err error) {
	if len(log) > MaxLog {
		return nil, ErrTooLarge
	}
	d := xml.NewDecoder(bytes.NewReader(gpu.Text(log)))
	d.Strict = false // process names are not always escaped
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	var root struct {
		XMLName xml.Name `xml:"nvidia_smi_log"`
		Driver  string   `xml:"driver_version"`
		GPUs    []device `xml:"gpu"`
	}
	if err := d.Decode(&root); err != nil {
		return nil, fmt.Errorf("read nvidia-smi's XML: %w", err)
	}
	if len(root.GPUs) > maxGPUs {
		return nil, ErrTooLarge
	}
	for i := range root.GPUs {
		g := root.GPUs[i].toReading()
		g.Index, g.Driver = i, gpu.Clean(root.Driver)
		out = append(out, g)
	}
	return out, nil
}

// toReading parses the values of one GPU.
func (d *device) toReading() gpu.Reading {
	g := gpu.Reading{
		UUID: knownValue(d.UUID), Bus: knownValue(d.Bus), Model: knownValue(d.Model), Values: map[string]float64{},
	}
	if _, err := strconv.ParseUint(strings.TrimSpace(d.Minor), 10, 16); err == nil {
		g.Device = "nvidia" + strings.TrimSpace(d.Minor)
	}
	for _, x := range []struct {
		name, unit string
		texts      []string // the first one that holds a value counts
	}{
		{gpu.SMClock, "MHz", []string{d.Clock}},
		{gpu.Temperature, "C", []string{d.Temperature}},
		{gpu.Power, "W", []string{d.PowerDraw, d.PowerAverage, d.PowerInstant, d.PowerBefore}},
		{gpu.Utilization, "%", []string{d.Utilization}},
		{gpu.DoubleBit, "", []string{d.DoubleBit}},
		{gpu.PCIeReplays, "", []string{d.Replays}},
		{gpu.MemoryUsed, "MiB", []string{d.Used}},
		{gpu.MemoryFree, "MiB", []string{d.Free}},
	} {
		for _, text := range x.texts {
			if v, ok := gpu.Number(text, x.unit); ok {
				g.Values[x.name] = v
				break
			}
		}
	}
	if _, told := g.Values[gpu.DoubleBit]; !told {
		for _, text := range []string{d.SRAM, d.SRAMParity, d.SRAMSecDed, d.DRAM} {
			if v, ok := gpu.Number(text, ""); ok {
				g.Values[gpu.DoubleBit] += v
			}
		}
	}
	switch strings.TrimSpace(d.RemapFailure) {
	case "Yes":
		g.Values[gpu.RemapFailure] = 1
	case "No":
		g.Values[gpu.RemapFailure] = 0
	}
	mask, told := uint(0), false
	for _, s := range slices.Concat(d.Reasons.List, d.ReasonsBefore.List) {
		_, name, _ := strings.Cut(s.XMLName.Local, "_reason_")
		switch bit := reasons[name]; {
		case bit == 0:
		case strings.TrimSpace(s.State) == "Active":
			mask, told = mask|bit, true
		case strings.TrimSpace(s.State) == "Not Active":
			told = true
		}
	}
	if told {
		g.Values[gpu.Reasons] = float64(mask)
	}
	for _, p := range d.Processes[:min(len(d.Processes), maxProcesses)] {
		pid, err := strconv.Atoi(strings.TrimSpace(p.PID))
		if kind := strings.TrimSpace(p.Type); err == nil && pid > 0 && (kind == "" || strings.Contains(kind, "C")) {
			g.Processes = append(g.Processes, pid)
		}
	}
	return g
}

// knownValue returns a name that the driver reports, "" for its words for an unknown one.
func knownValue(s string) string {
	if s = gpu.Clean(s); s == "N/A" || strings.HasPrefix(s, "[") || strings.Contains(s, "Unknown") ||
		strings.HasPrefix(s, "Requested functionality") {
		return ""
	}
	return s
}
