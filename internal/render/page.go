package render

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"

	"github.com/sixty-dev/sixty/internal/base/version"
)

var (
	//go:embed frame.html
	frame string
	//go:embed style.css
	style string
)

// A Banner is the answer at the head of a page, for the template "banner". Its class
// is critical, warning, good, or none of them.
type Banner struct {
	Class, Head string
	Text        []string
}

// HTML writes a page that needs nothing but itself: no scripts, no outside
// resources, readable in the dark and on paper. The page's template defines
// "title" and "body" and may define "style", which follows the style that all pages
// have; "figures" is there for a list of Figure,
// "banner" for a Banner.
func HTML(w io.Writer, page string, funcs template.FuncMap, data any) error {
	all := template.FuncMap{
		"style":   func() template.CSS { return template.CSS(style) }, //nolint:gosec // constant
		"tool":    version.This,
		"seconds": Seconds, "number": Number, "percent": Percent, "grouped": Grouped,
	}
	maps.Copy(all, funcs)
	t, err := template.New("page").Funcs(all).Parse(frame)
	if err != nil {
		return fmt.Errorf("parse the frame of pages: %w", err)
	}
	if t, err = t.Parse(page); err != nil {
		return fmt.Errorf("parse page: %w", err)
	}
	if err := t.ExecuteTemplate(w, "frame", data); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}
