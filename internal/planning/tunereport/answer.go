package tunereport

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/modelconfig"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/render"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// Schema is the version of the JSON document. Changes only add to it.
const Schema = "sixty.tune/v2"

// An Answer is the result of sixty tune. Bytes, tokens and seconds are plain numbers.
type Answer struct {
	Schema string       `json:"schema"`
	Tool   version.Tool `json:"tool"`
	// Status is "found" (the targets are met even at the slow ends of the intervals), "likely" (they are met at the
	// likeliest step times), "not_met" (they cannot be met, or nothing fits), or "ledger" (only the memory was
	// requested).
	Status string `json:"status"`

	Model      Model              `json:"model"`
	Deployment Deployment         `json:"deployment"`
	Ledger     Ledger             `json:"ledger"`
	Remedies   []perfmodel.Remedy `json:"remedies,omitempty"`

	// Command starts a server or one replica: of the surest configuration found, of the nearest one, of the given
	// settings, or of the first remedy. It is "" if nothing fits.
	Command string `json:"command,omitempty"`

	Targets  *Targets `json:"targets,omitempty"`
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
	Type             string                   `json:"model_type"`
	Architecture     string                   `json:"architecture,omitempty"`
	Kind             string                   `json:"kind"`
	Known            bool                     `json:"known"`
	Parameters       float64                  `json:"parameters"`
	ActiveParameters float64                  `json:"active_parameters"`
	DType            string                   `json:"dtype"`
	Quantization     string                   `json:"quantization"`
	Assumed          []modelconfig.Assumption `json:"assumed,omitempty"`
	Unknown          []string                 `json:"unknown,omitempty"`
}

// A Deployment holds the settings of the ledger.
type Deployment struct {
	Release              string   `json:"vllm_release"`
	GPU                  string   `json:"gpu"`
	TensorParallel       int      `json:"tensor_parallel_size"`
	PipelineParallel     int      `json:"pipeline_parallel_size"`
	DataParallel         int      `json:"data_parallel_size"`
	GPUMemoryUtilization float64  `json:"gpu_memory_utilization"`
	MaxModelLen          int      `json:"max_model_len"`
	MaxNumSeqs           int      `json:"max_num_seqs"`
	MaxNumBatchedTokens  int      `json:"max_num_batched_tokens"`
	KVCacheDtype         string   `json:"kv_cache_dtype"`
	Assumed              []string `json:"assumed,omitempty"`
}

// A Ledger is the memory of one GPU.
type Ledger struct {
	Lines []perfmodel.Line `json:"lines"`
	perfmodel.Layout
	perfmodel.Capacity
	SafeConcurrency []Safe `json:"safe_concurrency"`
}

// A Safe is how many requests of a length fit without preemption.
type Safe struct {
	Tokens   int `json:"tokens"`
	Requests int `json:"requests"`
}

// Targets are in seconds.
type Targets struct {
	TTFTP95         float64 `json:"ttft_p95,omitempty"`
	ITLP95          float64 `json:"itl_p95,omitempty"`
	E2EP95          float64 `json:"e2e_p95,omitempty"`
	TokensPerSecond float64 `json:"output_tokens_per_second,omitempty"`
}

// A Result is the outcome of the search.
type Result struct {
	Rows      []Row    `json:"rows"`   // the surest first; at least one
	Offers    []Offer  `json:"offers"` // outcome for each kind of GPU and weight format
	Basis     string   `json:"basis"`  // basis of the step times
	Explain   []string `json:"explain,omitempty"`
	Evaluated int      `json:"evaluated"`
}

// A Row is one configuration with its cost and its command.
type Row struct {
	Row          string `json:"row"` // one of the names below
	GPU          string `json:"gpu"`
	Quantization string `json:"quantization,omitempty"` // made while loading; "" for the checkpoint's own
	*planning.Point
	Predicted []Metric `json:"predicted"`
	// Overload says that at the slow end the servers do not keep up with the load: waits then depend on how long it
	// lasts.
	Overload bool           `json:"overload_at_slow_end,omitempty"`
	Cost     *planning.Cost `json:"cost,omitempty"`
	Command  string         `json:"command"` // starts one replica
}

// The names of rows.
const (
	rowSurely   = "surely"   // the cheapest that meets the targets even at the slow ends of the intervals
	rowLikely   = "likely"   // the cheapest that meets them at the likeliest step times
	rowSmallest = "smallest" // the cheapest single replica, at the largest load with which it likely meets them
	rowNearest  = "nearest"  // the one that comes closest, if none meets them
)

// An Offer is the outcome for a kind of GPU and a weight format.
type Offer struct {
	GPU          string  `json:"gpu"`
	Quantization string  `json:"quantization,omitempty"`
	Surely       int     `json:"surely_gpus,omitempty"`
	Likely       int     `json:"likely_gpus,omitempty"`
	AtLeast      int     `json:"at_least_gpus,omitempty"` // lower bound, which costs more than another offer
	GPUHour      float64 `json:"gpu_hour,omitempty"`
	PriceFrom    string  `json:"price_from,omitempty"`
	Impossible   string  `json:"impossible,omitempty"`
}

// A Metric is a predicted quantity with its interval and its target.
type Metric struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	perfmodel.Estimate
	Target *float64 `json:"target,omitempty"`
}

// New returns the answer. serve is the model argument of "vllm serve"; if it is "", commands use the shell variable
// MODEL.
func New(t *planning.Tuned, serve string) *Answer {
	l := t.Ledger
	a := &Answer{
		Schema: Schema, Tool: version.This(), Status: statusLedger, Model: modelOf(l.Model),
		Deployment: deploymentOf(l), Ledger: ledgerOf(l, ledgerLengths(l, t.Plan)),
		LeftOut: t.LeftOut, Idle: t.Idle,
	}
	switch {
	case t.Result != nil:
		a.addResult(t, serve)
	case t.Plan != nil:
		a.Status = statusNotMet
		a.addRemedies(l.Remedies(), t.Args, serve)
		a.Notes = append(a.Notes, fmt.Sprintf("%v, with up to %d GPUs and requests of up to %d tokens",
			planning.ErrNothingFits, t.Plan.MaxGPUs, t.Plan.Demand.MaxTokens))
	case l.Concurrency.Value < 1:
		a.addRemedies(l.Remedies(), t.Args, serve)
	default:
		a.Command = commandLine(l, nil, t.Args, serve)
	}
	if t.Result == nil {
		a.Notes = append(a.Notes, l.Unvalidated()...)
	}
	return a
}

// Met reports whether the targets are met or, without any, the model fits.
func (a *Answer) Met() bool {
	return a.Status == statusFound || a.Status == statusLedger && a.Ledger.Concurrency.Value >= 1
}

// ledgerLengths returns the lengths of requests for which the ledger is evaluated.
func ledgerLengths(l *perfmodel.Ledger, p *planning.Plan) []int {
	out := []int{l.Settings.MaxModelLen}
	if p != nil {
		out = append(out, int(math.Ceil(p.Demand.MeanPrompt+p.Demand.MeanOutput)))
	}
	for _, n := range []int{1024, 4096, 16384, 65536, 131072} {
		if n < l.Settings.MaxModelLen {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (a *Answer) addRemedies(list []perfmodel.Remedy, args engine.Config, serve string) {
	a.Remedies = list
	for _, r := range list {
		if a.Command == "" && r.Ledger != nil {
			a.Command = commandLine(r.Ledger, nil, args, serve)
		}
	}
}

func (a *Answer) addResult(tuned *planning.Tuned, serve string) {
	p, r := tuned.Plan, tuned.Result
	t := p.Targets
	a.Targets = &Targets{t.TTFTP95.Seconds(), t.ITLP95.Seconds(), t.E2EP95.Seconds(), t.TokensPerSecond}
	a.Workload = p.Demand.Text
	a.Result = &Result{Basis: r.Basis, Explain: r.Explain, Evaluated: r.Evaluated}
	switch {
	case r.Surely != nil:
		a.Status = statusFound
	case r.Likely != nil:
		a.Status = statusLikely
	default:
		a.Status = statusNotMet
	}
	for _, x := range []struct {
		name  string
		point *planning.Point
	}{{rowSurely, r.Surely}, {rowLikely, r.Likely}, {rowNearest, r.Nearest}, {rowSmallest, r.Smallest}} {
		if x.point != nil {
			of := x.point.Offer
			a.Result.Rows = append(a.Result.Rows, Row{
				Row: x.name, GPU: cmp.Or(of.Device.Name, "GPU"), Quantization: of.Quantization, Point: x.point,
				Predicted: predictedMetrics(x.point, a.Targets),
				Overload:  x.point.Prediction != nil && x.point.Prediction.Overload(),
				Cost:      x.point.Cost(&p.Demand),
				Command:   commandLine(x.point.Ledger, &x.point.Knobs, of.Args, serve),
			})
		}
	}
	a.Command = a.Result.Rows[0].Command
	for _, o := range r.Offers {
		a.Result.Offers = append(a.Result.Offers, offerOf(&o))
	}
	a.Notes = append(a.Notes, r.Notes...)
	switch doubts := a.Result.Rows[0].Doubts; {
	case len(r.Doubtful) == 0 && a.Status == statusFound:
		a.Risk = riskLow
	case a.Status == statusLikely && len(doubts) > 0:
		a.Risk = strings.Join(append(slices.Clone(r.Doubtful),
			"at the slow end of the intervals: "+strings.Join(doubts, ", ")), "; ")
	default:
		a.Risk = strings.Join(r.Doubtful, "; ")
	}
}

func offerOf(o *planning.Offered) Offer {
	out := Offer{
		GPU: cmp.Or(o.Device.Name, render.GiB(o.Memory.Value)), Quantization: o.Quantization, AtLeast: o.AtLeast,
		GPUHour: o.Price.PerHour, PriceFrom: o.Price.From,
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

const riskLow = "low: the slow end of every interval meets its target"

func predictedMetrics(of *planning.Point, t *Targets) (out []Metric) {
	p := of.Prediction
	if p == nil {
		return nil
	}
	engines := 1.0 // the prediction is for one engine and a whole run
	if p.OutputPerSecond.Value > 0 {
		engines = of.TokensPerSecond / p.OutputPerSecond.Value
	}
	tokens := perfmodel.Estimate{
		Value: p.OutputPerSecond.Value * engines, Low: p.OutputPerSecond.Low * engines,
		High: p.OutputPerSecond.High * engines,
	}
	for _, x := range []struct {
		name, unit string
		of         perfmodel.Estimate
		target     float64
	}{
		{"TTFT P95", "s", p.TTFT.P95, t.TTFTP95},
		{"ITL P95", "s", p.ITL.P95, t.ITLP95},
		{"E2E P95", "s", p.E2E.P95, t.E2EP95},
		{"output tokens/s", "tokens/s", tokens, t.TokensPerSecond},
	} {
		m := Metric{x.name, x.unit, x.of, nil}
		if x.target > 0 {
			m.Target = &x.target
		}
		out = append(out, m)
	}
	return out
}

func modelOf(m *modelconfig.Model) Model {
	return Model{
		Type: m.Type, Architecture: m.Architecture, Kind: m.Kind(), Known: m.Known, Parameters: m.Total(),
		ActiveParameters: m.Active(),
		DType:            string(m.DType), Quantization: m.Quant.String(), Assumed: m.Assumed, Unknown: m.Unknown,
	}
}

func deploymentOf(l *perfmodel.Ledger) Deployment {
	s := &l.Settings
	return Deployment{
		Release: string(s.Release.Minor()), GPU: s.Device.Name, TensorParallel: s.TP, PipelineParallel: s.PP,
		DataParallel: s.DP, GPUMemoryUtilization: s.Utilization, MaxModelLen: s.MaxModelLen, MaxNumSeqs: s.MaxNumSeqs,
		MaxNumBatchedTokens: s.MaxNumBatchedTokens, KVCacheDtype: s.KVType, Assumed: l.Assumed,
	}
}

func ledgerOf(l *perfmodel.Ledger, lengths []int) Ledger {
	out := Ledger{Lines: l.Lines, Layout: l.KV, Capacity: l.Capacity}
	for _, n := range lengths {
		out.SafeConcurrency = append(out.SafeConcurrency, Safe{n, l.SafeConcurrency(n)})
	}
	return out
}

// commandLine returns the command line of one replica with a ledger's settings and, for a point of a search, its knobs.
// The user's other arguments follow. It omits vLLM's defaults.
func commandLine(l *perfmodel.Ledger, k *planning.Knobs, args engine.Config, serve string) string {
	s := &l.Settings
	model := `"$MODEL"`
	if serve != "" {
		model = render.ShellWord(serve)
	}
	words, has := []string{"vllm serve " + model}, map[string]bool{engine.ModelName: true}
	add := func(is bool, flag string, value any) {
		if is {
			words, has[flag] = append(words, fmt.Sprintf("--%s %v", flag, value)), true
		}
	}
	add(s.TP > 1, engine.TensorParallelSize, s.TP)
	add(s.PP > 1, engine.PipelineParallelSize, s.PP)
	add(s.DP > 1, engine.DataParallelSize, s.DP)
	if s.ExpertParallel {
		words, has[engine.ExpertParallel] = append(words, "--"+engine.ExpertParallel), true
	}
	add(s.MaxModelLen != l.Model.MaxPositions, engine.MaxModelLen, s.MaxModelLen)
	add(true, engine.MaxNumSeqs, s.MaxNumSeqs)
	add(true, engine.MaxNumBatchedTokens, s.MaxNumBatchedTokens)
	add(s.KVBytes > 0, engine.KVCacheMemoryBytes, int64(s.KVBytes))
	add(s.KVBytes == 0 && s.Utilization != vllm.Utilization(s.Release), engine.GPUMemoryUtilization, s.Utilization)
	add(s.KVType != "auto", engine.KVCacheDtype, s.KVType)
	if k != nil && !k.ChunkedPrefill {
		words, has[engine.ChunkedPrefill] = append(words, "--no-"+engine.ChunkedPrefill), true
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		switch v := args[name].Value; {
		case has[name]:
		case v == "true":
			words = append(words, "--"+name)
		case v == "false":
			words = append(words, "--no-"+name)
		default:
			values := []string{v}
			if engine.Lists[name] {
				values = strings.Fields(v)
			}
			for i := range values {
				values[i] = render.ShellWord(values[i])
			}
			words = append(words, "--"+name+" "+strings.Join(values, " "))
		}
	}
	return strings.Join(words, " ")
}
