package planning

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/sim/perfmodel"
)

// A Price is the cost of one GPU.
type Price struct {
	PerHour float64 // in the user's currency
	From    string  // for people
}

// Prices holds prices of GPUs by the name of their data sheet.
type Prices map[string]Price

// listed is the source of ListPrices.
const listed = "a list price of November 2026"

// ListPrices returns Amazon's on-demand prices in dollars for the GPUs that it rents; see perfmodel/gpus.yaml. They
// show the order; users set their own with --price.
func ListPrices() Prices {
	out := Prices{}
	for _, g := range perfmodel.GPUs() {
		if g.Price > 0 {
			out[g.Name] = Price{g.Price, listed}
		}
	}
	return out
}

// Set parses a price such as "H100=2.49" for one GPU and hour.
func (p Prices) Set(text, from string) error {
	name, value, ok := strings.Cut(text, "=")
	v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if !ok || err != nil || !(v > 0 && v < 1e6) {
		return hint.With(fmt.Errorf("price %q: no GPU with a price", text),
			"write it as H100=2.49, for one GPU and hour")
	}
	g, err := perfmodel.FindGPU(strings.TrimSpace(name))
	if err != nil {
		return err
	}
	p[g.Name] = Price{v, from}
	return nil
}

// A Cost is the cost of a deployment, in the currency of the price.
type Cost struct {
	Hour             float64 `json:"hour"`
	MillionOutput    float64 `json:"million_output_tokens,omitempty"`
	MillionAllTokens float64 `json:"million_tokens,omitempty"`
}
