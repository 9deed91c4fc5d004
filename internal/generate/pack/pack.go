// Package pack combines the generated files for one deployment: rules with their Alertmanager files and tests (Rules),
// Dashboards, Runbooks, Baselines, and Everything at once. The packages beside it render each kind.
//
// Its Config extends generate.RulesConfig by the output format and the objectives' period. It is pure; package cli
// reads the inputs and writes the files.
package pack

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/base/docs"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/baseline"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/burnrate"
	"github.com/sixty-dev/sixty/internal/generate/dashboard"
	"github.com/sixty-dev/sixty/internal/generate/dashboard/grafana"
	"github.com/sixty-dev/sixty/internal/generate/dashboard/perses"
	"github.com/sixty-dev/sixty/internal/generate/runbookpage"
	"github.com/sixty-dev/sixty/internal/generate/scrapeconfig"
)

// Config selects the rules and their output format.
type Config struct {
	generate.RulesConfig
	Period time.Duration        // the period of an error budget; 0 for Objectives' own, or the default
	Edges  map[string][]float64 // bucket edges of the servers that were read, by canonical family

	Format          generate.Format
	Name, Namespace string // metadata of the Kubernetes object
	ObjectLabels    map[string]string
	MaxRules        int   // in a group; 0 means no limit
	Alertmanager    bool  // also render the files for Alertmanager and kubectl
	Cases           fs.FS // case files for unit tests of promtool; nil for no tests
}

// Choose selects pathologies and alerts on missing servers by id; an empty only means all. It drops pathologies at
// gateways if the deployment has no gateway. Objectives have no ids.
func (c *Config) Choose(only, skip []string) error {
	c.Absences = generate.Absences()
	for _, id := range skip {
		if !slices.Contains(c.Absences, id) &&
			!slices.ContainsFunc(c.Pathologies, func(p *catalog.Pathology) bool { return p.ID == id }) {
			way := "sixty explain lists them"
			if id == "replicas-missing" {
				way = "nothing: kubernetes-mixin has that alert, KubeDeploymentReplicasMismatch"
			}
			return hint.With(fmt.Errorf("--skip: there is no pathology %q", id), way)
		}
	}
	if len(only) > 0 {
		c.Absences = nil
	}
	c.Absences = slices.DeleteFunc(c.Absences, func(id string) bool { return slices.Contains(skip, id) })
	c.Pathologies = slices.DeleteFunc(slices.Clone(c.Pathologies), func(p *catalog.Pathology) bool {
		return !generate.AppliesTo(&c.Deployment, p) || slices.Contains(skip, p.ID) ||
			len(only) > 0 && !slices.Contains(only, p.ID)
	})
	if len(c.Pathologies)+len(c.Absences) == 0 && c.Objectives == nil {
		return hint.With(errors.New("--only and --skip leave nothing"),
			"what a gateway sees needs one: --dialect vllm-v1,gateway")
	}
	return nil
}

// CheckModels refuses objectives for models that no server serves, if the served models are known.
func CheckModels(objectives *slo.File, models []string) error {
	if objectives == nil || len(models) == 0 {
		return nil
	}
	for i, o := range objectives.Objectives {
		if !slices.ContainsFunc(models, o.Serves) {
			slices.Sort(models)
			return hint.With(fmt.Errorf("objective %d: no server that was looked at serves model %q", i+1, o.Model),
				"they serve "+strings.Join(slices.Compact(models), ", ")+"; correct the name, or leave --detect out")
		}
	}
	return nil
}

// Rules renders the rules and the files that belong to them. The notes are caveats for the user.
func Rules(c Config) (files []generate.File, notes []string, err error) {
	rules, err := generate.NewRules(c.RulesConfig)
	if err != nil {
		return nil, nil, err
	}
	budgets, err := renderBurnRates(&c)
	if err != nil {
		return nil, nil, err
	}
	notes = slices.Concat(rules.Warnings, budgets.Warnings)
	sets := rules.Sets
	for i, g := range budgets.Groups {
		sets = generate.AddTo(sets, generate.SetName("slo", budgets.Scopes[i]), g)
	}
	sets = generate.Split(sets, c.MaxRules)
	if n := len(generate.JoinGroups(sets)); c.Format == generate.Mimir && n > generate.MaxGroups {
		notes = append(notes, fmt.Sprintf("%d groups of rules: Mimir allows a tenant %d unless "+
			"-ruler.max-rule-groups-per-tenant says otherwise", n, generate.MaxGroups))
	}
	if files, err = generate.Objects(sets, c.Format, c.Name, c.Namespace, c.ObjectLabels); err != nil {
		return nil, notes, fmt.Errorf("--output: %w", err)
	}
	if c.Alertmanager {
		more, err := renderAlertmanagerFiles(&c, files)
		if err != nil {
			return nil, notes, err
		}
		files = append(files, more...)
	}
	if c.Cases != nil {
		tests, more, err := renderUnitTests(&c, rules, budgets)
		if err != nil {
			return nil, notes, err
		}
		files, notes = append(files, tests...), append(notes, more...)
	}
	return files, notes, nil
}

// renderAlertmanagerFiles renders the files for Alertmanager, and the kustomization for kubectl.
func renderAlertmanagerFiles(c *Config, objects []generate.File) ([]generate.File, error) {
	var files []generate.File
	for name, render := range map[string]func(generate.RulesConfig) ([]byte, error){
		"alertmanager/inhibit.yaml": generate.Inhibitions, "alertmanager/route.yaml": generate.Routing,
	} {
		content, err := render(c.RulesConfig)
		if err != nil {
			return nil, err
		}
		files = append(files, generate.File{Path: name, Content: content})
	}
	slices.SortFunc(files, func(a, b generate.File) int { return strings.Compare(a.Path, b.Path) })
	if c.Format == generate.PrometheusRule || c.Format == generate.VMRule {
		k, err := generate.Kustomization(objects)
		if err != nil {
			return nil, err
		}
		files = append(files, k)
	}
	return files, nil
}

// sloRunbook is the runbook for an error budget that burns.
var sloRunbook = docs.URL + "slo.md#when-an-error-budget-burns"

// renderBurnRates renders the objectives as burn-rate alerts.
func renderBurnRates(c *Config) (burnrate.Rules, error) {
	if c.Objectives == nil {
		return burnrate.Rules{}, nil
	}
	b := burnrate.Config{
		Objectives: c.Objectives.Objectives, Period: c.Period,
		By: c.Deployment.Model, Instance: c.Deployment.Instance, Matchers: c.Deployment.Matchers,
		Labels: c.Labels, Edges: c.Edges, Runbook: sloRunbook,
		Interval:    min(time.Minute, max(c.Interval, 30*time.Second)),
		Fast:        max(burnrate.DefaultFast, generate.MinWindow(c.Interval)),
		Annotations: map[string]string{"dashboard_url": strings.TrimSuffix(c.DashboardURL, "/") + grafana.BudgetPath},
		Severities:  c.Severities, KeepFiringFor: c.KeepFiringFor, Causes: generate.AnyOf(&c.Deployment, c.Pathologies),
	}
	for _, d := range c.Deployment.Dialects {
		if d.Serves() {
			b.Metrics = append(b.Metrics, d.Metric)
		}
	}
	prefixes, parts := c.Deployment.Subjects(indicator.Model)
	for i, prefix := range prefixes {
		subject := burnrate.Subject{Prefix: prefix}
		if len(prefixes) > 1 {
			var err error
			if subject.Served, err = generate.Served(&parts[i], c.Deployment.Model); err != nil {
				return burnrate.Rules{}, err
			}
		}
		b.Subjects = append(b.Subjects, subject)
	}
	return burnrate.Groups(b)
}

// renderUnitTests renders the case files as unit tests. promtool cannot read Kubernetes objects, so the tests of such
// formats come with a plain copy of the rules.
func renderUnitTests(
	c *Config, rules *generate.Rules, budgets burnrate.Rules,
) (files []generate.File, notes []string, err error) {
	path := "../rules.yaml"
	if c.Format != generate.Plain {
		path = "rules.yaml"
		content, err := generate.Encode(slices.Concat(rules.Groups(), budgets.Groups), generate.Plain, "", "", nil)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, generate.File{Path: path, Content: content})
	}
	tests, notes, err := generate.RuleTests(c.RulesConfig, rules, c.Cases, []string{path})
	return moveToDir("tests", append(files, tests...)), notes, err
}

// dashboardFormats render dashboards in a format.
var dashboardFormats = map[string]func(dashboard.Config) ([]generate.File, error){
	"grafana": grafana.Files, "perses": perses.Files, "configmap": configMaps, "grafanadashboard": grafanaDashboards,
}

// DashboardFormats lists the formats of dashboards, the usual one first.
func DashboardFormats() []string {
	return []string{"grafana", "perses", "configmap", "grafanadashboard"}
}

// Dashboards renders dashboards in a format.
func Dashboards(c dashboard.Config, format string) ([]generate.File, error) {
	render := dashboardFormats[format]
	if render == nil {
		return nil, fmt.Errorf("--output: unknown format %q: want one of %s",
			format, strings.Join(DashboardFormats(), ", "))
	}
	return render(c)
}

// Runbooks renders the runbooks.
func Runbooks(c generate.RulesConfig) ([]generate.File, error) {
	page := runbookpage.Config{Pathologies: c.Pathologies, Deployment: &c.Deployment, Limit: c.Limit}
	if c.DashboardURL != "" {
		page.Dashboard = c.PanelURL
	}
	return runbookpage.Markdown(page)
}

// Everything renders all kinds of files for one deployment.
func Everything(c Config) (files []generate.File, notes []string, err error) {
	ruleFiles, notes, err := Rules(c)
	if err != nil {
		return nil, notes, err
	}
	files = moveToDir("rules", ruleFiles)
	layout := dashboard.Config{
		Deployment: c.Deployment, Pathologies: c.Pathologies, Runbooks: c.Runbooks, Limit: c.Limit,
	}
	if c.Objectives != nil {
		layout.Period = cmp.Or(c.Period, slo.DefaultPeriod)
	}
	for _, part := range []struct {
		dir    string
		render func() ([]generate.File, error)
	}{
		{"dashboards/grafana", func() ([]generate.File, error) { return Dashboards(layout, "grafana") }},
		{"dashboards/perses", func() ([]generate.File, error) { return Dashboards(layout, "perses") }},
		{"scrape", func() ([]generate.File, error) {
			return scrapeconfig.Generate(scrapeconfig.Config{
				Format:  scrapeconfig.Prometheus,
				Targets: []string{"localhost:8000"},
			})
		}},
		{"runbooks/markdown", func() ([]generate.File, error) { return Runbooks(c.RulesConfig) }},
	} {
		rendered, err := part.render()
		if err != nil {
			return nil, notes, fmt.Errorf("%s: %w", part.dir, err)
		}
		files = append(files, moveToDir(part.dir, rendered)...)
	}
	return files, notes, nil
}

// Stream joins several files into one YAML stream, as kubectl reads it.
func Stream(files []generate.File) []generate.File {
	if len(files) < 2 {
		return files
	}
	var all []byte
	for _, file := range files {
		all = append(append(all, "---\n"...), file.Content...)
	}
	return []generate.File{{Path: "rules.yaml", Content: all}}
}

// Baselines writes measured baselines, one file for each model.
func Baselines(measured []*baseline.File) (files []generate.File, err error) {
	for _, b := range measured {
		content, err := b.Marshal()
		if err != nil {
			return nil, err
		}
		name := strings.Map(func(r rune) rune {
			if r == '/' || r == '\\' || r < ' ' {
				return '-'
			}
			return r
		}, b.Model)
		files = append(files, generate.File{Path: strings.Trim("baseline-"+name, "-.") + ".json", Content: content})
	}
	return files, nil
}

func moveToDir(dir string, files []generate.File) []generate.File {
	out := slices.Clone(files)
	for i := range out {
		out[i].Path = dir + "/" + out[i].Path
	}
	return out
}
