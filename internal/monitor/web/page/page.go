// Package page is the page of the monitor: the bundle of ../../../../web, and the shell around it
// that holds the verdict before any script runs, and without one.
//
// The bundle in dist is built from ../../../../web (make page) and not part of the repository:
// where it was not built, the shell alone is shown. Everything that the page shows comes from
// foreign servers: it reaches the browser as text, never as markup, and the content security policy allows no script but the bundle's own.
package page

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sixty-dev/sixty/internal/monitor/view"
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

	// Incident looks one up; nil where there are none.
	Incident func(ctx context.Context, id string) (view.Incident, bool)
	// Answers are handlers of the API, by pattern: what views say without a script.
	Answers map[string]http.Handler
}

// handler answers every path that is not of the API.
type handler struct {
	Config
	shell  *template.Template
	assets map[string]asset // by path
	bundle bundle
}

// An asset is a file of the bundle, as it is and compressed. Its name changes with what it
// holds.
type asset struct {
	kind        string
	raw, packed []byte
}

// A bundle is what the shell has to name of it.
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
	p := &handler{Config: cfg, assets: map[string]asset{}}
	if err := p.load(files); err != nil {
		return nil, fmt.Errorf("the page's bundle: %w", err)
	}
	p.shell, err = template.New("page").Funcs(template.FuncMap{
		"sentence": sentence,
		"iso":      func(t any) string { return optionalTime(t).Format(time.RFC3339) },
		"utc":      func(t any) string { return optionalTime(t).Format("2006-01-02 15:04:05 UTC") },
		"title":    view.Title,
		"health":   func(severity string) string { return health(view.OK, view.Firing, severity) },
		"map":      func(v any) bool { _, ok := v.(map[string]any); return ok },
		"list":     func(v any) bool { _, ok := v.([]any); return ok },
		"lines":    func(v any) bool { s, ok := v.(string); return ok && strings.Contains(s, "\n") },
	}).Parse(shellHTML)
	if err != nil {
		return nil, fmt.Errorf("the page's shell: %w", err)
	}
	return p, nil
}

// optionalTime is a time that may be there.
func optionalTime(t any) time.Time {
	if p, ok := t.(*time.Time); ok {
		return p.UTC()
	}
	return t.(time.Time).UTC()
}

// load reads the bundle and its manifest.
func (p *handler) load(files fs.FS) error {
	raw, err := fs.ReadFile(files, "manifest.json")
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
	return fs.WalkDir(files, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		kinds := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"} // whatever the machine's own list says
		kind, ok := kinds[path.Ext(name)]
		if !ok {
			kind = mime.TypeByExtension(path.Ext(name))
		}
		packed, err := compress(raw)
		p.assets["/"+name] = asset{kind: kind, raw: raw, packed: packed}
		return err
	})
}

func compress(raw []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(raw)
	}
	if err == nil {
		err = w.Close()
	}
	return b.Bytes(), err
}

func (p *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "the page is only read", http.StatusMethodNotAllowed)
		return
	}
	if a, ok := p.assets[r.URL.Path]; ok {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		send(w, r, http.StatusOK, a)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/assets/") { // of an older bundle
		http.NotFound(w, r)
		return
	}
	status, v := p.view(r)
	var b bytes.Buffer
	if err := p.shell.Execute(&b, v); err != nil {
		http.Error(w, "the page cannot be written: "+err.Error(), http.StatusInternalServerError)
		return
	}
	h.Set("Cache-Control", "no-store")
	a := asset{kind: "text/html; charset=utf-8", raw: b.Bytes()}
	if len(a.raw) > small {
		var err error
		if a.packed, err = compress(a.raw); err != nil {
			a.packed = nil
		}
	}
	send(w, r, status, a)
}

// small is what fits a packet.
const small = 1400

// send writes an asset, compressed where the browser takes it.
func send(w http.ResponseWriter, r *http.Request, status int, a asset) {
	h, body := w.Header(), a.raw
	h.Set("Content-Type", a.kind)
	h.Set("Vary", "Accept-Encoding")
	if a.packed != nil && takesGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body = a.packed
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.Copy(w, bytes.NewReader(body)) // a browser that left needs no answer
	}
}

// takesGzip reports whether an Accept-Encoding has gzip, and not at a weight of 0.
func takesGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		name, weight, _ := strings.Cut(strings.ReplaceAll(part, " ", ""), ";")
		if name == "gzip" && strings.TrimRight(weight, "0.") != "q=" {
			return true
		}
	}
	return false
}
