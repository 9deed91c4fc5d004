package asked

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/diagnose/source"
	"github.com/sixty-dev/sixty/internal/modelconfig"
)

// resolveArgs takes an argument that names a model as --model-config, and the others as servers or their recording.
func (f *Deployment) resolveArgs(args []string) error {
	var others []string
	for _, arg := range args {
		_, known := modelconfig.PublishedName(arg)
		switch {
		case source.OnDisk(arg) || !known && !hubName.MatchString(arg):
			others = append(others, arg)
		case f.modelConfig != "":
			return hint.With(fmt.Errorf("two models: %s and %s", f.modelConfig, arg), "give one at a time")
		default:
			f.modelConfig = arg
		}
	}
	return f.Source.Resolve(others)
}

// readModel reads a config.json: a file, one in a directory, or the one of a named model, from the local cache of
// Hugging Face or from those that sixty knows. It also returns the name, in its owner's spelling.
func readModel(name string) (*modelconfig.Model, string, error) {
	path := name
	var content []byte
	info, err := os.Stat(path)
	switch published, ok := modelconfig.PublishedName(name); {
	case err == nil && info.IsDir():
		path = filepath.Join(path, "config.json")
	case err != nil && (ok || hubName.MatchString(name)):
		name = cmp.Or(published, name)
		if path = cachedConfig(name); path == "" && !ok {
			return nil, "", unknownModel(name)
		}
		content = modelconfig.Published(name)
	}
	if path != "" {
		if content, err = fileio.Read(path, modelconfig.MaxBytes); err != nil {
			return nil, "", hint.With(fmt.Errorf("--model-config: %w", err),
				"give the config.json next to the model's weights, or their directory")
		}
	}
	m, err := modelconfig.Parse(content)
	if err != nil {
		return nil, "", fmt.Errorf("--model-config %s: %w", path, err)
	}
	return m, name, nil
}

// unknownModel returns the error for a name that neither the cache nor sixty knows.
func unknownModel(name string) error {
	known := modelconfig.PublishedNames()
	err := fmt.Errorf("there is no model %s: no such file, not in the cache %s, and not among the %d built-in names",
		name, hubCache(), len(known))
	fetch := "hf download " + name + " config.json, or save https://huggingface.co/" + name +
		"/resolve/main/config.json and name that file"
	if near := hint.DidYouMean(name, known); near != "" {
		fetch = near + " Else " + fetch
	}
	return hint.With(err, fetch)
}

// hubName matches the name of a model: an owner and a name.
var hubName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[\w.-]+$`)

// hubCache returns the cache directory of Hugging Face's clients.
func hubCache() string {
	home, _ := os.UserHomeDir() // "" stands for the working directory
	cache := cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(home, ".cache"))
	return cmp.Or(os.Getenv("HF_HUB_CACHE"),
		filepath.Join(cmp.Or(os.Getenv("HF_HOME"), filepath.Join(cache, "huggingface")), "hub"))
}

// cachedConfig returns the path of a model's config.json in the cache, or "". It prefers the main revision, and
// otherwise takes the last one by name.
func cachedConfig(name string) string {
	repo := filepath.Join(hubCache(), "models--"+strings.ReplaceAll(name, "/", "--"))
	revision, _ := fileio.Read(filepath.Join(repo, "refs", "main"), 1<<10) // it may be missing
	for _, of := range []string{strings.TrimSpace(string(revision)), "*"} {
		if found, _ := filepath.Glob(filepath.Join(repo, "snapshots", of, "config.json")); of != "" && len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return ""
}
