package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/dialect"
	"github.com/sixty-dev/sixty/internal/generate"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/metrics/api"
	"github.com/sixty-dev/sixty/internal/metrics/embedded"
	"github.com/sixty-dev/sixty/internal/metrics/recording"
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
	cmd.AddCommand(newGenerateRules(), newGenerateBaseline())
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

// deployment resolves the flags. Windows are those of alert rules.
func (f *deploymentFlags) deployment(ctx context.Context) (generate.Deployment, error) {
	d := generate.Deployment{Instance: f.instanceLabels, Model: f.modelLabels, GPU: f.gpuLabels, Window: 5 * time.Minute, Short: time.Minute, Past: time.Hour}
	for _, text := range f.match {
		m, err := parseMatch(text)
		if err != nil {
			return d, err
		}
		d.Matchers = append(d.Matchers, m...)
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
	for _, source := range f.detect {
		found, err := f.detected(ctx, source, d.Matchers)
		if err != nil {
			return d, fmt.Errorf("--detect %s: %w", redactURL(source), err)
		}
		d.Dialects = append(d.Dialects, found...)
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

// detected looks at what servers expose.
func (f *deploymentFlags) detected(ctx context.Context, source string, match []*labels.Matcher) ([]dialect.Dialect, error) {
	if url, ok := strings.CutPrefix(source, "prometheus="); ok {
		c, err := f.http.config()
		if err != nil {
			return nil, err
		}
		client, err := api.New(api.Config{URL: url, HTTP: c})
		if err != nil {
			return nil, err
		}
		defer client.Close()
		return discovered(ctx, &tolerant{next: client, seen: map[string]bool{}}, time.Now(), time.Hour, match)
	}
	if _, err := os.Stat(source); err == nil {
		return inRecording(ctx, source)
	}
	return f.onPage(ctx, source)
}

func discovered(ctx context.Context, q metrics.Querier, at time.Time, lookback time.Duration, match []*labels.Matcher) ([]dialect.Dialect, error) {
	targets, _, err := diagnose.Discover(ctx, q, at, lookback, match, false)
	if err != nil {
		return nil, err
	}
	var out []dialect.Dialect
	for _, t := range targets {
		out = append(out, t.Dialect)
	}
	return out, nil
}

func inRecording(ctx context.Context, path string) (out []dialect.Dialect, err error) {
	rec, err := recording.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	store, err := embedded.Open(embedded.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := store.Load(ctx, rec, nil); err != nil {
		return nil, err
	}
	first, last := rec.Times()
	return discovered(ctx, store, last, last.Sub(first)+time.Second, nil)
}

// onPage reads the names of one metrics page.
func (f *deploymentFlags) onPage(ctx context.Context, url string) ([]dialect.Dialect, error) {
	c, err := f.http.config()
	if err != nil {
		return nil, err
	}
	client, err := scrape.New(scrape.Config{HTTP: c})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	page, err := client.Fetch(ctx, url)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	if _, err := scrape.Parse(page.Raw, page.ContentType, func(l labels.Labels, _ int64, _ float64) { names[l.Get(labels.MetricName)] = true }); err != nil {
		return nil, err
	}
	d, ok := dialect.Detect(slices.Sorted(maps.Keys(names)))
	if !ok {
		return nil, hint.With(errors.New("no metric of an inference server there"), "give the address of vLLM's own /metrics; without one, --dialect names its release")
	}
	return []dialect.Dialect{d}, nil
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
