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

// labelsTime is how long the labels of servers may take to be read.
const labelsTime = 5 * time.Second

// learnLabels reads the labels of servers on which open incidents were found and that are not known yet, from the
// series of their scrapes. Servers that have none there stay unknown.
func (k *Keeper) learnLabels(at time.Time, q metrics.Querier) (errs error) {
	var asked []*incident.Record
	k.mu.Lock()
	for _, r := range k.byID {
		if r.Open() && len(unlabelled(r)) > 0 {
			asked = append(asked, r.Copy())
		}
	}
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(k.ctx, labelsTime)
	defer cancel()
	for _, a := range asked {
		matchers := []*labels.Matcher{indicator.Like(model.InstanceLabel, quoteAll(unlabelled(a)))}
		if a.Cluster != "" {
			matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, "cluster", a.Cluster))
		}
		found, err := q.Query(ctx, indicator.Selector("up", matchers...), at)
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("read the labels of the servers of incident %s: %w", a.ID, err))
			continue
		}
		k.mu.Lock()
		if r := k.byID[a.ID]; r != nil {
			if r.State.Where == nil {
				r.State.Where = map[string]map[string]string{}
			}
			for _, s := range found {
				r.State.Where[string(s.Metric[model.InstanceLabel])] = labelsOf(s.Metric, r)
			}
			k.dirty[r.ID] = true
		}
		k.mu.Unlock()
	}
	return errs
}

// unlabelled lists the servers of an incident whose labels are not known.
func unlabelled(r *incident.Record) []string {
	return slices.DeleteFunc(slices.Clone(r.State.Instances), func(i string) bool { return r.State.Where[i] != nil })
}

// quoteAll is a regular expression that matches each of some texts.
func quoteAll(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = regexp.QuoteMeta(text)
	}
	return strings.Join(quoted, "|")
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
	return !by.Restricted() || len(unlabelled(r)) == 0 && len(r.State.Where) > 0 &&
		len(seenAmong(r.State.Where, by)) == len(r.State.Where)
}

// seenAmong returns the keys of labels that somebody sees.
func seenAmong(of map[string]map[string]string, by *access.Principal) []string {
	return slices.DeleteFunc(slices.Collect(maps.Keys(of)), func(key string) bool { return !by.Sees(of[key]) })
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
