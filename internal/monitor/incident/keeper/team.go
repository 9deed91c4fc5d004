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

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/metrics"
	"github.com/sixty-dev/sixty/internal/monitor/access"
	"github.com/sixty-dev/sixty/internal/monitor/incident"
)

// labelsTime bounds the time for reading the labels of servers.
const labelsTime = 5 * time.Second

// learnLabels reads the labels of the servers of open incidents that have none yet, from the up series of their
// scrapes.
func (k *Keeper) learnLabels(at time.Time, q metrics.Querier) (errs error) {
	var incomplete []*incident.Record
	k.mu.Lock()
	for _, r := range k.byID {
		if r.Open() && len(unlabelled(r)) > 0 {
			incomplete = append(incomplete, r.Copy())
		}
	}
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(k.ctx, labelsTime)
	defer cancel()
	for _, c := range incomplete {
		matchers := []*labels.Matcher{indicator.Like(model.InstanceLabel, quoteAll(unlabelled(c)))}
		if c.Cluster != "" {
			matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, "cluster", c.Cluster))
		}
		found, err := q.Query(ctx, indicator.Selector("up", matchers...), at)
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("read the labels of the servers of incident %s: %w", c.ID, err))
			continue
		}
		k.mu.Lock()
		if r := k.byID[c.ID]; r != nil {
			if r.State.ServerLabels == nil {
				r.State.ServerLabels = map[string]map[string]string{}
			}
			for _, s := range found {
				r.State.ServerLabels[string(s.Metric[model.InstanceLabel])] = labelsOf(s.Metric, r)
			}
			k.dirty[r.ID] = true
		}
		k.mu.Unlock()
	}
	return errs
}

// unlabelled lists the servers of an incident without known labels.
func unlabelled(r *incident.Record) []string {
	known := func(instance string) bool { return r.State.ServerLabels[instance] != nil }
	return slices.DeleteFunc(slices.Clone(r.State.Instances), known)
}

// quoteAll returns a regular expression that matches each of the texts.
func quoteAll(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = regexp.QuoteMeta(text)
	}
	return strings.Join(quoted, "|")
}

// labelsOf returns the labels of an incident's server: those of its scrapes, and the model's name.
func labelsOf(m model.Metric, r *incident.Record) map[string]string {
	values := map[string]string{"model_name": r.Model}
	for name, v := range m {
		if name != model.MetricNameLabel {
			values[string(name)] = string(v)
		}
	}
	return values
}

// sees reports whether a principal sees an incident: it must see all servers of the incident.
func sees(by *access.Principal, r *incident.Record) bool {
	return !by.Restricted() || len(unlabelled(r)) == 0 && len(r.State.ServerLabels) > 0 &&
		len(seenKeys(r.State.ServerLabels, by)) == len(r.State.ServerLabels)
}

// seenKeys returns the keys of the label sets that a principal sees.
func seenKeys(labelSets map[string]map[string]string, by *access.Principal) []string {
	hidden := func(key string) bool { return !by.Sees(labelSets[key]) }
	return slices.DeleteFunc(slices.Collect(maps.Keys(labelSets)), hidden)
}

// Check returns an error that wraps ErrUnknown if there is no such incident, or if the principal does not see it: the
// two look the same.
func (k *Keeper) Check(id string, by *access.Principal) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, err := k.findRecord(id, by)
	return err
}

// onlyTargets is what a diagnosis says of some targets alone.
func onlyTargets(diagnosis json.RawMessage, targets []string) json.RawMessage {
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
