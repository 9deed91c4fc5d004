// Package predict says what the fixes of a diagnosis would do: it reads the
// traffic and the step times of the window under judgement, simulates the server
// as it is, and as it would be with each fix. Where the simulation of the server
// as it is does not give what was measured, it predicts nothing and says why.
//
// It finds no fault and sizes no fix; the catalogue did. sixty diagnose hands
// Fill to package diagnose, which knows no simulator. The package is pure but for
// the Querier that it is handed, and its random numbers have constant seeds: the
// same readings give the same prediction.
package predict
