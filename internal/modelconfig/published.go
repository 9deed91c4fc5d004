package modelconfig

import (
	_ "embed" // published.yaml
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
)

//go:embed published.yaml
var publishedYAML []byte

// published are the configurations of open models, by name; published.yaml has their sources.
var published = sync.OnceValue(func() map[string]json.RawMessage {
	var models []struct {
		Names  []string        `json:"names"`
		From   string          `json:"from"`
		Config json.RawMessage `json:"config"`
	}
	mustParse(publishedYAML, &models)
	out := map[string]json.RawMessage{}
	for _, m := range models {
		for _, name := range m.Names {
			out[name] = m.Config
		}
	}
	return out
})

// PublishedNames returns the Hugging Face names of the models in published.yaml.
func PublishedNames() []string { return slices.Sorted(maps.Keys(published())) }

// PublishedName returns the full name of a model in published.yaml. text may lack the owner, and may be in any case.
func PublishedName(text string) (name string, ok bool) {
	for _, name := range PublishedNames() {
		if _, short, _ := strings.Cut(name, "/"); strings.EqualFold(text, name) || strings.EqualFold(text, short) {
			return name, true
		}
	}
	return "", false
}

// Published returns the config.json of a model by its name from PublishedName, with the fields that Parse reads.
func Published(name string) []byte { return published()[name] }
