// Package loadreport renders the results of load tests: as text for a terminal, as CSV with
// a line per request, and as one HTML page without outside resources. It measures and
// fetches nothing; the command line calls it.
package loadreport
