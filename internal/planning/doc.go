// Package planning predicts what a change of a deployment would do, and finds changes that meet targets. It simulates
// vLLM's scheduler (package sim) with step times and memory from package perfmodel.
//
// It answers three kinds of questions:
//
//   - A Simulation predicts what users would see with other settings, replicas or load, at one point or at each point
//     of a sweep over a parameter (Axis).
//   - A Tuning computes what a model's memory holds. With targets, Plan.Search finds the smallest deployment that meets
//     them.
//   - PredictFixes predicts the effects of the fixes of a diagnosis. Ask predicts any change of a diagnosed server.
//
// All begin with facts about the deployment. A Simulation and a Tuning have them in Known: settings, running servers,
// load tests, data sheets. PredictFixes measures the diagnosed server. Then each does four steps:
//
//  1. It calibrates: facts become step times with intervals (perfmodel.Calibration).
//  2. It replays the present, if servers were measured (Simulation.Calibrate, predictor.fitPresent). If the simulated
//     present differs too much from the measurements, a Simulation says so (Missed), and PredictFixes predicts nothing
//     and gives the reason.
//  3. It draws requests: Draw and DrawLoop for a Simulation and a Tuning, a trial for PredictFixes.
//  4. It simulates the change with several samples of the calibration, whose results span the intervals.
//
// The package finds no fault and invents no fix: the catalogue does. Package diagnose does not import it. It is pure
// except for the Querier that PredictFixes and Ask receive. Its random numbers have constant seeds: the same input
// gives the same answer.
package planning
