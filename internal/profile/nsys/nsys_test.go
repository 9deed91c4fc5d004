package nsys

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/profile"
)

// The files in testdata have the tables and columns of Nsight Systems' exports, with four
// decode steps of one process (77) on a GPU that the process calls 0 and the machine 3:
// new.sqlite as of 2024 on, old.sqlite without demangledName and TARGET_INFO_GPU, and
// graphs.sqlite with whole CUDA graphs in place of kernels.

func read(t testing.TB, name string) (*profile.Timeline, []byte) {
	t.Helper()
	b := must.ReadFile(t, filepath.Join("testdata", name))
	tl, err := Read(t.Context(), bytes.NewReader(b), int64(len(b)), name, 0)
	must.Succeed(t, err)
	return tl, b
}

func TestSchemas(t *testing.T) {
	for _, tc := range []struct {
		name, gpu string
		device    int
		kernels   int
	}{{"new.sqlite", "NVIDIA H100 80GB HBM3", 3, 12}, {"old.sqlite", "", 0, 12}, {"graphs.sqlite", "", 0, 4}} {
		tl, _ := read(t, tc.name)
		if tl.Tool != "Nsight Systems 2021.5.2" || len(tl.Partial) > 0 {
			t.Errorf("%s: %s, partial %v", tc.name, tl.Tool, tl.Partial)
		}
		if h := tl.Threads[0]; tc.name != "graphs.sqlite" &&
			(h.Calls[profile.Op].Len() != 4 || tl.Names.Text[first(h).Name] != "aten::mm") {
			t.Errorf("%s: %d operators", tc.name, h.Calls[profile.Op].Len())
		}
		a := profile.Analyze(tl)
		if len(a.Devices) != 1 {
			t.Fatalf("%s: %d devices", tc.name, len(a.Devices))
		}
		d := a.Devices[0]
		if d.ID != tc.device || d.Name != tc.gpu || d.KernelRuns != tc.kernels {
			t.Errorf("%s: device %d %q with %d kernels, want %d %q %d", tc.name, d.ID, d.Name, d.KernelRuns, tc.device,
				tc.gpu, tc.kernels)
		}
		if len(a.Steps) != 4 || a.Steps[0].DecodeRequests != 8 || a.Steps[3].Phase != profile.Decode {
			t.Errorf("%s: steps %+v", tc.name, a.Steps)
		}
		if tc.name == "graphs.sqlite" {
			if d.WholeGraphs != 4 || d.GraphKernels != 4 ||
				!strings.Contains(strings.Join(a.Notes, " "), "--cuda-graph-trace=node") {
				t.Errorf("graphs: %d whole, %d replayed, notes %v", d.WholeGraphs, d.GraphKernels, a.Notes)
			}
			continue
		}
		// Each millisecond: 300 µs GEMM, 200 µs attention, 100 µs all-reduce, 20 µs copy.
		for g, want := range map[profile.Group]int64{profile.GEMM: 1_200_000, profile.Attention: 800_000, profile.Communication: 400_000, profile.Copies: 80_000} {
			if got := d.Group[g].Time; got != want {
				t.Errorf("%s: %s %d ns, want %d", tc.name, g, got, want)
			}
		}
		if d.Wall != 3_680_000 || d.Idle[profile.NotRecorded] != 0 {
			t.Errorf("%s: wall %d, not recorded %d", tc.name, d.Wall, d.Idle[profile.NotRecorded])
		}
	}
}

func first(h *profile.Thread) *profile.Event {
	for c := range h.Calls[profile.Op].All {
		return c
	}
	return &profile.Event{}
}

func TestBadExports(t *testing.T) {
	_, b := read(t, "new.sqlite")
	types := must.ReadFile(t, "sqlite/testdata/types.sqlite")
	for name, tc := range map[string]struct {
		data []byte
		want string
	}{
		"empty":              {nil, "damaged"},
		"another database":   {types, "not a database of Nsight Systems"},
		"the header alone":   {b[:1024], "damaged"},
		"text":               {bytes.Repeat([]byte("x"), 200), "not an SQLite database"},
		"no activity tables": {bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("CUPTI_ACT"), []byte("CUPTI_CAT")), []byte("NVTX_EVENTS"), []byte("NVTX_EVERTS")), "no CUDA activity"},
	} {
		_, err := Read(t.Context(), bytes.NewReader(tc.data), int64(len(tc.data)), name, 0)
		if err == nil || !strings.Contains(err.Error(), tc.want) || hint.Of(err) == "" {
			t.Errorf("%s: %v (try: %s), want %q", name, err, hint.Of(err), tc.want)
		}
	}
}

// TestAFileThatEndsEarlyIsPartial reads files of all sizes below the whole.
func TestAFileThatEndsEarlyIsPartial(t *testing.T) {
	_, b := read(t, "new.sqlite")
	partial := 0
	for size := len(b) - 1024; size > 1024; size -= 1024 {
		tl, err := Read(t.Context(), bytes.NewReader(b[:size]), int64(size), "half", 0)
		if err != nil {
			continue
		}
		if len(tl.Partial) > 0 {
			partial++
		}
		profile.Analyze(tl)
	}
	if partial == 0 {
		t.Error("no truncated file gave a partial timeline")
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"new.sqlite", "graphs.sqlite"} {
		_, b := read(f, name)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if tl, err := Read(t.Context(), bytes.NewReader(data), int64(len(data)), "fuzz", 1000); err == nil {
			profile.Combine([]*profile.Analysis{profile.Analyze(tl)})
		}
	})
}
