package engine

import (
	"cmp"
	"maps"
)

// Flags are the arguments that an engine takes, by vLLM's names for them without
// dashes. What is not in it, the engine does not have.
type Flags map[string]Flag

// A Flag is what an engine calls one of vLLM's flags.
type Flag struct {
	Name   string            // without dashes; "" is the same as vLLM's
	Since  Release           // the first release that takes it; "" is older than any server whose metrics can be read
	Off    bool              // an on-off flag that says the opposite: --disable-radix-cache
	Values map[string]string // vLLM's words for values → its own
}

// Takes reports whether a server of a version is sure to take a flag. The version is
// one that the server told, "0.23.0", or what its metrics show, "0.20 or later,
// before 0.30", of which the oldest counts; "" is not known.
func (f Flags) Takes(version, flag string) bool {
	has, known := f[flag]
	if !known || has.Since == "" {
		return known
	}
	return FindRelease(version).AtLeast(has.Since)
}

// Own returns a flag and values of it in the engine's own words; "" is no value, or
// a flag that is left out: --enable-prefix-caching true is to leave out
// --disable-radix-cache.
func (f Flags) Own(flag string, values ...string) (own string, ownValues []string) {
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

// Canonical returns settings under vLLM's names. What has none stays as it is.
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
