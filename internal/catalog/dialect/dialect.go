// Package dialect maps the canonical metrics of package indicator to the names that a server uses: vLLM's V1 and V0
// engines by release, Ray Serve's and KServe's prefixes, stores that forbid colons, SGLang, and the exporters of
// NVIDIA and AMD beside them.
//
// A dialect is detected from the names that an endpoint really exposes, never from a version string. Without an
// endpoint, Named derives a dialect from a table of each release's names; Known looks names up in it. The package
// performs no I/O.
package dialect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/amd"
	"github.com/sixty-dev/sixty/internal/catalog/engine/beside"
	"github.com/sixty-dev/sixty/internal/catalog/engine/dcgm"
	"github.com/sixty-dev/sixty/internal/catalog/engine/gateway"
	"github.com/sixty-dev/sixty/internal/catalog/engine/sglang"
	"github.com/sixty-dev/sixty/internal/catalog/engine/tgi"
	"github.com/sixty-dev/sixty/internal/catalog/engine/triton"
	"github.com/sixty-dev/sixty/internal/catalog/engine/trtllm"
	"github.com/sixty-dev/sixty/internal/catalog/engine/vllm"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// The engines that other packages name, the exporters of GPUs, and gateways.
const (
	VLLM    = vllm.ID
	SGLang  = sglang.ID
	DCGM    = dcgm.ID
	AMD     = amd.ID
	Gateway = gateway.ID
)

// Foreign is a regular expression of the metrics of other products' gateways. They are not part of Selector, because a
// deployment may have many gateways that are not in front of its servers.
var Foreign = gateway.Foreign()

// Gateways is the selector for the metrics of all gateways.
var Gateways = gateway.Engine.Selector + "|" + Foreign

// engines are tried in this order, by their pages and by their images: Triton's has TensorRT-LLM's name in it.
var engines = []engine.Engine{
	vllm.Engine, sglang.Engine, triton.Engine, trtllm.Engine, tgi.Engine,
	dcgm.Engine, amd.Engine, gateway.Engine,
}

// A Dialect maps the canonical metrics to one endpoint's names.
type Dialect struct {
	engine.Naming

	Engine engine.ID
	Flags  engine.Flags
	Enable string // how to enable its metrics, a sentence

	derived map[string]indicator.Expr // by signal, of indicator.Alternative, in canonical names
	has     map[string]bool           // names exposed
	key     string                    // see Key
	unused  map[string]string         // by signal, see Unused
}

// Detect finds the dialect of an endpoint from the names that it exposes. The
// second result is false when the names are of no engine that sixty knows.
func Detect(names []string) (Dialect, bool) {
	has := make(map[string]bool, len(names))
	for _, n := range names {
		has[n] = true
	}
	logged, sglangs, isLog := engine.NamingOfLog(has)
	for _, e := range engines {
		n, ok := e.Detect(has)
		if isLog {
			n, ok = logged, e.ID == VLLM && !sglangs || e.ID == SGLang && sglangs
		}
		if ok {
			d := Dialect{Naming: n, Engine: e.ID, Flags: e.Flags, Enable: e.Enable, has: has}
			d.deriveExprs()
			d.key = d.describeRelease()
			unused := make(map[string]string, len(indicator.All()))
			for _, s := range indicator.All() {
				unused[s.Name] = d.Unused(s)
			}
			d.unused = unused
			return d, true
		}
	}
	return Dialect{}, false
}

// Named returns the dialect that Detect would find on the page of a server with default features. id is a Dialect's
// ID, or a release in the engine's notation.
func Named(id string) (Dialect, error) {
	for _, e := range engines {
		metrics, release, err := e.ReleaseNames(id)
		if err != nil {
			return Dialect{}, err
		}
		if metrics == nil {
			continue
		}
		d, ok := Detect(metrics)
		if !ok {
			return d, fmt.Errorf("no dialect fits the %d names of %s", len(metrics), id)
		}
		if release != "" {
			d.Version = release
		}
		return d, nil
	}
	return Dialect{}, hint.With(fmt.Errorf("unknown dialect %q", id), "name one of "+strings.Join(IDs(), ", ")+
		", or a release such as vllm-0.10")
}

// Usual returns the dialect assumed for a server that never answered: vLLM's V1 engine.
func Usual() (Dialect, error) { return Named("vllm-v1") }

// IDs lists the dialects that Named accepts, without releases.
func IDs() []string {
	var all []string
	for _, e := range engines {
		all = append(all, e.IDs...)
	}
	return all
}

// Others lists the engines other than vLLM, each with a prefix of its own. The list is shared.
func Others() []engine.Engine { return others }

var others = slices.DeleteFunc(slices.Clone(engines), func(e engine.Engine) bool { return e.Prefix == "" })

// Images returns a regular expression that matches a part of the image names of all inference servers.
func Images() string {
	var all []string
	for _, e := range engines {
		if e.Images != "" {
			all = append(all, e.Images)
		}
	}
	return strings.Join(all, "|")
}

// OtherOf returns the engine other than vLLM that a metric's name belongs to.
func OtherOf(name string) (engine.Engine, bool) {
	i := slices.IndexFunc(others, func(e engine.Engine) bool { return strings.HasPrefix(name, e.Prefix) })
	if i < 0 {
		return engine.Engine{}, false
	}
	return others[i], true
}

// LikelyArgs parses arguments of a server with an unknown engine. It refuses a misspelt flag of vLLM unless another
// engine has the flag.
func LikelyArgs(line, source string) (engine.Config, error) {
	return vllm.Engine.Flags.LikelyArgs(line, source, func(name string) bool {
		return slices.ContainsFunc(Others(), func(e engine.Engine) bool { return e.Flags.Owns(name) })
	})
}

// Selector is a regular expression of metric names that finds targets in a Prometheus server: names of all dialects,
// and of parts of servers.
var Selector = engineSelector()

func engineSelector() string {
	out := []string{beside.InServers}
	for _, e := range engines {
		out = append(out, e.Selector)
	}
	return strings.Join(out, "|")
}

// NamePattern returns a regular expression of the names under which inference servers expose canonical metrics. The
// metrics are given without prefix.
func NamePattern(names ...string) string {
	var out []string
	for _, e := range engines {
		for _, n := range names {
			if e.Like != nil {
				out = append(out, e.Like(n))
			}
		}
	}
	return strings.Join(out, "|")
}

// deriveExprs sets the expressions of signals for metrics that the endpoint does not expose.
func (d *Dialect) deriveExprs() {
	d.derived = map[string]indicator.Expr{}
	exposes := func(name string) bool { return d.has[d.Metric(name)] }
	for _, s := range indicator.All() {
		i := slices.IndexFunc(s.Otherwise, func(a indicator.Alternative) bool {
			return !exposes(a.Without) && (a.With == "" || exposes(a.With))
		})
		if i >= 0 {
			d.derived[s.Name] = s.Otherwise[i].Expr
		}
	}
}

// Serves reports whether the endpoint is an inference server, not an exporter beside it or a gateway.
func (d Dialect) Serves() bool { return !ShowsGPUs(d.Engine) && d.Engine != Gateway }

// ShowsGPUs reports whether a kind of endpoint is an exporter of GPUs.
func ShowsGPUs(kind engine.ID) bool { return kind == DCGM || kind == AMD }

// Answers reports whether an endpoint of this kind can have a signal.
func (d Dialect) Answers(s *indicator.Signal) bool {
	return scopeAnswered(d.Engine, s.Scope) && (d.Log || !s.Logged)
}

// scopeAnswered reports whether a kind of endpoint answers signals of a scope.
func scopeAnswered(kind engine.ID, scope indicator.Scope) bool {
	switch scope {
	case indicator.GPU:
		return ShowsGPUs(kind)
	case indicator.Gateway:
		return kind == Gateway
	}
	return !ShowsGPUs(kind) && kind != Gateway
}

// AlertPrefixes returns the prefixes of alert names for a scope and the deployment's engines, because an alert is
// named after its subject. Without an engine of the scope it is the default engine's prefix.
func AlertPrefixes(scope indicator.Scope, met func(engine.ID) bool) []string {
	var all, own []string
	for _, e := range engines {
		if scopeAnswered(e.ID, scope) {
			all = append(all, e.Alerts)
			if met(e.ID) && !slices.Contains(own, e.Alerts) {
				own = append(own, e.Alerts)
			}
		}
	}
	if len(own) == 0 {
		return all[:1]
	}
	return own
}

// Metric returns the name under which the endpoint exposes a canonical metric, whether or not it does expose it.
func (d Dialect) Metric(name string) string {
	rest, ok := strings.CutPrefix(name, engine.Canonical)
	if !ok {
		if r, renamed := d.Renamed[name]; renamed {
			return r
		}
		return name
	}
	if r, renamed := d.Renamed[rest]; renamed {
		rest = r
	}
	return d.Prefix + rest
}

// HTTPAnswers returns the counter of the endpoint's HTTP answers.
func (d Dialect) HTTPAnswers() engine.Answers {
	return cmp.Or(d.HTTP, engine.Answers{Metric: "http_requests_total", Handler: "handler", Status: "status"})
}

// Series returns the series of a metric in this dialect, by its canonical name or the dialect's own.
func (d Dialect) Series(name string) indicator.Series {
	s := indicator.Series{Metric: d.Metric(name), Where: d.Only[strings.TrimPrefix(name, engine.Canonical)]}
	if f, known := Known(s.Metric); known {
		s.Copies = slices.DeleteFunc(slices.Clone(d.Copies), func(l string) bool {
			return !slices.Contains(f.Labels, l)
		})
	}
	if d.Later[s.Metric] {
		s.None = d.Metric("vllm:num_requests_running")
	}
	return s
}

// Rewriting returns the rewriting of expressions for the endpoint, without labels.
func (d Dialect) Rewriting() indicator.Rewriting {
	return indicator.Rewriting{Series: d.Series, Rank: d.Rank}
}

// Expr returns the signal's expression for this dialect: the canonical one or, if the metric does not exist, another
// one in names of this dialect. Series translates the names of both.
func (d Dialect) Expr(s *indicator.Signal) indicator.Expr {
	if e, ok := d.Exprs[s.Name]; ok {
		return e
	}
	if e, ok := d.derived[s.Name]; ok {
		return e
	}
	return s.Expr
}

// Derives reports whether the signal's expression differs from the canonical one.
func (d Dialect) Derives(s *indicator.Signal) bool {
	return d.Exprs[s.Name] != nil || d.derived[s.Name] != nil
}

// Missing returns the metrics, in the dialect's names, that the signal needs and the endpoint does not expose.
func (d Dialect) Missing(s *indicator.Signal) []string {
	if needs, lacks := d.Lacks[s.Name]; lacks {
		return []string{d.Prefix + needs}
	}
	var missing []string
	for _, n := range indicator.Reads(d.Expr(s)) {
		n = d.Metric(n)
		if b, ok := strings.CutSuffix(n, "_bucket"); ok {
			n = b + "_count"
		}
		// up and scrape_* are the scraper's own; the endpoint never has them.
		if !d.Exposes(n) && !d.Later[n] && n != "up" && !strings.HasPrefix(n, "scrape_") {
			missing = append(missing, n)
		}
	}
	return missing
}

// Unused returns the unused option or feature whose metrics a signal needs, so that nothing is judged by the signal.
// It returns "" if the signal is available, or if the missing metrics do not belong to an option.
func (d Dialect) Unused(s *indicator.Signal) string {
	if option, known := d.unused[s.Name]; known {
		return option
	}
	if s.Logged && !d.Log {
		return "an engine's log"
	}
	if len(d.Missing(s)) == 0 {
		return ""
	}
	option := s.Feature
	for _, n := range indicator.Reads(s.Expr) {
		f, ok := Known(n)
		switch {
		case !ok || f.Needs == "":
		case d.Exposes(d.Metric(n)):
			return "" // it is in use, and something else is missing
		default:
			option = f.Needs
		}
	}
	return option
}

// Predates reports whether the signal needs a metric that the servers of this dialect are too old for, or that their
// engine never has. Other options at their start do not help then.
func (d Dialect) Predates(s *indicator.Signal) bool {
	return slices.ContainsFunc(d.Missing(s), func(name string) bool {
		if !strings.HasPrefix(name, d.Prefix) {
			return s.Feature != "" // another engine's metric; else another program's
		}
		f, known := Known(name)
		release, _, _ := strings.Cut(d.Version, " ")
		switch {
		case d.Engine != VLLM:
			return !known
		case !known:
			return false
		case strings.HasPrefix(d.ID, "vllm-v0"):
			return vllm.OnlyV1(&f)
		}
		return release != "" && !f.Released(release)
	})
}

// Names lists the names that the endpoint exposes, sorted.
func (d Dialect) Names() []string { return slices.Sorted(maps.Keys(d.has)) }

// Exposes reports whether the endpoint exposes a name. A histogram with a count has buckets.
func (d Dialect) Exposes(name string) bool {
	if b, ok := strings.CutSuffix(name, "_bucket"); ok {
		name = b + "_count"
	}
	return d.has[name]
}

// Key identifies the queries of a dialect: dialects with the same key share them.
func (d Dialect) Key() string { return d.key }

func (d Dialect) describeRelease() string {
	var b strings.Builder
	b.WriteString(d.Prefix)
	for _, k := range slices.Sorted(maps.Keys(d.Renamed)) {
		b.WriteString("|" + k + "=" + d.Renamed[k])
	}
	for _, m := range []map[string]indicator.Expr{d.Exprs, d.derived} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			b.WriteString("|" + k + "=" + m[k].String())
		}
	}
	for _, s := range indicator.All() {
		if len(d.Missing(s)) > 0 {
			b.WriteString("|-" + s.Name)
		}
	}
	return b.String()
}

// Distinct keeps the first of the dialects with the same queries.
func Distinct(ds []Dialect) []Dialect {
	seen := map[string]bool{}
	return slices.DeleteFunc(ds, func(d Dialect) bool {
		defer func() { seen[d.key] = true }()
		return seen[d.key]
	})
}
