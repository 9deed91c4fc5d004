package diagnose

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
)

// mergeOutcomes makes one finding of a pathology's outcomes on all targets of a pool.
func (p *pool) mergeOutcomes(pathology *catalog.Pathology) Finding {
	f := Finding{Pathology: pathology, Model: p.model, Severity: pathology.Severity, Status: NotApplicable}
	if len(p.judged) == 0 && pathology.Scope() != indicator.Gateway {
		f.Status = Unknown
		for _, u := range p.unjudged {
			f.Targets = append(f.Targets, u.Target)
		}
	}
	all := p.outcomesOf(pathology)
	if len(all) == 0 {
		return f
	}
	worst := all[0]
	var more []string // more targets beside the first
	since := worst.since
	f.ended = worst.ended
	for _, o := range all {
		switch {
		case o.status != worst.status:
		case !slices.Contains(f.Targets, o.name()):
			f.Targets = append(f.Targets, o.name())
			f.impact += o.requestRate()
		case o.part.name != "" && o.name() == worst.name():
			more = append(more, o.part.name)
		}
		if o.status == worst.status {
			f.ended, f.likely = f.ended && o.ended, f.likely || o.likely
			if o.since.IsBefore(since) {
				since = o.since
			}
		}
	}
	f.Status, f.Severity, f.Evidence, f.Confidence, f.part = worst.status, worst.severity, worst.evidence,
		worst.confidence, worst.part
	f.Note, f.Wait = worst.note, worst.wait
	if f.Evidence == nil {
		_, f.Evidence = worst.view.of(worst.part).eval(worst.when)
	}
	if f.Status >= Pending {
		f.Since, f.SinceAtLeast, f.DatedBy = since.At, since.AtLeast, since.By
	}
	f.Servers = p.countServers()
	if slices.ContainsFunc(f.Targets, p.isServer) { // a GPU exporter lends its readings to them
		f.Targets = slices.DeleteFunc(f.Targets, func(t string) bool { return !p.isServer(t) })
	}
	switch f.Status {
	case Firing:
		p.describeFinding(&f, worst, more)
	case OK:
		f.RuledOutBy = clearestRefutation(f.Evidence)
	}
	return f
}

// judgedOutcome is an outcome with the judgement of its target.
type judgedOutcome struct {
	*outcome
	*judgement
}

// outcomesOf lists a pathology's outcomes on the pool's targets, the worst first. The order of the targets does not
// matter.
func (p *pool) outcomesOf(pathology *catalog.Pathology) (all []judgedOutcome) {
	for i := range p.judged {
		for k := range p.judged[i].outcomes {
			if o := &p.judged[i].outcomes[k]; o.pathology == pathology && o.status != NotApplicable {
				all = append(all, judgedOutcome{o, &p.judged[i]})
			}
		}
	}
	slices.SortFunc(all, func(a, b judgedOutcome) int {
		explained := func(o judgedOutcome) int { return min(1, len(o.inhibitedBy)) }
		return cmp.Or(
			cmp.Compare(rankOf(b.status), rankOf(a.status)), explained(a)-explained(b),
			cmp.Compare(b.severity, a.severity),
			cmp.Compare(b.confidence, a.confidence), cmp.Compare(b.requestRate(), a.requestRate()),
			cmp.Compare(a.name(), b.name()),
		)
	})
	return all
}

// describeFinding adds the texts and fixes of the worst outcome to a finding that fires. more names further parts of
// its target.
func (p *pool) describeFinding(f *Finding, worst judgedOutcome, more []string) {
	f.Summary, f.Reasons, f.Fixes, f.InhibitedBy = worst.pass.Summary, worst.pass.Reasons, worst.pass.Fixes,
		worst.inhibitedBy
	f.Chain = worst.chain
	if !p.hasOthers(f.Targets) {
		f.Fixes = slices.DeleteFunc(f.Fixes, func(x catalog.Fix) bool { return x.Others })
	}
	if n := len(f.Targets); n > 1 && slices.Contains(f.Targets, worst.name()) {
		f.Summary += fmt.Sprintf(" (on %s, one of %d)", worst.name(), n)
	}
	if len(more) > 0 {
		f.Summary += "; also on " + strings.Join(more, ", ")
	}
}

// rankOf orders outcomes for merging: a finding that fires anywhere wins over one that could not be checked
// somewhere.
func rankOf(s Status) int {
	return [...]int{NotApplicable: 0, OK: 1, Unknown: 2, Pending: 3, Firing: 4}[s]
}

// clearestRefutation returns the comparison that most clearly does not hold.
func clearestRefutation(evidence []catalog.Evidence) *catalog.Evidence {
	var best *catalog.Evidence
	bestMargin := -1.0
	for i := range evidence {
		e := &evidence[i]
		if e.Holds != catalog.False || math.IsNaN(e.Threshold) {
			continue
		}
		margin := 10.0 // a zero on the right side of a threshold is as clear as can be
		if e.Value.V > 0 && e.Threshold > 0 {
			margin = min(margin, math.Abs(math.Log2(e.Value.V/e.Threshold)))
		}
		if margin > bestMargin {
			best, bestMargin = e, margin
		}
	}
	return best
}

// rankFindings orders findings for reading: firing ones that no other explains, the worst first, then the rest. Between
// equals the catalogue's order decides: causes before symptoms.
func rankFindings(fs []Finding) {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		leads := func(f *Finding) bool { return f.Status == Firing && f.InhibitedBy == "" && !f.Note }
		if leads(&a) && leads(&b) {
			return a.compare(&b)
		}
		return cmp.Or(rankOf(b.Status)-rankOf(a.Status), boolToInt(leads(&b))-boolToInt(leads(&a)))
	})
}

// compare puts first what hurts somebody: a server that never served anybody is dead,
// but a slow one beside it has users. Then the severity decides.
func (f *Finding) compare(other *Finding) int {
	hurts := func(f *Finding) int { return boolToInt(f.impact > 0 && f.Severity > catalog.Info) }
	info := func(f *Finding) int { return boolToInt(f.Severity > catalog.Info) }
	return cmp.Or(info(other)-info(f), hurts(other)-hurts(f), cmp.Compare(other.Severity, f.Severity))
}
