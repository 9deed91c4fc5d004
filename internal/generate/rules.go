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

	"github.com/sixty-dev/sixty/internal/base/docs"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/catalog/threshold"
)

// A RulesConfig holds everything that the rules depend on.
type RulesConfig struct {
	Deployment  dialect.Deployment
	Pathologies []*catalog.Pathology
	// Absences are the ids of the alerts on missing servers and gateways to render: see Absences.
	Absences []string

	// The sources of thresholds by precedence: thresholds set by name, objectives, measurements. The past and the
	// catalogue's default follow.
	Set        map[string]float64
	Objectives *slo.File
	Measured   []*baseline.File

	// Interval is the time between two scrapes, and between two evaluations.
	Interval time.Duration
	// Past and Ago define normal if nothing was measured: the median over Past, which ended Ago before now.
	Past, Ago time.Duration

	Runbooks docs.Runbooks
	// Panel returns the path of a pathology's panel in the Grafana at DashboardURL; it may be nil. Without a
	// DashboardURL the annotation holds only the path.
	Panel        func(*catalog.Pathology) string
	DashboardURL string
	// Labels are added to every alert.
	Labels map[string]string
	// Severities are the values of the label severity, if they are not page, ticket and info. They must differ.
	Severities map[catalog.Severity]string
	// KeepFiringFor is how long an alert outlasts its condition, so that a condition that flaps is one alert.
	KeepFiringFor time.Duration
}

// PanelURL returns the address of a pathology's panel, or "".
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

// gpuLabels returns the labels that a model server shares with its GPU exporter.
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

// minPastShare is the part of Past, a 48th, that must have samples for a valid median.
const minPastShare = 48

// Rules are the generated rules. Warnings name those that could not be generated.
type Rules struct {
	Sets     []RuleSet
	Warnings []string
}

// Groups returns the groups of all sets.
func (r *Rules) Groups() []rulefmt.RuleGroup { return JoinGroups(r.Sets) }

// NewRules renders the catalogue: a recording rule for each signal that a condition reads, and an alert for each
// pathology. A pathology has several alerts if models have different thresholds.
func NewRules(cfg RulesConfig) (*Rules, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Pathologies = slices.DeleteFunc(slices.Clone(cfg.Pathologies),
		func(p *catalog.Pathology) bool { return !AppliesTo(&cfg.Deployment, p) })
	ofService := func(o slo.Objective) bool { return o.Service != "" }
	if cfg.Objectives != nil && slices.ContainsFunc(cfg.Objectives.Objectives, ofService) &&
		!slices.Contains(cfg.Deployment.Model, "service") {
		cfg.Deployment.Model = append(slices.Clone(cfg.Deployment.Model), "service")
	}
	cfg.Deployment.Instance = withMatched(cfg.Deployment.Instance, cfg.Deployment)
	host := len(cfg.Deployment.GPU) == 0
	cfg.Deployment.GPU = cfg.gpuLabels()
	segments, err := cfg.divideFleet()
	if err != nil {
		return nil, err
	}
	b := &ruleBuilder{
		cfg: &cfg, host: host, recorded: map[string]bool{}, normal: map[string]bool{},
		serves: map[string]bool{}, built: &Rules{},
	}
	alerts := map[string][]rulefmt.Rule{} // by segment
	for _, p := range cfg.Pathologies {
		if err := b.renderAlerts(p, segments, alerts); err != nil {
			return nil, fmt.Errorf("alert %s: %w", p.Alert, err)
		}
	}
	absences, err := b.renderAbsences()
	if err != nil {
		return nil, err
	}
	signals, err := b.renderRecordings()
	if err != nil {
		return nil, err
	}
	interval := model.Duration(cfg.Interval)
	b.addGroup("signals", "sixty-signals", interval, signals)
	b.addGroup("signals", "sixty-baseline", model.Duration(max(5*time.Minute, cfg.Interval)), b.renderBaselines())
	b.addGroup("alerts", "sixty-limits", interval, b.limits)
	b.addGroup("alerts", "sixty-alerts", interval, alerts[""])
	for _, seg := range segments {
		if seg.name != "" {
			set := SetName("alerts", seg.name)
			b.addGroup(set, "sixty-"+set, interval, alerts[seg.name])
		}
	}
	b.addGroup("alerts", "sixty-absences", interval, absences)
	return b.built, nil
}

// addGroup adds a group of rules to a set, unless it is empty. It numbers groups of the same name.
func (b *ruleBuilder) addGroup(set, name string, interval model.Duration, rules []rulefmt.Rule) {
	isTaken := func(g rulefmt.RuleGroup) bool { return g.Name == name }
	for unique, n := name, 2; slices.ContainsFunc(b.built.Groups(), isTaken); n++ {
		name = fmt.Sprintf("%s-%d", unique, n)
	}
	if len(rules) > 0 {
		b.built.Sets = AddTo(b.built.Sets, set, rulefmt.RuleGroup{Name: name, Interval: interval, Rules: rules})
	}
}

// withMatched adds labels to the identity of a target, so that recorded series keep them: the labels by which the
// deployment is selected, and those shared with its GPU exporter.
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
		return hint.With(fmt.Errorf("rules: two severities have one name: %v", cfg.severityNames()),
			"name them apart: what is routed and inhibited by severity could not tell a ticket from a page")
	case min(d.Window, d.Short) < 2*cfg.Interval:
		err := fmt.Errorf("rules: rates over %s need two scrapes, and these are %s apart", min(d.Window, d.Short),
			cfg.Interval)
		return hint.With(err, "raise --window, or lower --interval if the servers are scraped more often")
	}
	return nil
}

// A ruleBuilder collects the series that the alerts read while it renders them.
type ruleBuilder struct {
	cfg      *RulesConfig
	host     bool            // recorded series have the label hostLabel
	recorded map[string]bool // names of signals that are recorded
	normal   map[string]bool // names of signals whose past is recorded
	limits   []rulefmt.Rule  // recorded thresholds that follow the past
	serves   map[string]bool // servedByGateway, servedAsModel, if alerts read them
	built    *Rules
}

// Series returns the name of a signal's recorded series.
func (cfg *RulesConfig) Series(s *indicator.Signal) string {
	return recordedLevel(s) + ":vllm_" + s.Name + unitSuffix(s) + ":" + formatDuration(cfg.Deployment.Window)
}

// normalSeries returns the name of the recorded median of a signal's past.
func (cfg *RulesConfig) normalSeries(s *indicator.Signal) string {
	return recordedLevel(s) + ":vllm_" + s.Name + unitSuffix(s) + ":median" + formatDuration(cfg.Past)
}

// selectRecorded selects this deployment's samples of a recorded series. Another pack in the same Prometheus may record
// under the same name.
func (cfg *RulesConfig) selectRecorded(series string) string {
	return indicator.Selector(series, cfg.Deployment.Matchers...)
}

// recordedLevel returns the first part of a recorded name: the labels that the aggregation keeps.
func recordedLevel(s *indicator.Signal) string {
	switch {
	case s.Scope == indicator.GPU, s.Scope == indicator.Gateway && s.Per == "":
		return "instance"
	case s.Scope == indicator.Gateway:
		return "instance_" + s.Per
	}
	return "instance_model"
}

// unitSuffix returns the base unit in a recorded name.
func unitSuffix(s *indicator.Signal) string {
	switch s.Unit {
	case indicator.Seconds:
		return "_seconds"
	case indicator.Bytes:
		return "_bytes"
	}
	return ""
}

// renderRecordings renders the recording rules of all signals that alerts read, in the order of the request path.
func (b *ruleBuilder) renderRecordings() ([]rulefmt.Rule, error) {
	var rules []rulefmt.Rule
	// Parts of other signals come first, because Prometheus evaluates the rules of a group in order.
	parts := []*indicator.Signal{indicator.UnansweredWait, indicator.UnansweredShare}
	if slices.ContainsFunc(indicator.All(),
		func(s *indicator.Signal) bool { return s.Censored && b.recorded[s.Name] }) {
		for _, part := range parts {
			b.recorded[part.Name] = true
		}
	}
	all := slices.DeleteFunc(slices.Clone(indicator.All()),
		func(s *indicator.Signal) bool { return slices.Contains(parts, s) })
	for _, s := range append(parts, all...) {
		if !b.recorded[s.Name] {
			continue
		}
		d := b.cfg.Deployment
		if !slices.Contains(parts, s) {
			d.Recorded = b.recordedPart
		}
		d.Instance = withPartLabel(d.Instance, s.Per)
		expr, err := d.Expr(s)
		if err != nil {
			return nil, err
		}
		if s.Scope == indicator.Gateway {
			rules = append(rules, rulefmt.Rule{Record: b.cfg.Series(s), Expr: prettifyPromQL(expr)})
			continue
		}
		if s.Scope == indicator.Instance {
			if expr, err = b.addModelName(expr); err != nil {
				return nil, err
			}
		}
		if b.host {
			expr = fmt.Sprintf("label_replace(%s, %q, \"$1\", \"instance\", \"(.*?)(?::[0-9]+)?\")", expr, hostLabel)
		}
		rules = append(rules, rulefmt.Rule{Record: b.cfg.Series(s), Expr: prettifyPromQL(expr)})
	}
	served, err := b.servedRules()
	return append(rules, served...), err
}

// recordedPart returns the recorded series of a signal that is part of other signals.
func (b *ruleBuilder) recordedPart(s *indicator.Signal) string {
	series := b.cfg.selectRecorded(b.cfg.Series(s))
	if b.host { // the other series of the expression do not have the label yet
		return fmt.Sprintf("max without (%s) (%s)", hostLabel, series)
	}
	return series
}

// hostLabel is the instance without its port. Recorded series of a model server and of the GPU exporter beside it
// share it if the deployment names no common label.
const hostLabel = "host"

// addModelName adds the model's name to a quantity of a scraped target, such as up, and drops targets that are not
// inference servers.
func (b *ruleBuilder) addModelName(expr string) (string, error) {
	d := b.cfg.Deployment
	served, err := d.PromQL("group by (instance, model_name) (last_over_time(vllm:num_requests_running[1h]))")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("(%s) * on (%s) group_right () (%s)", expr, strings.Join(d.Instance, ", "), served), nil
}

// renderBaselines renders the recording rules of normal values: medians, which incidents of the day before do not move.
func (b *ruleBuilder) renderBaselines() []rulefmt.Rule {
	past, ago := formatDuration(b.cfg.Past), formatDuration(b.cfg.Ago)
	need := max(1, int(b.cfg.Past/b.cfg.Interval/minPastShare))
	var rules []rulefmt.Rule
	for _, s := range indicator.All() {
		if !b.normal[s.Name] {
			continue
		}
		series := fmt.Sprintf("%s[%s] offset %s", b.cfg.selectRecorded(b.cfg.Series(s)), past, ago)
		rules = append(rules, rulefmt.Rule{
			Record: b.cfg.normalSeries(s),
			Expr:   fmt.Sprintf("quantile_over_time(0.5, %s) and (count_over_time(%s) >= %d)", series, series, need),
		})
	}
	return rules
}

// recordLimit records a limit that follows the past, once, and returns a selector of its series.
func (b *ruleBuilder) recordLimit(c catalog.Cond, limit string) string {
	name := recordedLevel(c.Signal) + ":vllm_" + c.Signal.Name + unitSuffix(c.Signal) + ":limit_" + c.Threshold.Name
	if !slices.ContainsFunc(b.limits, func(r rulefmt.Rule) bool { return r.Record == name }) {
		b.limits = append(b.limits, rulefmt.Rule{Record: name, Expr: prettifyPromQL(limit)})
	}
	return b.cfg.selectRecorded(name)
}

func (b *ruleBuilder) targetLabels() []string {
	return append(slices.Clone(b.cfg.Deployment.Instance), "model_name")
}

// recordedInstance lists the labels of a target in recorded series. Without the host, no GPU's alert could inhibit
// the server's.
func (b *ruleBuilder) recordedInstance(p *catalog.Pathology) []string {
	if atGateway(p) {
		return withPartLabel(b.cfg.Deployment.Instance, p.Per())
	}
	if b.host {
		return append(slices.Clone(b.cfg.Deployment.Instance), hostLabel)
	}
	return b.cfg.Deployment.Instance
}

// renderAlerts adds the alerts of one pathology to bySegment.
func (b *ruleBuilder) renderAlerts(
	p *catalog.Pathology, segments []segment, bySegment map[string][]rulefmt.Rule,
) error {
	if atGateway(p) {
		segments = []segment{b.cfg.gatewaySegment()}
	} else if !readsModel(p) {
		segments = []segment{{}} // a GPU belongs to no model
	}
	missing := 0
	for _, seg := range segments {
		expr, used, err := b.compileCondition(p, p.When, &seg)
		if err != nil {
			return err
		}
		if expr == "" {
			missing++
			continue
		}
		variants, err := b.splitBySeverity(p, &seg, expr)
		if err != nil {
			return err
		}
		for i, v := range variants {
			// Alerts of two rules with the same labels would share a series ALERTS_FOR_STATE. When one ended and the
			// other began, Prometheus would count a failed evaluation.
			v.labelWait = slices.ContainsFunc(variants[:i], func(o variant) bool { return o.severity == v.severity })
			named, err := b.nameByEngine(b.newAlert(p, &seg, v, used), p.Scope(),
				restrictToServed(v.expr, b.targetLabels()))
			if err != nil {
				return err
			}
			bySegment[seg.name] = append(bySegment[seg.name], named...)
		}
	}
	if missing == len(segments) {
		why := "no threshold is known"
		p.When.Signals(func(s *indicator.Signal) {
			if !b.cfg.Deployment.HasSignal(s) {
				why = "these servers do not expose " + s.Name
			}
		})
		b.built.Warnings = append(b.built.Warnings, fmt.Sprintf("no alert for %s: %s", p.ID, why))
	}
	return nil
}

// readsModel reports whether a condition reads signals of model servers, not only of GPUs.
func readsModel(p *catalog.Pathology) bool {
	return p.Scope() != indicator.GPU
}

// A variant is an alert at one severity, with its own condition and wait.
type variant struct {
	severity  catalog.Severity
	wait      time.Duration
	expr      string
	labelWait bool // the label "for" tells it from an earlier variant of the same severity
}

// compileCondition compiles a condition for one segment over recorded series. It also returns how each threshold was
// resolved.
func (b *ruleBuilder) compileCondition(
	p *catalog.Pathology, when catalog.Cond, seg *segment,
) (expr string, used []resolved, err error) {
	when, _ = when.Applicable(func(s *indicator.Signal) bool { return !s.Logged })
	o := catalog.Compilation{
		Instance: b.recordedInstance(p), Model: b.cfg.Deployment.Model, GPU: b.cfg.Deployment.GPU,
		Limit: b.cfg.limitFinder(seg), Promises: b.cfg.promisedThresholds(seg),
		Query: func(s *indicator.Signal, past bool) (string, error) {
			if !b.cfg.Deployment.HasSignal(s) {
				return "", nil
			}
			b.recorded[s.Name] = true
			if past {
				b.normal[s.Name] = true
				return b.cfg.selectRecorded(b.cfg.normalSeries(s)), nil
			}
			return b.cfg.selectRecorded(b.cfg.Series(s)), nil
		},
		Record: b.recordLimit,
	}
	if seg.measured != nil && len(seg.measured.Normal) > 0 {
		o.Normal = seg.measured.Signal
	}
	expr, err = when.Compile(o)
	if err != nil || expr == "" {
		return "", nil, err
	}
	if servers := b.cfg.selectSegment(seg); servers != "" {
		b.recorded[indicator.Up.Name] = true
		expr = fmt.Sprintf("(%s) and on (%s) (%s)", expr, strings.Join(b.targetLabels(), ", "), servers)
	}
	when.Leaves(func(c catalog.Cond) {
		if b.cfg.Deployment.HasSignal(c.Signal) {
			used = append(used, b.cfg.resolveThreshold(seg, c))
		}
	})
	if atGateway(p) {
		return b.withFleetLabels(expr, p.Per()), used, nil
	}
	return prettifyPromQL(expr), used, nil
}

// splitBySeverity splits an alert by severity. Grades may decide it, or objectives: a server that got worse but keeps
// its objectives is less severe.
func (b *ruleBuilder) splitBySeverity(p *catalog.Pathology, seg *segment, expr string) ([]variant, error) {
	on, least, wait := strings.Join(b.targetLabels(), ", "), p.Severity, p.For
	var out []variant
	for i, g := range p.Grades {
		if least, wait = g.Severity, p.Wait(g); g.While.Empty() {
			break
		}
		if i+1 < len(p.Grades) && p.Grades[i+1].While.Empty() && p.Grades[i+1].Severity == least &&
			p.Wait(p.Grades[i+1]) == wait {
			continue // the grade does not differ from the default that follows
		}
		while, _, err := b.compileCondition(p, g.While, seg)
		if err != nil {
			return nil, err
		}
		if while == "" {
			continue // the grade cannot hold in this segment
		}
		out = append(out, variant{
			severity: least, wait: wait, expr: prettifyPromQL(fmt.Sprintf("(%s) and on (%s) (%s)", expr, on, while)),
		})
		expr = prettifyPromQL(fmt.Sprintf("(%s) unless on (%s) (%s)", expr, on, while))
	}
	holds := b.objectivesHold(seg)
	if !p.FollowsObjectives || least == catalog.Info || holds == "" || !readsModel(p) {
		return append(out, variant{severity: least, wait: wait, expr: expr}), nil
	}
	return append(out,
		variant{
			severity: least, wait: wait,
			expr: prettifyPromQL(fmt.Sprintf("(%s) unless on (%s) (%s)", expr, on, holds)),
		},
		variant{
			severity: least - 1, wait: wait,
			expr: prettifyPromQL(fmt.Sprintf("(%s) and on (%s) (%s)", expr, on, holds)),
		},
	), nil
}

// objectivesHold returns PromQL that has a sample while every latency objective is known to be kept, or "" without
// objectives.
func (b *ruleBuilder) objectivesHold(seg *segment) string {
	if seg.objective == nil {
		return ""
	}
	var parts []string
	for _, p := range threshold.Promises() {
		if limit, ok := seg.objective.Value(p.Threshold.Objective); ok {
			b.recorded[p.Signal.Name] = true
			parts = append(parts,
				fmt.Sprintf("(%s <= %s)", b.cfg.selectRecorded(b.cfg.Series(p.Signal)), formatNumber(limit)))
		}
	}
	return strings.Join(parts, " and ")
}

func (b *ruleBuilder) alertLabels(s catalog.Severity) map[string]string {
	out := map[string]string{"severity": b.cfg.SeverityName(s)}
	maps.Copy(out, b.cfg.Labels)
	return out
}

func (b *ruleBuilder) newAlert(p *catalog.Pathology, seg *segment, v variant, thresholds []resolved) rulefmt.Rule {
	r := rulefmt.Rule{
		Alert: p.Alert, Expr: v.expr, For: model.Duration(v.wait), KeepFiringFor: model.Duration(b.cfg.KeepFiringFor),
		Labels: b.alertLabels(v.severity),
		Annotations: map[string]string{
			"summary":     summarize(p),
			"description": b.describeAlert(p, thresholds),
			"runbook_url": b.cfg.Runbooks.PageURL(p.ID),
			"thresholds":  listThresholds(thresholds),
		},
	}
	r.Labels["pathology"] = p.ID
	if v.labelWait {
		r.Labels["for"] = r.For.String()
	}
	if seg.name != "" {
		r.Labels["objective"] = seg.name
	}
	switch url := b.cfg.PanelURL(p); {
	case url != "" && atGateway(p):
		r.Annotations["dashboard_url"] = url + "&var-gateway={{ $labels.gateway | urlquery }}"
	case url != "":
		server := identityLabel(&b.cfg.Deployment)
		r.Annotations["dashboard_url"] = url + "&var-" + server + "={{ $labels." + server + " | urlquery }}"
	}
	return r
}
