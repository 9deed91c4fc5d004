package identity

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/dialect"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/engine/beside"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
)

// A Layout says how a deployment labels its series.
type Layout struct {
	Instance []string // labels that identify a scraped target
	Model    []string // labels that identify the replicas of one model
	// Without are matchers that leave out the second views of servers.
	Without []*labels.Matcher
}

// Labels that may identify a target or a fleet, where they occur.
var (
	instanceLabels = dialect.UsualInstance
	ModelLabels    = dialect.UsualModel
	IdentityLabels = []string{"ReplicaId", "WorkerId"}
	modelNames     = append([]string{"model_name"}, IdentityLabels...)
)

// GatewayJob is the job that marks another product's gateway in a Prometheus server. sixty's own gateway is recognized
// by its metrics.
const GatewayJob = "gateway"

// mostTargets bounds how many targets one diagnosis looks at.
const mostTargets = 5000

// A Search says where to look for targets.
type Search struct {
	At       time.Time
	Lookback time.Duration
	Matchers []*labels.Matcher
	// Every includes targets that were scraped and expose no engine metrics, with their Problem: the user named them.
	Every bool
	// Scraper means that this process scrapes the servers. If none ever answered, its targets are starting servers.
	Scraper bool
	// Seen, which may be nil, holds the series that earlier searches found.
	Seen *Sightings
}

// Discover finds the targets whose engine metrics a Querier holds, and how they are labelled.
func Discover(ctx context.Context, q metrics.Querier, o Search) ([]Target, Layout, error) {
	at, lookback, matchers, every := o.At, o.Lookback, o.Matchers, o.Every
	dups, err := queryDuplicates(ctx, q, at, lookback, matchers)
	if err != nil {
		return nil, Layout{}, err
	}
	all := slices.Concat(matchers, dups.without)
	by := slices.Concat([]string{labels.MetricName}, instanceLabels, dups.more, ModelLabels, IdentityLabels,
		engine.SeriesRoleLabels())
	by = slices.Compact(slices.Sorted(slices.Values(by)))
	names := dialect.Selector + "|" + dialect.HostInfo +
		"|up|http_requests_total|process_.+|python_info|container_memory_working_set_bytes"
	of := SamplesOf(names, append([]*labels.Matcher{indicator.Unlike(labels.MetricName, ".+_bucket")}, all...))
	// Gateways of other products count only if the user named them, by an address or by the job.
	named := slices.Clone(all)
	if !every {
		named = append(named, indicator.Is("job", GatewayJob))
	}
	seen := cmp.Or(o.Seen, new(Sightings))
	if err := seen.update(ctx, q, of, SamplesOf(dialect.Foreign, named), by, at, lookback); err != nil {
		return nil, Layout{}, err
	}
	if seen.discovery == nil {
		seen.discovery = discoverServers(seen.gateways.appendLabels(seen.engines.appendLabels(nil)), dups)
	}
	d := seen.discovery
	if err := d.queryIdentity(ctx, q, &o, all); err != nil {
		return nil, d.layout, err
	}
	targets := dups.dropDuplicates(d.listTargets(every), d.layout)
	switch {
	case len(targets) == 0:
		return nil, d.layout, d.noTargetsError(at, lookback)
	case len(targets) > mostTargets:
		return nil, d.layout, hint.With(fmt.Errorf("%d targets exceed the limit of %d in one diagnosis", len(targets),
			mostTargets),
			"select some with --match, such as --match namespace=prod; a target is one model on one server")
	}
	makeNamesDistinct(targets)
	if err := discoverUpstreams(ctx, q, at, all, targets, d.layout); err != nil {
		return nil, d.layout, err
	}
	return targets, d.layout, readConfigurations(ctx, q, at, lookback, all, targets, d.layout)
}

// noTargetsError returns the error for a search that found no target.
func (d *discovery) noTargetsError(at time.Time, lookback time.Duration) error {
	var recorded []string
	for _, srv := range d.servers {
		for n := range srv.names {
			if engineName.MatchString(n) && !slices.Contains(recorded, n) {
				recorded = append(recorded, n)
			}
		}
	}
	if len(recorded) == 0 {
		return hint.With(fmt.Errorf("no inference server's metrics found at %s or in the %s before",
			at.UTC().Format(time.RFC3339), lookback),
			"check --match and --at; the server must scrape vLLM's /metrics")
	}
	slices.Sort(recorded)
	shown := strings.Join(recorded[:min(MostNames, len(recorded))], ", ")
	if len(recorded) > MostNames {
		shown += ", …"
	}
	return hint.With(fmt.Errorf("none of the %d metrics found comes from a server (%s); they look like the results of recording rules", len(recorded), shown),
		"query the Prometheus server that scrapes the servers, or forward vllm:num_requests_running and the other vLLM metrics with their buckets to this one (match[] of a federation, write_relabel_configs of remote write)")
}

// inServers matches metrics that name a server's model differently.
var inServers = regexp.MustCompile("^(?:" + beside.InServers + ")$")

var engineName = regexp.MustCompile("^(?:" + dialect.Selector + ")$")

// makeNamesDistinct makes the names of targets distinct.
func makeNamesDistinct(targets []Target) {
	for _, label := range []string{"job", "namespace", "cluster"} {
		n := map[string]int{}
		for i := range targets {
			n[targets[i].Name]++
		}
		for i := range targets {
			if t := &targets[i]; n[t.Name] > 1 && t.Labels[label] != "" {
				t.Name = t.Labels[label] + "/" + t.Name
			}
		}
	}
}

// duplicates holds the servers that are seen more than once.
type duplicates struct {
	more    []string // labels that distinguish servers, beside the usual ones
	without []*labels.Matcher
	doubles map[string]double // by the origin to drop: the view that is judged instead
	origins map[string]origin
}

// queryDuplicates finds duplicates at the time of the diagnosis and at an earlier one, because targets that departed
// meanwhile are part of the history.
func queryDuplicates(ctx context.Context, q metrics.Querier, at time.Time, lookback time.Duration,
	matchers []*labels.Matcher) (*duplicates, error) {
	s := &duplicates{doubles: map[string]double{}, origins: map[string]origin{}}
	var moments [][]origin
	for _, t := range []time.Time{at, at.Add(-lookback / 2)} {
		os, err := findOrigins(ctx, q, t, matchers)
		if err != nil {
			return nil, err
		}
		of, err := findDuplicates(ctx, q, t, matchers, os)
		if err != nil {
			return nil, err
		}
		for k, o := range of {
			_, now := s.origins[k]
			_, too := s.origins[o.of.key]
			_, dropped := s.doubles[o.of.key]
			if !dropped && !(now && too) { // present ones were compared already
				s.doubles[k] = o
			}
		}
		for _, o := range os {
			s.origins[o.key] = o
		}
		moments = append(moments, os)
	}
	for _, os := range moments {
		s.more = append(s.more, tellingApart(s.withoutDuplicates(os), slices.Concat(instanceLabels, s.more))...)
	}
	var all, dropped []origin
	for _, k := range slices.Sorted(maps.Keys(s.origins)) {
		all = append(all, s.origins[k])
		if _, ok := s.doubles[k]; ok {
			dropped = append(dropped, s.origins[k])
		}
	}
	usual := slices.Concat(instanceLabels, s.more)
	if m := matcherWithout(dropped, s.withoutDuplicates(all),
		func(n string) int { return min(1, slices.Index(usual, n)+1) }); m != nil {
		s.without = append(s.without, m)
	} else if len(dropped) > 0 {
		s.more = append(s.more, tellingApart(all, usual)...)
	}
	return s, nil
}

func (s *duplicates) withoutDuplicates(os []origin) []origin {
	return slices.DeleteFunc(slices.Clone(os), func(o origin) bool { _, ok := s.doubles[o.key]; return ok })
}

// dropDuplicates drops the second views of servers, and notes them on the views that are judged.
func (s *duplicates) dropDuplicates(targets []Target, l Layout) []Target {
	others := map[string][]string{} // other views of a target, by its labels
	gone := map[string]bool{}
	for _, k := range slices.Sorted(maps.Keys(s.doubles)) {
		d, other := s.doubles[k], s.origins[k]
		first, also := LabelKey(d.of.labels, l.Instance), describeDifference(other, d.of)
		if d.behind > 0 {
			also += fmt.Sprintf(", %s behind, not judged",
				indicator.FormatNumber(d.behind.Round(time.Second).Seconds(), indicator.Seconds))
		}
		others[first] = append(others[first], also)
		if key := LabelKey(other.labels, l.Instance); key != first {
			gone[key] = true
		}
	}
	var out []Target
	for _, t := range targets {
		key := LabelKey(t.Labels, l.Instance)
		if gone[key] {
			continue
		}
		if also := others[key]; len(also) > 0 {
			t.Notes = append(t.Notes, "also seen as "+ListNames(also))
		}
		out = append(out, t)
	}
	return out
}

// describeDifference lists the labels by which one view of a server differs from another.
func describeDifference(o, from origin) string {
	var parts []string
	for _, n := range slices.Sorted(maps.Keys(o.labels)) {
		if v := o.labels[n]; v != from.labels[n] {
			parts = append(parts, n+"="+v)
		}
	}
	return strings.Join(parts, " ")
}

func layoutOf(series []model.Metric, more []string) Layout {
	occurring := func(names []string, always string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool {
			return n != always &&
				!slices.ContainsFunc(series, func(m model.Metric) bool { return m[model.LabelName(n)] != "" })
		})
	}
	return Layout{Instance: append(occurring(instanceLabels, "instance"), more...),
		Model: occurring(ModelLabels, "model_name")}
}

// discovery gathers metric names by scraped target.
type discovery struct {
	layout   Layout
	servers  map[string]*server
	dialects map[string]*detected // by the names that a server exposes
	usual    dialect.Dialect      // dialect of servers if none ever answered
	key      []byte               // scratch
}

type detected struct {
	dialect.Dialect
	ok bool
}

// discoverServers gathers what series say about the servers that they are of. It drops hosts without GPUs.
func discoverServers(series []model.Metric, dups *duplicates) *discovery {
	d := &discovery{
		layout: layoutOf(series, dups.more), servers: map[string]*server{}, dialects: map[string]*detected{},
	}
	d.layout.Without = dups.without
	for _, m := range series {
		d.addSeries(m)
	}
	maps.DeleteFunc(d.servers, func(_ string, srv *server) bool {
		_, gpus := d.detectDialect(srv)
		return srv.names[dialect.HostInfo] && !gpus
	})
	return d
}

// detectDialect detects a server's dialect, once all its names are known. It keeps the result by names, because most
// servers expose the same ones.
func (d *discovery) detectDialect(srv *server) (dialect.Dialect, bool) {
	if srv.detected == nil {
		names := slices.Sorted(maps.Keys(srv.names))
		key := strings.Join(names, " ")
		if d.dialects[key] == nil {
			found, ok := dialect.Detect(names)
			d.dialects[key] = &detected{found, ok}
		}
		srv.detected = d.dialects[key]
	}
	return srv.detected.Dialect, srv.detected.ok
}

type server struct {
	labels map[string]string
	names  map[string]bool
	models map[string]map[string]string // by model_name and identity: the labels
	role   engine.Role

	detected *detected // nil until detectDialect
	serves   bool      // it answers generating requests
	down     bool      // it never answered a scrape
}

func (d *discovery) addSeries(m model.Metric) {
	d.key = AppendKey(d.key[:0], m, d.layout.Instance)
	srv := d.servers[string(d.key)]
	if srv == nil {
		srv = &server{labels: PickLabels(m, d.layout.Instance), names: map[string]bool{},
			models: map[string]map[string]string{}}
		d.servers[string(d.key)] = srv
	}
	srv.names[string(m[model.MetricNameLabel])] = true
	if srv.role == "" {
		srv.role = engine.RoleIn(func(label string) string { return string(m[model.LabelName(label)]) })
	}
	if m["model_name"] != "" {
		d.key = AppendKey(d.key, m, modelNames)
		if srv.models[string(d.key)] == nil && !inServers.MatchString(string(m[model.MetricNameLabel])) {
			srv.models[string(d.key)] = PickLabels(m, slices.Concat(d.layout.Instance, modelNames))
		}
	}
}

// PickLabels returns the labels of the given names.
func PickLabels[M ~map[N]V, N, V ~string](m M, names []string) map[string]string {
	l := map[string]string{}
	for _, n := range names {
		if v := string(m[N(n)]); v != "" {
			l[n] = v
		}
	}
	return l
}

func (d *discovery) listTargets(every bool) []Target {
	var out []Target
	neighbour, jobs := d.neighbourDialect(), d.modelsOfJobs()
	for _, k := range slices.Sorted(maps.Keys(d.servers)) {
		srv := d.servers[k]
		dia, ok := d.detectDialect(srv)
		name := serverName(srv.labels)
		switch {
		case !ok && srv.down:
			l := maps.Clone(srv.labels)
			if model := srv.modelOf(jobs); model != "" {
				l["model_name"] = model
			}
			out = append(out, Target{Name: name, Labels: l, Dialect: neighbour, Role: srv.role})
		case !ok && (every || srv.serves):
			out = append(out, Target{Name: name, Labels: maps.Clone(srv.labels), Problem: unknownEngine(srv.names)})
		case !ok:
		case len(srv.models) == 0:
			out = append(out, Target{Name: name, Labels: maps.Clone(srv.labels), Dialect: dia, Version: dia.Version,
				Role: srv.role})
		default:
			out = append(out, modelTargets(srv, dia)...)
		}
	}
	return out
}

// neighbourDialect returns the dialect of a server beside one that never answered, or vLLM's if no server answered.
func (d *discovery) neighbourDialect() dialect.Dialect {
	for _, k := range slices.Sorted(maps.Keys(d.servers)) {
		if dia, ok := d.detectDialect(d.servers[k]); ok && dia.Serves() {
			return dia
		}
	}
	return d.usual
}

// modelsOfJobs lists the models that the servers of each job serve.
func (d *discovery) modelsOfJobs() map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, srv := range d.servers {
		job := jobOf(srv)
		if out[job] == nil {
			out[job] = map[string]bool{}
		}
		for _, l := range srv.models {
			out[job][l["model_name"]] = true
		}
	}
	return out
}

// modelOf returns the model of a server that never answered: from the labels that discovery gave it, else the only
// model that the servers of its job serve; "" if they serve several.
func (srv *server) modelOf(jobs map[string]map[string]bool) string {
	found := map[string]bool{}
	for _, l := range srv.models {
		found[l["model_name"]] = true
	}
	if len(found) == 0 {
		found = jobs[jobOf(srv)]
	}
	for m := range found {
		if len(found) == 1 {
			return m
		}
	}
	return ""
}

func jobOf(srv *server) string { return LabelKey(srv.labels, []string{"cluster", "namespace", "job"}) }

// queryIdentity decides whether servers without engine metrics are inference servers. A server is one if it answers
// generating requests without exposing its engine's metrics. A server that never answered is one if the user named it
// or its job has only inference servers. If no server answered at all, the servers of a scraper's own jobs are,
// because otherwise nobody would learn of a fleet that never starts.
func (d *discovery) queryIdentity(ctx context.Context, q metrics.Querier, o *Search, matchers []*labels.Matcher) error {
	engines, others, found, strange, mute := d.countByJob()
	for _, srv := range d.servers {
		srv.serves, srv.down = false, false // what an earlier search decided
	}
	if !found {
		usual, err := dialect.Usual()
		if err != nil || !o.Scraper {
			return err
		}
		d.usual = usual
	}
	mark := func(form, selector string, set func(*server)) error {
		v, err := q.Query(ctx, fmt.Sprintf(form, strings.Join(d.layout.Instance, ", "), selector,
			model.Duration(o.Lookback)), o.At)
		if err != nil {
			return fmt.Errorf("find servers beside those with metrics: %w", err)
		}
		d.setServers(v, set)
		return nil
	}
	if strange {
		generating := SelectorOf("http_requests_total",
			append([]*labels.Matcher{indicator.Like("handler", indicator.Generating)}, matchers...))
		if err := mark("group by (%s) (last_over_time(%s[%s]))", generating,
			func(srv *server) { srv.serves = true }); err != nil {
			return err
		}
	}
	if !mute {
		return nil
	}
	return mark("max by (%s) (max_over_time(%s[%s])) == 0", SelectorOf("up", matchers), func(srv *server) {
		job := jobOf(srv)
		own := srv.labels["job"] != "" && others[job] == 0 && (engines[job] > 0 || !found)
		srv.down = srv.isSilent() && (o.Every || own)
	})
}

// isSilent reports whether a server was scraped and never answered.
func (srv *server) isSilent() bool { return len(srv.names) == 1 && srv.names["up"] }

// countByJob counts the inference servers and the other targets of each job. It reports whether there are inference
// servers, servers that count HTTP requests alone, and silent ones.
func (d *discovery) countByJob() (engines, others map[string]int, found, strange, mute bool) {
	engines, others = map[string]int{}, map[string]int{}
	for _, srv := range d.servers {
		dia, ok := d.detectDialect(srv)
		switch {
		case ok && dia.Serves():
			found = true
			engines[jobOf(srv)]++
		case srv.isSilent():
			mute = true
		case ok: // an exporter of GPUs, or a gateway
			others[jobOf(srv)]++
		default:
			strange = strange || srv.names["http_requests_total"]
			others[jobOf(srv)]++
		}
	}
	return engines, others, found, strange, mute
}

// setServers applies a change to the servers that a query selected.
func (d *discovery) setServers(selected model.Vector, set func(*server)) {
	for _, sample := range selected {
		if srv := d.servers[LabelKey(sample.Metric, d.layout.Instance)]; srv != nil {
			set(srv)
		}
	}
}

// serverName returns a server's name for people.
func serverName(l map[string]string) string {
	return cmp.Or(l["exported_instance"], l["instance"], l["pod"], l["exported_pod"], l["job"], l["model_name"])
}

func modelTargets(srv *server, dia dialect.Dialect) []Target {
	var out []Target
	for _, k := range slices.Sorted(maps.Keys(srv.models)) {
		l := maps.Clone(srv.models[k])
		name := serverName(l)
		if len(srv.models) > 1 {
			name += "/" + l["model_name"]
			for _, id := range dia.Identity {
				if l[id] != "" {
					name += "/" + l[id]
				}
			}
		}
		out = append(out, Target{Name: name, Labels: l, Dialect: dia, Version: dia.Version, Role: srv.role})
	}
	return out
}

// unknownEngine says why a scraped target without engine metrics cannot be judged.
func unknownEngine(names map[string]bool) string {
	switch {
	case names["python_info"] || names["process_start_time_seconds"]:
		return "it exposes only process metrics: vLLM was started with --disable-log-stats, or this is another program"
	case names["up"]:
		return "it was scraped but exposes no metric of an inference server"
	}
	return "it exposes no metric of an inference server"
}

// infos are the families whose labels tell a server's configuration, by canonical names, and their readers.
var infos = map[string]func([]engine.Info) engine.Config{
	"vllm:cache_config_info": engine.FromCacheConfigInfo, "vllm:lora_requests_info": engine.FromLoRARequestsInfo,
}

// readConfigurations reads what the servers expose of their configuration.
func readConfigurations(ctx context.Context, q metrics.Querier, at time.Time, lookback time.Duration,
	matchers []*labels.Matcher, targets []Target, l Layout) error {
	asked := map[string]map[string][]engine.Info{} // by name, by instance
	for i := range targets {
		t := &targets[i]
		t.Config = engine.Config{}
		if t.Dialect.Engine != dialect.VLLM {
			continue
		}
		for canonical, read := range infos {
			name := t.Dialect.Metric(canonical)
			if !t.Dialect.Exposes(name) {
				continue
			}
			if _, ok := asked[name]; !ok {
				v, err := q.Evaluate(ctx, indicator.Last(name, matchers...).In(lookback), at)
				if err != nil {
					return fmt.Errorf("read %s: %w", name, err)
				}
				asked[name] = map[string][]engine.Info{}
				for _, sample := range v {
					told := map[string]string{}
					for k, v := range sample.Metric {
						told[string(k)] = string(v)
					}
					key := LabelKey(sample.Metric, l.Instance)
					asked[name][key] = append(asked[name][key], engine.Info{Labels: told, Value: float64(sample.Value)})
				}
			}
			t.Config.Merge(read(asked[name][LabelKey(t.Labels, l.Instance)]))
		}
	}
	return nil
}

// discoverUpstreams reads which servers are behind gateways, and which models those say they serve.
func discoverUpstreams(ctx context.Context, q metrics.Querier, at time.Time, matchers []*labels.Matcher,
	targets []Target, l Layout) error {
	if !slices.ContainsFunc(targets, func(t Target) bool { return t.IsGateway() && t.Problem == "" }) {
		return nil
	}
	of := SamplesOf("sixty_gateway_upstream_up|sixty_gateway_upstream_engine_output_tokens_total",
		matchers).In(indicator.WindowMark)
	of.Func = "last_over_time"
	v, err := q.Evaluate(ctx,
		indicator.Aggregate{Op: "group", Labels: slices.Concat(l.Instance, []string{"model", "upstream"}), Of: of}, at)
	if err != nil {
		return fmt.Errorf("find what is behind gateways: %w", err)
	}
	for i := range targets {
		t := &targets[i]
		if !t.IsGateway() {
			continue
		}
		for _, s := range v {
			if LabelKey(s.Metric, l.Instance) != LabelKey(t.Labels, l.Instance) {
				continue
			}
			t.Models, t.Upstreams = append(t.Models, string(s.Metric[indicator.PerModel])),
				append(t.Upstreams, string(s.Metric[indicator.PerUpstream]))
		}
		for _, list := range []*[]string{&t.Models, &t.Upstreams} {
			slices.Sort(*list)
			*list = slices.DeleteFunc(slices.Compact(*list), func(s string) bool { return s == "" })
		}
	}
	return nil
}
