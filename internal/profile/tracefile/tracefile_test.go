package tracefile

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/profile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const event = `{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0,"stream":7}}`

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Succeed(t, os.WriteFile(path, content, 0o600))
	return path
}

func zipped(t *testing.T, r io.Reader) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.Copy(z, r); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, z.Close())
	return b.Bytes()
}

func TestReadsEveryFormOfATrace(t *testing.T) {
	text := "[" + strings.Repeat(event+",", 20_000) + event + "]"
	var z bytes.Buffer
	w, err := zstd.NewWriter(&z)
	must.Succeed(t, err)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, w.Close())
	gz := zipped(t, strings.NewReader(text))
	for name, tc := range map[string]struct {
		content []byte
		partial string
	}{
		"a.json":     {[]byte(text), ""},
		"a.json.gz":  {gz, ""},
		"a.json.zst": {z.Bytes(), ""},
		"unnamed":    {gz, ""},
		"cut.gz":     {gz[:len(gz)/2], "is truncated"},
		"cut.json":   {[]byte(text[:len(text)-50]), "is truncated"},
		"bad.gz":     {append(bytes.Clone(gz[:len(gz)-8]), 1, 2, 3, 4, 5, 6, 7, 8), ""},
	} {
		tl, err := Read(t.Context(), write(t, name, tc.content), 0)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := strings.Join(tl.Partial, ";"); !strings.Contains(got, tc.partial) ||
			tc.partial == "" && name != "bad.gz" && got != "" {
			t.Errorf("%s: partial %q, want %q", name, got, tc.partial)
		}
		if tc.partial == "" && tl.Events != 20_001 {
			t.Errorf("%s: %d events", name, tl.Events)
		}
	}
}

// spaces is an endless stream.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestADecompressionBombIsNotUnpacked(t *testing.T) {
	bomb := zipped(t, io.MultiReader(strings.NewReader("["+event+","), io.LimitReader(spaces{}, 80<<20)))
	tl, err := Read(t.Context(), write(t, "bomb.json.gz", bomb), 0)
	if err != nil || len(tl.Partial) != 1 || !strings.Contains(tl.Partial[0], "unpacks to more than") {
		t.Errorf("%v %+v", err, tl)
	}
	bomb = zipped(t, io.LimitReader(spaces{}, 80<<20))
	if _, err := Read(t.Context(), write(t, "bomb.json.gz", bomb), 0); err == nil ||
		!strings.Contains(err.Error(), "unpacks to more than") {
		t.Errorf("%v", err)
	}
}

func TestForeignFiles(t *testing.T) {
	for name, tc := range map[string]struct {
		content    []byte
		want, hint string
	}{
		"empty.json":    {nil, "empty", "stop_profile"},
		"empty.json.gz": {zipped(t, strings.NewReader("")), "empty", "torch.profiler"},
		"x.nsys-rep":    {[]byte("report"), "Nsight Systems, in its own format", "nsys export"},
		"x.parquet":     {[]byte("PAR1...."), "one table", "nsys export"},
		"lfs.json.gz":   {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n"), "Git LFS", "git lfs pull"},
		"x.zip":         {[]byte("PK\x03\x04...."), "zip", "unpack"},
		"x.tar":         {append(bytes.Repeat([]byte{'a'}, 257), []byte("ustar  ...")...), "tar", "unpack"},
		"x.txt":         {[]byte("hello"), "not a trace", "torch.profiler"},
		"x.gz":          {[]byte("\x1f\x8b\x00"), "read", "copy it again"},
	} {
		_, err := Read(t.Context(), write(t, name, tc.content), 0)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(hint.Of(err), tc.hint) {
			t.Errorf("%s: %v (try: %s), want %q, %q", name, err, hint.Of(err), tc.want, tc.hint)
		}
	}
	if _, err := Read(t.Context(), filepath.Join(t.TempDir(), "none"), 0); err == nil {
		t.Error("a file that is not there was read")
	}
	if _, err := Read(t.Context(), t.TempDir(), 0); err == nil {
		t.Error("a directory was read")
	}
}

// TestStdin reads what another program writes, unless it is a database.
func TestStdin(t *testing.T) {
	defer func(f *os.File) { os.Stdin = f }(os.Stdin)
	for name, tc := range map[string]struct {
		content []byte
		want    string
	}{"a trace": {zipped(t, strings.NewReader("["+event+"]")), ""}, "a database": {[]byte("SQLite format 3\x00...."), "from a file"}} {
		var err error
		os.Stdin, err = os.Open(write(t, "stdin", tc.content))
		must.Succeed(t, err)
		paths, err := List(Stdin)
		if err != nil || len(paths) != 1 {
			t.Fatalf("%v %v", paths, err)
		}
		tl, err := Read(t.Context(), paths[0], 0)
		if tc.want == "" && (err != nil || tl.Events != 1) ||
			tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v %v", name, tl, err)
		}
	}
}

// realTraces returns the directory with real traces, or skips the test.
func realTraces(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "..", "shared", "data", "profiles")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the real traces are not here: ", err)
	}
	return dir
}

func TestList(t *testing.T) {
	dir := t.TempDir()
	if _, err := List(dir); err == nil || hint.Of(err) == "" {
		t.Error("an empty directory holds traces")
	}
	for _, name := range []string{"rank1.json.gz", "rank0.json.gz", "notes.txt", "host.async_llm.1.json.gz"} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	if err := os.MkdirAll(filepath.Join(dir, "directory.json"), 0o700); err != nil { // neither it nor a pipe is a trace
		t.Fatal(err)
	}
	got, err := List(dir)
	if err != nil || len(got) != 2 || filepath.Base(got[0]) != "rank0.json.gz" {
		t.Errorf("%v %v", got, err)
	}
}

// TestTimesAreThoseOfTraceLens compares with TraceLens (of 2026-11) on the same files: wall, busy and exposed
// communication in milliseconds, and the idle share. TraceLens omits the activities of the Qwen trace that were launched
// before the profiler's step (14.8 ms, of which 14.2 ms busy), so only the idle share is compared there. Its times are
// floating-point numbers a quarter of a microsecond apart, and memsets count as computation.
func TestTimesAreThoseOfTraceLens(t *testing.T) {
	dir := realTraces(t)
	for name, want := range map[string]struct{ wall, busy, exposed, idle float64 }{
		"hta_nccl_data.json.gz":                                                    {660.551006, 157.500078, 39.529327, 0.76156},
		"hta_ns_resolution_rank0.pt.trace.json.gz":                                 {480.02925, 472.4625, 0, 0.01576},
		"tracelens_h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz":                   {0, 0, 0, 0.0856},
		"tracelens_inference_vllm_decode_full_graph_execution.json.gz":             {10.743182, 10.717697, 0, 0.00237},
		"tracelens_inference_vllm_prefilldecode_piecewise_graph_execution.json.gz": {156.466416, 156.085799, 0, 0.00243},
	} {
		tl, err := Read(t.Context(), filepath.Join(dir, name), 0)
		if err != nil {
			t.Error(err)
			continue
		}
		d := profile.Analyze(tl).Devices[0]
		ms := func(ns int64) float64 { return float64(ns) / 1e6 }
		if math.Abs(d.Share(d.IdleTime())-want.idle) > 0.01 {
			t.Errorf("%s: idle %.4f, want %.4f", name, d.Share(d.IdleTime()), want.idle)
		}
		differs := math.Abs(ms(d.Wall)-want.wall) > 0.05 || math.Abs(ms(d.Busy)-want.busy) > 0.05 ||
			math.Abs(ms(d.Exposed)-want.exposed) > 0.05
		if want.wall > 0 && differs {
			t.Errorf("%s: wall %f, busy %f, exposed %f, want %+v", name, ms(d.Wall), ms(d.Busy), ms(d.Exposed), want)
		}
	}
}

// TestGroupsAreThoseOfTraceLens compares with TraceLens' times by category, in milliseconds: CONV_fwd, CONV_bwd and
// "other" (pooling); NORM_fwd and NORM_bwd; GEMM; on the MI300X, the two operators of InferenceAttention.
func TestGroupsAreThoseOfTraceLens(t *testing.T) {
	dir := realTraces(t)
	for name, want := range map[string]map[profile.Group]float64{
		"hta_ns_resolution_rank0.pt.trace.json.gz":                                 {profile.Convolution: 308.377, profile.Norm: 86.04625, profile.GEMM: 0.38525},
		"hta_nccl_data.json.gz":                                                    {profile.Convolution: 58.883051, profile.Norm: 31.382107, profile.GEMM: 0.187902},
		"tracelens_inference_vllm_prefilldecode_piecewise_graph_execution.json.gz": {profile.Attention: 5.146907, profile.KVCache: 0.586371},
	} {
		tl, err := Read(t.Context(), filepath.Join(dir, name), 0)
		if err != nil {
			t.Error(err)
			continue
		}
		d := profile.Analyze(tl).Devices[0]
		for g, ms := range want {
			if got := float64(d.Group[g].Sum) / 1e6; math.Abs(got-ms) > 0.2 {
				t.Errorf("%s: %s %f ms, want %f", name, g, got, ms)
			}
		}
	}
}

// TestAnExportGivesTheNumbersOfSQL compares with SQL over the same tables, both GPUs together: kernels; wall and busy by
// the union of intervals, copies with memsets by their sum, and NCCL's kernels by their sum, in nanoseconds.
func TestAnExportGivesTheNumbersOfSQL(t *testing.T) {
	dir := realTraces(t)
	for name, want := range map[string][5]int64{
		"nsysai_h100_2gpu_1s.sqlite":    {3442, 1938706183, 1925700952, 1880842214 + 29216, 0},
		"nsysai_mfu_2gpu_before.sqlite": {4010, 598510363, 541093703, 5692087 + 213408, 25401752},
	} {
		tl, err := Read(t.Context(), filepath.Join(dir, name), 0)
		if err != nil {
			t.Error(err)
			continue
		}
		p := profile.Combine([]*profile.Analysis{profile.Analyze(tl)})
		got := [5]int64{int64(p.KernelRuns), p.Wall, p.Busy, p.Group[profile.Copies].Sum, p.Group[profile.Communication].Sum}
		if p.Devices != 2 || got != want {
			t.Errorf("%s: %d devices, %v, want %v", name, p.Devices, got, want)
		}
	}
}
