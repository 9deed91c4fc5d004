package monitor

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	amconfig "github.com/prometheus/alertmanager/config"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/monitor/access"
)

// maxConfig bounds a configuration file.
const maxConfig = 16 << 20

// DefaultEvery is the time between two evaluations.
const DefaultEvery = 15 * time.Second

// A Config is the configuration file of the monitor: the sections of Prometheus, with its names and meaning, and the
// section "sixty".
type Config struct {
	Prometheus *config.Config
	Sixty      Section
}

// Section is "sixty" in the configuration.
type Section struct {
	// EvaluationInterval is the time between two evaluations of all pathologies.
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`

	UseCase    string            `yaml:"use_case"`   // as --use-case
	Objectives string            `yaml:"objectives"` // a file, as --slo
	Baseline   string            `yaml:"baseline"`   // a file, as --baseline
	Thresholds map[string]string `yaml:"thresholds"` // as --set
	Only       []string          `yaml:"only"`       // as --only

	// Rules is ignored: old files have it.
	Rules *bool `yaml:"rules"`

	Alerts    AlertSettings `yaml:"alerts"`
	Receivers Receivers     `yaml:"receivers"`
	Heartbeat string        `yaml:"heartbeat"` // the receiver of a heartbeat every minute
	Incidents Incidents     `yaml:"incidents"`
	Gateways  []string      `yaml:"gateways"`

	// Access says who may see and do what. If nil, every authenticated user may do everything.
	Access *access.Config `yaml:"access"`

	// Anomalies switch the plain detector of package anomaly on, beside the judgement.
	Anomalies AnomalySettings `yaml:"anomalies"`
}

// AlertSettings configure the alerts that are sent.
type AlertSettings struct {
	Labels        map[string]string `yaml:"labels"`          // added to each
	Severities    map[string]string `yaml:"severities"`      // names for page, ticket and info
	KeepFiringFor model.Duration    `yaml:"keep_firing_for"` // after the fault was found last
}

// Incidents configures the store of incidents.
type Incidents struct {
	Retention model.Duration `yaml:"retention"`
}

// Receivers get alerts without an Alertmanager. Their configuration is Alertmanager's, and Alertmanager's code reads
// it.
type Receivers []amconfig.Receiver

// UnmarshalYAML lets Alertmanager's package read each receiver, in a generated configuration of that receiver alone.
// Errors name the line of the receiver.
func (rs *Receivers) UnmarshalYAML(list *yaml.Node) error {
	var nodes []yaml.Node
	if err := list.Decode(&nodes); err != nil {
		return err
	}
	for i := range nodes {
		var named struct {
			Name string `yaml:"name"`
		}
		var cfg *amconfig.Config
		err := nodes[i].Decode(&named)
		if err == nil {
			cfg, err = loadReceiver(&nodes[i], named.Name)
		}
		if err == nil && slices.ContainsFunc(*rs, func(o amconfig.Receiver) bool { return o.Name == named.Name }) {
			err = errors.New("the name is not unique")
		}
		if err != nil {
			return fmt.Errorf("line %d: receiver %q: %s", nodes[i].Line, named.Name,
				lineOfError.ReplaceAllString(stripYAMLPrefix(err).Error(), ""))
		}
		*rs = append(*rs, cfg.Receivers[0])
	}
	return nil
}

// lineOfError matches the line number of a YAML error in generated text.
var lineOfError = regexp.MustCompile(`^line \d+: `)

func loadReceiver(r *yaml.Node, name string) (*amconfig.Config, error) {
	text, err := yaml.Marshal(map[string]any{"receivers": []*yaml.Node{r},
		"route": map[string]string{"receiver": name}})
	if err != nil {
		return nil, err
	}
	return amconfig.Load(string(text))
}

// joinDirectory makes the paths in receivers relative to a directory: those of fields whose names end in _file, and of
// types that implement DirectorySetter.
func joinDirectory(of reflect.Value, dir string) {
	switch of.Kind() {
	case reflect.Slice:
		for i := range of.Len() {
			joinDirectory(of.Index(i), dir)
		}
	case reflect.Pointer:
		if setter, ok := of.Interface().(promconfig.DirectorySetter); ok {
			setter.SetDirectory(dir)
		} else if !of.IsNil() {
			joinDirectory(of.Elem(), dir)
		}
	case reflect.Struct:
		for field, v := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			switch {
			case !field.IsExported():
			case v.Kind() == reflect.String && strings.HasSuffix(name, "_file"):
				v.SetString(promconfig.JoinDir(dir, v.String()))
			default:
				joinDirectory(v, dir)
			}
		}
	}
}

// ownSection is the key of sixty's section. The other sections are Prometheus'.
const ownSection = "sixty"

// LoadConfig reads and checks a configuration file. Paths in it are relative to the file. If every is not 0, it is
// the scrape interval of jobs without one of their own.
func LoadConfig(path string, every time.Duration, log *slog.Logger) (*Config, error) {
	content, err := fileio.Read(path, maxConfig)
	if err != nil {
		return nil, err
	}
	c, err := ParseConfig(content, every, log)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	dir := filepath.Dir(path)
	c.Prometheus.SetDirectory(dir)
	joinDirectory(reflect.ValueOf(c.Sixty.Receivers), dir)
	files := []*string{&c.Sixty.Objectives, &c.Sixty.Baseline}
	if a := c.Sixty.Access; a != nil {
		files = append(files, &a.AuditLog)
	}
	for _, p := range files {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	return c, nil
}

// ParseConfig parses a configuration; see LoadConfig. Errors name the line.
func ParseConfig(content []byte, every time.Duration, log *slog.Logger) (*Config, error) {
	ours, theirs, err := splitSections(content)
	if err != nil {
		return nil, err
	}
	c := &Config{}
	d := yaml.NewDecoder(bytes.NewReader(ours))
	d.KnownFields(true)
	own := struct {
		Sixty *Section `yaml:"sixty"`
	}{&c.Sixty}
	if err := d.Decode(&own); err != nil && len(bytes.TrimSpace(ours)) > 0 {
		return nil, stripYAMLPrefix(err)
	}
	if c.Sixty.Rules != nil {
		log.Warn("sixty.rules is no longer a setting: load what sixty generate rules writes by rule_files, " +
			"and remove it")
	}
	if c.Prometheus, err = config.Load(string(theirs), log); err != nil { // errors have the lines of the file
		return nil, stripYAMLPrefix(err)
	}
	if err := setScrapeInterval(c.Prometheus, theirs, every); err != nil {
		return nil, err
	}
	return c, c.Sixty.validate()
}

// setScrapeInterval sets the scrape interval of the jobs without one of their own: every if it is not 0, else the
// default if the text has no global interval. A scrape times out before the next one.
func setScrapeInterval(cfg *config.Config, text []byte, every time.Duration) error {
	type interval struct {
		Text string `yaml:"scrape_interval"`
	}
	var written struct {
		Global interval   `yaml:"global"`
		Jobs   []interval `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal(text, &written); err != nil {
		return stripYAMLPrefix(err)
	}
	if every == 0 && written.Global.Text != "" {
		return nil
	}
	each, global := model.Duration(cmp.Or(every, metrics.DefaultInterval)), &cfg.GlobalConfig
	global.ScrapeInterval, global.ScrapeTimeout = each, min(each, global.ScrapeTimeout)
	for i, s := range cfg.ScrapeConfigs {
		if written.Jobs[i].Text == "" {
			s.ScrapeInterval, s.ScrapeTimeout = each, min(each, s.ScrapeTimeout)
		}
	}
	return nil
}

func (s *Section) validate() error {
	if s.EvaluationInterval == 0 {
		s.EvaluationInterval = model.Duration(DefaultEvery)
	}
	if every := time.Duration(s.EvaluationInterval); every < time.Second || every > time.Hour {
		return fmt.Errorf("sixty.evaluation_interval: %s is not between a second and an hour", every)
	}
	if s.Access != nil {
		if err := s.Access.Check(); err != nil {
			return hint.With(fmt.Errorf("sixty.access.%w", err), hint.Of(err))
		}
	}
	if !slices.ContainsFunc(s.Receivers, func(r amconfig.Receiver) bool { return r.Name == s.Heartbeat }) &&
		s.Heartbeat != "" {
		return hint.With(fmt.Errorf("sixty.heartbeat: there is no receiver %q", s.Heartbeat),
			"name one of sixty.receivers")
	}
	for k := range s.Alerts.Severities {
		if k != "page" && k != "ticket" && k != "info" {
			return hint.With(fmt.Errorf("sixty.alerts.severities: there is no severity %q", k),
				"they are page, ticket and info")
		}
	}
	return s.Anomalies.validate()
}

// splitSections splits a configuration into sixty's section and the others. Each part has empty lines in the place of
// the other part, so that line numbers in errors are right.
func splitSections(content []byte) (ours, theirs []byte, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(content, &doc); err != nil {
		return nil, nil, stripYAMLPrefix(err)
	}
	if len(doc.Content) == 0 {
		return nil, content, nil
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, nil, fmt.Errorf("line %d: a configuration is a mapping of sections", top.Line)
	}
	lines := bytes.SplitAfter(content, []byte("\n"))
	from, to := 0, 0 // lines of ours, counted from 1
	for i := 0; i < len(top.Content); i += 2 {
		key := top.Content[i]
		if key.Value != ownSection {
			continue
		}
		if top.Style&yaml.FlowStyle != 0 {
			return nil, nil, fmt.Errorf("line %d: write the sections one below the other, not in braces", key.Line)
		}
		from, to = key.Line, len(lines)+1
		if i+2 < len(top.Content) {
			to = top.Content[i+2].Line
		}
	}
	for i, line := range lines {
		empty := line[len(bytes.TrimRight(line, "\n")):]
		if n := i + 1; n >= from && n < to {
			ours, theirs = append(ours, line...), append(theirs, empty...)
		} else {
			ours, theirs = append(ours, empty...), append(theirs, line...)
		}
	}
	return ours, theirs, nil
}

// stripYAMLPrefix removes the prefixes of YAML's packages from an error, and joins its lines.
func stripYAMLPrefix(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.TrimPrefix(text, "unmarshal errors:\n")
	var parts []string
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return errors.New(strings.Join(parts, "; "))
}
