package sim

import (
	"errors"
	"math"
	"time"
)

// A Frontend is the time that the API server takes for a request outside of the
// engine: HTTP, tokenisation, the way to the engine's process and that of the first
// token back. It delays requests and does not limit how many there can be. All of it
// comes before the engine has the request, so that it is in the time to first token
// and not in the queue. The zero value takes no time.
type Frontend struct {
	PerRequest float64 // seconds
	PerToken   float64 // seconds for each prompt token
}

// Delay returns the time for a prompt.
func (f Frontend) Delay(promptTokens int) time.Duration {
	return time.Duration(math.Round((f.PerRequest + f.PerToken*float64(promptTokens)) * 1e9))
}

// Validate reports times that cannot be.
func (f Frontend) Validate() error {
	for _, v := range []float64{f.PerRequest, f.PerToken} {
		if !(v >= 0 && v <= 3600) {
			return errors.New("frontend: times must be 0 to an hour")
		}
	}
	return nil
}
