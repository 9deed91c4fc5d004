package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/units"
	"github.com/prometheus/common/promslog"
	"github.com/spf13/pflag"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/threshold"
	"github.com/sixty-dev/sixty/internal/diagnose"
	"github.com/sixty-dev/sixty/internal/diagnose/settings"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/generate/gather"
	"github.com/sixty-dev/sixty/internal/metrics/collect"
	"github.com/sixty-dev/sixty/internal/monitor"
)

// Options are the flags of sixty serve. Read turns them into a Config. Errors name the flags.
type Options struct {
	Config
	Source source.Flags
	Judged settings.Flags

	retention, retentionBytes string
	traceBuffer               string
	baseline, tokenFile       string
	verbose                   bool

	DryRun bool // print the targets and exit
}

// AddFlags adds the flags of sixty serve.
func (o *Options) AddFlags(s *pflag.FlagSet) {
	o.Source.AddFlags(s)
	o.Judged.AddFlags(s)
	s.StringVar(&o.baseline, "baseline", "", "`file` of normal values (sixty generate baseline)")
	s.StringVarP(&o.File, "config", "c", "", "YAML `file`: Prometheus' sections, and a section sixty")
	s.DurationVar(&o.Interval, "interval", 0, "scrape interval (default: from the file, or 5s)")
	s.DurationVar(&o.Every, "evaluation-interval", 0, "evaluation interval (default: from the file, or 15s)")
	s.BoolVar(&o.Kubernetes, "kubernetes", false,
		"find the pods that run inference servers in this cluster, by their images, labels and ports")
	s.StringVar(&o.KubeConfig, "kubeconfig", "", "with --kubernetes: kubeconfig `file` (default: in-cluster)")
	s.StringVar(&o.Namespace, "namespace", "", "with --kubernetes: namespace of the pods (default: all)")
	s.StringToStringVar(&o.Selector, "selector", nil,
		"with --kubernetes: `name=value` labels of the pods, such as team=ml, if images and labels do not identify them")
	s.BoolVar(&o.DryRun, "dry-run", false, "print the targets found, and why others are not targets, and exit")
	s.StringSliceVar(&o.GPUTargets, "gpu-target", nil, "`addresses` of dcgm-exporter")
	source.AddHost(s, &o.NoHost)
	source.AddGateways(s, &o.Gateways)
	s.StringVar(&o.Shard, "shard", "",
		"judge one `shard` only, such as 2/5: of what is scraped by address, with --prometheus by model")
	s.StringVar(&o.Dir, "data", "",
		"`directory` for samples and incidents (default: sixty in the user's state directory)")
	s.StringVar(&o.retention, "keep", "", "retention of samples (default: 15d)")
	s.StringVar(&o.retentionBytes, "keep-size", "", "maximum size of samples, such as 10GB (default: unlimited)")
	s.StringVar(&o.traceBuffer, "trace-buffer", "",
		"receive traces as OTLP over HTTP at /v1/traces, and keep the last ones in memory up to this `size`, "+
			"such as 32MB (default: none)")
	s.StringVar(&o.Addr, "listen", ":6060",
		"`address` of the page and the API (loopback unless a host is given; 0.0.0.0:6060 for all)")
	s.StringVar(&o.External, "external-url", "",
		"external `URL`, such as https://example.com/sixty/: for links, and for proxies that add a path")
	s.StringVar(&o.WebFile, "web-config", "",
		"web configuration `file`, as in Prometheus: TLS and basic authentication for the page and the API")
	s.StringVar(&o.tokenFile, "token-file", "",
		"`file` with a token that every request needs, as bearer token or as password of any user; "+
			"a browser asks for it once")
	s.StringVar(&o.Cluster.Listen, "cluster-listen", "",
		"`address` for other monitors of the same servers, to form a cluster, such as 0.0.0.0:9094")
	s.StringSliceVar(&o.Cluster.Peers, "cluster-peer", nil,
		"`addresses` of the other monitors, or one DNS name for all")
	s.StringVar(&o.Cluster.TLSFile, "cluster-tls-config", "", "cluster TLS `file`, as in Alertmanager")
	o.Queries = collect.DefaultQueryLimits
	s.IntVar(&o.Queries.Samples, "query-max-samples", o.Queries.Samples, "maximum samples in memory per API query")
	s.IntVar(&o.Queries.Concurrency, "query-concurrency", o.Queries.Concurrency,
		"maximum concurrent API queries; evaluations do not wait for them")
	s.DurationVar(&o.Queries.Timeout, "query-timeout", o.Queries.Timeout, "timeout of an API query")
	s.BoolVarP(&o.verbose, "verbose-log", "", false, "debug logging")
}

// Read reads flags and arguments into the Config, except for its log and its pathologies.
func (o *Options) Read(args []string) (err error) {
	if err := o.Source.Resolve(args); err != nil {
		return err
	}
	if o.Source.Recording != "" {
		return hint.With(errors.New("a recording is over: nothing to watch"), "sixty diagnose "+o.Source.Recording)
	}
	o.Targets, o.HTTP = o.Source.URLs, o.Source.HTTP
	if o.Source.Prometheus != "" {
		o.Prometheus = o.Source.Spec
		if len(o.Gateways) > 0 {
			return hint.With(errors.New("--gateway is for servers that are scraped here"),
				"let the store scrape the gateway, with a job called gateway")
		}
	}
	for name, d := range map[string]time.Duration{"interval": o.Interval, "evaluation-interval": o.Every} {
		if d != 0 && d < time.Second {
			return fmt.Errorf("--%s: %s is less than a second", name, d)
		}
	}
	if q := o.Queries; q.Samples < 1 || q.Concurrency < 1 || q.Timeout <= 0 {
		return errors.New("--query-max-samples, --query-concurrency and --query-timeout must be more than 0")
	}
	if o.Dir == "" {
		if o.Dir, err = stateDir(); err != nil {
			return err
		}
	}
	if err := o.readLimits(); err != nil {
		return err
	}
	if o.tokenFile != "" {
		token, err := fileio.Read(o.tokenFile, 64<<10)
		if err != nil {
			return fmt.Errorf("--token-file: %w", err)
		}
		if o.Token = strings.TrimSpace(string(token)); o.Token == "" {
			return fmt.Errorf("--token-file: %s is empty", o.tokenFile)
		}
	}
	o.Settings = o.readSettings
	return nil
}

// readLimits reads the bounds of samples and traces.
func (o *Options) readLimits() (err error) {
	if o.retention != "" {
		if o.Retention, err = source.ParseDuration(o.retention); err != nil {
			return err
		}
	}
	if o.retentionBytes != "" {
		n, err := units.ParseBase2Bytes(o.retentionBytes)
		if err != nil || n <= 0 {
			return hint.With(fmt.Errorf("--keep-size: %q is not a size", o.retentionBytes), "write it like 10GB")
		}
		o.RetentionBytes = int64(n)
	}
	if o.traceBuffer != "" {
		n, err := units.ParseBase2Bytes(o.traceBuffer)
		if err != nil || n < 1<<20 || n > 4<<30 {
			return hint.With(fmt.Errorf("--trace-buffer: %q is not a size from 1MB to 4GB", o.traceBuffer),
				"write it like 32MB")
		}
		o.TraceBytes = int(n)
	}
	return nil
}

// readSettings returns the objectives and thresholds of the flags and, where they have none, of the file.
func (o *Options) readSettings(s *monitor.Section) (diagnose.Settings, error) {
	flags := o.Judged
	flags.UseCase, flags.Promised.File = cmp.Or(flags.UseCase, s.UseCase), cmp.Or(flags.Promised.File, s.Objectives)
	if len(flags.Only) == 0 {
		flags.Only = s.Only
	}
	var fromFile []string
	for name, v := range s.Thresholds {
		fromFile = append(fromFile, name+"="+v)
	}
	slices.Sort(fromFile)
	if _, err := threshold.Parse(fromFile, o.Diagnose.Pathologies, diagnose.Thresholds()...); err != nil {
		return diagnose.Settings{}, fmt.Errorf("sixty.thresholds: %w", err)
	}
	flags.Set = append(fromFile, flags.Set...)
	set, err := flags.Read(o.Diagnose.Pathologies)
	if err != nil {
		return set, err
	}
	if path := cmp.Or(o.baseline, s.Baseline); path != "" {
		measured, err := gather.ReadIfFile(path)
		if err == nil && measured == nil {
			err = errors.New("it is not a baseline file")
		}
		if err != nil {
			return set, fmt.Errorf("baseline %s: %w", path, err)
		}
		set.Baselines = append(set.Baselines, measured)
	}
	return set, nil
}

// stateDir returns the directory for the user's state, by the XDG specification.
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

// LogTo sets the logger of the parts: warnings and errors only, unless verbose.
func (o *Options) LogTo(w io.Writer) {
	level := promslog.NewLevel()
	_ = level.Set(map[bool]string{false: "warn", true: "debug"}[o.verbose]) // both levels are valid
	o.Log = promslog.New(&promslog.Config{Level: level, Writer: w})
}
