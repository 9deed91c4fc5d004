// Package identity finds the targets of a diagnosis: which targets a store's series belong to, which engine each is,
// how it is labelled, and which servers are seen twice.
//
// # The idea
//
// Labels lie. A server may be seen more than once: by a pair of Prometheus servers, by two jobs, as a pod and behind a
// service. Several servers may look like one, where "instance" is relabelled, dropped, or that of a federating
// Prometheus server. So engines are recognized by the names of their metrics, never by a version string or a job.
// Servers are recognized by their processes: by when a process started, and by counters that grow through each other's
// values.
//
// # What it holds
//
// A [Target] is one model on one server, a GPU exporter, or a gateway. A [Layout] is how a deployment labels its
// series. A [Scope] holds the targets of one diagnosis, and a [Group] those of them that share queries. [Sightings]
// remember the series that were seen.
//
// # The order
//
// [Discover] first finds the servers that are seen twice (same.go), at the time of the diagnosis and at an earlier one.
// It then lists all series' names by their labels, groups them into servers, and detects each server's dialect. Servers
// without engine metrics are inference servers if they answer requests that generate, or belong to a job of such
// servers. At last it reads which servers are behind gateways, and what servers expose of their configuration.
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
	Version string // as the server says, else as its metric names tell
	Config  engine.Config
	Role    engine.Role // from labels of its series; "" if they have none
	Life    Life        // set by the diagnosis; "" if unknown
	Notes   []string    // facts that metrics lack: "/health answers 503"
	Failure string      // error of its last scrape, such as "connection refused"; "" if unknown

	// Models are the models that the engines behind a gateway say they serve, and Upstreams its servers. Other targets
	// have none.
	Models, Upstreams []string

	// Problem says why the target cannot be judged, such as that it exposes no
	// engine metrics; "" when it can.
	Problem string
}

// Serves reports whether the target is a model server. GPU exporters, which lend their readings to servers, and
// gateways are no model servers.
func (t *Target) Serves() bool { return t.Dialect.Serves() }

// IsGPU reports whether the target is an exporter of GPUs.
func (t *Target) IsGPU() bool { return dialect.ShowsGPUs(t.Dialect.Engine) }

// IsGateway reports whether the target is a gateway.
func (t *Target) IsGateway() bool { return t.Dialect.Engine == dialect.Gateway }

// HostName returns the host of a target's address, "" if the address names no port.
func (t *Target) HostName() string {
	instance := t.Labels["instance"]
	return instance[:max(0, strings.LastIndexByte(instance, ':'))]
}

// A Life is the state of a target.
type Life string

// The states of a target. A target that is no longer scraped has none: it is dropped, with a note.
const (
	LifeStarting Life = "starting" // discovered, and has never answered
	LifeServing  Life = "serving"
	LifeSlow     Life = "slow"    // to answer: pages come now and then
	LifeDrained  Life = "drained" // does not answer, and had no requests when it was last seen
	LifeLost     Life = "lost"    // does not answer, and had requests then
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

// Identity returns a key that identifies a target from one diagnosis to the next.
func (t *Target) Identity() string { return LabelKey(t.Labels, slices.Sorted(maps.Keys(t.Labels))) }
