// Package profilereport draws what a profile comes to: as text with the answer first, as
// JSON, as a page, and what lies between two profiles. It decides nothing and fetches
// nothing.
package profilereport
