package serve

import "github.com/sixty-dev/sixty/internal/web"

// OnServed tells a function of what is served.
func (c *Config) OnServed(fn func(*web.Server)) { c.served = fn }
