package trace

import (
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose"
)

// stateSignals are the signals in Report.State.
var stateSignals = []*indicator.Signal{
	indicator.Waiting, indicator.Running, indicator.KVUsage, indicator.QueueTimeMean,
	indicator.TTFTP95, indicator.ITLMean,
}

// findTarget returns the index of an instance's server, or of the only server, or -1.
func findTarget(d *diagnose.Diagnosis, instance string) int {
	var all []int
	for i := range d.Targets {
		t := &d.Targets[i]
		if !t.Serves() {
			continue
		}
		host, _, _ := strings.Cut(t.Labels["instance"], ":")
		if instance != "" && slices.Contains([]string{t.Labels["pod"], t.Labels["instance"], host}, instance) {
			return i
		}
		all = append(all, i)
	}
	if len(all) == 1 {
		return all[0]
	}
	return -1
}

// JudgeIn judges as Judge does, with normal times from a diagnosis of the servers at that time. It adds the verdict and
// the state of the servers.
func JudgeIn(t *Trace, others Population, d *diagnose.Diagnosis) *Report {
	r := Judge(t, others, NormalIn(d))
	r.addMoment(d)
	return r
}

// NormalIn returns the normal times of a diagnosis.
func NormalIn(d *diagnose.Diagnosis) Known {
	return func(r *Row) (float64, string, bool) {
		i := findTarget(d, r.Instance)
		if !r.Engine || i < 0 {
			return 0, "", false
		}
		signal, times := indicator.QueueTimeMean, 1.0
		switch r.Phase {
		case Prefill:
			signal, times = indicator.PrefillTimePerToken, float64(r.Tokens)
		case Decode:
			signal, times = indicator.TPOTMean, float64(r.Tokens)
		case Queue:
		default:
			return 0, "", false
		}
		_, normal := d.Reading(i, signal)
		if !normal.OK || times == 0 {
			return 0, "", false
		}
		return normal.V * times, "metrics of " + d.Targets[i].Name, true
	}
}

// addMoment adds a diagnosis: the verdict on the request's model, and the state of the servers that the request passed.
func (r *Report) addMoment(d *diagnose.Diagnosis) {
	v := &d.Verdict
	for i := range d.Verdicts {
		if d.Verdicts[i].Model == r.Model && r.Model != "" {
			v = &d.Verdicts[i]
		}
	}
	r.Verdict = &Verdict{ID: v.ID, Summary: v.Summary}
	if v.Status == diagnose.Firing {
		r.Verdict.Severity = v.Severity.String()
	}
	if !v.Since.IsZero() {
		r.Verdict.Since = new(v.Since.UTC())
	}
	r.At = new(d.At.UTC().Truncate(time.Millisecond))
	var done []int
	for k := range r.Rows {
		i := findTarget(d, r.Rows[k].Instance)
		if !r.Rows[k].Engine || i < 0 || slices.Contains(done, i) {
			continue
		}
		done = append(done, i)
		for _, s := range stateSignals {
			now, normal := d.Reading(i, s)
			if now.OK {
				q := Quantity{
					Target: d.Targets[i].Name, Title: s.Title, Unit: string(s.Unit),
					Now: &now.V, NowText: indicator.FormatBound(now, s.Unit),
				}
				if normal.OK {
					q.Normal, q.NormalText = &normal.V, indicator.FormatBound(normal, s.Unit)
				}
				r.State = append(r.State, q)
			}
		}
	}
}
