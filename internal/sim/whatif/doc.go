// Package whatif answers what a deployment would do under a workload, and on what
// basis it says so: Config makes a scheduler's configuration of what is known of
// a server, Calibrate fits step times to the best evidence at hand, and
// Calibration.Predict simulates with them.
//
// It decides between the kinds of evidence and words what a number rests on;
// simulating and fitting are those of packages sim and calibrate. It performs no
// I/O: sixty simulate, sixty tune and the predictions of sixty diagnose hand in
// what they read.
package whatif
