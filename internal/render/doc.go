// Package render is the one hand that draws: terminal text (width, wrapping,
// tables, colour), numbers, SVG charts, documents and their pages, and what
// Markdown needs. It knows nothing of what it shows: packages report, audit and
// those below report decide what is said and in which words.
//
// Text fits DefaultWidth columns unless the caller knows the terminal's width.
// It takes colours from lipgloss and the width of characters from x/ansi; it
// never asks the terminal itself.
package render
