package sim

import "time"

// A Driver runs an engine through time, as EngineCore's busy loop does: between two steps
// it lets its user add and cancel what came, then forms a batch and, at the batch's end,
// hands over its tokens. The loop is that of EngineCore.run_busy_loop
// (v1/engine/core.py@v0.23.0). Simulations advance it as far as they like, a server that
// imitates vLLM as far as the clock has come.
type Driver struct {
	*Engine
	Now       time.Duration
	Due       time.Duration // the end of the step in execution
	Executing bool

	// Between is called between two steps, for Engine.Add and Engine.Cancel; false ends
	// Advance.
	Between func() bool
	// Ending, which may be nil, is called before a step ends, at Due: what came while it
	// was in execution.
	Ending func()
	// Ended is given the tokens of a step that ended now. The slice is overwritten by the
	// next step.
	Ended func([]Output)

	leap func() time.Duration // goes over steps without anything of interest; nil: never
	idle int                  // steps in a row without work
}

// mostIdle is how many steps in a row may be without work: the engine forms a few empty
// ones where it schedules ahead, and many where what it holds can never be served.
const mostIdle = 64

// Advance runs steps until one would end after a time, until Between says so, or until
// there is nothing to do. It reports whether the engine is stuck: it holds requests and
// does nothing.
func (d *Driver) Advance(until time.Duration) (stuck bool) {
	for {
		if d.Executing {
			if d.Due > until {
				return false
			}
			if d.Ending != nil {
				d.Ending()
			}
			d.Now, d.Executing = max(d.Now, d.Due), false
			d.Ended(d.Engine.Complete(d.Due))
		}
		if !d.Between() || !d.Engine.HasWork() {
			return false
		}
		if d.leap != nil {
			if now := d.leap(); now > d.Now {
				d.Now, d.idle = now, 0
				continue
			}
		}
		before := d.Engine.deviceEnd
		d.Due, d.Executing = d.Engine.Schedule(d.Now)
		if d.idle++; d.Engine.deviceEnd > before {
			d.idle = 0
		}
		if d.idle > mostIdle {
			return true
		}
	}
}
