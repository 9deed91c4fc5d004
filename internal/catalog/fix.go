package catalog

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/catalog/engine"
)

// A Fix is one remedy.
type Fix struct {
	Summary string   `json:"summary"`           // a verb phrase: "Lower --max-num-seqs from 256 to 41"
	Changes []Change `json:"changes,omitempty"` // flags to change; empty when the remedy is not a flag
	// a shell command to begin with, if there is no flag; the reader replaces TARGET, POD and NAME in it
	Command    string   `json:"command,omitempty"`
	Arithmetic []string `json:"arithmetic,omitempty"` // how the number was computed, line by line, with sources
	Tradeoff   string   `json:"tradeoff,omitempty"`   // what it costs
	Verify     string   `json:"verify,omitempty"`     // the signal that shows that it worked

	// Replicas is how many servers to run for each present one; 0 means no change.
	Replicas int `json:"replicas,omitempty"`
	// Search, which may be nil, lets a simulation choose the value of a change.
	Search *Search `json:"-"`
	// Stops marks a fix that stops the bleeding within a minute and without a restart, and cures nothing: it comes
	// first.
	Stops bool `json:"stops,omitempty"`
	// Others marks a fix that needs other healthy servers of the model: without one it is not offered.
	Others bool `json:"others,omitempty"`
	// Risk marks a fix to try out first: answers, memory or kernels may suffer.
	Risk bool `json:"-"`
	// MayHurt marks a fix that may harm users: without a prediction it comes after harmless ones.
	MayHurt bool `json:"-"`

	// Predicted is the simulated effect; nil if nothing was simulated, or if the fix does not concern scheduling.
	Predicted *Prediction `json:"-"`
}

// A Change is a flag of the server from its present to its proposed value.
type Change struct {
	Flag string `json:"flag"` // "--max-num-seqs"
	From string `json:"from"` // "" when the present value is not known
	To   string `json:"to"`   // "" when the flag is to be removed
}

// A Search is the range in which the best value of a flag lies, both ends included.
type Search struct {
	Flag        string
	Least, Most int
}

// Set gives a flag another value than the one that was computed, in the changes and in the summary.
func (f *Fix) Set(flag, to string) {
	f.Changes = slices.Clone(f.Changes)
	for i := range f.Changes {
		c := &f.Changes[i]
		if c.Flag != flag || c.To == to {
			continue
		}
		if at := strings.LastIndex(f.Summary, " "+c.To); at >= 0 {
			f.Summary = f.Summary[:at+1] + to + f.Summary[at+1+len(c.To):]
		}
		c.To = to
	}
}

// Args returns the fix as arguments of vllm serve, to be copied; "" if nothing is to be added to the command line.
func (f *Fix) Args() string {
	return joinChanges(f.Changes, func(c *Change) string { return c.To })
}

// Replaced lists the known present arguments that the new ones replace.
func (f *Fix) Replaced() string {
	return joinChanges(f.Changes, func(c *Change) string {
		if c.To == "" {
			return ""
		}
		return c.From
	})
}

// LeftOut lists the arguments to remove from the command line.
func (f *Fix) LeftOut() string {
	return joinChanges(f.Changes, func(c *Change) string {
		if c.To != "" {
			return ""
		}
		return c.From
	})
}

func joinChanges(changes []Change, value func(*Change) string) string {
	var words []string
	for i := range changes {
		switch v := value(&changes[i]); v {
		case "":
		case "true":
			words = append(words, changes[i].Flag)
		case "false":
			words = append(words, "--no-"+strings.TrimPrefix(changes[i].Flag, "--"))
		default:
			words = append(words, changes[i].Flag+" "+v)
		}
	}
	return strings.Join(words, " ")
}

// FixesFor returns the fixes that a server's version accepts, with the engine's own flags; and a sentence on each fix
// that needs an upgrade.
func FixesFor(flags engine.Flags, version string, fixes []Fix) (fit []Fix, later []string) {
	for _, f := range fixes {
		i := slices.IndexFunc(f.Changes, func(c Change) bool { return !flags.Accepts(version, c.flagName()) })
		if i < 0 {
			fit = append(fit, f.withFlags(flags))
			continue
		}
		if flag, known := flags[f.Changes[i].flagName()]; known && flag.Since != "" {
			later = append(later, fmt.Sprintf("On %s+, also try %s", flag.Since.Minor(), f.Args()))
		}
	}
	return fit, later
}

// flagName returns the flag without its dashes.
func (c *Change) flagName() string { return strings.TrimPrefix(c.Flag, "--") }

// withFlags returns the fix with an engine's own flags instead of vLLM's.
func (f Fix) withFlags(flags engine.Flags) Fix {
	for i, c := range f.Changes {
		own, values := flags.Translate(c.flagName(), c.From, c.To)
		if own == c.flagName() && values[0] == c.From && values[1] == c.To {
			continue
		}
		f.Changes, f.Arithmetic = slices.Clone(f.Changes), slices.Clone(f.Arithmetic)
		f.Changes[i] = Change{Flag: "--" + own, From: values[0], To: values[1]}
		say := func(field *string) { *field = strings.ReplaceAll(*field, c.Flag, "--"+own) }
		for _, text := range []*string{&f.Summary, &f.Tradeoff, &f.Verify} {
			say(text)
		}
		for k := range f.Arithmetic {
			say(&f.Arithmetic[k])
		}
		f.Search = nil // a simulation knows only vLLM's flags
	}
	return f
}

// Factors: the least change that users notice, and the benefit that outweighs a risk.
const (
	noticeable = 1.05
	riskPrice  = 1.1
)

// Rank sorts the fixes into the order in which to try them: fixes that stop the bleeding, free cures, and more
// servers, which never precede a flag that may suffice; then fixes that are predicted to change nothing, fixes
// without a prediction that may hurt, and fixes that are predicted to leave users worse off. Within a class the
// better predicted benefit for the price comes first; equal fixes keep their order.
func Rank(fixes []Fix) {
	slices.SortStableFunc(fixes, func(a, b Fix) int {
		ga, gb := a.headingGroup(), b.headingGroup()
		if by := cmp.Or(cmp.Compare(max(ga, harmless), max(gb, harmless)), a.rankClass()-b.rankClass(),
			ga-gb); by != 0 || ga != better {
			return by
		}
		return cmp.Compare(b.benefitPerCost(), a.benefitPerCost())
	})
}

// rankClass orders fixes: first those that stop the bleeding, then free cures, then those that cost servers.
func (f *Fix) rankClass() int {
	switch {
	case f.Stops:
		return 0
	case f.Replicas > 0:
		return 2
	}
	return 1
}

// Key identifies a remedy regardless of its numbers: by the flags that it changes, or else by its words.
func (f *Fix) Key() string {
	var flags []string
	for i := range f.Changes {
		flags = append(flags, f.Changes[i].Flag)
	}
	if len(flags) > 0 {
		return strings.Join(flags, " ")
	}
	return numbers.ReplaceAllString(f.Summary, "")
}

var numbers = regexp.MustCompile(`\d+(\.\d+)?`)

// NoUse reports whether a fix is predicted to change nothing, or to leave users worse off.
func (f *Fix) NoUse() bool {
	g := f.headingGroup()
	return g == useless || g == worse
}

// Headings of ranked fixes: fixes that stop the bleeding, the cure after them or at once, and alternatives.
const (
	Now  = "Now"
	Then = "Then"
	Only = "Fix" // nothing stops the bleeding first
	Else = "Or"
)

// Heads returns the heading of each ranked fix. A fix that is predicted to be of no use is an alternative, whatever its
// place.
func Heads(fixes []Fix) []string {
	heads := make([]string, len(fixes))
	stops, cured := len(fixes) > 0 && fixes[0].Stops, false
	for i := range fixes {
		heads[i] = Else
		switch {
		case i == 0 && stops:
			heads[i] = Now
		case fixes[i].Stops || cured || fixes[i].NoUse():
		case stops:
			heads[i], cured = Then, true
		default:
			heads[i], cured = Only, true
		}
	}
	return heads
}

// Groups of fixes, in the order in which to try them.
const (
	better = iota
	harmless
	useless
	doubtful
	worse
)

func (f *Fix) headingGroup() int {
	switch p := f.Predicted; {
	case p == nil || p.Reason != "":
		if f.MayHurt {
			return doubtful
		}
		return harmless
	case p.Worse():
		return worse
	case p.Benefit.Value >= noticeable:
		return better
	}
	return useless
}

// benefitPerCost returns the predicted benefit divided by the price, in servers and risk.
func (f *Fix) benefitPerCost() float64 {
	price := float64(max(f.Replicas, 1))
	if f.Risk {
		price *= riskPrice
	}
	return f.Predicted.Benefit.Value / price
}
