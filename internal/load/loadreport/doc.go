// Package loadreport renders the results of load tests: as a Document for terminals and pages, and as CSV with a line
// per request. It measures and fetches nothing; the command line calls it.
package loadreport
