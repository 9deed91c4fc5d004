package asked

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/sixty-dev/sixty/internal/base/fileio"
	"github.com/sixty-dev/sixty/internal/base/hint"
	"github.com/sixty-dev/sixty/internal/catalog/modelconfig"
)

// readModel reads config.json: a file, one in a directory, or that of a model's name in the
// local cache of Hugging Face.
func readModel(flag, name string) (*modelconfig.Model, error) {
	path := name
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		path = filepath.Join(path, "config.json")
	case err != nil && hubName.MatchString(name):
		if path = cachedConfig(name); path == "" {
			return nil, hint.With(fmt.Errorf("%s %s: no such file, and no such model in the cache %s", flag, name, hubCache()),
				"hf download "+name+" config.json, or save https://huggingface.co/"+name+"/resolve/main/config.json and name that file")
		}
	}
	content, err := fileio.Read(path, modelconfig.MaxBytes)
	if err != nil {
		return nil, hint.With(fmt.Errorf("%s: %w", flag, err), "give the config.json that lies beside the model's weights, or their directory")
	}
	m, err := modelconfig.Parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, path, err)
	}
	return m, nil
}

// hubName is what a model's name looks like: an owner and a name.
var hubName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[\w.-]+$`)

// hubCache is where Hugging Face's clients keep what they fetched.
func hubCache() string {
	if dir := os.Getenv("HF_HUB_CACHE"); dir != "" {
		return dir
	}
	if dir := os.Getenv("HF_HOME"); dir != "" {
		return filepath.Join(dir, "hub")
	}
	dir := os.Getenv("XDG_CACHE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".cache")
	}
	return filepath.Join(dir, "huggingface", "hub")
}

// cachedConfig is the config.json of a model in the cache: of its main revision or, without
// one, of the last by name; "" where there is none.
func cachedConfig(name string) string {
	repo := filepath.Join(hubCache(), "models--"+strings.ReplaceAll(name, "/", "--"))
	if revision, err := fileio.Read(filepath.Join(repo, "refs", "main"), 1<<10); err == nil {
		path := filepath.Join(repo, "snapshots", strings.TrimSpace(string(revision)), "config.json")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	found, _ := filepath.Glob(filepath.Join(repo, "snapshots", "*", "config.json"))
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}
