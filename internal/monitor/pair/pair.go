// Package pair lets several monitors of the same servers act as one, with Alertmanager's cluster protocol. Each monitor
// judges for itself. One of them, the leader, notifies receivers. All share the notification log and people's actions
// on incidents.
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

// Settings of the cluster that differ from Alertmanager's.
const (
	settleEvery    = time.Second      // between two checks, at least three, whether all members are found
	lookEvery      = time.Second      // between two checks who leads
	resolveTimeout = 15 * time.Second // for resolving the names of other monitors
	leaveTimeout   = 5 * time.Second  // for telling the others that this one leaves
)

// Config says where other monitors are. The zero value is a single monitor.
type Config struct {
	Listen  string   // address for the others; "" for a single monitor
	Peers   []string // addresses, or names that resolve to several; its own may be among them
	TLSFile string   // in the format of Alertmanager's cluster TLS; "" for none
	// Hold is how long a new leader waits before it notifies: its state may be an evaluation behind the old leader's.
	Hold time.Duration
	Log  *slog.Logger
}

// A Pair is this monitor's membership in the cluster. The nil Pair is a single monitor. It is safe for concurrent use.
type Pair struct {
	cfg      Config
	registry prometheus.Registerer // registry for Alertmanager's own metrics, which are not exposed
	peer     *cluster.Peer
	ctx      context.Context
	stop     context.CancelFunc
	done     sync.WaitGroup

	mu         sync.Mutex
	firstSince time.Time // since when it has been the first member; zero while it is not
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
	p := &Pair{cfg: cfg, registry: prometheus.NewRegistry()}
	// Unresolved names belong to monitors that have not started yet: they are resolved again.
	p.peer, err = cluster.Create(cfg.Log, p.registry, cfg.Listen, advertised, cfg.Peers, false,
		cluster.DefaultPushPullInterval, cluster.DefaultGossipInterval,
		cluster.DefaultTCPTimeout, resolveTimeout, cluster.DefaultProbeTimeout, cluster.DefaultProbeInterval, encrypted,
		true,
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
	return p.peer.AddState(name, s, p.registry).Broadcast
}

// Join looks for the others, in the background for those that do not answer.
func (p *Pair) Join() {
	if p == nil {
		return
	}
	if err := p.peer.Join(cluster.DefaultReconnectInterval, cluster.DefaultReconnectTimeout); err != nil {
		p.cfg.Log.Warn("other monitors not found; still looking", "err", err)
	}
	p.done.Go(func() { p.peer.Settle(p.ctx, settleEvery) })
	p.done.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			p.noteRank(time.Now())
			select {
			case <-p.ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}

// noteRank notes whether this member is the first. Members are ordered by name, and names begin with the start time.
func (p *Pair) noteRank(now time.Time) {
	is := p.peer.Ready() && p.peer.Position() == 0
	p.mu.Lock()
	defer p.mu.Unlock()
	if !is {
		p.firstSince = time.Time{}
	} else if p.firstSince.IsZero() {
		p.firstSince = now
	}
}

// Leads reports whether this monitor notifies receivers.
func (p *Pair) Leads() bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.firstSince.IsZero() && time.Since(p.firstSince) >= p.cfg.Hold
}

// Others returns the number of other monitors.
func (p *Pair) Others() int {
	if p == nil {
		return 0
	}
	return p.peer.ClusterSize() - 1
}

// Close leaves the cluster.
func (p *Pair) Close() error {
	if p == nil {
		return nil
	}
	p.stop()
	p.done.Wait()
	return p.peer.Leave(leaveTimeout)
}
