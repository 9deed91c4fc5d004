// Package tunereport renders what package planning found, as text for a terminal, as
// JSON (schema sixty.tune/v1, documented in docs/tune.md) and as an HTML page with
// a plot. It computes nothing but layout.
package tunereport
