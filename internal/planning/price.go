package planning

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// A Price is what one GPU costs.
type Price struct {
	PerHour float64 // of one GPU, in the currency of whoever set it
	From    string  // for people
}

// Prices are those of accelerators, by the name of their data sheet.
type Prices map[string]Price

// listed says of which date ListPrices are.
const listed = "a list price of November 2026"

// ListPrices are Amazon's on-demand prices in dollars, of the GPUs that it rents; see
// perfmodel/gpus.yaml. They show the order; --price says what yours cost.
func ListPrices() Prices {
	out := Prices{}
	for _, g := range perfmodel.GPUs() {
		if g.Price > 0 {
			out[g.Name] = Price{g.Price, listed}
		}
	}
	return out
}

// Set reads a price such as "H100=2.49", of an hour of one GPU.
func (p Prices) Set(text, from string) error {
	name, value, ok := strings.Cut(text, "=")
	v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if !ok || err != nil || !(v > 0 && v < 1e6) {
		return hint.With(fmt.Errorf("price %q: no GPU with a price", text), "write it as H100=2.49, for one GPU and hour")
	}
	g, err := perfmodel.FindGPU(strings.TrimSpace(name))
	if err != nil {
		return err
	}
	p[g.Name] = Price{v, from}
	return nil
}

// Cost is what a deployment costs, in the currency of the price.
type Cost struct {
	Hour             float64 `json:"hour"`
	MillionOutput    float64 `json:"million_output_tokens,omitempty"`
	MillionAllTokens float64 `json:"million_tokens,omitempty"`
}
