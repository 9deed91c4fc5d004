// Package period has the time between two moments.
package period

import "time"

// A Period is the time between two moments.
type Period struct{ From, To time.Time }

// Length returns the duration of the period.
func (p Period) Length() time.Duration { return p.To.Sub(p.From) }
