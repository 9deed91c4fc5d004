package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/units"
	"github.com/prometheus/common/promslog"
	"github.com/spf13/cobra"

	"github.com/sixty-dev/sixty/internal/baseline/gather"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/fileio"
	"github.com/sixty-dev/sixty/internal/hint"
	"github.com/sixty-dev/sixty/internal/monitor"
	"github.com/sixty-dev/sixty/internal/pathologies"
	"github.com/sixty-dev/sixty/internal/planning"
	"github.com/sixty-dev/sixty/internal/serve"
	"github.com/sixty-dev/sixty/internal/source"
)

// monitorFlags are those of serve as they were given.
type monitorFlags struct {
	source   sourceFlags
	settings settingsFlags
	cfg      serve.Config

	selector                  []string
	retention, retentionBytes string
	baseline, tokenFile       string
	verbose                   bool
}

func newServeCommand() *cobra.Command {
	f := &monitorFlags{}
	cmd := &cobra.Command{
		Use:  "serve",
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), cmd.ErrOrStderr(), args) },
	}
	s, c := cmd.Flags(), &f.cfg
	f.source.register(s)
	f.settings.register(s)
	s.StringVar(&f.baseline, "baseline", "", "`file` of measured numbers: what is normal")
	s.StringVarP(&c.File, "config", "c", "", "YAML `file`: Prometheus' sections, and one named sixty")
	s.DurationVar(&c.Interval, "interval", 0, "time between two scrapes (default: as the file says, or 5s)")
	s.DurationVar(&c.Every, "evaluation-interval", 0, "time between two evaluations (default: as the file says, or 15s)")
	s.BoolVar(&c.Kubernetes, "kubernetes", false, "find the pods that run vLLM in this cluster")
	s.StringVar(&c.KubeConfig, "kubeconfig", "", "with --kubernetes: `file` of the cluster (default: the one that this runs in)")
	s.StringVar(&c.Namespace, "namespace", "", "with --kubernetes: where they run (default: everywhere)")
	s.StringSliceVar(&f.selector, "selector", nil, "with --kubernetes: `labels` of the pods, such as app=vllm")
	s.StringSliceVar(&c.GPUTargets, "gpu-target", nil, "`addresses` of dcgm-exporter")
	registerHost(s, &c.NoHost)
	s.StringSliceVar(&c.Gateways, "gateway", nil, "`URLs` of the admin listener of sixty gateway, or of the metrics of Envoy, Istio, HAProxy or ingress-nginx: what clients see")
	s.StringVar(&c.Shard, "shard", "", "scrape one `part` of the targets only, such as 2/5: the second of five monitors")
	s.StringVar(&c.Dir, "data", "", "`directory` of samples and incidents (default: sixty in the user's state directory)")
	s.StringVar(&f.retention, "keep", "", "how long samples are kept (default: 15d)")
	s.StringVar(&f.retentionBytes, "keep-size", "", "how much of them, such as 10GB (default: any amount)")
	s.StringVar(&c.Addr, "listen", ":6060", "`address` of the page and the API (loopback unless a host is given; 0.0.0.0:6060 for all)")
	s.StringVar(&c.External, "external-url", "", "`URL` under which others see it, such as https://example.com/sixty/: for links, and where a proxy adds a path")
	s.StringVar(&c.WebFile, "web-config", "", "`file`, as Prometheus': TLS and basic authentication of the page and the API")
	s.StringVar(&f.tokenFile, "token-file", "", "`file` with a bearer token that every request must bring; a browser is asked for it once")
	s.BoolVarP(&f.verbose, "verbose-log", "", false, "log what each part does")
	return cmd
}

func (f *monitorFlags) run(ctx context.Context, stderr io.Writer, args []string) error {
	if err := f.configure(args); err != nil {
		return err
	}
	level := quiet()
	if f.verbose {
		if err := level.Set("debug"); err != nil {
			return err
		}
	}
	f.cfg.Log = promslog.New(&promslog.Config{Level: level, Writer: stderr})
	slog.SetDefault(f.cfg.Log)
	f.cfg.Ready = func(url string) {
		fmt.Fprintf(stderr, "sixty watches; its page is %s\n", url)
	}
	endsWhenInterrupted(ctx)
	saving(ctx) // the storage is closed; a second signal ends that
	return serve.Run(ctx, f.cfg)
}

// configure turns flags into the configuration.
func (f *monitorFlags) configure(args []string) (err error) {
	c := &f.cfg
	if err := f.source.resolve(args); err != nil {
		return err
	}
	if f.source.spec.Recording != "" {
		return hint.With(errors.New("a recording is over: there is nothing to watch"), "sixty diagnose "+f.source.spec.Recording)
	}
	c.Targets, c.HTTP = f.source.spec.URLs, f.source.spec.HTTP
	if f.source.spec.Prometheus != "" {
		c.Prometheus = f.source.spec
	}
	for _, l := range f.selector {
		k, v, ok := strings.Cut(l, "=")
		if !ok {
			return hint.With(fmt.Errorf("--selector: %q is no label", l), "write it like app=vllm")
		}
		if c.Selector == nil {
			c.Selector = map[string]string{}
		}
		c.Selector[k] = v
	}
	for name, d := range map[string]time.Duration{"interval": c.Interval, "evaluation-interval": c.Every} {
		if d != 0 && d < time.Second {
			return fmt.Errorf("--%s: %s is less than a second", name, d)
		}
	}
	if c.Dir == "" {
		if c.Dir, err = stateDir(); err != nil {
			return err
		}
	}
	if f.retention != "" {
		if c.Retention, err = source.ParseDuration(f.retention); err != nil {
			return err
		}
	}
	if f.retentionBytes != "" {
		n, err := units.ParseBase2Bytes(f.retentionBytes)
		if err != nil || n <= 0 {
			return hint.With(fmt.Errorf("--keep-size: %q is no size", f.retentionBytes), "write it like 10GB")
		}
		c.RetentionBytes = int64(n)
	}
	if f.tokenFile != "" {
		token, err := fileio.Read(f.tokenFile, 64<<10)
		if err != nil {
			return fmt.Errorf("--token-file: %w", err)
		}
		if c.Token = strings.TrimSpace(string(token)); c.Token == "" {
			return fmt.Errorf("--token-file: %s is empty", f.tokenFile)
		}
	}
	all := pathologies.All()
	c.Diagnose = diagnose.Options{Pathologies: all, Predict: planning.PredictFixes}
	flags := *f
	c.Settings = func(s *monitor.Section) (diagnose.Settings, error) { return flags.judgedBy(s) }
	return nil
}

// judgedBy are the objectives and thresholds of the flags, and those of a file where the
// flags say nothing.
func (f *monitorFlags) judgedBy(s *monitor.Section) (diagnose.Settings, error) {
	flags := settingsFlags{
		useCase: cmp.Or(f.settings.useCase, s.UseCase), slo: cmp.Or(f.settings.slo, s.Objectives),
		only: f.settings.only, set: f.settings.set,
	}
	if len(flags.only) == 0 {
		flags.only = s.Only
	}
	var fromFile []string
	for name, v := range s.Thresholds {
		fromFile = append(fromFile, name+"="+v)
	}
	slices.Sort(fromFile)
	flags.set = append(fromFile, flags.set...)
	set, err := flags.settings(pathologies.All())
	if err != nil {
		return set, err
	}
	if path := cmp.Or(f.baseline, s.Baseline); path != "" {
		measured, err := gather.File(path)
		if err == nil && measured == nil {
			err = errors.New("it is no file of measured numbers")
		}
		if err != nil {
			return set, fmt.Errorf("baseline %s: %w", path, err)
		}
		set.Baselines = append(set.Baselines, measured)
	}
	return set, nil
}

// stateDir is where a user's programs keep what they know.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sixty"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", hint.With(err, "name a directory with --data")
	}
	return filepath.Join(home, ".local", "state", "sixty"), nil
}

// quiet is the level of a log that tells of what goes wrong alone.
func quiet() *promslog.Level {
	l := promslog.NewLevel()
	if err := l.Set("warn"); err != nil {
		panic(err) // it is one of promslog's own words
	}
	return l
}
