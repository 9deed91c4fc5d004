package tunereport

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/version"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/modelconfig"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// Schema names the JSON document; changes to it only add.
const Schema = "sixty.tune/v1"

// An Answer is what sixty tune says. Bytes, tokens and seconds are plain numbers.
type Answer struct {
	Schema string       `json:"schema"`
	Tool   version.Tool `json:"tool"`
	// Status is "found" (the targets are met at the slow ends of the intervals too), "likely"
	// (they are met at the likeliest step times), "not_met" (targets cannot be met, or nothing fits), or
	// "ledger" (nothing was asked for beyond the memory).
	Status string `json:"status"`

	Model      Model              `json:"model"`
	Deployment Deployment         `json:"deployment"`
	Ledger     Ledger             `json:"ledger"`
	Check      *Check             `json:"check,omitempty"`
	Remedies   []perfmodel.Remedy `json:"remedies,omitempty"`

	// Command starts a server, or one replica: of the configuration that was found or comes
	// closest, of the settings given, or of the first remedy. "" where nothing fits.
	Command string `json:"command,omitempty"`

	Targets  *Targets `json:"targets,omitempty"`
	Workload string   `json:"workload,omitempty"`
	Result   *Result  `json:"result,omitempty"`
	Notes    []string `json:"notes,omitempty"`

	Risk       string        `json:"risk,omitempty"`
	Cost       *Cost         `json:"cost,omitempty"`
	LeftOut    []string      `json:"left_out,omitempty"` // what arguments change that the answer leaves out
	Idle       []string      `json:"idle,omitempty"`     // arguments that nothing in the answer depends on
	Comparison []Alternative `json:"comparison,omitempty"`
}

// The values of Status.
const (
	statusFound  = "found"
	statusLikely = "likely"
	statusNotMet = "not_met"
	statusLedger = "ledger"
)

// Model is what config.json says.
type Model struct {
	Type             string                   `json:"model_type"`
	Architecture     string                   `json:"architecture,omitempty"`
	Kind             string                   `json:"kind"`
	Known            bool                     `json:"known"`
	Parameters       float64                  `json:"parameters"`
	ActiveParameters float64                  `json:"active_parameters"`
	DType            string                   `json:"dtype"`
	Quantization     string                   `json:"quantization"`
	Parts            []Component              `json:"parts"`
	Assumed          []modelconfig.Assumption `json:"assumed,omitempty"`
	Unknown          []string                 `json:"unknown,omitempty"`
}

// Component is one part of the model.
type Component struct {
	Name       string  `json:"name"`
	Parameters float64 `json:"parameters"`
	Formula    string  `json:"formula"`
}

// Deployment is the settings that the ledger is for.
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

// Ledger is the memory of one GPU.
type Ledger struct {
	Lines []perfmodel.Line `json:"lines"`
	perfmodel.Layout
	perfmodel.Capacity
	SafeConcurrency []Safe `json:"safe_concurrency"`
}

// Safe is how many requests of a length fit without preemption.
type Safe struct {
	Tokens   int `json:"tokens"`
	Requests int `json:"requests"`
}

// Check is the ledger beside a server.
type Check struct {
	Source      string                 `json:"source"`
	Comparisons []perfmodel.Comparison `json:"comparisons"`
}

// Targets are what was asked for, in seconds.
type Targets struct {
	TTFTP95         float64 `json:"ttft_p95,omitempty"`
	ITLP95          float64 `json:"itl_p95,omitempty"`
	E2EP95          float64 `json:"e2e_p95,omitempty"`
	TokensPerSecond float64 `json:"output_tokens_per_second,omitempty"`
}

// Result is what the search found.
type Result struct {
	*planning.Result
	Command   string   `json:"command"`
	Predicted []Metric `json:"predicted"`
	// Overload says that at the slow end the servers do not keep up with the load: how long
	// requests wait then depends on how long it lasts.
	Overload bool         `json:"overload_at_slow_end,omitempty"`
	Measure  *Measurement `json:"measure,omitempty"`
}

// Measurement is the load test that would narrow the answer most.
type Measurement struct {
	*planning.Measurement
	Commands []string `json:"commands"` // the server, the test, and tune again
}

// Metric is a predicted quantity with the calibration's interval and its target.
type Metric struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	perfmodel.Estimate
	Target *float64 `json:"target,omitempty"`
}

// New makes the answer. Serve is what follows "vllm serve".
func New(t *planning.Tuned, serve string) *Answer {
	l := t.Ledger
	a := &Answer{Schema: Schema, Tool: version.This(), Status: statusLedger, Model: modelOf(l.Model), Deployment: deploymentOf(l), Ledger: ledgerOf(l, lengths(l, t.Plan)), LeftOut: t.LeftOut, Idle: t.Idle, Cost: costOf(t)}
	switch {
	case t.Result != nil:
		a.addResult(t, serve)
	case t.Plan != nil:
		a.Status = statusNotMet
		a.addRemedies(l.Remedies(), t.Args, serve)
		a.Notes = append(a.Notes, fmt.Sprintf("%v, with up to %d GPUs and requests of up to %d tokens", planning.ErrNothingFits, t.Plan.MaxGPUs, t.Plan.Demand.MaxTokens))
	case l.Concurrency.Value < 1:
		a.addRemedies(l.Remedies(), t.Args, serve)
	default:
		a.Command = command(l, nil, t.Args, serve)
	}
	if t.Result == nil {
		a.Notes = append(a.Notes, l.Unvalidated()...)
	}
	if t.ComparedWith != "" {
		a.Check = &Check{t.ComparedWith, t.Compared}
	}
	return a
}

// Met reports whether the targets are met or, without any, the model fits.
func (a *Answer) Met() bool {
	return a.Status == statusFound || a.Status == statusLedger && a.Ledger.Concurrency.Value >= 1
}

// lengths are those of requests that the ledger is read for.
func lengths(l *perfmodel.Ledger, p *planning.Plan) []int {
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

// addRemedies adds what would fit.
func (a *Answer) addRemedies(list []perfmodel.Remedy, args engine.Config, serve string) {
	a.Remedies = list
	for _, r := range list {
		if a.Command == "" && r.Ledger != nil {
			a.Command = command(r.Ledger, nil, args, serve)
		}
	}
}

// addResult adds what a search found.
func (a *Answer) addResult(tuned *planning.Tuned, serve string) {
	p, r := tuned.Plan, tuned.Result
	a.Status = statusFound
	best := r.Best
	if best == nil {
		a.Status, best = statusNotMet, r.Nearest
	}
	t := p.Targets
	a.Command = command(best.Ledger, &best.Knobs, tuned.Args, serve)
	a.Targets = &Targets{t.TTFTP95.Seconds(), t.ITLP95.Seconds(), t.E2EP95.Seconds(), t.TokensPerSecond}
	a.Workload = p.Demand.Text
	if r.Best == nil && r.Likely != nil {
		a.Status = statusLikely
	}
	a.Result = &Result{Result: r, Command: a.Command, Predicted: predicted(r.Prediction, a.Targets, best), Overload: r.Prediction != nil && r.Prediction.Overload()}
	if m := r.Measure; m != nil && (r.Best != nil || r.Likely != nil) { // what is out of reach, no test brings nearer
		a.Result.Measure = &Measurement{m, measureCommands(m, &p.Demand, tuned.Args, serve)}
	}
	a.Notes = append(a.Notes, r.Notes...)
	a.Risk = a.risk()
	if len(r.Doubtful) > 0 {
		a.Risk = strings.TrimSuffix(strings.Join(r.Doubtful, "; ")+"; "+strings.TrimPrefix(a.Risk, riskLow), "; ")
	}
}

// measureCommands are to be copied: a server, the test of it, and what is added to the
// tune command then.
func measureCommands(m *planning.Measurement, d *planning.Demand, args engine.Config, serve string) []string {
	prompt, output := d.Lengths[0], d.Lengths[1]
	if prompt == "" {
		prompt = fmt.Sprintf("%.0f", d.MeanPrompt)
	}
	if output == "" {
		output = fmt.Sprintf("%.0f", d.MeanOutput)
	}
	again := "sixty tune … --load-test run.csv"
	if tested := testedArgs(m.Point); tested != "" {
		again += " --load-test-args '" + tested + "'"
	}
	return []string{
		strings.ReplaceAll(command(m.Point.Ledger, &m.Point.Knobs, args, serve), " \\\n  ", " "),
		fmt.Sprintf("sixty bench http://localhost:8000 %s --duration 2m --prompt-tokens %s --output-tokens %s --csv run.csv", m.Flags, prompt, output),
		again,
	}
}

// testedArgs tell of the server that was tested what is not its default.
func testedArgs(p *planning.Point) string {
	s := p.Ledger.Settings
	usual := s
	usual.MaxNumSeqs, usual.MaxNumBatchedTokens = 0, 0
	l, err := perfmodel.NewLedger(p.Ledger.Model, usual)
	if err != nil {
		return ""
	}
	var out []string
	for _, x := range []struct {
		flag       string
		has, usual int
	}{
		{engine.TensorParallelSize, s.TP, 1}, {engine.MaxNumSeqs, s.MaxNumSeqs, l.Settings.MaxNumSeqs},
		{engine.MaxNumBatchedTokens, s.MaxNumBatchedTokens, l.Settings.MaxNumBatchedTokens},
	} {
		if x.has != x.usual {
			out = append(out, fmt.Sprintf("--%s %d", x.flag, x.has))
		}
	}
	return strings.Join(out, " ")
}

func predicted(p *perfmodel.Prediction, t *Targets, best *planning.Point) []Metric {
	if p == nil {
		return nil
	}
	engines := 1.0 // the prediction is of one replica and of a whole run
	if p.OutputPerSecond.Value > 0 {
		engines = best.TokensPerSecond / p.OutputPerSecond.Value
	}
	var out []Metric
	add := func(name, unit string, i perfmodel.Estimate, factor, target float64) {
		m := Metric{name, unit, perfmodel.Estimate{Value: i.Value * factor, Low: i.Low * factor, High: i.High * factor}, nil}
		if target > 0 {
			m.Target = &target
		}
		out = append(out, m)
	}
	add("TTFT P95", "s", p.TTFTP95, 1, t.TTFTP95)
	add("ITL P95", "s", p.ITLP95, 1, t.ITLP95)
	add("E2E P95", "s", p.E2EP95, 1, t.E2EP95)
	add("output tokens/s", "tokens/s", p.OutputPerSecond, engines, t.TokensPerSecond)
	return out
}

func modelOf(m *modelconfig.Model) Model {
	out := Model{
		Type: m.Type, Architecture: m.Architecture, Kind: m.Kind(), Known: m.Known, Parameters: m.Total(), ActiveParameters: m.Active(),
		DType: string(m.DType), Quantization: m.Quant.String(), Assumed: m.Assumed, Unknown: m.Unknown,
	}
	for _, p := range modelconfig.Parts() {
		if n := m.PartTotal(p); n > 0 {
			out.Parts = append(out.Parts, Component{string(p), n, formula(m, p)})
		}
	}
	return out
}

// formula adds up a part's weights.
func formula(m *modelconfig.Model, p modelconfig.Component) string {
	var terms []string
	for _, w := range m.Weights {
		if w.Part != p {
			continue
		}
		t := w.Formula
		if n := w.Times(); n > 1 {
			t = fmt.Sprintf("%d × %s", n, t)
		}
		if i := slices.Index(terms, t); i >= 0 {
			terms[i] = "2 × " + t
			continue
		}
		terms = append(terms, t)
	}
	return strings.Join(terms, " + ")
}

func deploymentOf(l *perfmodel.Ledger) Deployment {
	s := &l.Settings
	return Deployment{
		Release: string(s.Release.Minor()), GPU: s.Device.Name, TensorParallel: s.TP, PipelineParallel: s.PP, DataParallel: s.DP,
		GPUMemoryUtilization: s.Utilization, MaxModelLen: s.MaxModelLen, MaxNumSeqs: s.MaxNumSeqs, MaxNumBatchedTokens: s.MaxNumBatchedTokens,
		KVCacheDtype: s.KVType, Assumed: l.Assumed,
	}
}

func ledgerOf(l *perfmodel.Ledger, lengths []int) Ledger {
	out := Ledger{Lines: l.Lines, Layout: l.KV, Capacity: l.Capacity}
	for _, n := range lengths {
		out.SafeConcurrency = append(out.SafeConcurrency, Safe{n, l.SafeConcurrency(n)})
	}
	return out
}

// command is the command line of one replica with a ledger's settings and, of a point of a
// search, its knobs. The user's other arguments follow.
func command(l *perfmodel.Ledger, k *planning.Knobs, args engine.Config, serve string) string {
	s := &l.Settings
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if s.TP > 1 {
		add("--tensor-parallel-size %d", s.TP)
	}
	if s.PP > 1 {
		add("--pipeline-parallel-size %d", s.PP)
	}
	if s.DP > 1 {
		add("--data-parallel-size %d", s.DP)
	}
	if s.ExpertParallel {
		add("--enable-expert-parallel")
	}
	add("--max-model-len %d", s.MaxModelLen)
	add("--max-num-seqs %d", s.MaxNumSeqs)
	add("--max-num-batched-tokens %d", s.MaxNumBatchedTokens)
	switch {
	case s.KVBytes > 0:
		add("--kv-cache-memory-bytes %.0f", s.KVBytes)
	case !s.CPU:
		add("--gpu-memory-utilization %g", s.Utilization)
	}
	if s.KVType != "auto" {
		add("--kv-cache-dtype %s", s.KVType)
	}
	if k != nil {
		add("%s", flag("enable-prefix-caching", k.PrefixCaching))
		add("%s", flag("enable-chunked-prefill", k.ChunkedPrefill))
	}
	return "vllm serve " + strings.Join(append([]string{quoted(serve)}, append(lines, remainingArgs(args, lines)...)...), " \\\n  ")
}

func flag(name string, on bool) string {
	if on {
		return "--" + name
	}
	return "--no-" + name
}
