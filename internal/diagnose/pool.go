package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/catalog"
	"github.com/sixty-dev/sixty/internal/catalog/engine"
	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/diagnose/identity"
	"github.com/sixty-dev/sixty/internal/diagnose/segments"
)

// A pool is the targets that serve one model.
type pool struct {
	snapshot *Snapshot
	only     []string // ids of the pathologies to look for, which alone say nothing of health; empty for all
	gateway  bool     // findings of a gateway before several models that concern none of them alone
	model    string   // "" where there is only one, or where nothing tells
	targets  []int
	judged   []judgement
	unjudged []Unjudged
	findings []Finding
	verdict  Verdict
}

// fleetLabels prefix a model's name where several deployments serve a model of that name.
var fleetLabels = []string{"cluster", "namespace"}

// poolsByModel makes a pool for each model that targets name. It returns the pools by key, and each target's key, "" if
// the target names no model.
func poolsByModel(s *Snapshot) (byKey map[string]*pool, keys []string) {
	byKey, keys = map[string]*pool{}, make([]string, len(s.Targets))
	names := map[string]int{}
	for i := range s.Targets {
		l := s.Targets[i].Labels
		if l["model_name"] == "" {
			continue
		}
		keys[i] = identity.LabelKey(l, identity.ModelLabels)
		if byKey[keys[i]] == nil {
			byKey[keys[i]] = &pool{snapshot: s, model: l["model_name"]}
			names[l["model_name"]]++
		}
	}
	for i := range s.Targets {
		l := s.Targets[i].Labels
		if p := byKey[keys[i]]; p != nil && p.model == l["model_name"] && names[p.model] > 1 {
			for _, n := range slices.Backward(fleetLabels) {
				if l[n] != "" {
					p.model = l[n] + "/" + p.model
				}
			}
		}
	}
	return byKey, keys
}

// poolsOf divides the targets by the model that they serve. A target that does not
// say which belongs to the only model, where there is only one. A GPU exporter
// belongs to every model that it lends its readings to.
func poolsOf(s *Snapshot, judged []judgement, missing []Unjudged) []pool {
	byKey, keys := poolsByModel(s)
	beside := s.companions()
	byTarget := map[int]judgement{}
	for _, j := range judged {
		byTarget[j.target] = j
	}
	reasons := map[string]Unjudged{}
	for _, u := range missing {
		reasons[u.Target] = u
	}
	// Models first: targets without a model may form a pool of their own.
	for _, named := range []bool{true, false} {
		for i := range s.Targets {
			if (keys[i] != "") != named {
				continue
			}
			for _, p := range poolsOfTarget(s, i, byKey, keys, beside) {
				p.targets = append(p.targets, i)
				if j, ok := byTarget[i]; ok {
					p.judged = append(p.judged, j)
				}
				if why, ok := reasons[s.Targets[i].Name]; ok {
					p.unjudged = append(p.unjudged, why)
				}
			}
		}
	}
	var out, gateways []pool
	for i := range s.Targets {
		if j, ok := byTarget[i]; ok && s.Targets[i].IsGateway() {
			if own := spreadGateway(s, j, byKey); slices.ContainsFunc(own.judged[0].outcomes,
				func(o outcome) bool { return o.status != NotApplicable }) {
				own.gateway = true
				gateways = append(gateways, *own)
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(byKey)) {
		p := byKey[k]
		if len(byKey) == 1 {
			p.model = ""
		}
		p.explainAcross()
		out = append(out, *p)
	}
	return append(out, gateways...)
}

// poolsOfTarget returns the pools to which a target belongs. It adds a pool if nothing tells the target's model.
func poolsOfTarget(s *Snapshot, i int, byKey map[string]*pool, keys []string, beside map[int]int) (of []*pool) {
	switch {
	case s.Targets[i].IsGateway():
		return nil // spreadGateway divides its findings among the pools behind it
	case keys[i] != "":
		return []*pool{byKey[keys[i]]}
	case len(byKey) == 1:
		return slices.Collect(maps.Values(byKey))
	}
	for k, lender := range beside {
		if p := byKey[keys[k]]; lender == i && p != nil && !slices.Contains(of, p) {
			of = append(of, p)
		}
	}
	if len(of) == 0 {
		if byKey[""] == nil {
			byKey[""] = &pool{snapshot: s}
		}
		of = append(of, byKey[""])
	}
	return of
}

// listUnjudged lists the targets that could not be judged: they have a problem, or show neither a fault nor enough to
// be called healthy.
func listUnjudged(s *Snapshot, judged []judgement) []Unjudged {
	var out []Unjudged
	for i := range s.Targets {
		if p := s.Targets[i].Problem; p != "" {
			out = append(out, Unjudged{Target: s.Targets[i].Name, Reason: p})
		}
	}
	for i := range judged {
		if j := &judged[i]; s.Targets[j.target].Serves() && !j.view.canBeJudged() && !j.isSick() {
			out = append(out, Unjudged{j.name(), j.reasonUnjudged(), j.stateOf().HarmlesslyAbsent()})
		}
	}
	slices.SortFunc(out, func(a, b Unjudged) int { return cmp.Compare(a.Target, b.Target) })
	return out
}

// judgePool merges the outcomes into findings and chooses the verdict.
func (p *pool) judgePool(pathologies []*catalog.Pathology) {
	for _, pathology := range pathologies {
		if !p.gateway || pathology.Scope() == indicator.Gateway {
			p.findings = append(p.findings, p.mergeOutcomes(pathology))
		}
	}
	rankFindings(p.findings)
	p.verdict = p.quietVerdict()
	leads := len(p.findings) > 0 && p.findings[0].Status == Firing && !p.findings[0].Note
	// an informational finding does not hide that somebody waits
	if leads && (p.findings[0].Severity > catalog.Info || p.verdict.Status != Pending) {
		f := &p.findings[0]
		p.verdict = Verdict{
			ID: f.Pathology.ID, Status: Firing, Severity: f.Severity, Summary: f.Summary, Targets: f.Targets,
			Since: f.Since, SinceAtLeast: f.SinceAtLeast, Confidence: f.Confidence, Workload: p.verdict.Workload,
		}
		if f.Pathology.Scope() != indicator.Gateway {
			p.verdict.Workload = p.compareWithPast(f.Targets[0])
		} else if !slices.ContainsFunc(p.findings, func(f Finding) bool {
			return f.Status == Firing && f.Pathology.Scope() != indicator.Gateway
		}) {
			p.verdict.Summary += notShown
		}
	}
	p.verdict.Model = p.model
	for i := range p.judged {
		p.verdict.All = append(p.verdict.All, p.judged[i].name())
	}
	for _, u := range p.unjudged {
		if !slices.Contains(p.verdict.All, u.Target) {
			p.verdict.All = append(p.verdict.All, u.Target)
		}
	}
}

// isServer reports whether a target of the pool serves a model itself.
func (p *pool) isServer(name string) bool {
	return slices.ContainsFunc(p.targets, func(i int) bool {
		return p.snapshot.Targets[i].Name == name && p.snapshot.Targets[i].Serves()
	})
}

// countServers counts the servers of the pool.
func (p *pool) countServers() (n int) {
	for _, i := range p.targets {
		n += boolToInt(p.snapshot.Targets[i].Serves())
	}
	return n
}

// hasOthers reports whether the pool has a server that can be judged beside those that are named, of their role.
func (p *pool) hasOthers(named []string) bool {
	roles := map[engine.Role]bool{}
	for _, i := range p.targets {
		if t := &p.snapshot.Targets[i]; t.Serves() && slices.Contains(named, t.Name) {
			roles[p.snapshot.roleOf(i)] = true
		}
	}
	return slices.ContainsFunc(p.judged, func(j judgement) bool {
		return p.isServer(j.name()) && j.view.canBeJudged() && !slices.Contains(named, j.name()) &&
			(len(roles) == 0 || roles[p.snapshot.roleOf(j.target)])
	})
}

// compareWithPast compares the named target with its own past.
func (p *pool) compareWithPast(name string) Workload {
	if i := slices.IndexFunc(p.judged, func(j judgement) bool { return j.name() == name }); i >= 0 {
		return compareWorkload(&p.judged[i])
	}
	return Workload{}
}

// comparePools orders pools, the worst first: firing ones by their findings and the requests they reach, then
// uncertain ones, then ones that could not be judged, then the rest.
func comparePools(a, b pool) int {
	order := map[Status]int{Firing: 0, Pending: 1, Unknown: 2, OK: 3}
	if by := order[a.verdict.Status] - order[b.verdict.Status]; by != 0 {
		return by
	}
	if a.verdict.Status == Firing {
		x, y := &a.findings[0], &b.findings[0]
		if by := cmp.Or(x.compare(y), cmp.Compare(y.impact, x.impact), len(y.Targets)-len(x.Targets)); by != 0 {
			return by
		}
	}
	return cmp.Compare(a.model, b.model)
}

// Confidence in a verdict that nothing is wrong.
const (
	calm         = 0.9
	notCompared  = 0.7  // there is no past to compare with
	partlyJudged = 0.75 // times the share of the targets that could be judged
	doubtful     = 0.5
)

// quietVerdict returns the verdict where nothing fires.
func (p *pool) quietVerdict() Verdict {
	names, known, mayHang, atGateway := p.divideJudged()
	if len(known) > 0 {
		p.unjudged = slices.DeleteFunc(slices.Clone(p.unjudged), func(u Unjudged) bool { return u.harmless })
	}
	total := len(known) + len(p.unjudged)
	if len(known) == 0 || 2*len(known) < total && len(mayHang) == 0 {
		return Verdict{ID: InsufficientData, Status: Unknown, Summary: p.cannotTell(len(known), total), Targets: names}
	}
	v := Verdict{ID: Healthy, Status: OK, Targets: names, Confidence: calm, Workload: compareWorkload(known[0])}
	if len(p.only) > 0 {
		v.ID = NotFound
	}
	unsure, over := p.pendingFindings()
	unsure = append(mayHang, unsure...)
	idle := !slices.ContainsFunc(known, func(j *judgement) bool { return !j.view.isIdle() })
	if idle {
		unsure = append(unsure, atGateway...) // the gateway's doubts are not the servers'
	}
	for _, j := range known {
		if j.doubt != "" {
			unsure = append(unsure, j.doubt)
		}
	}
	switch {
	case len(unsure) > 0:
		v.markUncertain(unsure...)
	case len(over) > 0:
		v.Summary, v.Confidence = "Seems to be over: "+strings.Join(over, "; "), doubtful
	case idle:
		v.ID, v.Summary = Idle, "Nobody is served, and nobody waits"
		for _, j := range known {
			if why := j.whyClientsMayWait(); why != "" {
				v.markUncertain(why)
				break
			}
		}
	default:
		p.describeHealth(&v, known)
	}
	if len(known) < total && len(mayHang) == 0 {
		v.Confidence = min(v.Confidence, partlyJudged*float64(len(known))/float64(total))
		v.Summary += fmt.Sprintf("; %d of %d targets could not be judged: %s", total-len(known), total, p.whyUnjudged())
	}
	return v
}

// divideJudged returns the names of all servers; those that could be judged, the busiest first; which of the others
// may hang; and what gateways hold that no server shows.
func (p *pool) divideJudged() (names []string, known []*judgement, mayHang, atGateway []string) {
	for i := range p.judged {
		j := &p.judged[i]
		if !p.snapshot.Targets[j.target].Serves() {
			if held := j.unservedAtGateway(); held != "" {
				atGateway = append(atGateway, held)
			}
			continue
		}
		if j.mayHang() {
			mayHang = append(mayHang, j.name()+": "+j.reasonUnjudged())
		}
		names = append(names, j.name())
		if j.view.canBeJudged() {
			known = append(known, j)
		}
	}
	for _, u := range p.unjudged {
		if !slices.Contains(names, u.Target) {
			names = append(names, u.Target)
		}
	}
	slices.Sort(names)
	slices.SortFunc(known, func(a, b *judgement) int {
		return cmp.Or(cmp.Compare(b.requestRate(), a.requestRate()), cmp.Compare(a.name(), b.name()))
	})
	return names, known, mayHang, atGateway
}

// markUncertain makes a verdict uncertain.
func (v *Verdict) markUncertain(unsure ...string) {
	if more := len(unsure) - manyReasons; more > 0 {
		unsure = append(unsure[:manyReasons], fmt.Sprintf("and %d more", more))
	}
	v.ID, v.Status, v.Summary, v.Confidence = NotCertain, Pending, notCertain+strings.Join(unsure, "; "), doubtful
}

// describeHealth says that nothing is wrong, and how sure that is by what it was compared with.
func (p *pool) describeHealth(v *Verdict, known []*judgement) {
	v.Summary = p.healthySummary(known)
	if !slices.ContainsFunc(known, func(j *judgement) bool { return !j.view.objectivesHold() }) {
		v.Summary += "; the objectives are met"
		return // nothing has to be compared
	}
	for _, j := range known {
		span := j.view.span()
		if j.view.MayHoldFault() {
			v.Confidence = min(v.Confidence, notCompared)
			if !strings.Contains(v.Summary, pastOnly) {
				v.Summary += pastOnly
			}
		}
		if span.Source != segments.NoBaseline {
			continue
		}
		v.Confidence = min(v.Confidence, notCompared) // there was no past to be worse than
		if v.Confidence > doubtful && (span.Timeline.IsDivided() || span.Window.Length() < longEnough) {
			v.Confidence = doubtful
			v.Summary += "; but there is little past to compare with"
		}
	}
}

// notCertain begins the summary of an uncertain verdict.
const notCertain = "Not certain yet: "

// pastOnly is the caveat for a server that was compared with its own history only.
const pastOnly = "; it matches its own history, but the fault may be older: check with --baseline or --slo"

// cannotTell says why there is no verdict.
func (p *pool) cannotTell(known, total int) string {
	switch {
	case total == 0 && slices.ContainsFunc(p.judged, func(j judgement) bool { return j.atGateway() }):
		return "Cannot tell: nothing is wrong at the gateway, and no server behind it is watched; give the address of one too"
	case total == 0:
		return "Cannot tell: no target is an inference server"
	case known > 0:
		return fmt.Sprintf("Cannot tell: only %d of %d targets could be judged, and nothing is wrong there: %s", known,
			total, p.whyUnjudged())
	}
	return "Cannot tell: " + p.whyUnjudged()
}

// whyUnjudged lists why targets could not be judged.
func (p *pool) whyUnjudged() string {
	var order []string
	of := map[string][]string{}
	for _, u := range p.unjudged {
		if of[u.Reason] == nil {
			order = append(order, u.Reason)
		}
		of[u.Reason] = append(of[u.Reason], u.Target)
	}
	var parts []string
	for _, why := range order {
		parts = append(parts, identity.ListNames(of[why])+": "+why)
	}
	if more := len(parts) - manyReasons; more > 0 {
		parts = append(parts[:manyReasons], fmt.Sprintf("and %d more reasons", more))
	}
	return strings.Join(parts, "; ")
}

// manyReasons is how many reasons a sentence may list.
const manyReasons = 3

// longEnough is how long a window without a change must be to show what a server without a past is like.
const longEnough = 30 * time.Second

// pendingFindings lists the findings that have not lasted long enough to be believed, or seem to be over, except those
// that another one explains and those that hurt nobody.
func (p *pool) pendingFindings() (unsure, over []string) {
	var pending []*Finding
	for i := range p.findings {
		if f := &p.findings[i]; f.Suspected() || f.ended && f.mayHurt() {
			pending = append(pending, f)
		}
	}
	for _, f := range pending {
		if slices.ContainsFunc(pending, func(by *Finding) bool { return by.explains(f) }) {
			continue
		}
		what, ago := f.Pathology.Name()+" on "+identity.ListNames(f.Targets),
			indicator.FormatNumber(p.snapshot.At.Sub(f.Since).Seconds(), indicator.Seconds)
		if f.ended {
			over = append(over, what+", begun "+ago+" ago")
		} else {
			unsure = append(unsure, what+" for "+ago)
		}
	}
	return unsure, over
}

// healthySummary says that nothing is wrong, with the latencies of a single server, or which pathologies alone were
// looked for.
func (p *pool) healthySummary(known []*judgement) string {
	if len(p.only) > 0 {
		return strings.Join(p.only, ", ") + "; nothing else was looked for"
	}
	var parts []string
	for _, sig := range []*indicator.Signal{indicator.TTFTP95, indicator.ITLP95} {
		if v := known[0].view.Now(sig); v.OK {
			parts = append(parts, fmt.Sprintf("%s %s", sig.Title, indicator.Format(v, sig.Unit)))
		}
	}
	if len(known) > 1 || len(parts) == 0 {
		return "Nothing is wrong"
	}
	return "Nothing is wrong: " + strings.Join(parts, ", ")
}
