// Package falsealarms measures how often a diagnosis calls a healthy server sick.
//
// play lets a fleet of make-believe servers serve days of production-like
// traffic in simulated time, scrapes it as a Prometheus server would, diagnoses
// it after each interval, and compares what fires with what clients got: nothing
// in the truth comes from a metric or from the code that judges. Each false
// alarm can be written as a recording that `sixty diagnose --recording` judges
// in the same way.
//
// It holds tests alone; the long one is `make false-alarms`.
package falsealarms
