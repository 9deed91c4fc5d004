package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/generate/burnrate"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/scrape"
)

// runbookPages is where the runbooks can be read.
const runbookPages = "https://github.com/sixty-dev/sixty/blob/main/docs/pathologies/"

func newGenerateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Render the catalogue as alert rules, dashboards, runbooks and scrape configuration",
		Long: `Renders the catalogue for the Prometheus, Alertmanager and Grafana that you have. The
signals and conditions are those of sixty diagnose, so that an alert, a panel and a
diagnosis agree.

Names of metrics follow --dialect, or what the servers at --detect expose; with several,
every expression serves a fleet of mixed versions.

Files are written whole or not at all.`,
	}
	cmd.AddCommand(newGenerateRules(), newGenerateDashboards(), newGenerateProvisioning(), newGenerateScrape(), newGenerateRunbooks(), newGenerateBaseline(), newGenerateAll(), newGeneratePreview(), newGenerateOpenMetrics())
	return cmd
}

// deploymentFlags say how the deployment's metrics are named and labelled.
type deploymentFlags struct {
	dialects, detect                       []string
	match                                  []string
	instanceLabels, modelLabels, gpuLabels []string
	http                                   httpFlags
}

func (f *deploymentFlags) register(s *pflag.FlagSet) {
	s.StringSliceVar(&f.dialects, "dialect", nil, "metric `names` in use: vllm-v1 (the default), vllm-v0, vllm-v1-ray, vllm-v1-kserve, vllm-v1-normalized, sglang, a release such as vllm-0.10; several for a mixed fleet")
	s.StringSliceVar(&f.detect, "detect", nil, "take names from the servers at these `URLs`, from a recording, or from prometheus=URL, and labels from the last")
	s.StringArrayVar(&f.match, "match", nil, "restrict every selector: `selector` such as '{namespace=\"prod\"}' or namespace=prod; may be repeated")
	s.StringSliceVar(&f.instanceLabels, "instance-labels", generate.UsualInstance, "labels that identify a scraped target")
	s.StringSliceVar(&f.modelLabels, "model-labels", generate.UsualModel, "labels that identify the replicas of one model")
	s.StringSliceVar(&f.gpuLabels, "gpu-labels", nil, "labels that a server and its GPU exporter share, such as node (default: the host in their instance labels)")
	f.http.register(s)
}

// described is a deployment whose bucket edges may be known.
type described struct {
	generate.Deployment
	edges  map[string][]float64 // by canonical family; of those that were looked at
	models []string             // that they serve
}

// deployment resolves the flags. Dashboards have Grafana's windows, and the rules
// their own.
func (f *deploymentFlags) deployment(ctx context.Context, stderr io.Writer) (described, error) {
	d := described{Deployment: generate.Deployment{
		Instance: f.instanceLabels, Model: f.modelLabels, GPU: f.gpuLabels, Past: time.Hour,
	}}
	var err error
	if d.Matchers, err = parseMatches(f.match); err != nil {
		return d, err
	}
	ids := f.dialects
	if len(ids) == 0 && len(f.detect) == 0 {
		ids = []string{"vllm-v1"}
	}
	for _, id := range ids {
		dia, err := dialect.Named(id)
		if err != nil {
			return d, fmt.Errorf("--dialect: %w", err)
		}
		d.Dialects = append(d.Dialects, dia)
	}
	edges := map[string][][]float64{}
	for _, source := range f.detect {
		found, err := f.detected(ctx, stderr, source, d.Matchers)
		if err != nil {
			return d, fmt.Errorf("--detect %s: %w", redactURL(source), err)
		}
		d.Dialects, d.models = append(d.Dialects, found.dialects...), append(d.models, found.models...)
		for family, list := range found.edges {
			edges[family] = append(edges[family], list)
		}
	}
	d.edges = map[string][]float64{}
	for family, lists := range edges {
		d.edges[family] = burnrate.CommonEdges(lists...)
	}
	d.Dialects = distinct(d.Dialects)
	if !slices.ContainsFunc(d.Dialects, func(x dialect.Dialect) bool { return x.Engine == dialect.DCGM }) {
		dcgm, err := dialect.Named(string(dialect.DCGM))
		if err != nil {
			return d, err
		}
		d.Dialects = append(d.Dialects, dcgm)
	}
	return d, nil
}

func distinct(ds []dialect.Dialect) []dialect.Dialect {
	seen := map[string]bool{}
	return slices.DeleteFunc(ds, func(d dialect.Dialect) bool {
		k := d.Key()
		defer func() { seen[k] = true }()
		return seen[k]
	})
}

// exposed is what servers expose.
type exposed struct {
	dialects []dialect.Dialect
	models   []string
	edges    map[string][]float64
}

// detected looks at what servers expose: those of a Prometheus, of a recording,
// or one page.
func (f *deploymentFlags) detected(ctx context.Context, stderr io.Writer, source string, match []*labels.Matcher) (out exposed, err error) {
	if url, ok := strings.CutPrefix(source, "prometheus="); ok {
		err = withPrometheus(stderr, url, &f.http, func(q *tolerant) error {
			out, err = discovered(ctx, q, time.Now(), lookback, match)
			return err
		})
		return out, err
	}
	if _, err := os.Stat(source); err == nil {
		err = withRecording(ctx, stderr, source, func(p *played) error {
			out, err = discovered(ctx, p, p.last, p.last.Sub(p.first)+time.Second, nil)
			return err
		})
		return out, err
	}
	c, err := f.http.config()
	if err != nil {
		return out, err
	}
	client, err := scrape.New(scrape.Config{HTTP: c})
	if err != nil {
		return out, err
	}
	defer client.Close()
	page, err := client.Fetch(ctx, source)
	if err != nil {
		return out, err
	}
	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if _, err := store.Append(embedded.Target{Instance: scrape.Instance(source)}, page.At, page.Raw, page.ContentType, page.Duration); err != nil {
		return out, err
	}
	return discovered(ctx, store, page.At, time.Minute, nil)
}

// discovered asks a Querier what the servers expose.
func discovered(ctx context.Context, q metrics.Querier, at time.Time, lookback time.Duration, match []*labels.Matcher) (exposed, error) {
	out := exposed{edges: map[string][]float64{}}
	targets, _, err := diagnose.Discover(ctx, q, at, lookback, match, false)
	if err != nil {
		return out, err
	}
	lists := map[string][][]float64{}
	seen := map[string]bool{}
	for _, t := range targets {
		out.dialects = append(out.dialects, t.Dialect)
		if m := t.Labels["model_name"]; m != "" {
			out.models = append(out.models, m)
		}
		for _, family := range burnrate.Families() {
			name := t.Dialect.Metric(family + "_bucket")
			if seen[name] {
				continue
			}
			seen[name] = true
			edges, err := bucketEdges(ctx, q, at, lookback, name, match)
			if err != nil {
				return out, err
			}
			if len(edges) > 0 {
				lists[family] = append(lists[family], edges)
			}
		}
	}
	for family, l := range lists {
		out.edges[family] = burnrate.CommonEdges(l...)
	}
	return out, nil
}

// bucketEdges returns the edges that all targets have of a histogram.
func bucketEdges(ctx context.Context, q metrics.Querier, at time.Time, lookback time.Duration, name string, match []*labels.Matcher) ([]float64, error) {
	selector := []string{fmt.Sprintf("__name__=%q", name)}
	for _, m := range match {
		selector = append(selector, m.String())
	}
	by := strings.Join(append(slices.Clone(generate.UsualInstance), "le"), ", ")
	v, err := q.Query(ctx, fmt.Sprintf("group by (%s) (last_over_time({%s}[%s]))", by, strings.Join(selector, ","), model.Duration(lookback)), at)
	if err != nil {
		return nil, fmt.Errorf("bucket edges of %s: %w", name, err)
	}
	return burnrate.EdgesOf(v), nil
}

// outFlag says where generated files go.
type outFlag struct{ dir string }

func (f *outFlag) register(s *pflag.FlagSet) {
	s.StringVarP(&f.dir, "out", "o", "", "write the files to this `directory` (default: print them)")
}

// write writes all files, or none: each to a temporary name first.
func (f *outFlag) write(stdout io.Writer, files []generate.File) error {
	if f.dir == "" {
		for i, file := range files {
			if len(files) > 1 {
				if i > 0 {
					fmt.Fprintln(stdout)
				}
				fmt.Fprintf(stdout, "# %s\n", file.Path)
			}
			if _, err := stdout.Write(file.Content); err != nil {
				return err
			}
		}
		return nil
	}
	var done []string // temporary names
	defer func() {
		for _, t := range done {
			os.Remove(t)
		}
	}()
	for _, file := range files {
		name := filepath.Join(f.dir, filepath.FromSlash(file.Path))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		tmp := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".new")
		done = append(done, tmp)
		if err := os.WriteFile(tmp, file.Content, 0o644); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	for i, file := range files {
		if err := os.Rename(done[i], filepath.Join(f.dir, filepath.FromSlash(file.Path))); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		fmt.Fprintln(stdout, path.Join(filepath.ToSlash(f.dir), file.Path))
	}
	return nil
}
