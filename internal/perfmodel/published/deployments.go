package published

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/sixty-dev/sixty/internal/perfmodel"
)

// Deployments returns servers whose owners published how much they carry and to which
// nothing was fitted: what tune says of them is compared with that.
func Deployments() ([]Point, error) { return read("points/deployments.json") }

// A Tuning is what `sixty tune` says of a deployment at some requests a second.
type Tuning struct {
	Name   string             `json:"name"`
	Times  float64            `json:"times"` // of the requests a second that were measured
	Rate   float64            `json:"rate"`
	Status string             `json:"status"`
	Values map[string]Between `json:"predicted"`
}

// Between is a predicted quantity with its 90 % interval.
type Between struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// TuningTarget is the 95th percentile of the time to first token that tune is asked for: no
// server that keeps up is near it, and no other stays below it.
const TuningTarget = "10s"

// TuningTimes are the loads that tune is asked about, of what was measured.
var TuningTimes = []float64{2. / 3, 1.5}

// Tunings returns what tune said when posterior.json was fitted.
func Tunings() ([]Tuning, error) {
	content, err := files.ReadFile("points/tuned.json")
	if err != nil {
		return nil, err
	}
	var ts []Tuning
	if err := json.Unmarshal(content, &ts); err != nil {
		return nil, fmt.Errorf("tuned.json: %w", err)
	}
	return ts, nil
}

// TuneArguments are those of `sixty tune` for a deployment at so many times the requests a
// second that were measured, the model's configuration aside.
func (p *Point) TuneArguments(times float64) (arguments []string, rate float64) {
	prompt, output := p.Load.means()
	rate = Round(times * p.Measured.Tokens / output)
	length := func(mean float64) string {
		if p.Load.Shape == "sharegpt" {
			return fmt.Sprintf("lognormal:%.0f,1.3:4-1024", mean)
		}
		return fmt.Sprintf("%.0f", mean)
	}
	gpus := fmt.Sprint(p.Parallel())
	return []string{"--gpu", p.GPU, "--tp", gpus, "--max-gpus", gpus, "--vllm-version", p.VLLM, "--engine-args", p.Args,
		"--rate", fmt.Sprint(rate), "--prompt-tokens", length(prompt), "--output-tokens", length(output), "--ttft-p95", TuningTarget}, rate
}

// burst predicts what the owner sent, with the parameters that ship.
func (p *Point) burst() (of [5]perfmodel.Interval, err error) {
	c, err := p.Case()
	if err != nil {
		return of, err
	}
	at, err := c.interval(perfmodel.Fitted(), nil)
	if err != nil {
		return of, err
	}
	w := perfmodel.Fitted().Widen[perfmodel.WideningClass(p.Saturated(), p.Parallel() > 1, true)]
	v, low, high := at.Predicted.values(), at.Low.values(), at.High.values()
	for q, times := range [5]float64{w.TTFT, w.TPOT, w.TPOT, w.E2E, w.Tokens} {
		of[q] = perfmodel.Interval{Value: v[q], Low: min(low[q], v[q]), High: max(high[q], v[q])}.Widened(times)
	}
	return of, nil
}

// tuned renders what tune said.
func (p *page) tuned(deployments []Point, tunings []Tuning) error {
	p.line(`## What tune says of public deployments

Six deployments that nothing was fitted to, though the same owners' other servers were, and another's with GLM-4.6. They sent all requests at once, with `+"`vllm bench serve`"+`; the requests a second of the whole test are what the server carried at least: a
steady load has no tail in which it runs empty, as bursts of ShareGPT have a long one. `+"`sixty tune`"+` was asked, with the owner's GPUs and arguments and no other, whether TTFT P95 stays under %s
at two thirds of that rate and at one and a half times it. It is wrong where it says that the server does not carry the former, or where the interval of the simulated burst misses what was measured;
right where it says that the server does not carry the latter.

| deployment | vLLM | requests/s measured | tune at two thirds | at one and a half times | its tokens/s there | measured | verdict |
|---|---|---|---|---|---|---|---|`, TuningTarget)
	said := func(name string, times float64) Tuning {
		for _, t := range tunings {
			if t.Name == name && t.Times == Round(times) {
				return t
			}
		}
		return Tuning{}
	}
	var bursts [][5]perfmodel.Interval
	words := map[string]string{"found": "carries it", "likely": "likely carries it", "not_met": "does not"}
	for i := range deployments {
		x := &deployments[i]
		_, output := x.Load.means()
		low, high := said(x.Name, TuningTimes[0]), said(x.Name, TuningTimes[1])
		of, err := x.burst()
		if err != nil {
			return err
		}
		bursts = append(bursts, of)
		verdict := "right as far as was measured"
		switch {
		case low.Status == "not_met" || x.Measured.Tokens < of[4].Low || x.Measured.Tokens > of[4].High:
			verdict = "**wrong**"
		case high.Status == "not_met":
			verdict = "right"
		case low.Status == "likely":
			verdict = "not sure"
		}
		tokens := high.Values["output tokens/s"]
		p.line("| [%s](%s) | %s | %.2f | %s | %s | %.4g (%.3g – %.3g) | %.4g | %s |", x.Name, x.Source, x.VLLM, x.Measured.Tokens/output,
			cmp.Or(words[low.Status], low.Status), cmp.Or(words[high.Status], high.Status), tokens.Value, tokens.Low, tokens.High, x.Measured.Tokens, verdict)
	}
	p.line("\nThe same bursts, simulated: milliseconds on average, and tokens a second.\n")
	p.line("| deployment | TTFT measured | predicted | TPOT measured | predicted | tokens/s measured | predicted |\n|---|---|---|---|---|---|---|")
	for i := range deployments {
		x, of := &deployments[i], bursts[i]
		m := x.Measured.values()
		cell := func(q int) string {
			if m[q] == 0 || q == 0 && x.Cached {
				return " | "
			}
			held := ""
			if m[q] < of[q].Low || m[q] > of[q].High {
				held = ", missed"
			}
			return fmt.Sprintf("%.4g | %.4g (%.3g – %.3g%s), %s", m[q], of[q].Value, of[q].Low, of[q].High, held, signed(of[q].Value/m[q]-1))
		}
		p.line("| %s | %s | %s | %s |", x.Name, cell(0), cell(1), cell(4))
	}
	p.line("")
	return nil
}
