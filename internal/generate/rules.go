package generate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/catalog/threshold"
)

// RulesConfig says what the rules are for.
type RulesConfig struct {
	Deployment  dialect.Deployment
	Pathologies []*catalog.Pathology
	// Absences are the ids of the alerts on what is not there.
	Absences []string

	// Where thresholds come from, in this order: what the user set by name, the
	// objectives, what was measured, the past, the catalogue's default.
	Set        map[string]float64
	Objectives *slo.File
	Measured   []*baseline.File

	// Interval is the time between two scrapes, and between two evaluations of the
	// rules.
	Interval time.Duration
	// Past and Ago say what is normal where nothing was measured: the median of
	// this much time, which ended so long ago.
	Past, Ago time.Duration

	Runbooks catalog.Runbooks
	// Panel returns the path of the panel to look at, in the Grafana at DashboardURL; it
	// may be nil. Without an address the paths alone are written.
	Panel        func(*catalog.Pathology) string
	DashboardURL string
	// Labels are added to every alert.
	Labels map[string]string
	// Severities are the values of the label severity, where they are others than page,
	// ticket and info. No two of them are the same.
	Severities map[catalog.Severity]string
	// KeepFiringFor is how long an alert goes on after its condition ended, 0 for not at
	// all: one that comes and goes is one alert.
	KeepFiringFor time.Duration
}

// PanelURL returns the address of a pathology's panel, "" where there is none.
func (cfg *RulesConfig) PanelURL(p *catalog.Pathology) string {
	if cfg.Panel == nil {
		return ""
	}
	if path := cfg.Panel(p); path != "" {
		return strings.TrimSuffix(cfg.DashboardURL, "/") + path
	}
	return ""
}

// SeverityName returns the value of the label severity.
func (cfg *RulesConfig) SeverityName(s catalog.Severity) string {
	return cmp.Or(cfg.Severities[s], s.String())
}

// severityNames lists the values of the label severity, each once.
func (cfg *RulesConfig) severityNames() []string {
	var names []string
	for _, s := range []catalog.Severity{catalog.Page, catalog.Ticket, catalog.Info} {
		names = append(names, cfg.SeverityName(s))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// gpuLabels are those that a model server and its GPU exporter have in common.
func (cfg *RulesConfig) gpuLabels() []string {
	if len(cfg.Deployment.GPU) == 0 {
		return []string{hostLabel}
	}
	return cfg.Deployment.GPU
}

// Usual durations of the rules.
const (
	UsualInterval = 30 * time.Second
	UsualPast     = 24 * time.Hour
	UsualAgo      = time.Hour
)

// minPastShare is how much of Past must have samples before it says what is
// normal.
const minPastShare = 48

// Rules are the generated rules, and what could not be generated.
type Rules struct {
	Sets     []RuleSet
	Warnings []string
}

// Groups returns the groups of all sets.
func (r *Rules) Groups() []rulefmt.RuleGroup { return Groups(r.Sets) }

// NewRules renders the catalogue as recording rules, one for each signal that a
// condition reads, and alerts over them, one for each pathology, or several
// where thresholds differ between models.
func NewRules(cfg RulesConfig) (*Rules, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Pathologies = slices.DeleteFunc(slices.Clone(cfg.Pathologies), func(p *catalog.Pathology) bool { return !AppliesTo(&cfg.Deployment, p) })
	if cfg.Objectives != nil && slices.ContainsFunc(cfg.Objectives.Objectives, func(o slo.Objective) bool { return o.Service != "" }) && !slices.Contains(cfg.Deployment.Model, "service") {
		cfg.Deployment.Model = append(slices.Clone(cfg.Deployment.Model), "service")
	}
	cfg.Deployment.Instance = withMatched(cfg.Deployment.Instance, cfg.Deployment)
	host := len(cfg.Deployment.GPU) == 0
	cfg.Deployment.GPU = cfg.gpuLabels()
	segments, err := cfg.segments()
	if err != nil {
		return nil, err
	}
	b := &ruleBuilder{cfg: &cfg, host: host, recorded: map[string]bool{}, normal: map[string]bool{}, serves: map[string]bool{}, out: &Rules{}}
	alerts := map[string][]rulefmt.Rule{} // by segment
	for _, p := range cfg.Pathologies {
		if err := b.alerts(p, segments, alerts); err != nil {
			return nil, fmt.Errorf("alert %s: %w", p.Alert, err)
		}
	}
	absences, err := b.absences()
	if err != nil {
		return nil, err
	}
	signals, err := b.recordings()
	if err != nil {
		return nil, err
	}
	interval := model.Duration(cfg.Interval)
	b.group("signals", "sixty-signals", interval, signals)
	b.group("signals", "sixty-baseline", model.Duration(max(5*time.Minute, cfg.Interval)), b.baselines())
	b.group("alerts", "sixty-limits", interval, b.limits)
	b.group("alerts", "sixty-alerts", interval, alerts[""])
	for _, seg := range segments {
		if seg.name != "" {
			set := SetName("alerts", seg.name)
			b.group(set, "sixty-"+set, interval, alerts[seg.name])
		}
	}
	b.group("alerts", "sixty-absences", interval, absences)
	return b.out, nil
}

// group adds a group of rules to a set of the pack, where there are rules.
func (b *ruleBuilder) group(set, name string, interval model.Duration, rules []rulefmt.Rule) {
	for unique, n := name, 2; slices.ContainsFunc(b.out.Groups(), func(g rulefmt.RuleGroup) bool { return g.Name == name }); n++ {
		name = fmt.Sprintf("%s-%d", unique, n)
	}
	if len(rules) > 0 {
		b.out.Sets = AddTo(b.out.Sets, set, rulefmt.RuleGroup{Name: name, Interval: interval, Rules: rules})
	}
}

// withMatched adds to the labels of a target those by which the deployment is
// selected, and those that it shares with its GPU exporter, so that recorded series
// keep them.
func withMatched(instance []string, d dialect.Deployment) []string {
	out := slices.Clone(instance)
	for _, l := range d.GPU {
		if !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	for _, m := range d.Matchers {
		if !slices.Contains(out, m.Name) && !slices.Contains(d.Model, m.Name) {
			out = append(out, m.Name)
		}
	}
	return out
}

func (cfg *RulesConfig) validate() error {
	d := &cfg.Deployment
	switch {
	case len(d.Dialects) == 0:
		return fmt.Errorf("rules: no dialect")
	case len(d.Instance) == 0 || !slices.Contains(d.Model, "model_name"):
		return fmt.Errorf("rules: need labels of a target and, with model_name, of a fleet")
	case cfg.Interval <= 0 || cfg.Past <= 0 || cfg.Ago < 0:
		return fmt.Errorf("rules: interval %s, past %s and ago %s must be positive", cfg.Interval, cfg.Past, cfg.Ago)
	case len(cfg.Severities) > 0 && len(cfg.severityNames()) < 3:
		return hint.With(fmt.Errorf("rules: two severities have one name: %v", cfg.severityNames()), "name them apart: what is routed and inhibited by severity could not tell a ticket from a page")
	case min(d.Window, d.Short) < 2*cfg.Interval:
		return hint.With(fmt.Errorf("rules: rates over %s need two scrapes, and these are %s apart", min(d.Window, d.Short), cfg.Interval), "raise --window, or lower --interval if the servers are scraped more often")
	}
	return nil
}

// A ruleBuilder remembers which signals the alerts read.
type ruleBuilder struct {
	cfg      *RulesConfig
	host     bool            // recorded series get the label of that name
	recorded map[string]bool // signals that are recorded
	normal   map[string]bool // signals whose past is recorded
	limits   []rulefmt.Rule  // limits that follow the past
	serves   map[string]bool // recorded series that say which model is behind a gateway
	out      *Rules
}

// Series returns the name under which a signal is recorded.
func (cfg *RulesConfig) Series(s *indicator.Signal) string {
	return level(s) + ":vllm_" + s.Name + suffix(s) + ":" + duration(cfg.Deployment.Window)
}

// normalSeries returns the name under which a signal's past is recorded.
func (cfg *RulesConfig) normalSeries(s *indicator.Signal) string {
	return level(s) + ":vllm_" + s.Name + suffix(s) + ":median" + duration(cfg.Past)
}

// restrict restricts a recorded series to this deployment: another pack in the same
// Prometheus may record under the same name.
func (cfg *RulesConfig) restrict(series string) string {
	return indicator.Selector(series, cfg.Deployment.Matchers...)
}

// level is the aggregation level in a recorded name: the labels that are left.
func level(s *indicator.Signal) string {
	switch {
	case s.Scope == indicator.GPU, s.Scope == indicator.Gateway && s.Per == "":
		return "instance"
	case s.Scope == indicator.Gateway:
		return "instance_" + s.Per
	}
	return "instance_model"
}

// suffix is the base unit in a recorded name.
func suffix(s *indicator.Signal) string {
	switch s.Unit {
	case indicator.Seconds:
		return "_seconds"
	case indicator.Bytes:
		return "_bytes"
	}
	return ""
}

// recordings renders the recording rules of all signals that alerts read, in
// the order of the request path.
func (b *ruleBuilder) recordings() ([]rulefmt.Rule, error) {
	var rules []rulefmt.Rule
	// Those that others are made of come first: the rules of a group are evaluated in their order.
	parts := []*indicator.Signal{indicator.UnansweredWait, indicator.UnansweredShare}
	if slices.ContainsFunc(indicator.All(), func(s *indicator.Signal) bool { return s.Censored && b.recorded[s.Name] }) {
		for _, part := range parts {
			b.recorded[part.Name] = true
		}
	}
	all := slices.DeleteFunc(slices.Clone(indicator.All()), func(s *indicator.Signal) bool { return slices.Contains(parts, s) })
	for _, s := range append(parts, all...) {
		if !b.recorded[s.Name] {
			continue
		}
		d := b.cfg.Deployment
		if !slices.Contains(parts, s) {
			d.Recorded = b.partLabel
		}
		d.Instance = withPartLabel(d.Instance, s.Per)
		expr, err := d.Expr(s)
		if err != nil {
			return nil, err
		}
		if s.Scope == indicator.Gateway {
			rules = append(rules, rulefmt.Rule{Record: b.cfg.Series(s), Expr: pretty(expr)})
			continue
		}
		if s.Scope == indicator.Instance {
			if expr, err = b.server(expr); err != nil {
				return nil, err
			}
		}
		if b.host {
			expr = fmt.Sprintf("label_replace(%s, %q, \"$1\", \"instance\", \"(.*?)(?::[0-9]+)?\")", expr, hostLabel)
		}
		rules = append(rules, rulefmt.Rule{Record: b.cfg.Series(s), Expr: pretty(expr)})
	}
	served, err := b.servedRules()
	return append(rules, served...), err
}

// partLabel returns the recorded series of a signal that others are made of, with their labels.
func (b *ruleBuilder) partLabel(s *indicator.Signal) string {
	series := b.cfg.restrict(b.cfg.Series(s))
	if b.host {
		return fmt.Sprintf("max without (%s) (%s)", hostLabel, series)
	}
	return series
}

// hostLabel is what recorded series of a model server and of the GPU exporter
// beside it have in common where the deployment names no label: the instance
// without its port.
const hostLabel = "host"

// server gives a quantity of a scraped target, such as up, the model's name,
// and drops targets that are no inference servers.
func (b *ruleBuilder) server(expr string) (string, error) {
	d := b.cfg.Deployment
	served, err := d.PromQL("group by (instance, model_name) (last_over_time(vllm:num_requests_running[1h]))")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("(%s) * on (%s) group_right () (%s)", expr, strings.Join(d.Instance, ", "), served), nil
}

// baselines renders the recording rules of what is normal: a median is what
// the incidents of the day before do not move.
func (b *ruleBuilder) baselines() []rulefmt.Rule {
	past, ago := duration(b.cfg.Past), duration(b.cfg.Ago)
	need := max(1, int(b.cfg.Past/b.cfg.Interval/minPastShare))
	var rules []rulefmt.Rule
	for _, s := range indicator.All() {
		if !b.normal[s.Name] {
			continue
		}
		series := fmt.Sprintf("%s[%s] offset %s", b.cfg.restrict(b.cfg.Series(s)), past, ago)
		rules = append(rules, rulefmt.Rule{
			Record: b.cfg.normalSeries(s),
			Expr:   fmt.Sprintf("quantile_over_time(0.5, %s) and (count_over_time(%s) >= %d)", series, series, need),
		})
	}
	return rules
}

// limit records a limit that follows the past, once, and returns its series.
func (b *ruleBuilder) limit(c catalog.Cond, limit string) string {
	name := level(c.Signal) + ":vllm_" + c.Signal.Name + suffix(c.Signal) + ":limit_" + c.Threshold.Name
	if !slices.ContainsFunc(b.limits, func(r rulefmt.Rule) bool { return r.Record == name }) {
		b.limits = append(b.limits, rulefmt.Rule{Record: name, Expr: pretty(limit)})
	}
	return b.cfg.restrict(name)
}

// target lists the labels of one model on one server.
func (b *ruleBuilder) target() []string {
	return append(slices.Clone(b.cfg.Deployment.Instance), "model_name")
}

// recordedInstance lists the labels of a target in recorded series: an alert that lost
// the host would be inhibited by no GPU's.
func (b *ruleBuilder) recordedInstance(p *catalog.Pathology) []string {
	if atGateway(p) {
		return withPartLabel(b.cfg.Deployment.Instance, p.Per())
	}
	if b.host {
		return append(slices.Clone(b.cfg.Deployment.Instance), hostLabel)
	}
	return b.cfg.Deployment.Instance
}

// alerts renders one pathology.
func (b *ruleBuilder) alerts(p *catalog.Pathology, segments []segment, into map[string][]rulefmt.Rule) error {
	if atGateway(p) {
		segments = []segment{b.cfg.gatewaySegment()}
	} else if !readsModel(p) {
		segments = []segment{{}} // a GPU belongs to no model
	}
	missing := 0
	for _, seg := range segments {
		expr, used, err := b.condition(p, p.When, &seg)
		if err != nil {
			return err
		}
		if expr == "" {
			missing++
			continue
		}
		variants, err := b.severities(p, &seg, expr)
		if err != nil {
			return err
		}
		for i, v := range variants {
			// Two rules whose alerts have the same labels write the same ALERTS_FOR_STATE: where one ends
			// and the other begins, Prometheus counts a failed evaluation.
			v.again = slices.ContainsFunc(variants[:i], func(o variant) bool { return o.severity == v.severity })
			named, err := b.named(b.alert(p, &seg, v, used), p.Scope(), servedBy(v.expr, b.target()))
			if err != nil {
				return err
			}
			into[seg.name] = append(into[seg.name], named...)
		}
	}
	if missing == len(segments) {
		why := "no threshold is known"
		p.When.Signals(func(s *indicator.Signal) {
			if !b.cfg.Deployment.HasSignal(s) {
				why = "these servers do not expose " + s.Name
			}
		})
		b.out.Warnings = append(b.out.Warnings, fmt.Sprintf("no alert for %s: %s", p.ID, why))
	}
	return nil
}

// readsModel reports whether a condition reads anything but GPUs.
func readsModel(p *catalog.Pathology) bool {
	return p.Scope() != indicator.GPU
}

// A level of severity and when it applies.
type variant struct {
	severity catalog.Severity
	wait     time.Duration
	expr     string
	again    bool // one before has its severity, and another wait: the label for tells them apart
}

// condition compiles a condition of a pathology for one segment, over recorded
// series, and lists how its thresholds were resolved.
func (b *ruleBuilder) condition(p *catalog.Pathology, when catalog.Cond, seg *segment) (string, []resolved, error) {
	var used []resolved
	when, _ = when.Asked(func(s *indicator.Signal) bool { return !s.Logged })
	o := catalog.Compilation{
		Instance: b.recordedInstance(p), Model: b.cfg.Deployment.Model, GPU: b.cfg.Deployment.GPU,
		Limit: b.cfg.limit(seg), Promises: b.cfg.promisedThresholds(seg),
		Query: func(s *indicator.Signal, past bool) (string, error) {
			if !b.cfg.Deployment.HasSignal(s) {
				return "", nil
			}
			b.recorded[s.Name] = true
			if past {
				b.normal[s.Name] = true
				return b.cfg.restrict(b.cfg.normalSeries(s)), nil
			}
			return b.cfg.restrict(b.cfg.Series(s)), nil
		},
		Record: b.limit,
	}
	if seg.measured != nil && len(seg.measured.Normal) > 0 {
		o.Normal = seg.measured.Signal
	}
	expr, err := when.Compile(o)
	if err != nil || expr == "" {
		return "", nil, err
	}
	if of := b.cfg.members(seg); of != "" {
		b.recorded[indicator.Up.Name] = true
		expr = fmt.Sprintf("(%s) and on (%s) (%s)", expr, strings.Join(b.target(), ", "), of)
	}
	when.Leaves(func(c catalog.Cond) {
		if b.cfg.Deployment.HasSignal(c.Signal) {
			used = append(used, b.cfg.resolve(seg, c))
		}
	})
	if atGateway(p) {
		return b.withFleetLabels(expr, p.Per()), used, nil
	}
	return pretty(expr), used, nil
}

// severities splits an alert where grades decide how bad it is, or objectives: the
// server is worse than itself, but holds what was promised.
func (b *ruleBuilder) severities(p *catalog.Pathology, seg *segment, expr string) ([]variant, error) {
	on, least, wait := strings.Join(b.target(), ", "), p.Severity, p.For
	var out []variant
	for i, g := range p.Grades {
		if least, wait = g.Severity, p.Wait(g); g.While.Empty() {
			break
		}
		if i+1 < len(p.Grades) && p.Grades[i+1].While.Empty() && p.Grades[i+1].Severity == least && p.Wait(p.Grades[i+1]) == wait {
			continue // the rest of the alerts are the same
		}
		while, _, err := b.condition(p, g.While, seg)
		if err != nil {
			return nil, err
		}
		if while == "" {
			continue // it cannot hold here
		}
		out = append(out, variant{severity: least, wait: wait, expr: pretty(fmt.Sprintf("(%s) and on (%s) (%s)", expr, on, while))})
		expr = pretty(fmt.Sprintf("(%s) unless on (%s) (%s)", expr, on, while))
	}
	holds := b.objectivesHold(seg)
	if !p.FollowsObjectives || least == catalog.Info || holds == "" || !readsModel(p) {
		return append(out, variant{severity: least, wait: wait, expr: expr}), nil
	}
	return append(out,
		variant{severity: least, wait: wait, expr: pretty(fmt.Sprintf("(%s) unless on (%s) (%s)", expr, on, holds))},
		variant{severity: least - 1, wait: wait, expr: pretty(fmt.Sprintf("(%s) and on (%s) (%s)", expr, on, holds))},
	), nil
}

// objectivesHold returns PromQL that has a sample while every promised latency
// is known to be kept, or "" where none was promised.
func (b *ruleBuilder) objectivesHold(seg *segment) string {
	if seg.objective == nil {
		return ""
	}
	var parts []string
	for _, p := range threshold.Promises() {
		if limit, ok := seg.objective.Value(p.Threshold.Objective); ok {
			b.recorded[p.Signal.Name] = true
			parts = append(parts, fmt.Sprintf("(%s <= %s)", b.cfg.restrict(b.cfg.Series(p.Signal)), number(limit)))
		}
	}
	return strings.Join(parts, " and ")
}

// labels are those of an alert of some severity.
func (b *ruleBuilder) labels(s catalog.Severity) map[string]string {
	out := map[string]string{"severity": b.cfg.SeverityName(s)}
	maps.Copy(out, b.cfg.Labels)
	return out
}

func (b *ruleBuilder) alert(p *catalog.Pathology, seg *segment, v variant, used []resolved) rulefmt.Rule {
	r := rulefmt.Rule{
		Alert: p.Alert, Expr: v.expr, For: model.Duration(v.wait), KeepFiringFor: model.Duration(b.cfg.KeepFiringFor),
		Labels: b.labels(v.severity),
		Annotations: map[string]string{
			"summary":     summary(p),
			"description": b.description(p, used),
			"runbook_url": b.cfg.Runbooks.PageURL(p.ID),
			"thresholds":  thresholds(used),
		},
	}
	r.Labels["pathology"] = p.ID
	if v.again {
		r.Labels["for"] = r.For.String()
	}
	if seg.name != "" {
		r.Labels["objective"] = seg.name
	}
	outside := atGateway(p)
	switch url := b.cfg.PanelURL(p); {
	case url != "" && outside:
		r.Annotations["dashboard_url"] = url + "&var-gateway={{ $labels.gateway | urlquery }}"
	case url != "":
		server := identity(&b.cfg.Deployment)
		r.Annotations["dashboard_url"] = url + "&var-" + server + "={{ $labels." + server + " | urlquery }}"
	}
	return r
}
