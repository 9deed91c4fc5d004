// Package tunereport renders the results of tunings: as text for a terminal, as JSON (schema sixty.tune/v2,
// documented in docs/tune-json.md) and as an HTML page. It computes nothing but layout.
package tunereport
