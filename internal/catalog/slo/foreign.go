package slo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// format tells apart the files that promise something.
type format uint8

const (
	own format = iota
	sloth
	openSLO
)

// formatOf looks at the first document's keys. What is no YAML is left to the
// parser of slo.yaml to complain about.
func formatOf(content []byte) format {
	var head struct {
		Version    string `yaml:"version"`
		APIVersion string `yaml:"apiVersion"`
	}
	if err := yaml.NewDecoder(bytes.NewReader(content)).Decode(&head); err != nil {
		return own
	}
	switch {
	case strings.HasPrefix(head.Version, "prometheus/"):
		return sloth
	case strings.HasPrefix(head.APIVersion, "openslo"):
		return openSLO
	}
	return own
}

// slothFile is what is read of a file of Sloth (sloth.dev/specs/default). Its
// alerting is left out: the rules here have their own.
type slothFile struct {
	Version string     `yaml:"version"`
	SLOs    []slothSLO `yaml:"slos"`
}

type slothSLO struct {
	Name      string  `yaml:"name"`
	Objective float64 `yaml:"objective"` // per cent
	SLI       struct {
		Events struct {
			Error string `yaml:"error_query"`
			Total string `yaml:"total_query"`
		} `yaml:"events"`
		Raw struct {
			ErrorRatio string `yaml:"error_ratio_query"`
		} `yaml:"raw"`
		Plugin struct {
			ID string `yaml:"id"`
		} `yaml:"plugin"`
	} `yaml:"sli"`
}

func parseSloth(content []byte) (*File, error) {
	var raw slothFile
	dec := yaml.NewDecoder(bytes.NewReader(content))
	if err := dec.Decode(&raw); err != nil {
		return nil, located(err, content)
	}
	if raw.Version != "prometheus/v1" {
		return nil, fmt.Errorf("version %q of Sloth's files is not known: want prometheus/v1", raw.Version)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the first YAML document: give each of Sloth's documents its own file")
	}
	var c collection
	for i, s := range raw.SLOs {
		if err := c.sloth(s); err != nil {
			return nil, refuse(fmt.Errorf("SLO %d (%s): %w", i+1, s.Name, err))
		}
	}
	return c.file()
}

func (c *collection) sloth(s slothSLO) error {
	if !(s.Objective > 0 && s.Objective < 100) {
		return fmt.Errorf("an objective of %v %% leaves no error budget or promises nothing", s.Objective)
	}
	var i indication
	var err error
	switch {
	case s.SLI.Events.Error != "" && s.SLI.Events.Total != "":
		i, err = indicate(s.SLI.Events.Error, s.SLI.Events.Total, true)
	case s.SLI.Raw.ErrorRatio != "":
		i, err = indicateRatio(s.SLI.Raw.ErrorRatio)
	case s.SLI.Plugin.ID != "":
		return fmt.Errorf("its indicator is made by the plugin %s, whose queries are not in the file", s.SLI.Plugin.ID)
	default:
		return errors.New("no indicator: want sli.events with error_query and total_query, or sli.raw")
	}
	if err != nil {
		return err
	}
	return c.add(s.Name, s.Objective/100, i)
}

// openSLODocument is what is read of a document of OpenSLO v1
// (github.com/OpenSLO/OpenSLO, README).
type openSLODocument struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Spec struct {
		Indicator struct {
			Spec openSLI `yaml:"spec"`
		} `yaml:"indicator"`
		IndicatorRef string `yaml:"indicatorRef"`
		TimeWindow   []struct {
			Duration  string `yaml:"duration"`
			IsRolling *bool  `yaml:"isRolling"`
		} `yaml:"timeWindow"`
		BudgetingMethod string `yaml:"budgetingMethod"`
		Objectives      []struct {
			Target        float64 `yaml:"target"`
			TargetPercent float64 `yaml:"targetPercent"`
		} `yaml:"objectives"`
		openSLI `yaml:",inline"`
	} `yaml:"spec"`
}

type openSLI struct {
	Ratio *struct {
		Good  openSLOMetric `yaml:"good"`
		Bad   openSLOMetric `yaml:"bad"`
		Total openSLOMetric `yaml:"total"`
	} `yaml:"ratioMetric"`
	Threshold *yaml.Node `yaml:"thresholdMetric"`
}

type openSLOMetric struct {
	Source struct {
		Type string    `yaml:"type"`
		Spec yaml.Node `yaml:"spec"` // a query, or a mapping that holds one
	} `yaml:"metricSource"`
}

func (m openSLOMetric) query() string {
	n := resolve(&m.Source.Spec)
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		if n.Content[i].Value == "query" {
			return resolve(n.Content[i+1]).Value
		}
	}
	return ""
}

func parseOpenSLO(content []byte) (*File, error) {
	var documents []openSLODocument
	indicators := map[string]openSLI{}
	dec := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var d openSLODocument
		err := dec.Decode(&d)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, located(err, content)
		}
		if d.APIVersion != "openslo/v1" && d.APIVersion != "openslo.com/v1" {
			return nil, fmt.Errorf("apiVersion %q is not known: want openslo/v1", d.APIVersion)
		}
		switch d.Kind {
		case "SLO":
			documents = append(documents, d)
		case "SLI":
			indicators[d.Metadata.Name] = d.Spec.openSLI
		}
	}
	var c collection
	for _, d := range documents {
		if err := c.openSLO(d, indicators); err != nil {
			return nil, refuse(fmt.Errorf("SLO %s: %w", d.Metadata.Name, err))
		}
	}
	return c.file()
}

func (c *collection) openSLO(d openSLODocument, indicators map[string]openSLI) error {
	if m := d.Spec.BudgetingMethod; m != "" && m != "Occurrences" {
		return fmt.Errorf("budgetingMethod %s promises shares of time; the rules count requests: want Occurrences", m)
	}
	if err := c.window(d); err != nil {
		return err
	}
	sli := d.Spec.Indicator.Spec
	if ref := d.Spec.IndicatorRef; ref != "" {
		var ok bool
		if sli, ok = indicators[ref]; !ok {
			return fmt.Errorf("its indicator %s is not in the file", ref)
		}
	}
	if sli.Ratio == nil {
		if sli.Threshold != nil {
			return errors.New("a thresholdMetric promises shares of time; the rules count requests: want a ratioMetric")
		}
		return errors.New("no ratioMetric")
	}
	some, bad := sli.Ratio.Good.query(), false
	if some == "" {
		some, bad = sli.Ratio.Bad.query(), true
	}
	i, err := indicate(some, sli.Ratio.Total.query(), bad)
	if err != nil {
		return err
	}
	if len(d.Spec.Objectives) == 0 {
		return errors.New("no objectives")
	}
	for _, o := range d.Spec.Objectives {
		share := o.Target
		if o.TargetPercent != 0 {
			share = o.TargetPercent / 100
		}
		if !(share > 0 && share < 1) {
			return fmt.Errorf("a target of %v leaves no error budget or promises nothing", share)
		}
		if err := c.add(d.Metadata.Name, share, i); err != nil {
			return err
		}
	}
	return nil
}

// window reads the period of an OpenSLO, which all of a file must share.
func (c *collection) window(d openSLODocument) error {
	for _, w := range d.Spec.TimeWindow {
		if w.IsRolling != nil && !*w.IsRolling {
			return errors.New("a calendar's time window: the rules know rolling ones alone")
		}
		p, err := model.ParseDuration(w.Duration)
		if err != nil {
			return fmt.Errorf("a time window of %q: want days or weeks, such as 30d or 4w", w.Duration)
		}
		if c.period != 0 && c.period != time.Duration(p) {
			return errors.New("its time window differs from those before it: give each its own file")
		}
		c.period = time.Duration(p)
	}
	return nil
}

// refuse says what can be done with a file that is not understood.
func refuse(err error) error {
	return hint.With(err, "write the promise in slo.yaml: see docs/slo.md; of Sloth and OpenSLO, ratios of requests by vLLM's latency histograms or http_requests_total are understood")
}

// collection gathers the promises of a foreign file. Those with equal matchers
// become one objective: of several that match a target the first counts.
type collection struct {
	objectives []Objective
	period     time.Duration
	notes      []string
}

func (c *collection) add(name string, share float64, i indication) error {
	for _, m := range i.dropped {
		c.notes = append(c.notes, fmt.Sprintf("%s: %s was left out: objectives match model_name, namespace, cluster and service", name, m))
	}
	o := i.matchers
	at := slices.IndexFunc(c.objectives, func(have Objective) bool {
		return have.Model == o.Model && have.Namespace == o.Namespace && have.Cluster == o.Cluster && have.Service == o.Service
	})
	if at < 0 {
		c.objectives, at = append(c.objectives, o), len(c.objectives)
	}
	return c.objectives[at].addPromise(i.quantity, share, i.target)
}

// addPromise adds a promise to an objective.
func (o *Objective) addPromise(q Quantity, share float64, target time.Duration) error {
	twice := fmt.Errorf("%s is promised twice for the same targets", q)
	share = math.Round(share*1e9) / 1e9 // 99.9 / 100
	if q == Succeeded {
		if o.Availability != 0 {
			return twice
		}
		o.Availability = share
		return nil
	}
	usual, further := &o.TTFTP95, &o.TTFT
	switch q {
	case ITL:
		usual, further = &o.ITLP95, &o.ITL
	case E2E:
		usual, further = &o.E2EP95, &o.E2E
	}
	if share == p95 {
		if *usual != 0 && further.Target != *usual {
			return twice
		}
		*usual = target
		return nil
	}
	if further.Target != 0 {
		return fmt.Errorf("%s: one percentile beside the P95 can be promised for the same targets", q)
	}
	*further = Percentile{share, target}
	implyP95(usual, further)
	return nil
}

// file returns what was gathered, the objectives with the most matchers first:
// foreign files know no order.
func (c *collection) file() (*File, error) {
	if len(c.objectives) == 0 {
		return nil, errors.New("no objectives")
	}
	slices.SortStableFunc(c.objectives, func(a, b Objective) int { return len(b.globs()) - len(a.globs()) })
	if n := len(c.objectives); n > 1 && len(c.objectives[n-1].globs()) == 0 {
		c.notes = append(c.notes, "of several objectives that match a target, the one with the most matchers counts, alone")
	}
	slices.Sort(c.notes)
	return &File{Objectives: c.objectives, Period: c.period, Notes: slices.Compact(c.notes)}, nil
}
