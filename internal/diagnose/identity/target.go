// Package identity says who is who: which targets a store's series belong to, which engine each is, how it is labelled,
// and which servers are seen twice.
//
// # The idea
//
// Labels lie. A server may be seen more than once: by a pair of Prometheus servers, by two jobs, as a pod and behind a
// service. Several servers may look like one, where "instance" is relabelled, dropped, or that of a federating
// Prometheus server. So engines are known by the names of their metrics, never by a version string or a job, and
// servers by their processes: when a process was born, and counters that grow through each other's values.
//
// # What it holds
//
// A [Target] is one model on one server, a GPU exporter, or a gateway. A [Layout] is how a deployment labels its
// series. A [Scope] is the targets of one diagnosis, and a [Group] those of them that are asked about in the same
// words. [Sightings] remember the series that were seen.
//
// # The order
//
// [Discover] first finds the servers that are seen twice (same.go), at the time of the diagnosis and at an earlier one.
// It then lists all series' names by their labels, groups them into servers, and detects each server's dialect. Servers
// without engine metrics are inference servers if they answer requests that generate, or belong to a job of such
// servers. At last it reads what gateways stand before, and what servers tell of their configuration.
//
// Roles of prefill and decode servers are not decided here, because readings tell them too.
package identity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

// A Target is one model on one scraped server, or one GPU exporter, or a
// gateway.
type Target struct {
	Name    string            // for people: the instance, and the model where there are several
	Labels  map[string]string // identifying labels: instance, job, model_name, …
	Dialect dialect.Dialect
	Version string // as the server says or, failing that, as its metric names tell
	Config  engine.Config
	Role    engine.Role // as labels of its series say it; "" if they do not
	Life    Life        // set by the diagnosis; "" if unknown
	Notes   []string    // facts learnt beside the metrics: "/health answers 503"
	Failure string      // error of its last scrape, such as "connection refused"; "" if unknown

	// Models are those that the engines behind a gateway say they serve, and Upstreams its
	// servers; none of other targets.
	Models, Upstreams []string

	// Problem says why the target cannot be judged, such as that it exposes no
	// engine metrics; "" when it can.
	Problem string
}

// Serves reports whether the target is a model server, and no GPU exporter, which lends
// its readings to servers, and no gateway.
func (t *Target) Serves() bool { return t.Dialect.Serves() }

// IsGPU reports whether the target is an exporter of GPUs.
func (t *Target) IsGPU() bool { return dialect.ShowsGPUs(t.Dialect.Engine) }

// IsGateway reports whether the target is a gateway.
func (t *Target) IsGateway() bool { return t.Dialect.Engine == dialect.Gateway }

// HostName is the host of a target's address, "" where the address names no port.
func (t *Target) HostName() string {
	instance := t.Labels["instance"]
	return instance[:max(0, strings.LastIndexByte(instance, ':'))]
}

// A Life is where a target is in its life.
type Life string

// The states of a target. One that left discovery is in none: it is no target any more,
// and a note says so.
const (
	LifeStarting Life = "starting" // discovered, and has never answered
	LifeServing  Life = "serving"
	LifeSlow     Life = "slow"    // to answer: pages come now and then
	LifeDrained  Life = "drained" // does not answer, and had nothing to do when it was last seen
	LifeLost     Life = "lost"    // does not answer, and had
)

// HarmlesslyAbsent reports whether a target is absent for a reason that hurts nobody. It does not lower the confidence
// in the verdict on the others.
func (l Life) HarmlesslyAbsent() bool { return l == LifeStarting || l == LifeDrained }

// MostNames is how many targets a sentence names.
const MostNames = 3

// ListNames lists the names of targets, or says how many there are.
func ListNames(targets []string) string {
	if len(targets) > MostNames {
		return fmt.Sprintf("%d targets", len(targets))
	}
	return strings.Join(targets, ", ")
}

// Identity identifies a target from one diagnosis to the next.
func (t *Target) Identity() string { return LabelKey(t.Labels, slices.Sorted(maps.Keys(t.Labels))) }
