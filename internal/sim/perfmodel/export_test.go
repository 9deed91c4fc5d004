package perfmodel

// Solve fits the constants of a step cost with a given knee to observations.
func Solve(obs []Observation, knee int, prior *Prior) (*Fit, error) {
	p, err := solveKnee(obs, knee, prior, nil)
	if err != nil {
		return nil, err
	}
	return p.toFit(nil, nil)
}
