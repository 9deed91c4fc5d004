// Package planning says what a change of a deployment would do, and which changes meet
// targets. How long steps take and what memory holds is package perfmodel's.
//
// Known gathers what is known of a deployment. Simulation asks what its users would see
// with other settings, replicas or load, at one point or at all of a sweep; Tuning asks
// what its memory holds and which configuration meets targets, and Plan.Search looks for
// the smallest one. PredictFixes reads the traffic and the step times of a
// diagnosis' window, simulates the server as it is, and as it would be with each fix;
// where the simulation of the server as it is does not give what was measured, it
// predicts nothing and says why. It finds no fault and sizes no fix without one: the
// catalogue did, and package diagnose knows no simulator. Draw and DrawLoop make the
// requests of simulations.
//
// The package is pure but for the Querier that PredictFixes is handed, and its random
// numbers have constant seeds: the same input gives the same answer.
package planning
