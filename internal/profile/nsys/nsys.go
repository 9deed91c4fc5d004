// Package nsys reads exports of Nsight Systems into a profile.Timeline: the SQLite databases that nsys export writes,
// of any release with CUPTI's activity tables.
//
// A reader scans one table after another: first the texts and devices that other tables refer to, then the devices'
// activities (readActivities), then the threads' calls (readCalls). It looks columns up by name; a missing column reads
// as null. Package sqlite scans the tables.
package nsys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/profile"
	"github.com/sixty-dev/sixty/internal/profile/nsys/sqlite"
)

// The tables.
const (
	kernels  = "CUPTI_ACTIVITY_KIND_KERNEL"
	copies   = "CUPTI_ACTIVITY_KIND_MEMCPY"
	sets     = "CUPTI_ACTIVITY_KIND_MEMSET"
	graphs   = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
	runtime  = "CUPTI_ACTIVITY_KIND_RUNTIME"
	ranges   = "NVTX_EVENTS"
	texts    = "StringIds"
	gpus     = "TARGET_INFO_GPU"
	devices  = "TARGET_INFO_CUDA_DEVICE"
	exported = "META_DATA_EXPORT"
)

const (
	maxTexts = 1 << 20
	maxText  = 4096 // bytes
	// A globalTid has the thread in its lower 24 bits, and the process above them. A globalPid has the process there,
	// too.
	threadBits = 24
	threadMask = 1<<threadBits - 1
)

// copyNames are Kineto's names for Nsight's kinds of copies (ENUM_CUDA_MEMCPY_OPER).
var copyNames = map[int64]string{
	1: "Memcpy HtoD (Host -> Device)", 2: "Memcpy DtoH (Device -> Host)", 8: "Memcpy DtoD (Device -> Device)",
	9: "Memcpy HtoH (Host -> Host)", 10: "Memcpy PtoP (Device -> Device)",
}

// Read reads an export of size bytes, with at most limit events (see profile.New). A damaged export gives a partial
// timeline; an export without any event is an error.
func Read(ctx context.Context, r io.ReaderAt, size int64, source string, limit int) (*profile.Timeline, error) {
	db, err := sqlite.Open(r, size)
	if err != nil {
		return nil, hint.With(fmt.Errorf("read %s: %w", source, err), exportAgain)
	}
	t, err := readTables(ctx, db, source, limit)
	if err == nil && db.WAL {
		t.Notes = append(t.Notes, "the database was not closed: its -wal file is not read")
	}
	return t, err
}

const exportAgain = "export the report once more: nsys export --type sqlite --force-overwrite true REPORT.nsys-rep"

func readTables(ctx context.Context, tables *sqlite.DB, source string, limit int) (*profile.Timeline, error) {
	has := func(name string) bool { return tables.Columns(name) != nil }
	if !has(texts) || !has(kernels) && !has(graphs) && !has(runtime) && !has(ranges) {
		what := "it is not a database of Nsight Systems"
		if has(exported) {
			what = "the report has no CUDA activity"
		}
		return nil, hint.With(fmt.Errorf("read %s: %s", source, what),
			"record with --trace cuda,nvtx (see sixty profile how), then nsys export --type sqlite")
	}
	e := &reader{
		ctx: ctx, tables: tables, t: profile.New(source, "Nsight Systems", limit),
		texts: map[int64]string{}, ids: map[int64]uint32{}, device: map[[2]int64]int64{},
	}
	var damaged error
	for _, read := range []func() error{
		e.readStrings, e.readMetadata, e.readGPUs, e.readKernels, e.readGraphs, e.readCopies, e.readRuntime,
		e.readRanges,
	} {
		err := read()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		damaged = errors.Join(damaged, err)
	}
	if damaged != nil {
		if e.t.Events == 0 {
			return nil, hint.With(fmt.Errorf("read %s: %w", source, damaged), exportAgain)
		}
		e.t.Partial = append(e.t.Partial, strings.ReplaceAll(damaged.Error(), "\n", "; "))
	}
	if e.t.Events == 0 {
		return nil, hint.With(fmt.Errorf("read %s: the report has no events", source),
			"record for longer, with --trace cuda,nvtx: see sixty profile how")
	}
	e.t.Close()
	return e.t, nil
}

type reader struct {
	ctx    context.Context //nolint:containedctx // of one call of Read
	tables *sqlite.DB
	t      *profile.Timeline
	texts  map[int64]string   // the texts of StringIds
	ids    map[int64]uint32   // numbers in the timeline's Names, by the same ids
	device map[[2]int64]int64 // the machine's number of a GPU, by a process and the number there
}

func (e *reader) eachRow(name string, columns []string, row func(v []sqlite.Value)) error {
	return sqlite.Scan(e.ctx, e.tables, name, columns, sqlite.CopyRow, func(v *[]sqlite.Value) bool {
		row(*v)
		return true
	})
}

func (e *reader) readStrings() error {
	return sqlite.Scan(e.ctx, e.tables, texts, []string{"id", "value"}, sqlite.CopyRow, func(row *[]sqlite.Value) bool {
		v := *row
		if len(v[1].Bytes) <= maxText {
			e.texts[v[0].Int] = v[1].Text()
		} else {
			e.texts[v[0].Int] = string(v[1].Bytes[:maxText])
		}
		return len(e.texts) < maxTexts
	})
}

func (e *reader) nameID(id int64) uint32 {
	if n, ok := e.ids[id]; ok {
		return n
	}
	text, ok := e.texts[id]
	if !ok {
		text = "(unnamed)"
	}
	n := e.t.Names.ID([]byte(text))
	e.ids[id] = n
	return n
}

func (e *reader) readMetadata() error {
	return e.eachRow(exported, []string{"name", "value"}, func(v []sqlite.Value) {
		if v[0].Text() == "EXPORT_PRODUCT_VERSION" {
			e.t.Tool = "Nsight Systems " + v[1].Text()
		}
	})
}

func (e *reader) readGPUs() error {
	err := e.eachRow(gpus, []string{"id", "name", "memoryBandwidth"}, func(v []sqlite.Value) {
		e.t.GPUs[int(v[0].Int)] = profile.GPU{
			Name: v[1].Text(), Bandwidth: float64(v[2].Int),
		}
	})
	return errors.Join(err, e.eachRow(devices, []string{"gpuId", "cudaId", "pid"}, func(v []sqlite.Value) {
		e.device[[2]int64{v[2].Int, v[1].Int}] = v[0].Int
	}))
}

// deviceOf returns the process that launched an activity, and the machine's number of its device.
func (e *reader) deviceOf(globalPid, device int64) (process int64, gpu int) {
	process = globalPid >> threadBits
	if n, ok := e.device[[2]int64{process & threadMask, device}]; ok {
		device = n
	}
	return process, int(device)
}

// An event is what a row says.
type event struct {
	profile.Event
	process, lane int64 // lane is the stream of an activity, or the thread of a call
	device        int
	class         profile.Class
	id            int64  // the name's id, such as in StringIds
	text          []byte // the name, instead of an id
	skip          bool   // the row is no event
}

// readActivities reads a table of devices' activities. read takes the id of the name and the size from the columns
// more. name returns the number in Names for the id. Scan calls read on several goroutines at once, and name on one.
func (e *reader) readActivities(from string, kind profile.Kind, read func([]sqlite.Value) (id int64, size uint64),
	name func(id int64) uint32, more ...string,
) error {
	common := []string{"start", "end", "deviceId", "streamId", "correlationId", "globalPid"}
	return sqlite.Scan(e.ctx, e.tables, from, append(common, more...), func(v []sqlite.Value, x *event) {
		x.setTimes(v)
		x.lane = v[3].Int
		x.Correlation = uint32(v[4].Int) //nolint:gosec // CUPTI's correlation ids have 32 bits
		x.process, x.device = e.deviceOf(v[5].Int, v[2].Int)
		x.id, x.Size = read(v[len(common):])
	}, func(x *event) bool {
		e.t.Events++
		x.Name = name(x.id)
		e.t.AddActivity(x.process, x.device, x.lane, kind, x.Event)
		return true
	})
}

func (x *event) setTimes(v []sqlite.Value) {
	x.Start, x.Dur = v[0].Int, v[1].Int-v[0].Int
}

func (e *reader) readKernels() error {
	column := "demangledName"
	if e.tables.Column(kernels, column) < 0 {
		column = "shortName"
	}
	return e.readActivities(kernels, profile.Kernel, func(v []sqlite.Value) (int64, uint64) { return v[0].Int, 0 },
		e.nameID, column)
}

func (e *reader) readGraphs() error {
	name, found := e.t.Names.ID([]byte(profile.WholeGraph)), false
	err := e.readActivities(graphs, profile.Kernel, func([]sqlite.Value) (int64, uint64) { return 0, 0 },
		func(int64) uint32 {
			found = true
			return name
		})
	if found {
		e.t.Notes = append(e.t.Notes, "CUDA graphs were recorded as a whole: their kernels are unknown. "+
			"Record with --cuda-graph-trace=node to see them")
	}
	return err
}

func (e *reader) readCopies() error {
	bytesAndKind := func(v []sqlite.Value) (int64, uint64) { return v[1].Int, uint64(max(v[0].Int, 0)) }
	err := e.readActivities(copies, profile.Memcpy, bytesAndKind, func(kind int64) uint32 {
		text := copyNames[kind]
		if text == "" {
			text = fmt.Sprintf("Memcpy (kind %d)", kind)
		}
		return e.t.Names.ID([]byte(text))
	}, "bytes", "copyKind")
	memset := e.t.Names.ID([]byte("Memset (Device)"))
	bytesOnly := func(v []sqlite.Value) (int64, uint64) { return 0, uint64(max(v[0].Int, 0)) }
	nameOfSet := func(int64) uint32 { return memset }
	return errors.Join(err, e.readActivities(sets, profile.Memset, bytesOnly, nameOfSet, "bytes"))
}

// readCalls reads a table of threads' calls. read takes the class and the name from the columns after the common three.
func (e *reader) readCalls(from string, read func([]sqlite.Value, *event), columns ...string) error {
	columns = append([]string{"start", "end", "globalTid"}, columns...)
	return sqlite.Scan(e.ctx, e.tables, from, columns, func(v []sqlite.Value, x *event) {
		x.setTimes(v)
		x.process, x.lane = v[2].Int>>threadBits, v[2].Int&threadMask
		read(v, x)
	}, func(x *event) bool {
		e.t.Events++
		if x.skip {
			return true
		}
		if x.class == profile.Runtime {
			x.Name = e.nameID(x.id)
		} else {
			x.Name = e.t.Names.ID(x.text)
		}
		e.t.AddCall(x.process, x.lane, x.class, x.Event)
		return true
	})
}

func (e *reader) readRuntime() error {
	return e.readCalls(runtime, func(v []sqlite.Value, x *event) {
		x.class, x.id, x.Correlation = profile.Runtime, v[4].Int, uint32(v[3].Int) //nolint:gosec // as above
	}, "correlationId", "nameId")
}

// readRanges reads NVTX ranges. PyTorch adds a running number to its operators' ranges, which is dropped.
func (e *reader) readRanges() error {
	return e.readCalls(ranges, func(v []sqlite.Value, x *event) {
		if x.skip = v[1].Null || v[2].Null; x.skip { // a mark, or the name of a domain or category
			return
		}
		x.text = v[3].Bytes
		if x.text == nil && !v[4].Null {
			x.text = []byte(e.texts[v[4].Int])
		}
		i := bytes.IndexByte(x.text, ',')
		if i > 0 && (bytes.HasPrefix(x.text[i:], []byte(", op_id = ")) ||
			bytes.HasPrefix(x.text[i:], []byte(", seq = "))) {
			x.text = x.text[:i]
		}
		if bytes.Contains(x.text, []byte("::")) {
			x.class = profile.Op
		}
	}, "text", "textId")
}
