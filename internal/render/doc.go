// Package render draws reports: terminal text, Markdown, pages of HTML, numbers and SVG charts. It does not know what
// the reports are about. Packages report, audit and those below report choose the contents and the words.
//
// A report is a Document: an answer, sections, items, tables, commands and charts, in the order in which they are
// read. The document writes itself for a terminal (Document.Text), as Markdown, or as a page without scripts. A Form
// says which of these show a block, and a rank says how early a block leaves a screen that is too small.
//
// Text is the layout for terminals. It wraps at DefaultWidth columns unless the caller knows the terminal's width; it
// never asks the terminal itself. Package lipgloss gives the colours, x/ansi the width of characters. A Chart is SVG
// with the colours of style.css.
//
// Texts from servers are foreign: a Document cleans everything that is added to it (Clean), and Escape protects
// Markdown.
package render
