// Package tunereport renders the results of tunings: as text for a terminal, as JSON (schema sixty.tune/v3,
// documented in docs/tune-json.md) and as an HTML page. It computes nothing but layout.
package tunereport

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// Schema is the version of the JSON document. Changes only add to it.
const Schema = "sixty.tune/v3"

// An Answer is the result of sixty tune. Bytes, tokens and seconds are plain numbers.
type Answer struct {
	Schema string       `json:"schema"`
	Tool   version.Tool `json:"tool"`
	// Status is "found" (the targets are met even at the slow ends of the intervals), "likely" (they are met at the
	// likeliest step times), "not_met" (they cannot be met, or nothing fits), or "ledger" (only the memory was
	// requested).
	Status string `json:"status"`

	Model    Model              `json:"model"`
	Ledger   Ledger             `json:"ledger"`
	Remedies []perfmodel.Remedy `json:"remedies,omitempty"`

	// Command starts one replica. Its configuration is the surest one found or, without one, the nearest; without
	// targets, it is the given one or, if that does not fit, the first remedy. It is "" if nothing fits.
	Command string `json:"command,omitempty"`

	Workload string   `json:"workload,omitempty"`
	Result   *Result  `json:"result,omitempty"`
	Notes    []string `json:"notes,omitempty"`

	Risk    string   `json:"risk,omitempty"`
	LeftOut []string `json:"left_out,omitempty"` // effects of arguments that the answer ignores
	Idle    []string `json:"idle,omitempty"`     // arguments that do not affect the answer
}

// The values of Status.
const (
	statusFound  = "found"
	statusLikely = "likely"
	statusNotMet = "not_met"
	statusLedger = "ledger"
)

// A Model describes config.json.
type Model struct {
	Name             string   `json:"name"` // its architecture, or its type
	Kind             string   `json:"kind"`
	Weights          string   `json:"weights"` // their types
	Parameters       float64  `json:"parameters"`
	ActiveParameters float64  `json:"active_parameters"`
	Unknown          []string `json:"unknown,omitempty"`
}

// A Ledger is the memory of one GPU under the settings of Command.
type Ledger struct {
	Release     string           `json:"vllm_release"`
	GPU         string           `json:"gpu"`
	GPUs        int              `json:"gpus"` // for one server
	MaxModelLen int              `json:"max_model_len"`
	Assumed     []string         `json:"assumed,omitempty"`
	Lines       []perfmodel.Line `json:"lines"`
	perfmodel.Layout
	perfmodel.Capacity
}

// A Result is the outcome of the search.
type Result struct {
	Rows    []Row    `json:"rows"`              // the surest first; at least one, and none twice
	Offers  []Offer  `json:"offers"`            // outcome for each kind of GPU
	Basis   string   `json:"basis"`             // basis of the step times
	Explain []string `json:"explain,omitempty"` // why targets cannot be met, and which could be
}

// A Row is one configuration with its cost and its command.
type Row struct {
	Row string `json:"row"` // one of the names below
	GPU string `json:"gpu"`
	*planning.Point
	Predicted []planning.Quantity `json:"predicted"`
	// Overload says that at the slow end the servers do not keep up with the load, so that waits depend on how long the
	// load lasts.
	Overload bool           `json:"overload_at_slow_end,omitempty"`
	Cost     *planning.Cost `json:"cost,omitempty"`
	Command  string         `json:"command"` // starts one replica
}

// The names of rows.
const (
	rowSurely   = "surely"   // the cheapest that meets the targets even at the slow ends of the intervals
	rowLikely   = "likely"   // the cheapest that meets the targets at the likeliest step times
	rowSmallest = "smallest" // the cheapest single replica, at the largest load at which it likely meets the targets
	rowNearest  = "nearest"  // the one that comes closest, if none meets the targets
)

// An Offer is the outcome for a kind of GPU.
type Offer struct {
	GPU        string  `json:"gpu"`
	Surely     int     `json:"surely_gpus,omitempty"`
	Likely     int     `json:"likely_gpus,omitempty"`
	AtLeast    int     `json:"at_least_gpus,omitempty"` // lower bound, which costs more than another offer
	GPUHour    float64 `json:"gpu_hour,omitempty"`      // price of one GPU
	Impossible string  `json:"impossible,omitempty"`
}

// New returns the answer. serve is the model argument of "vllm serve"; if it is "", commands use the shell variable
// MODEL.
func New(t *planning.Tuned, serve string) *Answer {
	l := t.Ledger
	m, s := l.Model, &l.Settings
	a := &Answer{
		Schema: Schema, Tool: version.This(), Status: statusLedger,
		Ledger: Ledger{
			Release: string(s.Release.Minor()), GPU: s.Device.Name, GPUs: s.TP * s.PP * s.DP,
			MaxModelLen: s.MaxModelLen, Assumed: slices.Clone(l.Assumed), Lines: l.Lines, Layout: l.KV,
			Capacity: l.Capacity,
		},
		Model: Model{
			Name: cmp.Or(m.Architecture, m.Type), Kind: m.Kind(), Parameters: m.Total(), ActiveParameters: m.Active(),
			Weights: string(m.DType), Unknown: m.Unknown,
		},
		LeftOut: t.LeftOut, Idle: t.Idle,
	}
	if quant := m.Quant.String(); quant != "none" {
		a.Model.Weights += ", linear layers " + quant
	}
	for _, x := range m.Assumed {
		a.Ledger.Assumed = append(a.Ledger.Assumed, fmt.Sprintf("%s %s, which config.json lacks (%s)", x.Field, x.Value,
			x.Source))
	}
	if t.Result != nil {
		a.addResult(t, serve)
		return a
	}
	if t.Plan != nil {
		a.Status = statusNotMet
		a.Notes = append(a.Notes, fmt.Sprintf("%v, with up to %d GPUs and requests of up to %d tokens",
			planning.ErrNothingFits, t.Plan.MaxGPUs, t.Plan.Demand.MaxTokens))
	}
	if a.Met() {
		a.Command = commandLine(l, nil, t.Args, serve)
	} else {
		a.Remedies = l.Remedies()
		if i := slices.IndexFunc(a.Remedies, func(r perfmodel.Remedy) bool { return r.Ledger != nil }); i >= 0 {
			a.Command = commandLine(a.Remedies[i].Ledger, nil, t.Args, serve)
		}
	}
	a.Notes = append(a.Notes, l.Unvalidated()...)
	return a
}

// Met reports whether the targets are met or, without any, the model fits.
func (a *Answer) Met() bool {
	return a.Status == statusFound || a.Status == statusLedger && a.Ledger.Concurrency.Value >= 1
}

// addResult adds the result of a search.
func (a *Answer) addResult(tuned *planning.Tuned, serve string) {
	p, r := tuned.Plan, tuned.Result
	a.Workload, a.Notes = p.Demand.Text, r.Notes
	a.Result = &Result{Basis: r.Basis, Explain: r.Explain}
	for _, x := range []struct {
		name   string
		point  *planning.Point
		status string
	}{
		{rowSurely, r.Surely, statusFound}, {rowLikely, r.Likely, statusLikely}, {rowNearest, r.Nearest, statusNotMet},
		{rowSmallest, r.Smallest, statusNotMet},
	} {
		isSame := func(r Row) bool {
			return r.Knobs == x.point.Knobs && r.Offer == x.point.Offer && r.Rate == x.point.Rate
		}
		if x.point == nil || slices.ContainsFunc(a.Result.Rows, isSame) {
			continue
		}
		if len(a.Result.Rows) == 0 {
			a.Status = x.status
		}
		of := x.point.Offer
		a.Result.Rows = append(a.Result.Rows, Row{
			Row: x.name, GPU: cmp.Or(of.Device.Name, "GPU"), Point: x.point,
			Predicted: predictedQuantities(x.point, &p.Targets),
			Overload:  x.point.Prediction != nil && x.point.Prediction.Overload(), Cost: x.point.Cost(&p.Demand),
			Command: commandLine(x.point.Ledger, &x.point.Knobs, of.Args, serve),
		})
	}
	a.Command = a.Result.Rows[0].Command
	for i := range r.Offers {
		a.Result.Offers = append(a.Result.Offers, offerOf(&r.Offers[i]))
	}
	doubtful := slices.Clone(r.Doubtful)
	if doubts := a.Result.Rows[0].Doubts; a.Status == statusLikely && len(doubts) > 0 {
		doubtful = append(doubtful, "at the slow end of the intervals: "+strings.Join(doubts, ", "))
	}
	if a.Risk = strings.Join(doubtful, "; "); a.Risk == "" && a.Status == statusFound {
		a.Risk = riskLow
	}
}

const riskLow = "low: the slow end of every interval meets its target"

func offerOf(o *planning.OfferResult) Offer {
	out := Offer{
		GPU: cmp.Or(o.Device.Name, render.GiB(o.Memory.Value)), AtLeast: o.AtLeast, GPUHour: o.Price.PerHour,
	}
	if o.Surely != nil {
		out.Surely = o.Surely.GPUs
	}
	if o.Likely != nil {
		out.Likely, out.AtLeast = o.Likely.GPUs, 0
	}
	if o.Err != nil {
		out.Impossible = o.Err.Error()
	}
	return out
}

// predictedQuantities returns the predicted quantities of a whole deployment with their targets.
func predictedQuantities(of *planning.Point, t *planning.Targets) (out []planning.Quantity) {
	p := of.Prediction
	if p == nil {
		return nil
	}
	tokens := p.OutputPerSecond
	if tokens.Value > 0 { // the prediction is for one engine, and includes the time in which its batch empties
		engines := of.TokensPerSecond / tokens.Value
		tokens = perfmodel.Estimate{
			Value: tokens.Value * engines, Low: tokens.Low * engines, High: tokens.High * engines,
		}
	}
	for _, x := range []struct {
		name   string
		unit   indicator.Unit
		of     perfmodel.Estimate
		target float64
	}{
		{"TTFT P95", indicator.Seconds, p.TTFT.P95, t.TTFTP95.Seconds()},
		{"ITL P95", indicator.Seconds, p.ITL.P95, t.ITLP95.Seconds()},
		{"E2E P95", indicator.Seconds, p.E2E.P95, t.E2EP95.Seconds()},
		{"output tokens/s", indicator.TokensPerSecond, tokens, t.TokensPerSecond},
	} {
		q := planning.Quantity{Name: x.name, Unit: x.unit, Estimate: x.of}
		if x.target > 0 {
			q.Target = &x.target
		}
		out = append(out, q)
	}
	return out
}

// commandLine returns the command line of one replica with a ledger's settings and, for a point of a search, its knobs.
// The user's other arguments follow. It omits vLLM's defaults.
func commandLine(l *perfmodel.Ledger, k *planning.Knobs, args engine.Config, serve string) string {
	s, c := &l.Settings, engine.Config{}
	var flags []string
	for _, x := range []struct {
		given bool
		flag  string
		value any
	}{
		{s.TP > 1, engine.TensorParallelSize, s.TP},
		{s.PP > 1, engine.PipelineParallelSize, s.PP},
		{s.DP > 1, engine.DataParallelSize, s.DP},
		{s.ExpertParallel, engine.ExpertParallel, true},
		{s.MaxModelLen != l.Model.MaxPositions, engine.MaxModelLen, s.MaxModelLen},
		{true, engine.MaxNumSeqs, s.MaxNumSeqs},
		{true, engine.MaxNumBatchedTokens, s.MaxNumBatchedTokens},
		{s.KVBytes > 0, engine.KVCacheMemoryBytes, int64(s.KVBytes)},
		{s.KVBytes == 0 && s.Utilization != vllm.Utilization(s.Release), engine.GPUMemoryUtilization, s.Utilization},
		{s.KVType != "auto", engine.KVCacheDtype, s.KVType},
		{k != nil && !k.ChunkedPrefill, engine.ChunkedPrefill, false},
	} {
		if x.given {
			c.Set(x.flag, fmt.Sprint(x.value), "the answer")
			flags = append(flags, x.flag)
		}
	}
	for _, flag := range slices.Sorted(maps.Keys(args)) {
		if _, known := c[flag]; !known && flag != engine.ModelName {
			flags = append(flags, flag)
		}
	}
	c.Merge(args)
	line := `vllm serve "$MODEL"`
	if serve != "" {
		line = "vllm serve " + render.ShellWord(serve)
	}
	for _, flag := range flags {
		switch v := c[flag].Value; {
		case v == "true":
			line += " --" + flag
		case v == "false":
			line += " --no-" + flag
		case engine.Lists[flag]:
			line += " --" + flag
			for _, word := range strings.Fields(v) {
				line += " " + render.ShellWord(word)
			}
		default:
			line += " --" + flag + " " + render.ShellWord(v)
		}
	}
	return line
}
