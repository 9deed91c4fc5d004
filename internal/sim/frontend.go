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

	// Serial is the part in which it takes no other request, and SerialPerToken that of
	// each prompt token: one process does it, so that a burst comes to the engine one
	// after the other. They come before the rest.
	Serial, SerialPerToken float64
}

// Delay returns the time for a prompt that comes alone.
func (f Frontend) Delay(promptTokens int) time.Duration {
	var free time.Duration
	return f.queue(0, &free, promptTokens)
}

// queue returns the time for a prompt that comes at a time, when others keep the process
// busy until another; which it moves.
func (f Frontend) queue(at time.Duration, busy *time.Duration, promptTokens int) time.Duration {
	seconds := func(v float64) time.Duration { return time.Duration(math.Round(v * 1e9)) }
	*busy = max(at, *busy) + seconds(f.Serial+f.SerialPerToken*float64(promptTokens))
	return *busy - at + seconds(f.PerRequest+f.PerToken*float64(promptTokens))
}

// Validate reports times that cannot be.
func (f Frontend) Validate() error {
	for _, v := range []float64{f.PerRequest, f.PerToken, f.Serial, f.SerialPerToken} {
		if !(v >= 0 && v <= 3600) {
			return errors.New("frontend: times must be 0 to an hour")
		}
	}
	return nil
}
