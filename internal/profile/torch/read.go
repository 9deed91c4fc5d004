package torch

import (
	"bytes"
	"math"
	"strings"

	"github.com/sixty-dev/sixty/internal/profile"
)

// category is what kind of event a trace's category names. Kineto's names have
// changed, and differ between vendors.
type category uint8

const (
	ignored category = iota
	kernel           // the kinds of what devices do, in their order
	memcpy
	memset
	annotation // the classes of what threads do, in their order
	python
	operator
	runtime
	overhead // of the profiler itself
)

// categories are the categories by their names.
var categories = func() map[string]category {
	m := map[string]category{}
	for i, names := range []string{
		kernel: "kernel", memcpy: "gpu_memcpy memcpy", memset: "gpu_memset memset", annotation: "user_annotation",
		python: "python_function", operator: "cpu_op operator", overhead: "overhead",
		runtime: "cuda_runtime cuda_driver hip_runtime hip_api xpu_runtime xpu_driver mtia_runtime privateuse1_runtime privateuse1_driver runtime",
	} {
		for _, name := range strings.Fields(names) {
			m[name] = category(i) //nolint:gosec // one of them
		}
	}
	return m
}()

func categoryOf(cat []byte) category { return categories[strings.ToLower(string(cat))] }

// category looks a category up; the last few are remembered by their text.
func (p *parser) category(cat []byte) category {
	if len(cat) == 0 {
		return ignored
	}
	slot := &p.cats[(int(cat[0])+len(cat))%len(p.cats)]
	if string(cat) != slot.text {
		slot.text, slot.cat = string(cat), categoryOf(cat)
	}
	return slot.cat
}

// addEvent adds the event that was read to the timeline.
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
	c := p.category(e.cat)
	if c == ignored {
		return
	}
	start, ok := micros(e.ts)
	dur := int64(0)
	if ok && e.dur != nil {
		dur, ok = micros(e.dur)
	}
	if !ok {
		p.t.Dropped[profile.Overflow]++
		return
	}
	name := e.name
	if e.nameEscapes {
		name = unescape(name)
	}
	switch c {
	case kernel, memcpy, memset:
		p.activity(c, name, start, dur)
	case overhead:
		p.t.AddCall(0, profile.OverheadThread, profile.Runtime, profile.Event{Start: start, Dur: dur, Name: p.t.Names.ID(name)})
	default:
		p.call(c, name, start, dur)
	}
}

func (p *parser) activity(c category, name []byte, start, dur int64) {
	e := &p.ev
	a := profile.Event{Start: start, Dur: dur, Name: p.t.Names.ID(name)}
	device, stream := int64(-1), int64(-1)
	found := uint8(0)
	if e.args != nil {
		fields(e.args, func(key, v []byte) {
			switch string(key) {
			case "device":
				if n, ok := whole64(v); ok {
					device = n
					found |= 1
				}
			case "stream":
				if n, ok := whole64(v); ok {
					stream = n
					found |= 2
				}
			case "correlation", "Correlation ID":
				a.Correlation = correlation(v)
			case "bytes", "Bytes":
				if n, ok := whole64(v); ok && n > 0 && c != kernel {
					a.Size = uint64(n)
				}
			}
		})
	}
	if found&1 == 0 {
		device, _ = whole64(e.pid)
	}
	if found&2 == 0 {
		stream, _ = whole64(e.tid)
	}
	p.t.AddActivity(0, int(device), stream, profile.Kind(c-kernel), a)
}

func correlation(v []byte) uint32 {
	n, _ := whole64(v)
	return uint32(n) //nolint:gosec // CUPTI's correlation ids have 32 bits
}

func (p *parser) call(c category, name []byte, start, dur int64) {
	e := &p.ev
	pid, ok := whole64(e.pid)
	tid, ok2 := whole64(e.tid)
	if !ok || !ok2 {
		return
	}
	call := profile.Event{Start: start, Dur: dur}
	switch c {
	case runtime:
		if e.args != nil {
			fields(e.args, func(key, v []byte) {
				if string(key) == "correlation" {
					call.Correlation = correlation(v)
				}
			})
		}
	case python:
		p.t.Stacks = true
		name = layerless(name)
	case operator:
		if e.args != nil && computes(name) {
			if key := shapeKey(e.args); len(key) > 0 {
				call.Name = p.t.Names.IDWith(name, key, func() profile.Shape { return shapeOf(string(name), readInputs(e.args)) })
			}
		}
	}
	if call.Name == 0 {
		call.Name = p.t.Names.ID(name)
	}
	p.t.AddCall(0, threadID(pid, tid), profile.Class(c-annotation), call)
}

// threadID tells the threads of all processes apart: the correlations of a trace's
// devices do not say which process they are of, so it is read as one.
func threadID(pid, tid int64) int64 { return pid<<32 ^ tid&math.MaxUint32 }

// layerless takes the number off a module's name: "nn.Module: DecoderLayer_7" is one of many
// that are alike.
func layerless(name []byte) []byte {
	if !bytes.HasPrefix(name, []byte("nn.Module: ")) {
		return name
	}
	short := bytes.TrimRight(name, "0123456789")
	if len(short) < len(name) && bytes.HasSuffix(short, []byte("_")) {
		return short[:len(short)-1]
	}
	return name
}

// shapeKey is the text of what tells an operator's shapes apart; empty where they were not recorded.
func shapeKey(args []byte) (key []byte) {
	fields(args, func(name, v []byte) {
		switch string(name) {
		case "Input Dims", "Input dims", "Input type", "Concrete Inputs", "In msg nelems", "Out msg nelems", "Group size", "Collective name":
			key = append(key, v...)
		}
	})
	return key
}
