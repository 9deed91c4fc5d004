package tunereport

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sixty-dev/sixty/internal/base/must"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/modelconfig/modelconfigtest"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// answer is the result of a short real search.
func answer(t *testing.T, itl time.Duration) *Answer {
	t.Helper()
	m := modelconfigtest.Read(t, "gemma-3-27b")
	d, err := perfmodel.FindGPU("H100")
	must.Succeed(t, err)
	base := perfmodel.Settings{Release: "0.23", Device: d, MaxModelLen: 8192}
	offer := &planning.Offer{Choice: planning.Choice{Device: d}, Model: m, Base: base,
		Price: planning.ListPrices()[d.Name]}
	p := &planning.Plan{Offers: []*planning.Offer{offer}, MaxGPUs: 8,
		Targets: planning.Targets{ITLP95: itl, TTFTP95: time.Second}, Demand: planning.Demand{
			Rate: 4, MeanPrompt: 800, MeanOutput: 100, Text: "4 requests/s",
			Draw: func(rate float64, replicas, _ int) ([]sim.Request, error) {
				var out []sim.Request
				for i := range 120 {
					out = append(out, sim.Request{Arrival: time.Duration(float64(i*replicas) / rate * 1e9),
						PromptTokens: 800, OutputTokens: 100})
				}
				return out, nil
			},
		}}
	r, err := p.Search()
	must.Succeed(t, err)
	l, err := perfmodel.NewLedger(m, base)
	must.Succeed(t, err)
	return New(&planning.Tuned{Ledger: l, Plan: p, Result: r}, "google/gemma-3-27b-it")
}

func TestTextKeepsToItsColumns(t *testing.T) {
	for _, itl := range []time.Duration{100 * time.Millisecond, time.Millisecond} {
		a := answer(t, itl)
		for _, width := range []int{80, 120} {
			var b bytes.Buffer
			must.Succeed(t, Document(a).Text(&b, render.Options{Width: width}, true))
			for line := range strings.SplitSeq(b.String(), "\n") {
				if n := render.Cells(line); n > width {
					t.Errorf("%d columns: %d in %q", width, n, line)
				}
				if strings.Contains(line, "%!") {
					t.Errorf("a broken verb: %q", line)
				}
			}
			if itl == time.Millisecond && !strings.Contains(b.String(), "nearest") {
				t.Error("nothing comes nearest")
			}
			for _, want := range []string{"vllm serve google/gemma-3-27b-it", "--max-num-batched-tokens",
				"left for the KV cache", "not understood", "not calibrated", "$/h"} {
				if !strings.Contains(b.String(), want) {
					t.Errorf("%d columns: no %q", width, want)
				}
			}
		}
		if a.Met() != (itl > time.Millisecond) {
			t.Errorf("%s: status %s", itl, a.Status)
		}
	}
}

// A first screen is at most 20 lines of 80 columns, whatever there is to say.
func TestShortTextFitsTheScreen(t *testing.T) {
	for _, itl := range []time.Duration{100 * time.Millisecond, time.Millisecond} {
		a := answer(t, itl)
		a.Notes = append(a.Notes, strings.Repeat("a note that goes on and on ", 20), strings.Repeat("another one ", 20))
		a.LeftOut, a.Idle = []string{"--enable-dbo: the overlap of two half batches"}, []string{"--seed"}
		var b bytes.Buffer
		must.Succeed(t, Document(a).Text(&b, render.Options{}, false))
		if n := strings.Count(b.String(), "\n"); n > 20 || !strings.Contains(b.String(), "vllm serve google/gemma") ||
			!strings.Contains(b.String(), "ITL P95, ms") || !strings.Contains(b.String(), "--full shows") {
			t.Errorf("%d lines:\n%s", n, b.String())
		}
		for line := range strings.Lines(b.String()) {
			if n := render.Cells(strings.TrimSuffix(line, "\n")); n > render.DefaultWidth {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}

func TestJSONIsWhatTheDocumentSays(t *testing.T) {
	a := answer(t, 100*time.Millisecond)
	var b bytes.Buffer
	must.Succeed(t, render.JSON(&b, a))
	var back map[string]any
	must.Succeed(t, json.Unmarshal(b.Bytes(), &back))
	for _, key := range []string{"schema", "status", "model", "ledger", "workload", "result"} {
		if back[key] == nil {
			t.Errorf("no %q", key)
		}
	}
	if back["schema"] != "sixty.tune/v3" {
		t.Errorf("schema %v", back["schema"])
	}
	doc := must.ReadFile(t, "../../../docs/tune-json.md")
	for key := range keys(back) {
		if !strings.Contains(string(doc), "`"+key+"`") {
			t.Errorf("docs/tune-json.md does not say what %q is", key)
		}
	}
}

// Printed commands run as they are: with the name of the weights, or a shell variable if nobody knows it, and never
// with the file of the model's configuration.
func TestCommandsRunAsPrinted(t *testing.T) {
	a := answer(t, 100*time.Millisecond)
	for _, r := range a.Result.Rows {
		if !strings.HasPrefix(r.Command, "vllm serve google/gemma-3-27b-it ") || strings.Contains(r.Command, ".json") {
			t.Errorf("%s: %s", r.Row, r.Command)
		}
	}
	l, err := perfmodel.NewLedger(modelconfigtest.Read(t, "gemma-3-27b"),
		perfmodel.Settings{Device: perfmodel.GPUs()[0], MaxModelLen: 8192})
	must.Succeed(t, err)
	args := engine.Config{}
	args.Set("chat-template", "it's $HOME", "the test")
	args.Set("enable-prefix-caching", "false", "the test")
	const want = `vllm serve "$MODEL" --max-model-len 8192 --max-num-seqs 1024 --max-num-batched-tokens 8192 --chat-template 'it'\''s $HOME' --no-enable-prefix-caching`
	if got := commandLine(l, nil, args, ""); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// keys are all names in a document.
func keys(v any) map[string]bool {
	out := map[string]bool{}
	switch x := v.(type) {
	case map[string]any:
		for k, y := range x {
			out[k] = true
			for n := range keys(y) {
				out[n] = true
			}
		}
	case []any:
		for _, y := range x {
			for n := range keys(y) {
				out[n] = true
			}
		}
	}
	return out
}

func TestHTMLIsWholeAndSafe(t *testing.T) {
	a := answer(t, 100*time.Millisecond)
	a.Model.Name = "<script>alert(1)</script>"
	var b bytes.Buffer
	must.Succeed(t, Document(a).HTML(&b))
	page := b.String()
	if strings.Contains(page, "<script>") || !strings.HasSuffix(strings.TrimSpace(page), "</html>") {
		t.Error("the page is not safe or not whole")
	}
	for _, want := range []string{"--max-num-seqs", "What each kind of GPU needs", "left for the KV cache"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
}
