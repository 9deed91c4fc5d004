package receivers

import "time"

// FlushEvery replaces the time between two looks at an alert, before receivers are set.
func (t *Teller) FlushEvery(d time.Duration) { t.flushing = d }
