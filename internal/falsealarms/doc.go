// Package falsealarms measures how often the monitor calls a healthy server sick, and how often
// it misses one that is.
//
// Play lets a cluster of make-believe servers live for days of production-like traffic in
// simulated time, with upgrades, nodes that are drained, nightly batches and faults, scrapes
// it as Prometheus servers would, and hands it to the real monitor and its alerter. What these
// send is compared with what was done and with what clients got: nothing in the truth comes
// from a metric or from the code that judges. Each false alarm can be written as a recording.
//
// It holds tests alone; the long one is `make false-alarms`.
package falsealarms
