package health

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A Price is what the servers cost.
type Price struct {
	GPU     string  // by the name of its data sheet
	PerHour float64 // dollars per GPU; 0 if unknown
	From    string  // its source
	GPUs    int     // per replica
}

// A Cost is the cost of a model's servers over the span, and their output. Unknown values are null.
type Cost struct {
	GPU          string   `json:"gpu"`
	PerGPUHour   float64  `json:"dollars_per_gpu_hour"`
	PriceFrom    string   `json:"price_from"`
	GPUHours     *float64 `json:"gpu_hours"` // in which replicas answered
	Dollars      *float64 `json:"dollars"`
	Tokens       *float64 `json:"tokens"` // prompt and answer tokens
	OutputTokens *float64 `json:"output_tokens"`
	// PerMillion is of all tokens, PerMillionOutput of the output alone, in dollars.
	PerMillion       *float64 `json:"dollars_per_million_tokens"`
	PerMillionOutput *float64 `json:"dollars_per_million_output_tokens"`
	Reason           string   `json:"reason"` // why it is not known
}

// noPrice says how to give one.
const noPrice = "no price: give the GPU with --gpu H100, the number per replica with --tp, or your price with --price H100=2.49"

// cost computes what the servers cost.
func (m *measuring) cost() *Cost {
	price := m.c.Price
	c := &Cost{GPU: price.GPU, PerGPUHour: price.PerHour, PriceFrom: price.From}
	// total is what a quantity a second comes to over the span, NaN where it is not known.
	total := func(it item) float64 {
		sum, n := add(m.answers[it.key()].course)
		return sum * m.step.Seconds() * n / n
	}
	c.GPUHours = known(total(answering) / 3600 * float64(max(price.GPUs, 1)))
	output := total(item{signal: indicator.GenerationTokenRate})
	all := output + total(item{signal: indicator.PromptTokenRate})
	c.Tokens, c.OutputTokens = known(all), known(output)
	switch {
	case price.PerHour <= 0:
		c.Reason = noPrice
	case c.GPUHours == nil || *c.GPUHours == 0:
		c.Reason = "the replicas' running time is not known: up is not measured"
	default:
		dollars := *c.GPUHours * price.PerHour
		if c.Dollars = &dollars; c.Tokens == nil || all == 0 {
			c.Reason = "no tokens were counted"
			break
		}
		c.PerMillion, c.PerMillionOutput = known(dollars/all*1e6), known(dollars/output*1e6)
	}
	return c
}

// Text says a cost in a line, "" where it is not known.
func (c *Cost) Text() string {
	if c.PerMillion == nil || c.PerMillionOutput == nil {
		return ""
	}
	return fmt.Sprintf("%s per million tokens, %s per million of output: %.3g GPU hours at %s", dollars(*c.PerMillion),
		dollars(*c.PerMillionOutput), *c.GPUHours, dollars(c.PerGPUHour))
}

func dollars(v float64) string {
	if v < 100 {
		return fmt.Sprintf("$%.3g", v)
	}
	return fmt.Sprintf("$%.0f", v)
}
