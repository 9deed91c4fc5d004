package health

import (
	"fmt"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A Price is what the servers cost.
type Price struct {
	GPU     string  // as in the table of GPUs
	PerHour float64 // dollars per GPU; 0 if unknown
	From    string  // its source
	GPUs    int     // per replica
}

// A Cost is the cost of a model's servers over the span, for the tokens that they processed. Unknown values are null.
type Cost struct {
	GPU          string   `json:"gpu"`
	PerGPUHour   float64  `json:"dollars_per_gpu_hour"`
	PriceFrom    string   `json:"price_from"`
	GPUHours     *float64 `json:"gpu_hours"` // of replicas that answered
	Dollars      *float64 `json:"dollars"`
	Tokens       *float64 `json:"tokens"` // prompt and answer tokens
	OutputTokens *float64 `json:"output_tokens"`
	// PerMillion is the price of a million tokens, PerMillionOutput of a million output tokens, in dollars.
	PerMillion       *float64 `json:"dollars_per_million_tokens"`
	PerMillionOutput *float64 `json:"dollars_per_million_output_tokens"`
	Reason           string   `json:"reason"` // why dollars are unknown
}

// noPrice is the reason of a cost without a price.
const noPrice = "no price: give the GPU with --gpu H100, the number per replica with --tp, " +
	"or your price with --price H100=2.49"

// newCost computes what the servers cost.
func (m *measurement) newCost() *Cost {
	price := m.c.Price
	c := &Cost{GPU: price.GPU, PerGPUHour: price.PerHour, PriceFrom: price.From}
	// total multiplies the mean of a rate by the span; NaN if it is unknown.
	total := func(it item) float64 {
		sum, n := sumKnown(m.answers[it.key()].values)
		return sum * m.step.Seconds() * n / n
	}
	c.GPUHours = finite(total(answering) / 3600 * float64(max(price.GPUs, 1)))
	output := total(item{signal: indicator.GenerationTokenRate})
	all := output + total(item{signal: indicator.PromptTokenRate})
	c.Tokens, c.OutputTokens = finite(all), finite(output)
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
		c.PerMillion, c.PerMillionOutput = finite(dollars/all*1e6), finite(dollars/output*1e6)
	}
	return c
}

// Text returns the cost in a line, or "" if it is unknown.
func (c *Cost) Text() string {
	if c.PerMillion == nil || c.PerMillionOutput == nil {
		return ""
	}
	return fmt.Sprintf("%s per million tokens, %s per million of output: %.3g GPU hours at %s",
		formatDollars(*c.PerMillion),
		formatDollars(*c.PerMillionOutput), *c.GPUHours, formatDollars(c.PerGPUHour))
}

func formatDollars(v float64) string {
	if v < 100 {
		return fmt.Sprintf("$%.3g", v)
	}
	return fmt.Sprintf("$%.0f", v)
}
