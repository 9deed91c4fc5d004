// Package simreport reports simulations: as data (Simulation, the JSON documented in docs/simulate-json.md), as text
// for a terminal, and as a self-contained HTML page. Every form names the basis of the step times.
//
// It simulates nothing itself except through package planning; sixty simulate calls it.
package simreport
