// Package amd reads what AMD's tools print as JSON: amd-smi (metric, static, process) and
// its predecessor rocm-smi. What they measure gets the names and units that
// dcgm-exporter has for it. It performs no I/O.
package amd

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/hostmetrics/gpu"
)

// Limits on what is read. amd-smi writes some 30 kB for each GPU, and a machine has at
// most 64, partitions counted.
const (
	MaxLog       = 8 << 20 // bytes
	maxGPUs      = 128
	maxProcesses = 1024 // on one GPU
)

// object is a JSON object whose shape changes from release to release.
type object = map[string]any

// at follows a path into objects; nil where there is nothing.
func at(v any, path ...string) any {
	for _, p := range path {
		o, _ := v.(object)
		v = o[p]
	}
	return v
}

func text(v any) string {
	s, _ := v.(string)
	if s == "N/A" {
		return ""
	}
	return gpu.Clean(s)
}

// quantity reads {"value": 33, "unit": "C"}, a bare number, or a number in a string.
func quantity(v any, unit string) (float64, bool) {
	if o, ok := v.(object); ok {
		if u, ok := o["unit"].(string); ok && u != unit {
			return 0, false
		}
		v = o["value"]
	}
	switch n := v.(type) {
	case float64:
		return gpu.Number(strconv.FormatFloat(n, 'g', -1, 64)+unit, unit)
	case string:
		return gpu.Number(strings.TrimSuffix(n, unit)+unit, unit)
	}
	return 0, false
}

// field is a metric, and where amd-smi metric has it: the first path that holds a value
// counts. Instinct GPUs have no edge temperature.
type field struct {
	name, unit string
	paths      []string
}

var fields = []field{
	{gpu.Utilization, "%", []string{"usage.gfx_activity"}},
	{gpu.MemUtilization, "%", []string{"usage.umc_activity"}},
	{gpu.Power, "W", []string{"power.socket_power", "power.current_socket_power", "power.average_socket_power"}},
	{gpu.MemClock, "MHz", []string{"clock.mem_0.clk"}},
	{gpu.Temperature, "C", []string{"temperature.hotspot", "temperature.edge"}},
	{gpu.MemTemperature, "C", []string{"temperature.mem"}},
	{gpu.MemoryUsed, "MB", []string{"mem_usage.used_vram"}},
	{gpu.MemoryFree, "MB", []string{"mem_usage.free_vram"}},
	{gpu.SingleBit, "", []string{"ecc.total_correctable_count"}},
	{gpu.DoubleBit, "", []string{"ecc.total_uncorrectable_count"}},
	{gpu.PCIeReplays, "", []string{"pcie.replay_count"}},
	{gpu.PCIeWidth, "", []string{"pcie.width"}},
}

// throttles are the limiters of amd-smi and the bits of nvmlClocksEventReason that say
// the same: the power cap (0x4), the processor-hot signal from the board (0x8) and
// temperature (0x40).
var throttles = []struct {
	name string
	bit  int
}{
	{"ppt", 0x4}, {"prochot", 0x8}, {"socket_thermal", 0x40}, {"vr_thermal", 0x40}, {"hbm_thermal", 0x40},
}

func decode(what string, b []byte) (any, error) {
	if len(b) > MaxLog {
		return nil, errors.New("read " + what + ": more than a machine's GPUs")
	}
	var v any
	if err := json.Unmarshal(gpu.Text(b), &v); err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return v, nil
}

// each lists the GPUs of a document of amd-smi: a list, since ROCm 7 under "gpu_data".
func each(v any) []object {
	if data := at(v, "gpu_data"); data != nil {
		v = data
	}
	list, _ := v.([]any)
	var out []object
	for _, e := range list[:min(len(list), maxGPUs)] {
		if o, ok := e.(object); ok {
			out = append(out, o)
		}
	}
	return out
}

func index(o object, fallback int) int {
	if n, ok := o["gpu"].(float64); ok && n >= 0 && n < 1e6 {
		return int(n)
	}
	return fallback
}

// Parse reads the output of amd-smi metric --json. Values that the tool does not give are
// left out; so is power.throttle_status, which is THROTTLED on an idle GPU.
func Parse(metric []byte) ([]gpu.Reading, error) {
	v, err := decode("amd-smi's metrics", metric)
	if err != nil {
		return nil, err
	}
	var out []gpu.Reading
	for i, o := range each(v) {
		g := gpu.Reading{Index: index(o, i), Model: "AMD GPU", Values: map[string]float64{}}
		for _, f := range fields {
			for _, path := range f.paths {
				if v, ok := quantity(at(o, strings.Split(path, ".")...), f.unit); ok {
					g.Values[f.name] = v
					break
				}
			}
		}
		clocks, _ := o["clock"].(object)
		for name, c := range clocks { // one for each compute die: the fastest
			if mhz, ok := quantity(at(c, "clk"), "MHz"); ok && strings.HasPrefix(name, "gfx_") {
				g.Values[gpu.SMClock] = max(g.Values[gpu.SMClock], mhz)
			}
		}
		if mask, ok := mask(o["throttle"]); ok {
			g.Values[gpu.Reasons] = float64(mask)
		}
		out = append(out, g)
	}
	if len(out) == 0 {
		return nil, errors.New("read amd-smi's metrics: no GPU in them")
	}
	return out, nil
}

func mask(throttle any) (mask int, known bool) {
	for _, t := range throttles {
		switch strings.ToUpper(text(at(throttle, t.name+"_violation_status"))) {
		case "ACTIVE":
			mask, known = mask|t.bit, true
		case "NOT ACTIVE":
			known = true
		}
	}
	return mask, known
}

// Name adds what amd-smi static --asic --bus --json says of the same GPUs.
func Name(readings []gpu.Reading, static []byte) error {
	v, err := decode("amd-smi's list of GPUs", static)
	if err != nil {
		return err
	}
	for i, o := range each(v) {
		n := index(o, i)
		k := slices.IndexFunc(readings, func(g gpu.Reading) bool { return g.Index == n })
		if k < 0 {
			continue
		}
		if name := text(at(o, "asic", "market_name")); name != "" {
			readings[k].Model = name
		}
		readings[k].Bus = text(at(o, "bus", "bdf"))
	}
	return nil
}

// AddProcesses adds those of amd-smi process --json to the same GPUs.
func AddProcesses(readings []gpu.Reading, process []byte) error {
	v, err := decode("amd-smi's processes", process)
	if err != nil {
		return err
	}
	for i, o := range each(v) {
		n := index(o, i)
		k := slices.IndexFunc(readings, func(g gpu.Reading) bool { return g.Index == n })
		list, _ := o["process_list"].([]any)
		if k < 0 {
			continue
		}
		for _, p := range list[:min(len(list), maxProcesses)] {
			if inner := at(p, "process_info"); inner != nil {
				p = inner
			}
			if pid, ok := quantity(at(p, "pid"), ""); ok && pid > 0 && pid < 1<<31 {
				readings[k].Processes = append(readings[k].Processes, gpu.Process{PID: int(pid)})
			}
		}
	}
	return nil
}

// card are the keys of rocm-smi, which changed with its releases.
var card = []field{
	{gpu.Utilization, "", []string{"GPU use (%)"}},
	{gpu.MemUtilization, "", []string{"GPU Memory Read/Write Activity (%)", "GPU memory use (%)"}},
	{gpu.Power, "", []string{"Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)"}},
	{gpu.PowerLimit, "", []string{"Max Graphics Package Power (W)"}},
	{gpu.Temperature, "C", []string{"Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)"}},
	{gpu.MemTemperature, "C", []string{"Temperature (Sensor memory) (C)"}},
	{gpu.PCIeReplays, "", []string{"PCIe Replay Count"}},
}

// ParseROCm reads the output of rocm-smi --json, of whatever was asked of it.
func ParseROCm(out []byte) ([]gpu.Reading, error) {
	v, err := decode("rocm-smi's answer", out)
	if err != nil {
		return nil, err
	}
	cards, _ := v.(object)
	var readings []gpu.Reading
	for name, c := range cards {
		digits, ok := strings.CutPrefix(name, "card")
		n, err := strconv.ParseUint(digits, 10, 16)
		keys, isObject := c.(object)
		if !ok || err != nil || !isObject || len(readings) == maxGPUs {
			continue
		}
		readings = append(readings, fromCard(int(n), keys))
	}
	if len(readings) == 0 {
		return nil, errors.New("read rocm-smi's answer: no GPU in it")
	}
	slices.SortFunc(readings, func(a, b gpu.Reading) int { return a.Index - b.Index })
	return readings, nil
}

func fromCard(n int, c object) gpu.Reading {
	g := gpu.Reading{Index: n, Bus: text(c["PCI Bus"]), Model: "AMD GPU", Values: map[string]float64{}}
	for _, key := range []string{"Card Series", "Card series", "Card model"} {
		if name := text(c[key]); name != "" && !strings.HasPrefix(name, "0x") {
			g.Model = name
			break
		}
	}
	for _, f := range card {
		for _, key := range f.paths {
			if v, ok := quantity(c[key], f.unit); ok {
				g.Values[f.name] = v
				break
			}
		}
	}
	total, known := quantity(c["VRAM Total Memory (B)"], "")
	used, ok := quantity(c["VRAM Total Used Memory (B)"], "")
	if known && ok && used <= total {
		g.Values[gpu.MemoryUsed], g.Values[gpu.MemoryFree] = used/(1<<20), (total-used)/(1<<20)
	}
	for name, key := range map[string]string{gpu.SMClock: "sclk clock speed:", gpu.MemClock: "mclk clock speed:"} {
		if v, ok := gpu.Number(strings.Trim(text(c[key]), "()"), "Mhz"); ok { // "(1700Mhz)"
			g.Values[name] = v
		}
	}
	return g
}
