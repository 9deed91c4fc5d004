package sim

import "time"

// A Driver runs an engine through time, as EngineCore.run_busy_loop does (v1/engine/core.py@v0.23.0). Between two steps
// its user adds and cancels requests. Then the Driver forms a batch and, at the batch's end, passes its tokens to
// Ended. A simulation advances it to the next event; a server that imitates vLLM advances it to the present.
type Driver struct {
	*Engine
	Now       time.Duration
	Due       time.Duration // the end of the step in execution
	Executing bool

	// Between is called between two steps, for Engine.Add and Engine.Cancel. If it returns false, Advance ends.
	Between func() bool
	// Ending, which may be nil, is called before a step ends, at Due, to handle events that happened during the step.
	Ending func()
	// Ended receives the tokens of the step that ended now. The next step overwrites the slice.
	Ended func([]Output)

	leap func() time.Duration // runs steps of pure decode and returns the time reached; nil: every step is run singly
	idle int                  // steps in a row without work
}

// mostIdle limits the steps in a row without work. An engine that schedules ahead forms a few empty steps; an engine
// that holds a request that can never be served would form them for ever.
const mostIdle = 64

// Advance runs steps until one would end after a time, until Between returns false, or until there is no work. It
// reports whether the engine is stuck: it holds requests and executes nothing.
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
			if next := d.leap(); next > d.Now {
				d.Now, d.idle = next, 0
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
