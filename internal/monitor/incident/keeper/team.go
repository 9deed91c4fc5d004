package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/monitor/access"
	"github.com/sixty-dev/sixty/internal/monitor/incident"
)

// labelsTime is how long the labels of servers may take to be read.
const labelsTime = 5 * time.Second

// learnLabels reads the labels of servers on which open incidents were found and that are not known yet.
func (k *Keeper) learnLabels(at time.Time, q metrics.Querier) (errs error) {
	type question struct {
		record *incident.Record
		lacks  []string
	}
	var asked []question
	k.mu.Lock()
	for _, r := range k.records {
		if lacks := r.State.Where.Lacks(r.State.Instances); r.Open() && len(lacks) > 0 {
			asked = append(asked, question{r.Copy(), lacks})
		}
	}
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(k.ctx, labelsTime)
	defer cancel()
	for _, a := range asked {
		where := a.record.State.Where
		if err := k.addLabels(ctx, q, at, a.record, a.lacks, &where); err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		k.mu.Lock()
		if r := k.records[a.record.ID]; r != nil {
			r.State.Where = where
			k.dirty[r.ID] = true
		}
		k.mu.Unlock()
	}
	return errs
}

// addLabels reads the labels of servers from the series of their scrapes. Servers that have none there
// stay unknown.
func (k *Keeper) addLabels(ctx context.Context, q metrics.Querier, at time.Time, r *incident.Record, instances []string, to *incident.Labels) error {
	quoted := make([]string, len(instances))
	for i, name := range instances {
		quoted[i] = regexp.QuoteMeta(name)
	}
	matchers := []string{labels.MustNewMatcher(labels.MatchRegexp, model.InstanceLabel, strings.Join(quoted, "|")).String()}
	if r.Cluster != "" {
		matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, "cluster", r.Cluster).String())
	}
	found, err := q.Query(ctx, "up{"+strings.Join(matchers, ",")+"}", at)
	if err != nil {
		return fmt.Errorf("read the labels of the servers of incident %s: %w", r.ID, err)
	}
	for _, s := range found {
		values := labelsOf(s.Metric, r)
		to.Add(values[model.InstanceLabel], values)
	}
	return nil
}

// labelsOf returns the labels of an incident's server, from those of its scrapes.
func labelsOf(m model.Metric, r *incident.Record) map[string]string {
	values := map[string]string{"model_name": r.Model}
	for name, v := range m {
		if name != model.MetricNameLabel {
			values[string(name)] = string(v)
		}
	}
	return values
}

// sees reports whether somebody sees an incident: all servers on which it was found are in the view.
func sees(by *access.Principal, r *incident.Record) bool {
	return !by.Restricted() || len(r.State.Where.Lacks(r.State.Instances)) == 0 && by.Sees(r.State.Where.Values)
}

// seenOf returns the directories of an incident's recording with servers that somebody sees.
func seenOf(by *access.Principal, r *incident.Record) []string {
	return slices.DeleteFunc(slices.Collect(maps.Keys(r.State.Recorded)), func(directory string) bool {
		var of incident.Labels
		of.Add("", r.State.Recorded[directory])
		return !by.Sees(of.Values)
	})
}

// Check returns an error that wraps ErrUnknown for an incident that there is not, or that somebody does
// not see: the two look the same.
func (k *Keeper) Check(id string, by *access.Principal) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, err := k.find(id, by)
	return err
}

// withoutOthers is what a diagnosis says of some targets alone.
func withoutOthers(diagnosis json.RawMessage, targets []string) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(diagnosis, &all) != nil {
		return nil
	}
	out := map[string]any{"coverage": []int{}, "notes": []int{}}
	for _, name := range []string{"schema", "tool", "at", "status", "window", "baseline"} {
		out[name] = all[name]
	}
	var measured struct{ Target string }
	if json.Unmarshal(all["workload"], &measured) == nil && slices.Contains(targets, measured.Target) {
		out["workload"] = all["workload"]
	}
	all["verdict"] = slices.Concat([]byte("["), all["verdict"], []byte("]"))
	for _, name := range []string{"verdict", "verdicts", "findings", "targets", "plots"} {
		var parts, own []json.RawMessage
		if json.Unmarshal(all[name], &parts) != nil {
			continue // there are none
		}
		for _, part := range parts {
			var of struct {
				Name    string
				Targets []string
				Lines   []struct{ Name string }
			}
			if json.Unmarshal(part, &of) != nil {
				return nil
			}
			names := of.Targets
			for _, l := range of.Lines {
				names = append(names, l.Name)
			}
			if name == "targets" {
				names = []string{of.Name}
			}
			if !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(targets, n) }) {
				own = append(own, part)
			}
		}
		switch {
		case name != "verdict":
			out[name] = own
		case len(own) == 0:
			return nil // it is of others too
		default:
			out[name] = own[0]
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil
	}
	return text
}
