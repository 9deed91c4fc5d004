// Package slo holds service level objectives by use case or in the user's own numbers, and the models that they apply
// to. It parses slo.yaml, matches objectives to targets, and performs no I/O.
package slo

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Key names one objective; thresholds refer to it.
type Key string

// The objectives that can be set.
const (
	TTFTP95      Key = "ttft_p95"
	ITLP95       Key = "itl_p95"
	E2EP95       Key = "e2e_p95"
	Availability Key = "availability"
	// Cancelled is no objective: it is the share of requests that clients cancel by design.
	Cancelled Key = "cancelled"
)

// An Objective is a promise to the users of some models. A zero target means no promise.
type Objective struct {
	// Matchers; empty or "*" matches everything, and a pattern may hold * and ?,
	// which match slashes as well: model names have them.
	Model, Namespace, Cluster, Service string

	Name         string // name in dashboards and alerts; may be empty
	UseCase      string
	TTFTP95      time.Duration
	ITLP95       time.Duration
	E2EP95       time.Duration
	Availability float64 // share of requests that succeed, 0 to 1
	Cancelled    float64 // share that clients may cancel before their answer is complete, 0 to 1

	// Promises over another share than 95 %, beside those above. Parse derives the P95 from a promise over a larger
	// share, which promises no less.
	TTFT, ITL, E2E Percentile
}

// DefaultPeriod is the period of an objective, and so of its error budget.
const DefaultPeriod = 30 * 24 * time.Hour

// A Percentile is a latency that a share of events keeps to. The zero value promises nothing.
type Percentile struct {
	Share  float64 // 0 to 1
	Target time.Duration
}

// Quantity is the measured quantity of a promise.
type Quantity string

// The quantities that can be promised.
const (
	TTFT      Quantity = "ttft"
	ITL       Quantity = "itl"
	E2E       Quantity = "e2e"
	Succeeded Quantity = "availability"
)

// A Promise is one of an objective's promises: this share of events is good.
type Promise struct {
	Quantity Quantity
	Share    float64       // 0 to 1; 1 - Share is the error budget
	Target   time.Duration // how long a good event takes; 0 for Succeeded
}

// Promises lists what the objective promises. It leaves out a P95 that follows from a promise over a larger share.
func (o Objective) Promises() []Promise {
	var out []Promise
	for _, l := range []struct {
		quantity Quantity
		p95      time.Duration
		further  Percentile
	}{{TTFT, o.TTFTP95, o.TTFT}, {ITL, o.ITLP95, o.ITL}, {E2E, o.E2EP95, o.E2E}} {
		implied := l.further.Share >= p95 && l.further.Target <= l.p95
		if l.p95 > 0 && !implied {
			out = append(out, Promise{l.quantity, p95, l.p95})
		}
		if l.further.Target > 0 {
			out = append(out, Promise{l.quantity, l.further.Share, l.further.Target})
		}
	}
	if o.Availability > 0 {
		out = append(out, Promise{Quantity: Succeeded, Share: o.Availability})
	}
	return out
}

// p95 is the share of the keys that end in _p95.
const p95 = 0.95

// mostlyCancelled is an editor's share of cancelled requests: each keystroke drops the completion of the one before,
// and at most one in four is shown.
const mostlyCancelled = 0.75

// useCases are common latency targets of LLM services by use case, all taken as P95.
var useCases = []Objective{
	{UseCase: "chat", TTFTP95: 500 * time.Millisecond, ITLP95: 50 * time.Millisecond, E2EP95: 10 * time.Second},
	{UseCase: "code-completion", TTFTP95: 200 * time.Millisecond, ITLP95: 30 * time.Millisecond, E2EP95: 3 * time.Second, Cancelled: mostlyCancelled},
	{UseCase: "batch", TTFTP95: 5 * time.Second, ITLP95: 100 * time.Millisecond, E2EP95: time.Minute},
	{UseCase: "rag", TTFTP95: time.Second, ITLP95: 80 * time.Millisecond, E2EP95: 15 * time.Second},
	{UseCase: "agentic", TTFTP95: 2 * time.Second, ITLP95: 100 * time.Millisecond, E2EP95: 30 * time.Second},
}

// UseCases returns the names of the known use cases.
func UseCases() []string {
	var names []string
	for _, o := range useCases {
		names = append(names, o.UseCase)
	}
	return names
}

// ForUseCase returns the objective of a use case.
func ForUseCase(name string) (Objective, error) {
	for _, o := range useCases {
		if o.UseCase == name {
			return o, nil
		}
	}
	return Objective{}, fmt.Errorf("unknown use case %q: want one of %s", name, strings.Join(UseCases(), ", "))
}

// Value returns the objective's target in base units (seconds, or a ratio), and whether it was set.
func (o Objective) Value(k Key) (float64, bool) {
	v := map[Key]float64{
		TTFTP95: o.TTFTP95.Seconds(), ITLP95: o.ITLP95.Seconds(), E2EP95: o.E2EP95.Seconds(),
		Availability: o.Availability, Cancelled: o.Cancelled,
	}[k]
	return v, v > 0
}

// Source names the objective's origin in evidence: "chat", or "slo".
func (o Objective) Source() string { return cmp.Or(o.UseCase, "slo") }

// File is the parsed content of slo.yaml.
type File struct {
	Objectives []Objective
}

// rawObjective is one entry as written.
type rawObjective struct {
	Model        string    `yaml:"model"`
	Namespace    string    `yaml:"namespace"`
	Cluster      string    `yaml:"cluster"`
	Service      string    `yaml:"service"`
	UseCase      yaml.Node `yaml:"use_case"`
	TTFTP95      yaml.Node `yaml:"ttft_p95"`
	ITLP95       yaml.Node `yaml:"itl_p95"`
	E2EP95       yaml.Node `yaml:"e2e_p95"`
	Availability yaml.Node `yaml:"availability"`
	Cancelled    yaml.Node `yaml:"cancelled"`
	Name         string    `yaml:"name"`
	TTFT         yaml.Node `yaml:"ttft"`
	ITL          yaml.Node `yaml:"itl"`
	E2E          yaml.Node `yaml:"e2e"`
}

// maxFile bounds slo.yaml: a list of promises, not a data file.
const maxFile = 1 << 20

// Parse reads slo.yaml. Errors name line and column, and unknown keys are errors: a misspelt
// target must not silently promise nothing.
func Parse(name string, content []byte) (*File, error) {
	if len(content) > maxFile {
		return nil, fmt.Errorf("%s: %d bytes are more than a list of objectives can need (limit %d)",
			name, len(content), maxFile)
	}
	f, err := parseContent(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

func parseContent(content []byte) (*File, error) {
	var raw struct {
		Objectives []rawObjective `yaml:"objectives"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(content))
	dec.KnownFields(true)
	if err := dec.Decode(&raw); err != nil && !errors.Is(err, io.EOF) {
		return nil, hint.With(locateError(err, content), "see docs/slo.md for the keys of slo.yaml")
	}
	if len(raw.Objectives) == 0 {
		return nil, errors.New("no objectives")
	}
	f := &File{}
	for i, r := range raw.Objectives {
		o, err := r.toObjective()
		if err != nil {
			return nil, fmt.Errorf("objective %d: %w", i+1, err)
		}
		f.Objectives = append(f.Objectives, o)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the first YAML document: one file holds one list")
	}
	return f, nil
}

func (r *rawObjective) toObjective() (Objective, error) {
	var o Objective
	if u := resolveAlias(&r.UseCase); !u.IsZero() {
		var err error
		if o, err = ForUseCase(u.Value); err != nil {
			return o, fmt.Errorf("%s: %w", formatPosition(&r.UseCase), err)
		}
	}
	o.Name, o.Model, o.Namespace, o.Cluster, o.Service = r.Name, r.Model, r.Namespace, r.Cluster, r.Service
	for _, p := range []string{o.Model, o.Namespace, o.Cluster, o.Service} {
		if _, err := path.Match(p, ""); err != nil {
			return o, fmt.Errorf("matcher %q: %w", p, err)
		}
	}
	for _, d := range []struct {
		key          Key
		node, longer *yaml.Node
		dst          *time.Duration
		percentile   *Percentile
	}{
		{TTFTP95, &r.TTFTP95, &r.TTFT, &o.TTFTP95, &o.TTFT},
		{ITLP95, &r.ITLP95, &r.ITL, &o.ITLP95, &o.ITL},
		{E2EP95, &r.E2EP95, &r.E2E, &o.E2EP95, &o.E2E},
	} {
		if err := parseLatency(d.key, d.node, d.dst); err != nil {
			return o, err
		}
		if d.longer.IsZero() {
			continue
		}
		var err error
		if *d.percentile, err = parsePercentile(resolveAlias(d.longer)); err != nil {
			return o, fmt.Errorf("%s: %s: %w", formatPosition(d.longer), strings.TrimSuffix(string(d.key), "_p95"), err)
		}
		if d.percentile.Share == p95 && !d.node.IsZero() {
			return o, fmt.Errorf("%s: %s says what the 95th percentile keeps to: say it once",
				formatPosition(d.longer), d.key)
		}
		implyP95(d.dst, d.percentile)
	}
	if !r.Availability.IsZero() {
		v, err := parseRatio(resolveAlias(&r.Availability).Value)
		if err != nil {
			return o, hint.With(fmt.Errorf("%s: availability: %w", formatPosition(&r.Availability), err),
				"promise less than everything, such as 99.9%: what is left is the budget for failures and changes")
		}
		o.Availability = v
	}
	if !r.Cancelled.IsZero() {
		v, err := parseRatio(resolveAlias(&r.Cancelled).Value)
		if err != nil {
			return o, fmt.Errorf("%s: cancelled: %w", formatPosition(&r.Cancelled), err)
		}
		o.Cancelled = v
	}
	if len(o.Promises()) == 0 && o.Cancelled == 0 {
		return o, errors.New("promises nothing: set use_case, ttft_p95, itl_p95, e2e_p95 or availability")
	}
	return o, nil
}

func parseLatency(key Key, node *yaml.Node, dst *time.Duration) error {
	if node.IsZero() {
		return nil
	}
	text := resolveAlias(node).Value
	v, err := time.ParseDuration(text)
	if err != nil || v <= 0 {
		return fmt.Errorf("%s: %s: %q is not a duration such as 500ms", formatPosition(node), key, text)
	}
	*dst = v
	return nil
}

// parsePercentile reads {p: 99, target: 2s}.
func parsePercentile(n *yaml.Node) (Percentile, error) {
	const want = "want {p: 99, target: 500ms}"
	var p Percentile
	if n.Kind != yaml.MappingNode {
		return p, errors.New(want)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		value := resolveAlias(n.Content[i+1]).Value
		switch field := n.Content[i].Value; field {
		case "p":
			v, err := strconv.ParseFloat(value, 64)
			if err != nil || !(v > 0 && v < 100) {
				return p, fmt.Errorf("p: %q is no percentile: want more than 0 and less than 100, such as 99", value)
			}
			p.Share = v / 100
		case "target":
			v, err := time.ParseDuration(value)
			if err != nil || v <= 0 {
				return p, fmt.Errorf("target: %q is not a duration such as 500ms", value)
			}
			p.Target = v
		default:
			return p, fmt.Errorf("unknown key %q: %s", field, want)
		}
	}
	if p.Share == 0 || p.Target == 0 {
		return p, errors.New(want)
	}
	return p, nil
}

// implyP95 derives the P95 from a promise over another share: at 95 it is the P95, and above 95 it promises the P95 no
// less.
func implyP95(p95Target *time.Duration, p *Percentile) {
	switch {
	case p.Share == p95:
		*p95Target, *p = p.Target, Percentile{}
	case p.Share > p95 && (*p95Target == 0 || p.Target < *p95Target):
		*p95Target = p.Target
	}
}

// resolveAlias returns the node that a YAML alias stands for, or the node itself.
func resolveAlias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// parseRatio reads "99.9%" or "0.999".
func parseRatio(s string) (float64, error) {
	text, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a share such as 99.9%%", s)
	}
	if percent {
		v /= 100
	}
	if !(v > 0 && v < 1) { // NaN is refused, too
		return 0, fmt.Errorf("%q leaves no error budget or is not a share: want more than 0 and less than 100%%", s)
	}
	return v, nil
}

// For returns the objective of a target, given its labels: the first entry whose matchers all hold.
func (f *File) For(labels map[string]string) (Objective, bool) {
	if f == nil {
		return Objective{}, false
	}
	i := slices.IndexFunc(f.Objectives, func(o Objective) bool {
		return matchPattern(o.Model, labels["model_name"]) && matchPattern(o.Namespace, labels["namespace"]) &&
			matchPattern(o.Cluster, labels["cluster"]) && matchPattern(o.Service, labels["service"])
	})
	if i < 0 {
		return Objective{}, false
	}
	return f.Objectives[i], true
}

func matchPattern(pattern, value string) bool {
	if pattern == "" || pattern == "*" {
		return true
	}
	// path.Match stops * at a slash; a byte that no label value holds takes its place.
	slash := strings.NewReplacer("/", "\x00")
	ok, err := path.Match(slash.Replace(pattern), slash.Replace(value))
	return err == nil && ok
}
