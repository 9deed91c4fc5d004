package torch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/profile"
)

func read(t testing.TB, text string) *profile.Timeline {
	t.Helper()
	tl, err := Read(t.Context(), strings.NewReader(text), "test", 0)
	if err != nil {
		t.Fatalf("%v (try: %s)", err, hint.Of(err))
	}
	return tl
}

const (
	aKernel = `{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1712195495505583.125,"dur":4.928,"args":{"device":1,"stream":20,"correlation":42}}`
	aLaunch = `{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":1712195495505543,"dur":5,"args":{"correlation":42}}`
)

func trace(events ...string) string { return `{"traceEvents":[` + strings.Join(events, ",\n") + `]}` }

func onlyActivity(t *testing.T, tl *profile.Timeline) (*profile.Stream, profile.Event) {
	t.Helper()
	if len(tl.Streams) != 1 || tl.Streams[0].Activities[profile.Kernel].Len() != 1 {
		t.Fatalf("%d streams", len(tl.Streams))
	}
	for a := range tl.Streams[0].Activities[profile.Kernel].All {
		return tl.Streams[0], *a
	}
	panic("unreachable")
}

func TestReadsAKernelWithItsLaunch(t *testing.T) {
	tl := read(t, trace(aKernel, aLaunch))
	s, a := onlyActivity(t, tl)
	want := profile.Event{Start: 1712195495505583125, Dur: 4928, Name: a.Name, Correlation: 42}
	if a != want || s.Device != 1 || s.ID != 20 || tl.Names.Text[a.Name] != "gemm" || tl.Events != 2 ||
		len(tl.Partial) > 0 {
		t.Errorf("%+v on %d/%d, want %+v; partial %v", a, s.Device, s.ID, want, tl.Partial)
	}
}

func TestEveryFormOfAnEventIsRead(t *testing.T) {
	for name, text := range map[string]string{
		"as an array":             `[` + aKernel + `]`,
		"as an array without end": `[` + aKernel + `,`,
		"behind a mark":           "\xef\xbb\xbf" + trace(aKernel),
		"args first":              trace(`{"args":{"stream":20,"device":1},"name":"gemm","cat":"Kernel","dur":4.928,"ts":1712195495505583.125,"ph":"X","pid":0,"tid":"stream 7"}`),
		"numbers in strings":      trace(`{"ph":"X","cat":"kernel","name":"gemm","pid":1,"tid":"stream 20","ts":"1712195495505583.125","dur":"4.928"}`),
		"no args":                 trace(`{"ph":"X","cat":"kernel","name":"gemm","pid":1,"tid":20,"ts":1712195495505583.125,"dur":4.928}`),
		"spread over lines":       strings.ReplaceAll(trace(aKernel), ",", " ,\r\n\t"),
		"escapes":                 trace(strings.Replace(aKernel, `"gemm"`, `"\u0067e\u006dm"`, 1)),
		"among foreign fields":    `{"schemaVersion":1,"x":{"traceEvents":[{"a":"}]"}]},"y":[[[]]],"traceEvents":[` + aKernel + `],"z":"\"","n":null}`,
		"beside flows":            trace(`{"ph":"s","id":42,"pid":9,"tid":9,"ts":1,"cat":"ac2g","name":"ac2g"}`, aKernel, `{"ph":"f","id":42,"pid":0,"tid":7,"ts":2,"cat":"ac2g","name":"ac2g","bp":"e"}`),
	} {
		t.Run(name, func(t *testing.T) {
			tl := read(t, text)
			s, a := onlyActivity(t, tl)
			if a.Start != 1712195495505583125 || a.Dur != 4928 || s.Device != 1 || s.ID != 20 ||
				tl.Names.Text[a.Name] != "gemm" {
				t.Errorf("%+v %q on %d/%d", a, tl.Names.Text[a.Name], s.Device, s.ID)
			}
		})
	}
}

// TestCategories has an annotation that an old profiler recorded as an operator, and overhead of the profiler.
func TestCategories(t *testing.T) {
	tl := read(t, trace(
		strings.Replace(aKernel, `505583.125`, `505783.125`, 1), strings.Replace(aLaunch, `505543`, `505743`, 1),
		strings.Replace(strings.Replace(aKernel, `:42`, `:43`, 1), `505583`, `505513`, 1),
		`{"ph":"X","cat":"Operator","name":"ProfilerStep#5","pid":9,"tid":9,"ts":1712195495505500,"dur":500}`,
		`{"ph":"X","cat":"overhead","name":"Activity Buffer Request","pid":-1,"tid":0,"ts":1712195495505600,"dur":100}`))
	a := profile.Analyze(tl)
	if len(a.Steps) != 1 || a.StepsBy != "ProfilerStep annotations" {
		t.Errorf("%d steps by %q", len(a.Steps), a.StepsBy)
	}
	if got := a.Devices[0].Idle[profile.ProfilerTime]; got != 100_000 {
		t.Errorf("the profiler took %d ns, want 100 µs", got)
	}
}

// TestDamagedTracesAreReadInPart: the timeline has the readable events, and says what is missing.
func TestDamagedTracesAreReadInPart(t *testing.T) {
	many := strings.Repeat(aLaunch+",", 40) + aLaunch
	for name, tc := range map[string]struct {
		text    string
		partial string // "" is whole
	}{
		"control characters":   {trace(strings.Replace(aKernel, "gemm", "ge\x00\x01\n\tmm", 1)), ""},
		"bytes no UTF-8":       {trace(strings.Replace(aKernel, "gemm", "ge\xff\xfemm", 1)), ""},
		"cut in an event":      {trace(aKernel, aLaunch)[:len(trace(aKernel))+20], "is truncated"},
		"cut after an event":   {`{"traceEvents":[` + aKernel, "is truncated"},
		"cut in a string":      {`{"traceEvents":[` + aKernel + `,{"ph":"X","name":"abc`, "is truncated"},
		"garbage between":      {trace(aKernel, `{"ph":"X" "name"::: }}}`, aLaunch), "not events"},
		"a number for events":  {trace(aKernel, `17`, aLaunch), "not events"},
		"negative duration":    {trace(aKernel, strings.Replace(aLaunch, `"dur":5`, `"dur":-5`, 1)), "negative"},
		"time beyond 64 bits":  {trace(aKernel, strings.Replace(aLaunch, `"ts":1712195495505543`, `"ts":99999999999999999999`, 1)), "64 bits"},
		"duration beyond":      {trace(aKernel, strings.Replace(aLaunch, `"dur":5`, `"dur":1e300`, 1)), "64 bits"},
		"time without end":     {trace(aKernel, strings.Replace(aLaunch, `"ts":1712195495505543`, `"ts":"NaN"`, 1)), "64 bits"},
		"a time of zero":       {trace(aKernel, many, strings.Replace(aLaunch, `"ts":1712195495505543`, `"ts":0`, 1)), "far away from all others: 1"},
		"a year later":         {trace(aKernel, many, strings.Replace(aLaunch, `"ts":1712195495505543`, `"ts":1743731495505543`, 1)), "far away from all others: 1"},
		"a day long":           {trace(aKernel, many, strings.Replace(aLaunch, `"dur":5`, `"dur":86400000000`, 1)), "far away from all others: 1"},
		"halves of events":     {trace(aKernel, `{"ph":"B","cat":"cpu_op","name":"a","ts":1}`, `{"ph":"E","ts":2}`), "separate start or end events (ph B, E): 2"},
		"an event of 20 MiB":   {trace(aKernel, `{"ph":"X","name":"`+strings.Repeat("a", 20<<20)+`"}`, aLaunch), "larger than any event"},
		"nested without end":   {trace(aKernel, `{"ph":"X","args":`+strings.Repeat("[", 100_000)), "is truncated"},
		"something behind it":  {trace(aKernel) + "garbage", ""},
		"header of 6 MiB":      {`{"metadata":"` + strings.Repeat("x", 6<<20) + `","traceEvents":[` + aKernel + `]}`, ""},
		"a broken header":      {`{"deviceProperties":[{"id":"x"}],"distributedInfo":7,"baseTimeNanoseconds":"many","traceEvents":[` + aKernel + `]}`, ""},
		"a stream that is not": {trace(aKernel, `{"ph":"X","cat":"kernel","name":"k","pid":null,"tid":null,"ts":1712195495505583,"dur":1}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			tl := read(t, tc.text)
			if tl.Streams[0].Activities[profile.Kernel].Len() < 1 {
				t.Fatal("the intact event is lost")
			}
			if tl.Truncated != (tc.partial == "is truncated") {
				t.Errorf("truncated: %v", tl.Truncated)
			}
			got := strings.Join(tl.Partial, "; ")
			if tc.partial == "" && got != "" || !strings.Contains(got, tc.partial) {
				t.Errorf("partial: %q, want %q", got, tc.partial)
			}
			profile.Analyze(tl)
		})
	}
}

func TestNotATrace(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"empty":      {"", "empty"},
		"spaces":     {" \n\t", "not a trace"},
		"text":       {"hello", "not a trace"},
		"other JSON": {`{"a":1}`, "not a trace"},
		"a list":     {`[1,2,3]`, "not a trace"},
		"no events":  {`{"traceEvents":[]}`, "no events"},
		"HTML":       {"<!doctype html>", "not a trace"},
		"a scalar":   {`"x"`, "not a trace"},
		"Chakra":     {`{"schema":"1.1.0-chakra.0.0.4","pid":7,"nodes":[{"id":1}]}`, "execution trace"},
		"rocprofv3":  {`{"rocprofiler-sdk-tool":[{"metadata":{}}]}`, "rocprofv3"},
	} {
		_, err := Read(t.Context(), strings.NewReader(tc.text), name, 0)
		if err == nil || !strings.Contains(err.Error(), tc.want) || hint.Of(err) == "" {
			t.Errorf("%s: %v (try: %s), want %q", name, err, hint.Of(err), tc.want)
		}
	}
}

func TestReadersThatFail(t *testing.T) {
	broken := errors.New("broken pipe")
	tl, err := Read(t.Context(), io.MultiReader(strings.NewReader(`[`+aKernel), iotest.ErrReader(broken)), "x", 0)
	if err != nil || len(tl.Partial) != 1 || !strings.Contains(tl.Partial[0], "broken pipe") {
		t.Errorf("%v, %+v", err, tl)
	}
	if tl := read(t, ""+trace(aKernel)); tl.Events != 1 {
		t.Error("no event")
	}
	slow, err := Read(t.Context(), iotest.OneByteReader(strings.NewReader(trace(aKernel, aLaunch))), "x", 0)
	if err != nil || slow.Events != 2 {
		t.Errorf("byte by byte: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, strings.NewReader(trace(aKernel)), "x", 0); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestALongTraceKeepsItsBeginning(t *testing.T) {
	var b strings.Builder
	b.WriteString("[")
	const n = 20_000
	for i := range n {
		fmt.Fprintf(&b, `{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%d,"dur":1},`, 10*i)
	}
	tl, err := Read(t.Context(), strings.NewReader(b.String()+"]"), "long", 1000)
	must.Succeed(t, err)
	held := tl.Streams[0].Activities[profile.Kernel].Len()
	if held > 1000 || held < 250 || tl.Dropped[""] != int64(n-held) ||
		!strings.Contains(strings.Join(tl.Partial, ""), "only the first") {
		t.Errorf("held %d, dropped %d of %d: %v", held, tl.Dropped[""], n, tl.Partial)
	}
	a := profile.Analyze(tl)
	if d := a.Devices[0]; d.Wall != int64(held-1)*10_000+1000 {
		t.Errorf("wall %d for %d events", d.Wall, held)
	}
}

func TestEventsThatBeginAtOneTimeStopAtTheLimit(t *testing.T) {
	text := "[" + strings.Repeat(`{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":5,"dur":1},`, 20_000) + "]"
	tl, err := Read(t.Context(), strings.NewReader(text), "x", 1000)
	if err != nil || tl.Streams[0].Activities[profile.Kernel].Len() != 1000 || tl.Dropped[""] != 19_000 ||
		len(tl.Partial) == 0 {
		t.Errorf("%v: %+v %v", err, tl.Dropped, tl.Partial)
	}
}

func TestManyStreams(t *testing.T) {
	var b strings.Builder
	b.WriteString("[")
	for i := range 40_000 {
		fmt.Fprintf(&b, `{"ph":"X","cat":"kernel","name":"k","pid":%d,"tid":%d,"ts":%d,"dur":1},`, i%1000, i, i)
	}
	tl := read(t, b.String()+"]")
	if tl.Dropped[profile.TooMany] == 0 || !strings.Contains(strings.Join(tl.Partial, ""), "threads and streams") {
		t.Errorf("dropped %+v, %v", tl.Dropped, tl.Partial)
	}
	if a := profile.Analyze(tl); len(a.Devices) != 1000 {
		t.Errorf("%d devices", len(a.Devices))
	}
}

func TestMicrosecondsAreExact(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1000, "-1.5": -1500, "1712195495505583.125": 1712195495505583125, "0.0004": 0, "12.3456": 12345, "1e3": 1_000_000, `"7.5"`: 7500,
	} {
		if got, ok := parseMicros([]byte(text)); !ok || got != want {
			t.Errorf("%s: %d %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "x", "1e99", "-1e99", "NaN", "Infinity", "99999999999999999999999", "9300000000000000", "1.2.3", "null"} {
		if got, ok := parseMicros([]byte(text)); ok {
			t.Errorf("%s: %d", text, got)
		}
	}
}

// TestCosts compares with costs that were computed by hand.
func TestCosts(t *testing.T) {
	for name, tc := range map[string]struct {
		op, args     string
		flops, bytes float64
		dims         string
	}{
		"product":       {"aten::mm", `{"Input Dims":[[32,2880],[2880,201088]],"Input type":["c10::BFloat16","c10::BFloat16"]}`, 2 * 32 * 2880 * 201088, 2 * (32*2880 + 2880*201088 + 32*201088), "32×2880×201088"},
		"with a vector": {"aten::addmm", `{"Input Dims":[[8],[4,16],[16,8],[],[]],"Input type":["float","float","float","Scalar","Scalar"]}`, 2 * 4 * 16 * 8, 4 * (64 + 128 + 32), "4×16×8"},
		"batches":       {"aten::bmm", `{"Input Dims":[[3,4,5],[3,5,6]]}`, 2 * 3 * 4 * 5 * 6, 0, "4×5×6"},
		"convolution":   {"aten::cudnn_convolution", `{"Input Dims":[[8,3,224,224],[64,3,7,7],[],[],[]],"Concrete Inputs":["","","[3, 3]","[2, 2]","[1, 1]","1"]}`, 2 * 8 * 112 * 112 * 64 * 3 * 49, 0, "8×3×224×224 64×3×7×7"},
		"MIOpen's":      {"aten::miopen_convolution", `{"Input Dims":[[1,4,10,10],[4,4,3,3],[],[],[],[]],"Concrete Inputs":["","","","[1, 1]","[1, 1]","[1, 1]","1"]}`, 2 * 100 * 4 * 4 * 9, 0, "1×4×10×10 4×4×3×3"},
		"its gradients": {"aten::convolution_backward", `{"Input Dims":[[8,64,112,112],[8,3,224,224],[64,3,7,7]]}`, 4 * 8 * 112 * 112 * 64 * 3 * 49, 0, "8×64×112×112 64×3×7×7"},
		"attention":     {"aten::_scaled_dot_product_flash_attention", `{"Input Dims":[[2,16,100,64],[2,16,300,64],[2,16,300,64]],"Concrete Inputs":["","","","0.0","False"]}`, 4 * 2 * 16 * 100 * 300 * 64, 0, "2×16×100×64 2×16×300×64"},
		"causal":        {"aten::_scaled_dot_product_flash_attention", `{"Input Dims":[[2,16,100,64],[2,16,100,64],[2,16,100,64]],"Concrete Inputs":["","","","0.0","True"]}`, 2 * 2 * 16 * 100 * 100 * 64, 0, "2×16×100×64 2×16×100×64"},
		"length first":  {"aten::_flash_attention_forward", `{"Input Dims":[[2,100,16,64],[2,300,16,64]]}`, 4 * 2 * 16 * 100 * 300 * 64, 0, "2×100×16×64 2×300×16×64"},
		"a collective":  {"record_param_comms", `{"Collective name":"allreduce","In msg nelems":1000,"Out msg nelems":1000,"Group size":4,"dtype":"BFloat16"}`, 0, 1.5 * 2000, "0.002 MB, 4 ranks"},
		"all-gather":    {"record_param_comms", `{"Collective name":"_allgather_base","In msg nelems":1000,"Out msg nelems":4000,"Group size":4,"dtype":"Float"}`, 0, 0.75 * 16000, "0.016 MB, 4 ranks"},
		"alone":         {"record_param_comms", `{"Collective name":"allreduce","In msg nelems":1000,"Group size":1,"dtype":"Float"}`, 0, 0, ""},
		"do not fit":    {"aten::mm", `{"Input Dims":[[1,2],[3,4]]}`, 0, 0, ""},
		"vectors":       {"aten::mm", `{"Input Dims":[[1],[2]]}`, 0, 0, ""},
		"no numbers":    {"aten::mm", `{"Input Dims":[[2,"x"],7]}`, 0, 0, ""},
		"nothing":       {"aten::cudnn_convolution", `{"Input Dims":[]}`, 0, 0, ""},
		"another order": {"aten::cudnn_convolution", `{"Input Dims":[[8,3,224,224],[64,3,7,7]],"Concrete Inputs":["","","1","[2]"]}`, 0, 0, ""},
		"no heads":      {"aten::_flash_attention_forward", `{"Input Dims":[[200,16,64],[300,16,64]]}`, 0, 0, ""},
	} {
		if s := costOf(tc.op, readInputs([]byte(tc.args))); s.Flops != tc.flops || s.Bytes != tc.bytes ||
			s.Dims != tc.dims {
			t.Errorf("%s: %+v, want %g operations, %g bytes, %q", name, s, tc.flops, tc.bytes, tc.dims)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{
		trace(aKernel, aLaunch), `[` + aKernel, `{"traceEvents":[{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"x"}}],"deviceProperties":[{"id":0,"name":"H100","numSms":132}]}`,
		trace(`{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":9,"tid":9,"ts":1,"dur":100,"args":{"Input Dims":[[2,3],[3,4]],"Input type":["float","float"]}}`, aLaunch, aKernel),
		trace(`{"ph":"i","cat":"cpu_instant_event","name":"[memory]","ts":5,"args":{"Total Reserved":10,"Total Allocated":5,"Device Id":0,"Device Type":1}}`),
		trace(`{"ph":"X","cat":"user_annotation","name":"execute_context_1(5)_generation_2(2)","pid":9,"tid":9,"ts":0,"dur":1000}`, aLaunch, aKernel),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tl, err := Read(t.Context(), bytes.NewReader(data), "fuzz", 200)
		if err != nil {
			return
		}
		a := profile.Analyze(tl)
		for _, d := range a.Devices {
			sum := d.Compute + d.Exposed + d.ExposedCopies
			for _, c := range d.Idle {
				sum += c
			}
			if sum != d.Wall || d.Wall < 0 {
				t.Fatalf("the parts are %d, the whole is %d", sum, d.Wall)
			}
		}
		profile.Combine([]*profile.Analysis{a, a})
	})
}
