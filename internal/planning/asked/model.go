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
		switch _, names := completeName(arg); {
		case source.OnDisk(arg) || !names:
			others = append(others, arg)
		case f.modelConfig != "":
			return hint.With(fmt.Errorf("two models: %s and %s", f.modelConfig, arg), "give one at a time")
		default:
			f.modelConfig = arg
		}
	}
	return f.Source.Resolve(others)
}

// hubName matches the name of a model at Hugging Face: an owner and a name.
var hubName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[\w.-]+$`)

// completeName returns the name of a model in its owner's spelling. It reports whether the text may be one.
func completeName(text string) (string, bool) {
	if name, ok := modelconfig.PublishedName(text); ok {
		return name, true
	}
	return text, hubName.MatchString(text)
}

// readModel reads a config.json: a file, one in a directory, or the one of a named model, from the local cache of
// Hugging Face or from those that sixty knows.
func readModel(path string) (*modelconfig.Model, error) {
	var content []byte
	info, err := os.Stat(path)
	name, named := completeName(path)
	if named = named && err != nil; named {
		if path, content = cachedConfig(name), modelconfig.Published(name); path == "" && content == nil {
			return nil, unknownModel(name)
		}
	} else if err == nil && info.IsDir() {
		path = filepath.Join(path, "config.json")
	}
	if path != "" {
		if content, err = fileio.Read(path, modelconfig.MaxBytes); err != nil {
			return nil, hint.With(fmt.Errorf("--model-config: %w", err),
				"give the config.json next to the model's weights, or their directory")
		}
	}
	m, err := modelconfig.Parse(content)
	if err != nil {
		return nil, fmt.Errorf("--model-config %s: %w", path, err)
	}
	if named {
		m.Name = name
	}
	return m, nil
}

// unknownModel returns the error for a name that neither the cache nor sixty knows.
func unknownModel(name string) error {
	known := modelconfig.PublishedNames()
	fetch := "hf download " + name + " config.json, or save https://huggingface.co/" + name +
		"/resolve/main/config.json and name that file"
	if near := hint.DidYouMean(name, known); near != "" {
		fetch = near + " Else " + fetch
	}
	return hint.With(fmt.Errorf("there is no model %s: no such file, not in the cache %s, not among the %d built-in "+
		"names", name, hubCache(), len(known)), fetch)
}

// hubCache returns the cache directory of Hugging Face's clients.
func hubCache() string {
	home, _ := os.UserHomeDir() // "" stands for the working directory
	cache := cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(home, ".cache"))
	return cmp.Or(os.Getenv("HF_HUB_CACHE"),
		filepath.Join(cmp.Or(os.Getenv("HF_HOME"), filepath.Join(cache, "huggingface")), "hub"))
}

// cachedConfig returns the path of the config.json of a model's main revision in the cache, or "".
func cachedConfig(name string) string {
	repo := filepath.Join(hubCache(), "models--"+strings.ReplaceAll(name, "/", "--"))
	revision, _ := fileio.Read(filepath.Join(repo, "refs", "main"), 1<<10) // it may be missing
	path := filepath.Join(repo, "snapshots", strings.TrimSpace(string(revision)), "config.json")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}
