// Package planning predicts what a change of a deployment would do, and finds changes that meet targets. Package
// perfmodel knows how long steps take and what memory holds.
//
// There are three questions. A Simulation predicts what the users of a deployment would see with other settings,
// replicas or load, at one point or at each point of a sweep. A Tuning computes what a model's memory holds; with
// targets, Plan.Search finds the smallest deployment that meets them. PredictFixes predicts the effect of a
// diagnosis' fixes.
//
// All of them begin with Known, the facts about a deployment: settings, log, running servers, data sheets.
// Calibration turns these into step times. Then the present is simulated first (Simulation.Calibrate,
// predictor.fitPresent). If the simulation of the present does not reproduce what was measured, Simulation says so
// (Missed), and PredictFixes predicts nothing and gives the reason. Draw and DrawLoop generate the requests of
// simulations.
//
// The package finds no fault and invents no fix: the catalogue does, and package diagnose knows no simulator. It is
// pure except for the Querier that PredictFixes receives. Its random numbers have constant seeds: the same input
// gives the same answer.
package planning
