// Package simreport says what simulations found: as data (Simulation, the JSON
// documented in docs/simulate-json.md), as text for a terminal, and as one HTML page
// without outside resources. Every rendering names what the step times rest on.
//
// It simulates and fetches nothing; sixty simulate calls it.
package simreport
