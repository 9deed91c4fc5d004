package serve

import "github.com/sixty-dev/sixty/internal/monitor/web"

// IncidentAnswers are the handlers of incidents.
var IncidentAnswers = incidentAnswers

// OnServed tells a function of what is served.
func (c *Config) OnServed(fn func(*web.Server)) { c.served = fn }
