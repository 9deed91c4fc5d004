package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/hint"
)

// Flags are an engine's arguments, by vLLM's names without dashes. The list is complete.
type Flags map[string]Flag

// A Flag is an engine's name for one of vLLM's flags.
type Flag struct {
	Name   string            // without dashes; "" is the same as vLLM's
	Since  Release           // the first release that accepts it; "" is older than any server whose metrics can be read
	Last   Release           // the last release that accepts it; "" is the newest one
	Off    bool              // an on-off flag with the opposite meaning: --disable-radix-cache
	Values map[string]string // vLLM's words for values → its own

	Switch bool     // it needs no value
	Also   []string // other spellings; short ones with their dash: "-tp"
	Effect string   // EffectNone, "read", or a Kind and the effect that is not simulated: "speed: …"
}

// EffectNone is the effect of a flag that does not change memory, scheduling or step times.
const EffectNone = ""

// ParseFlags reads a table of flags: name, since, last, switch, also, effect.
func ParseFlags(table string) Flags {
	out := Flags{}
	for _, f := range Rows(table) {
		out[f[0]] = Flag{
			Since: Release(f[1]), Last: Release(f[2]), Switch: f[3] != "", Also: strings.Fields(f[4]), Effect: f[5],
		}
	}
	return out
}

// Accepts reports whether a server of a version surely accepts a flag. The version comes from the server, "0.23.0", or
// from its metrics, "0.20 or later, before 0.30", where the oldest release counts; "" is unknown.
func (f Flags) Accepts(version, flag string) bool {
	has, known := f[flag]
	if !known || has.Since == "" && has.Last == "" {
		return known
	}
	r := FindRelease(version)
	return r.AtLeast(has.Since) && (has.Last == "" || r.Minor().Compare(has.Last.Minor()) <= 0)
}

// CheckArgs reads the arguments of a server of a release, "" for any, as ParseArgs does, and refuses unknown flags: a
// misspelt flag would silently change nothing. The source is the name of sixty's flag that has them.
//
// The table has the examined releases: a release between two of them accepts the flags of either.
func (f Flags) CheckArgs(line, source string, release Release) (Config, error) {
	c, stray := f.parseLine(line, source)
	for _, word := range stray {
		return c, hint.With(fmt.Errorf("%s: %q is not a flag of vllm serve", source, word),
			f.suggestFlags(strings.TrimLeft(word, "-")))
	}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if name == NumBlocks || name == KVTokens {
			continue // facts from the server itself
		}
		flag, known := f[name]
		switch {
		case !known:
			return c, hint.With(fmt.Errorf("%s: vllm serve has no --%s", source, name), f.suggestFlags(name))
		case release == "":
		case flag.Since.Minor().Compare(release.Minor()) > 0:
			return c, hint.With(fmt.Errorf("%s: vLLM %s has no --%s, which came with %s", source, release, name,
				flag.Since.Minor()),
				"leave it out, or set the release that it is for")
		case flag.Last != "" && flag.Last.Minor().Compare(release.Minor()) < 0:
			return c, hint.With(fmt.Errorf("%s: vLLM %s has no --%s, which went after %s", source, release, name,
				flag.Last.Minor()),
				"leave it out, or set the release that it is for")
		}
	}
	return c, nil
}

// Owns reports whether the engine has a flag of this name, which is not vLLM's name for it.
func (f Flags) Owns(name string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(f)), func(own Flag) bool { return own.Name == name })
}

// LikelyArgs parses arguments like CheckArgs, but for a server with an unknown engine: it refuses misspelt flags unless
// another engine has them.
func (f Flags) LikelyArgs(line, source string, foreign func(name string) bool) (Config, error) {
	c, _ := f.parseLine(line, source)
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if _, known := f[name]; known || name == NumBlocks || name == KVTokens || foreign(name) {
			continue
		}
		if near := f.closestFlags(name); len(near) > 0 {
			return c, hint.With(fmt.Errorf("%s: vllm serve has no --%s", source, name), f.suggestFlags(name))
		}
	}
	return c, nil
}

// closestFlags returns the flags that a misspelt name probably means.
func (f Flags) closestFlags(name string) []string {
	known := slices.Sorted(maps.Keys(f))
	for _, n := range known {
		if more, ok := strings.CutPrefix(name, n); ok && len(n) > 8 && !strings.Contains(more, "-") {
			return []string{n} // max-model-length
		}
	}
	return hint.Nearest(name, known)
}

func (f Flags) suggestFlags(name string) string {
	if _, known := f[name]; known {
		return "write --" + name
	}
	if near := f.closestFlags(name); len(near) > 0 {
		return "did you mean --" + strings.Join(near, ", or --") + "?"
	}
	return "vllm serve --help=all of your release lists all flags"
}

// A Kind names the result that misses the effect of a flag.
type Kind string

// Kinds: the time of steps, which a measurement includes; the memory; the scheduler's behaviour.
const (
	Speed    Kind = "speed"
	Memory   Kind = "memory"
	Schedule Kind = "schedule"
)

// LeftOut returns a sentence on each effect of the settings, of some kinds, that is not simulated.
func (f Flags) LeftOut(c Config, kinds ...Kind) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		kind, what, ok := strings.Cut(f[name].Effect, ": ")
		if ok && slices.Contains(kinds, Kind(kind)) && c[name].Value != "false" {
			out = append(out, fmt.Sprintf("--%s: %s", name, what))
		}
	}
	return out
}

// Ineffective returns the settings that no statement of sixty depends on.
func (f Flags) Ineffective(c Config) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if flag, known := f[name]; known && flag.Effect == EffectNone && name != ModelName {
			out = append(out, "--"+name)
		}
	}
	return out
}

// Translate returns a flag and its values in the engine's own words. "" is no value, or a flag to leave out:
// --enable-prefix-caching true means to leave out --disable-radix-cache.
func (f Flags) Translate(flag string, values ...string) (ownFlag string, ownValues []string) {
	has := f[flag]
	for _, v := range values {
		if word, ok := has.Values[v]; ok {
			v = word
		}
		switch {
		case has.Off && v == "true":
			v = ""
		case has.Off && v == "false":
			v = "true"
		}
		ownValues = append(ownValues, v)
	}
	return cmp.Or(has.Name, flag), ownValues
}

// Canonical returns settings under vLLM's names; others keep their names.
func (f Flags) Canonical(c Config) Config {
	out := maps.Clone(c)
	for flag, has := range f {
		s, ok := c[has.Name]
		if has.Name == "" || has.Name == flag || !ok {
			continue
		}
		delete(out, has.Name)
		for word, own := range has.Values {
			if s.Value == own {
				s.Value = word
			}
		}
		if has.Off && s.Value == "true" {
			s.Value = "false"
		}
		if _, known := out[flag]; !known {
			out[flag] = s
		}
	}
	return out
}
