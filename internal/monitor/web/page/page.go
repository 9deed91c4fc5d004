// Package page is the page of the monitor: the bundle of ../../../../web, and the shell around it
// that holds the verdict before any script runs, and without one.
//
// The bundle in dist is built from ../../../../web (make page) and not part of the repository:
// where it was not built, the shell alone is shown. Everything that the page shows comes from
// foreign servers: it reaches the browser as text, never as markup, and the content security policy allows no script
// but the bundle's own.
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

// policy is the content security policy of the page. Styles that a script sets on an
// element are not under style-src; markup that holds some is.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types sixty"

// A Config says where the shell of the page gets what it holds.
type Config struct {
	// Base is the path under which browsers see the page, "" for the root.
	Base string
	// Overview is the latest one; its state is Starting where there is none yet.
	Overview func(context.Context) view.Overview

	// Incident looks one up.
	Incident func(ctx context.Context, id string) (view.Incident, bool)
	// Titles are those of verdicts, by id; the script has them from the shell.
	Titles map[string]string
}

// title is the title of a verdict.
func (c *Config) title(id string) string { return cmp.Or(c.Titles[id], id) }

// handler answers every path that is not of the API.
type handler struct {
	Config
	shell  *template.Template
	files  fs.FS // the bundle; names of files change with what they hold
	bundle bundle
}

// A bundle holds the names of the files that the shell links to.
type bundle struct {
	Script        string // "" where there is none
	Styles, Later []string
}

// New returns the handler of the page.
func New(cfg Config) (http.Handler, error) {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, fmt.Errorf("the page's bundle: %w", err)
	}
	p := &handler{Config: cfg, files: files}
	if err := p.load(); err != nil {
		return nil, fmt.Errorf("the page's bundle: %w", err)
	}
	write := template.FuncMap{"sentence": render.Sentence, "clean": render.Clean}
	p.shell, err = template.New("page").Funcs(write).Parse(shellHTML)
	if err != nil {
		return nil, fmt.Errorf("the page's shell: %w", err)
	}
	return httputil.CompressionHandler{Handler: p}, nil
}

// load reads the manifest of the bundle.
func (p *handler) load() error {
	raw, err := fs.ReadFile(p.files, "manifest.json")
	if errors.Is(err, fs.ErrNotExist) { // built by Go alone
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

// kinds are the content types of the bundle's files; the machine's own list may differ.
var kinds = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}

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
		if err != nil { // of an older bundle
			http.NotFound(w, r)
			return
		}
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		h.Set("Content-Type", cmp.Or(kinds[path.Ext(r.URL.Path)], mime.TypeByExtension(path.Ext(r.URL.Path))))
		_, _ = w.Write(raw) // a browser that left needs no answer
		return
	}
	status, v := p.view(r)
	var b bytes.Buffer
	if err := p.shell.Execute(&b, v); err != nil {
		http.Error(w, "the page cannot be written: "+err.Error(), http.StatusInternalServerError)
		return
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len())) // of what is not compressed
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}
