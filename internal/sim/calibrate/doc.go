// Package calibrate fits the constants of sim.StepCost to what a server was seen
// to do: to the per-request results of a load test (FromRequests), to a live
// server's metrics (FromScrapes), or, when nothing was seen, estimates them from
// data sheets (FromHardware). Predict simulates a workload with a fit, and says
// how far to trust it.
//
// The fit is robust least squares of logarithmic errors with constants that
// cannot be negative; its intervals come from a bootstrap over blocks of
// neighbouring observations. Constants that move together in everything that was
// observed cannot be told apart: the hardware's data sheet, as a prior, keeps
// them physical where the observations leave them free.
//
// The package is pure, as sim is: its random numbers have a constant seed.
package calibrate
