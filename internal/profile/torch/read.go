package torch

import (
	"bytes"
	"math"
	"strings"

	"github.com/sixty-dev/sixty/internal/profile"
)

// category is what an event is. Kineto's names of categories have changed, and differ between vendors.
type category uint8

const (
	ignored category = iota
	kernel           // this and the next two: profile.Kind, in the same order
	memcpy
	memset
	annotation // this and the next three: profile.Class, in the same order
	python
	operator
	runtime
	overhead // the profiler's own work
)

var categories = func() map[string]category {
	m := map[string]category{}
	for i, names := range []string{
		kernel: "kernel", memcpy: "gpu_memcpy memcpy", memset: "gpu_memset memset", annotation: "user_annotation",
		python: "python_function", operator: "cpu_op operator", overhead: "overhead",
		runtime: "cuda_runtime cuda_driver hip_runtime hip_api xpu_runtime xpu_driver mtia_runtime " +
			"privateuse1_runtime privateuse1_driver runtime",
	} {
		for _, name := range strings.Fields(names) {
			m[name] = category(i) //nolint:gosec // one of the categories
		}
	}
	return m
}()

func categoryOf(cat []byte) category { return categories[strings.ToLower(string(cat))] }

// lookUpCategory returns the category of a text. A cache saves most calls of categoryOf.
func (p *parser) lookUpCategory(cat []byte) category {
	if len(cat) == 0 {
		return ignored
	}
	slot := &p.cats[(int(cat[0])+len(cat))%len(p.cats)]
	if string(cat) != slot.text {
		slot.text, slot.cat = string(cat), categoryOf(cat)
	}
	return slot.cat
}

// addEvent adds the parsed event to the timeline.
func (p *parser) addEvent() {
	e := &p.ev
	switch e.ph {
	case 'X':
	case 'B', 'E':
		p.t.Dropped[profile.Halves]++
		return
	default:
		return
	}
	c := p.lookUpCategory(e.cat)
	if c == ignored {
		return
	}
	start, ok := parseMicros(e.ts)
	duration := int64(0)
	if ok && e.dur != nil {
		duration, ok = parseMicros(e.dur)
	}
	if !ok {
		p.t.Dropped[profile.Overflow]++
		return
	}
	name := e.name
	if e.nameEscapes {
		name = unescapeName(name)
	}
	switch c {
	case kernel, memcpy, memset:
		p.addActivity(c, name, start, duration)
	case overhead:
		own := profile.Event{Start: start, Dur: duration, Name: p.t.Names.ID(name)}
		p.t.AddCall(0, profile.OverheadThread, profile.Runtime, own)
	default:
		p.addCall(c, name, start, duration)
	}
}

func (p *parser) addActivity(c category, name []byte, start, dur int64) {
	e := &p.ev
	a := profile.Event{Start: start, Dur: dur, Name: p.t.Names.ID(name)}
	var device, stream int64
	var hasDevice, hasStream bool
	if e.args != nil {
		eachField(e.args, func(key, v []byte) {
			switch string(key) {
			case "device":
				if n, ok := parseInt64(v); ok {
					device, hasDevice = n, true
				}
			case "stream":
				if n, ok := parseInt64(v); ok {
					stream, hasStream = n, true
				}
			case "correlation", "Correlation ID":
				a.Correlation = parseCorrelation(v)
			case "bytes", "Bytes":
				if n, ok := parseInt64(v); ok && n > 0 && c != kernel {
					a.Size = uint64(n)
				}
			}
		})
	}
	if !hasDevice {
		device, _ = parseInt64(e.pid)
	}
	if !hasStream {
		stream, _ = parseInt64(e.tid)
	}
	p.t.AddActivity(0, int(device), stream, profile.Kind(c-kernel), a)
}

func parseCorrelation(v []byte) uint32 {
	n, _ := parseInt64(v)
	return uint32(n) //nolint:gosec // CUPTI's correlation ids have 32 bits
}

func (p *parser) addCall(c category, name []byte, start, dur int64) {
	e := &p.ev
	process, ok := parseInt64(e.pid)
	thread, ok2 := parseInt64(e.tid)
	if !ok || !ok2 {
		return
	}
	call := profile.Event{Start: start, Dur: dur}
	switch c {
	case runtime:
		if e.args != nil {
			eachField(e.args, func(key, v []byte) {
				if string(key) == "correlation" {
					call.Correlation = parseCorrelation(v)
				}
			})
		}
	case python:
		p.t.Stacks = true
		name = trimLayerNumber(name)
	case operator:
		if e.args == nil || !hasKnownCost(name) {
			break
		}
		if shapes := shapesOf(e.args); len(shapes) > 0 {
			cost := func() profile.Cost { return costOf(string(name), readInputs(e.args)) }
			call.Name = p.t.Names.IDWithCost(name, shapes, cost)
		}
	}
	if call.Name == 0 {
		call.Name = p.t.Names.ID(name)
	}
	p.t.AddCall(0, threadID(process, thread), profile.Class(c-annotation), call)
}

// threadID distinguishes the threads of all processes. All are read as one process, because activities of devices do
// not name the process that launched them.
func threadID(pid, tid int64) int64 { return pid<<32 ^ tid&math.MaxUint32 }

// trimLayerNumber drops the number of a module's name: all layers of a model ("nn.Module: DecoderLayer_7") count as
// one module.
func trimLayerNumber(name []byte) []byte {
	if !bytes.HasPrefix(name, []byte("nn.Module: ")) {
		return name
	}
	short := bytes.TrimRight(name, "0123456789")
	if len(short) < len(name) && bytes.HasSuffix(short, []byte("_")) {
		return short[:len(short)-1]
	}
	return name
}

// shapesOf returns a text that is different for different inputs of an operator; empty if no shapes were recorded.
func shapesOf(args []byte) (text []byte) {
	eachField(args, func(name, v []byte) {
		switch string(name) {
		case "Input Dims", "Input dims", "Input type", "Concrete Inputs",
			"In msg nelems", "Out msg nelems", "Group size", "Collective name":
			text = append(text, v...)
		}
	})
	return text
}
