// Package pair lets several monitors of the same servers act as one, with Alertmanager's cluster protocol. One
// monitor, the leader, notifies receivers. All share the notification log, and what people did with incidents.
package pair

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/alertmanager/cluster"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// How the cluster is set, where not as Alertmanager's.
const (
	settling = time.Second      // between two looks at whether all have been found, three at least
	looking  = time.Second      // between two looks at who leads
	resolved = 15 * time.Second // until names of other monitors must be resolved
	leaving  = 5 * time.Second  // for telling others of the end
)

// Config says where other monitors are. The zero value is a monitor alone.
type Config struct {
	Listen  string   // address for the others; "" for a monitor alone
	Peers   []string // addresses of others, or names of several; its own may be among them
	TLSFile string   // Alertmanager's file of its cluster's TLS; "" for none
	// Hold is how long a new leader waits before it notifies anybody, because its state may be an evaluation behind
	// the former leader's.
	Hold time.Duration
	Log  *slog.Logger
}

// A Pair is one monitor among those that act as one. The nil Pair is alone. It is safe for concurrent use.
type Pair struct {
	cfg  Config
	own  prometheus.Registerer // registry for Alertmanager's own metrics, which are not exposed
	peer *cluster.Peer
	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex
	first time.Time // since when it is the first; zero while it is not
}

// Open listens for other monitors. Shared states are registered before Join. It returns nil for a single monitor.
func Open(cfg Config) (*Pair, error) {
	if cfg.Listen == "" {
		if len(cfg.Peers) > 0 {
			return nil, hint.With(errors.New("--cluster-peer: other monitors need this one's address"),
				"set it with --cluster-listen")
		}
		return nil, nil
	}
	var encrypted *cluster.TLSTransportConfig
	var err error
	if cfg.TLSFile != "" {
		if encrypted, err = cluster.GetTLSTransportConfig(cfg.TLSFile); err != nil {
			return nil, fmt.Errorf("--cluster-tls-config: %w", err)
		}
	}
	advertised := ""
	if host, _, err := net.SplitHostPort(cfg.Listen); err == nil && net.ParseIP(host).IsLoopback() {
		advertised = cfg.Listen
	}
	p := &Pair{cfg: cfg, own: prometheus.NewRegistry()}
	// Unresolved names belong to monitors that have not started yet: they are resolved again.
	p.peer, err = cluster.Create(cfg.Log, p.own, cfg.Listen, advertised, cfg.Peers, false,
		cluster.DefaultPushPullInterval, cluster.DefaultGossipInterval,
		cluster.DefaultTCPTimeout, resolved, cluster.DefaultProbeTimeout, cluster.DefaultProbeInterval, encrypted, true,
		"", "")
	if err != nil {
		return nil, hint.With(fmt.Errorf("--cluster-listen: %w", err),
			"write it like 0.0.0.0:9094; other monitors must reach it by TCP and UDP")
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p, nil
}

// Share shares a state under a name, and returns the function that broadcasts its changes.
func (p *Pair) Share(name string, s cluster.State) (broadcast func([]byte)) {
	if p == nil {
		return func([]byte) {}
	}
	return p.peer.AddState(name, s, p.own).Broadcast
}

// Join looks for the others, and goes on without those that are not there.
func (p *Pair) Join() {
	if p == nil {
		return
	}
	if err := p.peer.Join(cluster.DefaultReconnectInterval, cluster.DefaultReconnectTimeout); err != nil {
		p.cfg.Log.Warn("other monitors not found; still looking", "err", err)
	}
	p.done.Go(func() { p.peer.Settle(p.ctx, settling) })
	p.done.Go(func() {
		tick := time.NewTicker(looking)
		defer tick.Stop()
		for {
			p.look(time.Now())
			select {
			case <-p.ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}

// look notes whether it is the first: the one that has been there for longest, by the names of the cluster,
// which begin with the time.
func (p *Pair) look(now time.Time) {
	is := p.peer.Ready() && p.peer.Position() == 0
	p.mu.Lock()
	defer p.mu.Unlock()
	if !is {
		p.first = time.Time{}
	} else if p.first.IsZero() {
		p.first = now
	}
}

// Leads reports whether it tells receivers.
func (p *Pair) Leads() bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.first.IsZero() && time.Since(p.first) >= p.cfg.Hold
}

// Others is how many other monitors are there.
func (p *Pair) Others() int {
	if p == nil {
		return 0
	}
	return p.peer.ClusterSize() - 1
}

// Close tells the others that it ends.
func (p *Pair) Close() error {
	if p == nil {
		return nil
	}
	p.stop()
	p.done.Wait()
	return p.peer.Leave(leaving)
}
