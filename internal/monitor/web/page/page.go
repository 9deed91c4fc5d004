// Package page serves the monitor's page: a script bundle, and an HTML shell that shows the verdict without any script.
//
// The bundle in dist is built from ../../../../web (make page). It is not part of the repository: without it the shell
// is shown alone. Texts on the page come from foreign servers, so they reach the browser as text, never as markup. The
// content security policy allows no script but the bundle.
package page

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/util/httputil"

	"github.com/sixty-dev/sixty/internal/monitor/view"
	"github.com/sixty-dev/sixty/internal/render"
)

//go:embed dist
var dist embed.FS

//go:embed shell.html
var shellHTML string

// policy is the content security policy of the page. style-src forbids styles in markup, not those that a script sets.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
	"trusted-types sixty"

// A Config holds the sources of the shell.
type Config struct {
	// Base is the path of the page in browsers; "" for the root.
	Base string
	// Overview returns the latest overview. Its state is Starting before the first evaluation.
	Overview func(context.Context) view.Overview

	// Incident returns the incident with an ID.
	Incident func(ctx context.Context, id string) (view.Incident, bool)
	// Titles holds the titles of verdicts by ID. The script reads them from the shell.
	Titles map[string]string
}

// title returns the title of a verdict.
func (c *Config) title(id string) string { return cmp.Or(c.Titles[id], id) }

// handler serves every path outside the API.
type handler struct {
	Config
	shell  *template.Template
	files  fs.FS // the bundle; file names contain a hash of the content
	bundle bundle
}

// A bundle holds the names of the files that the shell links to.
type bundle struct {
	Script        string // "" without a bundle
	Styles, Later []string
}

// New returns the handler of the page.
func New(cfg Config) (http.Handler, error) {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, fmt.Errorf("the page's bundle: %w", err)
	}
	p := &handler{Config: cfg, files: files}
	if err := p.readManifest(); err != nil {
		return nil, fmt.Errorf("the page's bundle: %w", err)
	}
	write := template.FuncMap{"sentence": render.Sentence, "clean": render.Clean}
	p.shell, err = template.New("page").Funcs(write).Parse(shellHTML)
	if err != nil {
		return nil, fmt.Errorf("the page's shell: %w", err)
	}
	return httputil.CompressionHandler{Handler: p}, nil
}

// readManifest reads the manifest of the bundle.
func (p *handler) readManifest() error {
	raw, err := fs.ReadFile(p.files, "manifest.json")
	if errors.Is(err, fs.ErrNotExist) { // no bundle was built
		return nil
	}
	if err != nil {
		return err
	}
	var chunks map[string]struct {
		File           string
		IsEntry        bool
		IsDynamicEntry bool
		CSS            []string
	}
	if err := json.Unmarshal(raw, &chunks); err != nil {
		return fmt.Errorf("manifest.json: %w", err)
	}
	for _, c := range chunks {
		for _, s := range c.CSS {
			p.bundle.Styles = append(p.bundle.Styles, p.Base+"/"+s)
		}
		switch {
		case c.IsEntry:
			p.bundle.Script = p.Base + "/" + c.File
		case c.IsDynamicEntry:
			p.bundle.Later = append(p.bundle.Later, p.Base+"/"+c.File)
		}
	}
	slices.Sort(p.bundle.Styles)
	slices.Sort(p.bundle.Later)
	if p.bundle.Script == "" {
		return errors.New("manifest.json names no entry")
	}
	return nil
}

// contentTypes holds the content types of the bundle. The machine's list may differ.
var contentTypes = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}

func (p *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "the page is read-only", http.StatusMethodNotAllowed)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/assets/") {
		raw, err := fs.ReadFile(p.files, r.URL.Path[1:])
		if err != nil { // an old page asks for an older bundle
			http.NotFound(w, r)
			return
		}
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		h.Set("Content-Type", cmp.Or(contentTypes[path.Ext(r.URL.Path)], mime.TypeByExtension(path.Ext(r.URL.Path))))
		_, _ = w.Write(raw) // a browser that left needs no answer
		return
	}
	status, v := p.newShell(r)
	var b bytes.Buffer
	if err := p.shell.Execute(&b, v); err != nil {
		http.Error(w, "the page cannot be written: "+err.Error(), http.StatusInternalServerError)
		return
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len())) // uncompressed
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}
