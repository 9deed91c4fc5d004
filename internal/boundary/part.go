package boundary

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/indicator"
)

// A part is what a condition is evaluated on: a gateway, or what it counted of one model
// or one upstream. It implements catalog.View.
type part struct {
	*Counts
	name   string // of the model or the upstream
	span   time.Duration
	limits Limits
}

// grain is the label of the parts that a verdict is about: that of its signals, of which
// all have the same.
func (w *verdict) grain() (label string) {
	w.When.Signals(func(s *indicator.Signal) { label = s.Per })
	return label
}

// parts divides what was counted by a label.
func (c *Counts) parts(label string) (out []*part) {
	switch {
	case label == indicator.PerUpstream:
		for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
			one := *c
			one.Upstreams = map[string]*Upstream{name: c.Upstreams[name]}
			out = append(out, &part{Counts: &one, name: name})
		}
	case label == indicator.PerModel && len(c.Models) > 0:
		for _, name := range slices.Sorted(maps.Keys(c.Models)) {
			out = append(out, &part{Counts: c.Models[name], name: name})
		}
	default: // other gateways know of no models
		out = []*part{{Counts: c}}
	}
	return out
}

// Normal implements catalog.View: two pages know of no past.
func (p *part) Normal(*indicator.Signal) indicator.Value { return indicator.Unknown("no past") }

// HasHistory implements catalog.View.
func (p *part) HasHistory() bool { return false }

// MayHoldFault implements catalog.View.
func (p *part) MayHoldFault() bool { return false }

// Limit implements catalog.View.
func (p *part) Limit(t *catalog.Threshold) (float64, string, bool) {
	if p.limits == nil {
		return 0, "", false
	}
	return p.limits(t)
}

// minSpan is how long it takes until the lack of tokens means something.
const minSpan = 10 * time.Second

// Now implements catalog.View: the signals of a gateway, from its counts.
func (p *part) Now(s *indicator.Signal) indicator.Value {
	total, gaveUp := sum(p.Ended), p.Ended["client_disconnect"]
	switch s {
	case indicator.GatewayErrors:
		return ratio(failures(p.Counts), total-gaveUp)
	case indicator.GatewayFailed, indicator.GatewayFailing:
		return indicator.Known(failures(p.Counts))
	case indicator.GatewayGaveUp:
		return ratio(gaveUp, total)
	case indicator.GatewayGivenUp:
		return indicator.Known(gaveUp)
	case indicator.GatewayTimeouts:
		return indicator.Known(p.Ended["timeout"])
	case indicator.GatewayRetries:
		return indicator.Known(p.Retries)
	case indicator.GatewayRetryShare:
		return indicator.Known(p.Retries / max(total, 1))
	case indicator.GatewayLeaks:
		return indicator.Known(p.Leaks)
	case indicator.GatewayWaiting:
		return indicator.Known(p.Open)
	case indicator.GatewayMet:
		return indicator.Known(p.Offered + p.Open)
	case indicator.GatewayAnswered:
		return indicator.Known(p.Ended["success"] + p.Ended["client_error"] + p.Ended["upstream_error"] + p.Ended["error_event"])
	case indicator.GatewayTokens:
		if !p.hasFirst {
			return indicator.Unknown("this gateway counts no tokens")
		}
		return indicator.Known(p.Tokens)
	case indicator.GatewayEngineTokens:
		if p.span < minSpan {
			return indicator.Unknown("the window is too short")
		}
		return indicator.Known(p.EngineTokens)
	case indicator.GatewayMissing:
		return indicator.Known(p.missing())
	case indicator.GatewayExcess:
		return indicator.Known(p.excess())
	case indicator.GatewayDown:
		return indicator.Known(p.count(func(u *Upstream) bool { return !u.Up }))
	case indicator.GatewayUp:
		if len(p.Upstreams) == 0 {
			return indicator.Unknown("this gateway says nothing of its upstreams")
		}
		return indicator.Known(p.count(func(u *Upstream) bool { return u.Up }))
	case indicator.GatewayShared:
		return indicator.Known(float64(len(p.twins())))
	case indicator.GatewayAttempts:
		return indicator.Known(p.attempts())
	case indicator.GatewayBusiest:
		_, share, up := p.busiest()
		return indicator.Known(share * p.attempts() * float64(up-1) / max(p.attempts()*(1-share), 1))
	case indicator.GatewayOutside:
		if p.Duration.Count < minForTail || p.EngineEnded == 0 {
			return indicator.Unknown("too few requests came to their end")
		}
		return indicator.Known(p.outside())
	}
	return indicator.Unknown("this is no signal of two pages")
}

func ratio(of, among float64) indicator.Value {
	if among <= 0 {
		return indicator.Unknown("nothing ended")
	}
	return indicator.Known(of / among)
}

func (c *Counts) count(which func(*Upstream) bool) (n float64) {
	for _, u := range c.Upstreams {
		if which(u) {
			n++
		}
	}
	return n
}

func (c *Counts) missing() (n float64) {
	for _, u := range c.Upstreams {
		n += u.Missing
	}
	return n
}

func (c *Counts) excess() (n float64) {
	for _, u := range c.Upstreams {
		n += u.Excess
	}
	return n
}

// attempts are those at upstreams that are up.
func (c *Counts) attempts() (n float64) {
	for _, u := range c.Upstreams {
		if u.Up {
			n += u.Attempts
		}
	}
	return n
}

// busiest returns the upstream that gets most, its share of what those get that are up,
// and how many these are.
func (c *Counts) busiest() (name string, share float64, up int) {
	most := math.Inf(-1)
	for _, n := range slices.Sorted(maps.Keys(c.Upstreams)) {
		if u := c.Upstreams[n]; u.Up {
			up++
			if u.Attempts > most {
				name, most = n, u.Attempts
			}
		}
	}
	return name, max(most, 0) / max(c.attempts(), 1), up
}

// twins returns two upstreams whose engine was born at one moment, or none.
func (c *Counts) twins() []string {
	names := slices.Sorted(maps.Keys(c.Upstreams))
	for i, name := range names {
		for _, other := range names[:i] {
			if born := c.Upstreams[name].Born; born > 0 && born == c.Upstreams[other].Born {
				return []string{other, name}
			}
		}
	}
	return nil
}

// outside is the mean time of a request outside of the engine, in seconds.
func (c *Counts) outside() float64 {
	return (c.Duration.Sum-c.Blocked)/c.Duration.Count - c.EngineIn/c.EngineEnded
}
