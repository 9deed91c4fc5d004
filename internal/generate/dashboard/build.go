package dashboard

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/sixty-dev/sixty/internal/base/docs"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// A level says what one line of a panel stands for.
type level uint8

const (
	perModel     level = iota // all selected replicas of a model together
	perFleet                  // the same, computed from a value of each replica
	perReplica                // one scraped server
	perEngine                 // one data-parallel rank of a server
	perServer                 // one scraped server: metrics without a model
	perJob                    // all selected servers of a job together: metrics without a model
	perGPU                    // one device
	perObjective              // one objective of a model: recorded series, which no dialect renames
	perHost                   // one machine: node_exporter
	perPod                    // one pod with a server: kube-state-metrics
	perGateway                // one gateway before the servers
)

// The layout before its expressions are compiled: constant tables in layout.go.
type (
	layout struct {
		uid, title, doc string
		gpuOnly         bool // no model servers' variables
		hosts           bool // machines and pods, no model servers' variables
		rows            []row
	}
	row struct {
		id     int
		title  string
		repeat string
		panels []panel
	}
	panel struct {
		id      int
		title   string
		doc     string
		kind    Kind
		width   int     // in Columns
		max     float64 // maximum of the axis; 0 if it follows the data
		stack   bool
		steps   []step
		queries []query
		unit    indicator.Unit // if no signal has one
		noData  string         // reason for an empty panel, if no signal has one
	}
	query struct {
		signal *indicator.Signal
		level  level
		legend string // text before the labels

		expr  string   // canonical expression, for buckets, ranks or statuses of a signal; "" for the signal itself
		shows []string // further labels in the legend
		right bool     // number of requests, on an axis of its own
	}
	step struct {
		value     float64
		threshold *catalog.Threshold // has the value, unless it is nil
		level     Level
		why       string
		hidden    bool // see Step
	}
)

// A builder compiles layouts for one deployment.
type builder struct {
	cfg    Config
	levels map[level]dialect.Deployment // the deployment with each level's labels and matchers

	vars    []Variable // for model servers
	gpu     []Variable // for GPU exporters
	host    []Variable // for machines and pods
	gateway []Variable
}

// variableNames maps labels to their variables, if the names differ.
var variableNames = map[string]string{"model_name": "model", "Hostname": "gpu_host"}

func newBuilder(cfg Config) (*builder, error) {
	d := &cfg.Deployment
	if len(d.Instance) == 0 {
		d.Instance = dialect.UsualInstance
	}
	if len(d.Model) == 0 {
		d.Model = dialect.UsualModel
	}
	cfg.Runbooks = cmp.Or(cfg.Runbooks, docs.PublishedRunbooks)
	d.Window, d.Short, d.Past = rateMark, rateMark, rangeMark
	servers, exporters, gateways, err := divideDialects(d.Dialects)
	if err != nil {
		return nil, err
	}
	b := &builder{cfg: cfg, levels: map[level]dialect.Deployment{}}
	b.makeVariables(servers)

	// place holds the labels that a fleet and a server share: cluster and namespace.
	var place []string
	for _, l := range d.Model {
		if slices.Contains(d.Instance, l) {
			place = append(place, l)
		}
	}
	group := slices.Concat(place, without(d.Instance, b.serverLabel(), place...)) // the job
	b.levels[perModel] = b.restrictTo(servers, []string{}, d.Model, b.vars)
	b.levels[perReplica] = b.restrictTo(servers, d.Instance, d.Model, b.vars)
	b.levels[perFleet] = b.levels[perReplica]
	b.levels[perEngine] = b.levels[perReplica]
	b.levels[perServer] = b.restrictTo(servers, d.Instance, d.Model, withoutVariable(b.vars, "model_name"))
	b.levels[perJob] = b.restrictTo(servers, group, d.Model, withoutVariable(b.vars, "model_name"))
	recorded := []dialect.Dialect{servers[0]}
	b.levels[perObjective] = b.restrictTo(recorded, d.Instance, d.Model,
		withoutVariable(b.vars, without(d.Instance, "", d.Model...)...))
	b.levels[perHost] = b.restrictTo(recorded, []string{"cluster", "instance"}, d.Model,
		withoutVariable(b.host, "namespace"))
	b.levels[perPod] = b.restrictTo(recorded, []string{"cluster", "instance"}, d.Model,
		withoutVariable(b.host, "job", "instance"))
	if b.gateway, err = b.gatewayVariables(gateways); err != nil {
		return nil, err
	}
	b.levels[perGateway] = b.restrictTo(gateways, []string{"cluster", "instance"}, d.Model, b.gateway)
	for _, l := range []level{perHost, perPod, perGateway} {
		foreign := b.levels[l] // the deployment's matchers do not select other exporters
		foreign.Matchers = foreign.Matchers[len(d.Matchers):]
		b.levels[l] = foreign
	}
	b.levels[perGPU] = b.restrictTo(exporters, []string{"cluster", "instance", "Hostname", "gpu"}, d.Model, b.gpu)
	return b, nil
}

// divideDialects divides dialects into servers', GPU exporters' and gateways'. Exporters and gateways have a default.
func divideDialects(dialects []dialect.Dialect) (servers, exporters, gateways []dialect.Dialect, err error) {
	for _, d := range dialects {
		switch d.Engine {
		case dialect.DCGM:
			exporters = append(exporters, d)
		case dialect.Gateway:
			gateways = append(gateways, d)
		default:
			servers = append(servers, d)
		}
	}
	if len(servers) == 0 {
		return nil, nil, nil, hint.With(fmt.Errorf("dashboards: no dialect of a model server"),
			"set the servers' dialect, such as vllm-v1")
	}
	for _, kind := range []struct {
		id   string
		list *[]dialect.Dialect
	}{{string(dialect.DCGM), &exporters}, {string(dialect.Gateway), &gateways}} {
		if len(*kind.list) > 0 {
			continue
		}
		d, err := dialect.Named(kind.id)
		if err != nil {
			return nil, nil, nil, err
		}
		*kind.list = append(*kind.list, d)
	}
	return servers, exporters, gateways, nil
}

// makeVariables makes a variable for each label by which a reader may select, from the widest to the narrowest.
func (b *builder) makeVariables(dialects []dialect.Dialect) {
	d := &b.cfg.Deployment
	var names []string
	for _, dia := range dialects {
		if metric := dia.Metric("vllm:num_requests_running"); !slices.Contains(names, metric) {
			names = append(names, metric)
		}
	}
	// The order is the place, the job and other labels of the target, the model, and the server.
	group := without(d.Instance, b.serverLabel(), d.Model...)
	b.vars = b.chainVariables(slices.Concat(b.labelsButModel(), group, []string{"model_name", b.serverLabel()}),
		names, d.Matchers)
	b.gpu = b.chainVariables([]string{"cluster", "Hostname"}, []string{"DCGM_FI_DEV_GPU_TEMP"}, nil)
	b.host = b.chainVariables([]string{"cluster", "job", "instance"}, []string{"node_uname_info"}, nil)
	namespace := b.chainVariables([]string{"cluster", "namespace"}, []string{"kube_pod_container_info"}, nil)[1]
	b.host = slices.Insert(b.host, 1, namespace)
}

// gatewayVariables makes the variables for gateways, from the metrics that count their requests.
func (b *builder) gatewayVariables(dialects []dialect.Dialect) ([]Variable, error) {
	var load []string
	for _, d := range dialects {
		load = append(load, indicator.Reads(d.Expr(indicator.GatewayOffered))...)
	}
	out := b.chainVariables([]string{"cluster", "instance"}, load, nil)
	out[1].Name, out[1].Title = "gateway", "Gateway"
	return out, nil
}

// chainVariables makes variables, each restricted by those before it.
func (b *builder) chainVariables(labelNames, metrics []string, fixed []*labels.Matcher) []Variable {
	metric, matchers := metrics[0], slices.Clone(fixed)
	if len(metrics) > 1 {
		either := labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, strings.Join(metrics, "|"))
		metric, matchers = "", append([]*labels.Matcher{either}, fixed...)
	}
	var out []Variable
	for _, l := range labelNames {
		selector := indicator.Selector(metric, matchers...)
		v := Variable{
			Name: l, Label: l, Selector: selector, Always: !slices.Contains(b.labelsButModel(), l) && l != "cluster",
		}
		if n, ok := variableNames[l]; ok {
			v.Name = n
		}
		v.Title = strings.ToUpper(v.Name[:1]) + strings.ReplaceAll(v.Name[1:], "_", " ")
		out = append(out, v)
		matchers = append(matchers, v.newMatcher())
	}
	return out
}

func (v Variable) newMatcher() *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchRegexp, v.Label, "$"+v.Name)
}

// restrictTo returns the deployment with other labels, restricted by variables.
func (b *builder) restrictTo(
	dialects []dialect.Dialect, instance, models []string, vars []Variable,
) dialect.Deployment {
	d := b.cfg.Deployment
	d.Dialects = dialects
	d.Instance, d.Model = instance, models
	d.Matchers = slices.Clone(d.Matchers)
	for _, v := range vars {
		d.Matchers = append(d.Matchers, v.newMatcher())
	}
	return d
}

func (b *builder) buildDashboard(l layout) (Dashboard, error) {
	out := Dashboard{UID: l.uid, Title: l.title, Doc: l.doc, Events: b.buildEvents(l), Runbooks: b.cfg.Runbooks.URL}
	uses := map[level]bool{}
	for _, r := range l.rows {
		row := Row{ID: r.id, Title: r.title, Repeat: r.repeat}
		for _, p := range r.panels {
			p.queries = b.dropUnanswerable(p.queries)
			if len(p.queries) == 0 {
				continue
			}
			built, err := b.buildPanel(p)
			if err != nil {
				return out, fmt.Errorf("panel %q: %w", p.title, err)
			}
			row.Panels = append(row.Panels, built)
			for _, q := range p.queries {
				uses[q.level] = true
			}
		}
		if len(row.Panels) > 0 {
			out.Rows = append(out.Rows, row)
		}
	}
	switch {
	case l.hosts:
		out.Variables = slices.Clone(b.host)
	case !l.gpuOnly:
		out.Variables = slices.Clone(b.vars)
	}
	for _, more := range []struct {
		level level
		vars  []Variable
	}{{perGPU, b.gpu}, {perGateway, b.gateway}} {
		for _, v := range more.vars {
			isKnown := slices.ContainsFunc(out.Variables, func(o Variable) bool { return o.Name == v.Name })
			if uses[more.level] && !isKnown {
				out.Variables = append(out.Variables, v)
			}
		}
	}
	return out, nil
}

// dropUnanswerable drops the queries that these releases cannot answer. It drops all if only queries for the right axis
// would be left.
func (b *builder) dropUnanswerable(queries []query) []query {
	var out []query
	for _, q := range queries {
		if d := b.deploymentOf(q); len(d.Dialects) > 0 && (q.signal == nil || d.HasSignal(q.signal)) {
			out = append(out, q)
		}
	}
	if !slices.ContainsFunc(out, func(q query) bool { return !q.right }) {
		return nil
	}
	return out
}

func (b *builder) buildPanel(p panel) (Panel, error) {
	out := Panel{ID: p.id, Title: p.title, Kind: p.kind, Width: p.width, Max: p.max, Stack: p.stack, Unit: p.unit}
	for _, q := range p.queries {
		s, err := b.buildSeries(p, q)
		if err != nil {
			return out, err
		}
		if out.Unit == "" {
			out.Unit = s.Unit
		}
		if slices.ContainsFunc(out.Series, func(o Series) bool { return o.Expr == s.Expr }) {
			continue // an old release has one metric for two signals
		}
		out.Series = append(out.Series, s)
	}
	for _, st := range p.steps {
		if s, ok := b.buildStep(st); ok {
			out.Steps = append(out.Steps, s)
		}
	}
	slices.SortStableFunc(out.Steps, func(a, b Step) int { return cmp.Compare(a.Value, b.Value) })
	out.NoData = explainNoData(p)
	alerts, evidence := b.readingPathologies(p)
	out.Doc = b.describePanel(p, out, alerts, evidence)
	for _, r := range slices.Concat(alerts, evidence) {
		out.Links = append(out.Links, Link{Title: "Runbook: " + r.ID, URL: b.cfg.Runbooks.PageURL(r.ID)})
	}
	if len(out.Links) == 0 {
		out.Links = []Link{{Title: "Runbooks", URL: b.cfg.Runbooks.URL}}
	}
	return out, nil
}

func (b *builder) buildSeries(p panel, q query) (Series, error) {
	out := Series{Signal: q.signal, Right: q.right, Unit: p.unit}
	expr, err := b.compileQuery(q)
	if err != nil {
		return out, err
	}
	out.Expr = withVariables(expr)
	tree, err := indicator.Parse(expr)
	if err != nil {
		return out, err
	}
	if call, ok := tree.(*parser.Call); ok && call.Func.Name == indicator.Percentile {
		out.Quantile, out.Buckets = call.Args[0].String(), withVariables(call.Args[1].String())
	}
	if p.kind == Heatmap {
		byModel, err := b.compileQuery(query{level: perModel, expr: q.signal.Compile(q.signal.Buckets()).String()})
		if err != nil {
			return out, err
		}
		out.ByModel = withVariables(byModel)
	}
	if q.signal != nil && out.Unit == "" {
		out.Unit = q.signal.Unit
	}
	if q.right {
		out.Unit = indicator.RequestsPerSecond
	}
	out.Legend = b.composeLegend(p, q)
	return out, nil
}

// deploymentOf returns the deployment of a query's level, without dialects whose metrics lack a label that the legend
// shows.
func (b *builder) deploymentOf(q query) dialect.Deployment {
	d := b.levels[q.level]
	names, err := indicator.Metrics(q.expr)
	if q.expr == "" || err != nil {
		return d
	}
	d.Dialects = slices.DeleteFunc(slices.Clone(d.Dialects), func(dia dialect.Dialect) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			f, known := dialect.Known(dia.Metric(name))
			return known && f.Engine == dia.Engine &&
				slices.ContainsFunc(q.shows, func(l string) bool { return !slices.Contains(f.Labels, l) })
		})
	})
	return d
}

// compileQuery returns the PromQL of a query for all dialects of its level.
func (b *builder) compileQuery(q query) (string, error) {
	d := b.deploymentOf(q)
	if q.expr != "" {
		return d.PromQL(q.expr)
	}
	return d.Unguarded(q.signal)
}

// composeLegend names the labels that separate the lines of a panel, the most specific first. Labels that no series
// has only leave spaces at the end.
func (b *builder) composeLegend(p panel, q query) string {
	if p.kind == Heatmap {
		return "{{le}}"
	}
	var parts []string
	if q.legend != "" {
		parts = append(parts, q.legend)
	}
	d := b.levels[q.level]
	names := slices.Clone(q.shows)
	switch q.level {
	case perModel, perFleet, perObjective:
		names = append(names, reverse(d.Model)...)
	case perReplica, perEngine:
		names = slices.Concat(names, b.targetLabels(), []string{"model_name"}, reverse(b.labelsButModel()))
	case perServer:
		names = slices.Concat(names, b.targetLabels(), reverse(b.labelsButModel()))
	case perJob:
		names = append(names, reverse(d.Instance)...)
	case perHost, perGateway:
		names = append(names, "instance")
	case perPod:
		names = append(names, "pod")
	case perGPU:
		parts = append(parts, "GPU")
		names = append(names, "gpu", "Hostname")
	}
	for _, n := range names {
		parts = append(parts, "{{"+n+"}}")
	}
	return strings.Join(parts, " ")
}

// targetLabels returns the labels that identify a server, except its place and job, which say little.
func (b *builder) targetLabels() []string {
	return reverse(without(b.cfg.Deployment.Instance, "job", b.labelsButModel()...))
}

// serverLabel returns the last and narrowest label that identifies a server.
func (b *builder) serverLabel() string {
	return b.cfg.Deployment.Instance[len(b.cfg.Deployment.Instance)-1]
}

func (b *builder) labelsButModel() []string { return without(b.cfg.Deployment.Model, "model_name") }

func (b *builder) buildStep(s step) (Step, bool) {
	if s.threshold == nil {
		return Step{Value: s.value, Level: s.level, Why: s.why, Hidden: s.hidden}, true
	}
	t := s.threshold
	if b.cfg.Limit != nil {
		if v, source, ok := b.cfg.Limit(t); ok {
			return Step{Value: v, Level: s.level, Why: t.Name + ", " + source}, true
		}
	}
	return Step{Value: t.Default, Level: s.level, Why: t.Name + ", default: " + t.Why}, !math.IsNaN(t.Default)
}

func promDuration(d time.Duration) string { return model.Duration(d).String() }

func reverse(in []string) []string {
	out := slices.Clone(in)
	slices.Reverse(out)
	return out
}

func without(names []string, name string, others ...string) []string {
	return slices.DeleteFunc(slices.Clone(names),
		func(n string) bool { return n == name || slices.Contains(others, n) })
}

func withoutVariable(vars []Variable, labels ...string) []Variable {
	return slices.DeleteFunc(slices.Clone(vars), func(v Variable) bool { return slices.Contains(labels, v.Label) })
}
