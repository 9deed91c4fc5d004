package receivers

import (
	"context"
	"net"

	"github.com/prometheus/common/config"
)

// Dial replaces how notifiers connect with receivers, before these are set.
func (t *Notifier) Dial(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	t.clients = []config.HTTPClientOption{config.WithDialContextFunc(dial), config.WithKeepAlivesDisabled()}
}

// Lead replaces who says that this monitor tells receivers.
func (t *Notifier) Lead(leads func() bool) { t.leads = leads }
