package plot

import (
	_ "embed"
	"html/template"
)

//go:embed style.css
var style string

// Style returns the style sheet of a page that shows plots, in light and dark.
func Style() template.CSS { return template.CSS(style) } //nolint:gosec // constant
