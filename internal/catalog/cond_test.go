package catalog

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sixty-dev/sixty/internal/catalog/indicator"
	"github.com/sixty-dev/sixty/internal/catalog/slo"
)

// readings is a View of fixed numbers; what it does not hold is unknown.
type readings struct {
	now, normal map[*indicator.Signal]float64
	limits      map[string]float64 // by threshold name
	source      string
	lifetime    bool      // the baseline is the counters' own past, not earlier samples
	peers       *readings // what is new, and its peers are not
}

func (r readings) Now(s *indicator.Signal) indicator.Value    { return lookUp(r.now, s) }
func (r readings) Normal(s *indicator.Signal) indicator.Value { return lookUp(r.normal, s) }
func (r readings) Limit(t *Threshold) (float64, string, bool) {
	limit, ok := r.limits[t.Name]
	return limit, r.source, ok
}

func (r readings) HasHistory() bool   { return !r.lifetime }
func (r readings) MayHoldFault() bool { return r.peers != nil }

func (r readings) Peers() (View, bool) {
	if r.peers == nil {
		return nil, false
	}
	return *r.peers, true
}

func lookUp(m map[*indicator.Signal]float64, s *indicator.Signal) indicator.Value {
	if v, ok := m[s]; ok {
		return indicator.Known(v)
	}
	return indicator.Unknown("not scraped")
}

// yes, no and dunno are comparisons of that truth under truths.
var (
	one   = &Threshold{Name: "one", Unit: indicator.Requests, Default: 1, Why: "because"}
	yes   = Above(indicator.Running, one)
	no    = Below(indicator.Running, one)
	dunno = Above(indicator.Waiting, one)

	truths = readings{now: map[*indicator.Signal]float64{indicator.Running: 2}}
)

func TestEvalIsThreeValued(t *testing.T) {
	tests := map[string]struct {
		cond Cond
		want Truth
		made int // comparisons, for evidence
	}{
		"above":                                   {yes, True, 1},
		"not below":                               {no, False, 1},
		"a signal not scraped":                    {dunno, Unknown, 1},
		"no limit at all":                         {Above(indicator.Running, &Threshold{Default: None}), Unknown, 1},
		"all hold":                                {All(yes, yes), True, 2},
		"one of all does not":                     {All(yes, no), False, 2},
		"one of all is unknown":                   {All(yes, dunno), Unknown, 2},
		"false beats unknown in All":              {All(dunno, no), False, 2},
		"false beats unknown whatever the order":  {All(no, dunno), False, 2},
		"none of any":                             {Any(no, no), False, 2},
		"one of any":                              {Any(no, yes), True, 2},
		"true beats unknown in Any":               {Any(dunno, yes), True, 2},
		"true beats unknown whatever the order":   {Any(yes, dunno), True, 2},
		"unknown is left of any":                  {Any(no, dunno), Unknown, 2},
		"an unknown Any inside a false All":       {All(Any(no, dunno), no), False, 3},
		"an unknown All inside a true Any":        {Any(All(yes, dunno), yes), True, 3},
		"everything unknown":                      {All(Any(dunno, dunno), dunno), Unknown, 3},
		"what is evaluated after an answer shows": {All(no, yes, dunno), False, 3},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, evidence := tt.cond.Eval(truths)
			if got != tt.want {
				t.Errorf("truth %d, want %d", got, tt.want)
			}
			if len(evidence) != tt.made {
				t.Errorf("%d comparisons, want %d", len(evidence), tt.made)
			}
		})
	}
}

// A server that is new is excused by what its peers have had for long, and by nothing that it
// does itself since it started.
func TestPeersExcuseWhatIsNew(t *testing.T) {
	share := &Threshold{Default: 0.15, Baseline: &Relative{Factor: 1, Offset: 0.15}}
	of := func(x float64) map[*indicator.Signal]float64 {
		return map[*indicator.Signal]float64{indicator.AbandonedShare: x}
	}
	for name, tt := range map[string]struct {
		own, peers map[*indicator.Signal]float64
		want       float64
	}{
		"no peer has it":              {of(0.6), nil, 0.15},
		"peers have it too":           {of(0.5), of(0.6), 0.65},
		"peers have it, and it less":  {of(0.1), of(0.6), 0.25},
		"peers have it not":           {of(0.6), of(0.0), 0.15},
		"it has no past, peers have":  {nil, of(0.6), 0.75},
		"it has no past, nor do they": {nil, nil, 0.15},
	} {
		v := readings{normal: tt.own, peers: &readings{normal: tt.peers}}
		if got, _, ok := share.Resolve(indicator.AbandonedShare, GreaterThan, v); !ok || math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: the limit is %v, want %v", name, got, tt.want)
		}
	}
}

func TestAValueOnTheLimitIsNeitherAboveNorBelow(t *testing.T) {
	v := readings{now: map[*indicator.Signal]float64{indicator.Running: 1}}
	for _, c := range []Cond{yes, no} {
		if got, _ := c.Eval(v); got != False {
			t.Errorf("1 %s 1 is %d", c.Op, got)
		}
	}
}

func TestEvidenceCarriesTheNumbersOfTheComparison(t *testing.T) {
	v := readings{
		now:    map[*indicator.Signal]float64{indicator.Running: 2},
		normal: map[*indicator.Signal]float64{indicator.Running: 0.5},
		limits: map[string]float64{"one": 3}, source: "--set",
	}
	_, got := yes.Eval(v)
	want := []Evidence{{
		Signal: indicator.Running, Op: GreaterThan, Value: indicator.Known(2), Baseline: indicator.Known(0.5),
		Threshold: 3, Source: "--set", Name: "one", Holds: False,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	_, got = Above(indicator.Running, &Threshold{Default: None}).Eval(v)
	if !math.IsNaN(got[0].Threshold) || got[0].Source != "" {
		t.Errorf("a threshold that resolves to nothing reads %v from %q", got[0].Threshold, got[0].Source)
	}
	_, got = dunno.Eval(v)
	if got[0].Threshold != 3 || got[0].Value.Reason != "not scraped" {
		t.Errorf("an unknown comparison must say its limit and its reason: %+v", got[0])
	}
}

// TestResolvePrecedence holds what a View must hold up to: a limit that it
// gives, from --set, an objective or a measurement, beats the baseline, and the
// baseline beats the default.
func TestResolvePrecedence(t *testing.T) {
	full := &Threshold{Name: "t", Default: 5, Objective: slo.TTFTP95, Baseline: &Relative{Factor: 2, Offset: 0.5}}
	normal := map[*indicator.Signal]float64{indicator.TTFTP95: 1}
	limits := map[string]float64{"t": 7}
	tests := map[string]struct {
		t      *Threshold
		v      readings
		want   float64
		source string
		ok     bool
	}{
		"set by the user over everything":  {full, readings{normal: normal, limits: limits, source: "--set"}, 7, "--set", true},
		"the objective over the baseline":  {full, readings{normal: normal, limits: limits, source: "chat"}, 7, "chat", true},
		"measured over the baseline":       {full, readings{normal: normal, limits: limits, source: "measured"}, 7, "measured", true},
		"a limit of zero is a limit":       {full, readings{normal: normal, limits: map[string]float64{"t": 0}, source: "--set"}, 0, "--set", true},
		"the baseline over the default":    {full, readings{normal: normal}, 2.5, "baseline", true},
		"the default without a baseline":   {full, readings{}, 5, "default", true},
		"another threshold's limit":        {full, readings{limits: map[string]float64{"u": 7}}, 5, "default", true},
		"a baseline that the view has not": {&Threshold{Default: None, Baseline: &Relative{Factor: 2}}, readings{}, 0, "", false},
		"a baseline that nobody asked for": {&Threshold{Default: 5}, readings{normal: normal}, 5, "default", true},
		"nothing at all":                   {&Threshold{Default: None}, readings{normal: normal}, 0, "", false},
		"a default of zero":                {&Threshold{}, readings{}, 0, "default", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, source, ok := tt.t.Resolve(indicator.TTFTP95, GreaterThan, tt.v)
			if got != tt.want || source != tt.source || ok != tt.ok {
				t.Errorf("got %v, %q, %v; want %v, %q, %v", got, source, ok, tt.want, tt.source, tt.ok)
			}
		})
	}
}

func TestRelativeAllowsForWhatTheSignalMayGrowWith(t *testing.T) {
	th := &Threshold{Default: 9, Baseline: &Relative{Factor: 1.5, Per: indicator.DecodeBatch, Exponent: 0.5, Offset: 0.01}}
	batch := func(now, normal float64) readings {
		return readings{
			now:    map[*indicator.Signal]float64{indicator.DecodeBatch: now},
			normal: map[*indicator.Signal]float64{indicator.DecodeBatch: normal, indicator.ITLP50: 0.02},
		}
	}
	tests := map[string]struct {
		v      readings
		want   float64
		source string
	}{
		"the same batch":                     {batch(8, 8), 0.04, "baseline"},
		"four times the batch, twice as far": {batch(32, 8), 0.07, "baseline"},
		"a smaller batch asks for no less":   {batch(2, 8), 0.04, "baseline"},
		"no batch in the baseline":           {batch(8, 0), 9, "default"},
		"the batch is unknown now": {
			readings{normal: map[*indicator.Signal]float64{indicator.DecodeBatch: 8, indicator.ITLP50: 0.02}}, 9, "default",
		},
		"the batch was unknown then": {
			readings{now: map[*indicator.Signal]float64{indicator.DecodeBatch: 8}, normal: map[*indicator.Signal]float64{indicator.ITLP50: 0.02}}, 9, "default",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, source, ok := th.Resolve(indicator.ITLP50, GreaterThan, tt.v)
			if !ok || math.Abs(got-tt.want) > 1e-12 || source != tt.source {
				t.Errorf("got %v, %q, %v; want %v, %q", got, source, ok, tt.want, tt.source)
			}
		})
	}
}

func TestRelativeIsNeverBelowZero(t *testing.T) {
	th := &Threshold{Default: 9, Baseline: &Relative{Factor: 0.5, Offset: -0.05}}
	for normal, want := range map[float64]float64{0.9: 0.4, 0.04: 0, 0: 0} {
		got, source, ok := th.Resolve(indicator.PrefixHitRatio, GreaterThan, readings{normal: map[*indicator.Signal]float64{indicator.PrefixHitRatio: normal}})
		if !ok || math.Abs(got-want) > 1e-12 || source != map[bool]string{true: "cap", false: "baseline"}[want == 0.3] {
			t.Errorf("normally %v: got %v, %q, %v; want %v", normal, got, source, ok, want)
		}
	}
}

func TestRelativeIsNeverAboveMost(t *testing.T) {
	th := &Threshold{Default: 9, Baseline: &Relative{Factor: 2, Offset: 0.05, Most: 0.3}}
	for normal, want := range map[float64]float64{0: 0.05, 0.1: 0.25, 0.2: 0.3, 1: 0.3} {
		got, source, ok := th.Resolve(indicator.ClientErrs, GreaterThan, readings{normal: map[*indicator.Signal]float64{indicator.ClientErrs: normal}})
		if !ok || math.Abs(got-want) > 1e-12 || source != map[bool]string{true: "cap", false: "baseline"}[math.Abs(want-0.3) < 1e-12] {
			t.Errorf("normally %v: got %v, %q, %v; want %v", normal, got, source, ok, want)
		}
	}
}

func TestRelativeMayAskForHistory(t *testing.T) {
	th := &Threshold{Default: 9, Baseline: &Relative{Factor: 2, History: true}}
	v := readings{normal: map[*indicator.Signal]float64{indicator.TTFTP50: 1}}
	if got, source, _ := th.Resolve(indicator.TTFTP50, GreaterThan, v); got != 2 || source != "baseline" {
		t.Errorf("with history: %v, %q", got, source)
	}
	v.lifetime = true
	if got, source, _ := th.Resolve(indicator.TTFTP50, GreaterThan, v); got != 9 || source != "default" {
		t.Errorf("against a lifetime: %v, %q", got, source)
	}
}

func TestSignalsIncludeThoseOfRelativeThresholds(t *testing.T) {
	c := All(yes, Any(dunno, Above(indicator.ITLP50, &Threshold{Baseline: &Relative{Per: indicator.DecodeBatch}})))
	var got []string
	c.Signals(func(s *indicator.Signal) { got = append(got, s.Name) })
	want := []string{indicator.Running.Name, indicator.Waiting.Name, indicator.ITLP50.Name, indicator.DecodeBatch.Name}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSeverityNames(t *testing.T) {
	for _, s := range []Severity{Info, Ticket, Page} {
		if got, err := ParseSeverity(s.String()); err != nil || got != s {
			t.Errorf("%s reads as %s, %v", s, got, err)
		}
	}
	if _, err := ParseSeverity("critical"); err == nil {
		t.Error("an unknown severity was accepted")
	}
}

func TestWhatIsNotUsedIsNotAsked(t *testing.T) {
	used := func(s *indicator.Signal) bool { return s != indicator.Waiting }
	tests := map[string]struct {
		cond Cond
		left int // comparisons; 0 where nothing is asked
	}{
		"used":                            {yes, 1},
		"not used":                        {dunno, 0},
		"an alternative is left out":      {Any(yes, dunno, no), 2},
		"no alternative is left":          {Any(dunno, dunno), 0},
		"a part of All takes all":         {All(yes, dunno), 0},
		"an alternative of several parts": {Any(All(yes, dunno), All(yes, no)), 2},
		"alternatives within All":         {All(yes, Any(no, dunno)), 2},
	}
	for name, tt := range tests {
		left := 0
		if c, asked := tt.cond.Applicable(used); asked {
			c.Leaves(func(Cond) { left++ })
		}
		if left != tt.left {
			t.Errorf("%s: %d comparisons left, want %d", name, left, tt.left)
		}
	}
}

// fading is a view in which what some signals tell is over.
type fading struct {
	readings
	over map[*indicator.Signal]bool
}

func (f fading) Doubt(s *indicator.Signal) Doubt {
	return Doubt{Least: f.Now(s).V, Wander: 1, Margin: 1}
}
func (f fading) Over(c Cond) bool { return f.over[c.Signal] }

// A condition is over when one part of All is, and when every part of Any that holds is.
func TestConditionsEndWithTheirParts(t *testing.T) {
	also := Above(indicator.KVUsage, one)
	both := readings{now: map[*indicator.Signal]float64{indicator.Running: 2, indicator.KVUsage: 2}}
	for name, tt := range map[string]struct {
		cond Cond
		over []*indicator.Signal
		want bool
	}{
		"nothing is over":                  {All(yes, also), nil, false},
		"one part of all":                  {All(yes, also), []*indicator.Signal{indicator.Running}, true},
		"one part of any, and others hold": {Any(yes, also), []*indicator.Signal{indicator.Running}, false},
		"every part of any":                {Any(yes, also), []*indicator.Signal{indicator.Running, indicator.KVUsage}, true},
	} {
		v := fading{both, map[*indicator.Signal]bool{}}
		for _, s := range tt.over {
			v.over[s] = true
		}
		if got := tt.cond.Ended(v); got != tt.want {
			t.Errorf("%s: over %t, want %t", name, got, tt.want)
		}
	}
}
