package tunereport

import "github.com/sixty-dev/sixty/internal/planning"

// Find is the answer for the only choice, or that of the best of several beside the others.
func Find(t *planning.Tuning, choices []planning.Choice, served string) (*Answer, error) {
	if len(choices) < 2 {
		tuned, err := t.Answer()
		if err != nil {
			return nil, err
		}
		return New(tuned, served), nil
	}
	all, best, err := t.Compare(choices)
	if err != nil {
		return nil, err
	}
	answer := New(all[best].Tuned, served)
	answer.AddComparison(all, best, served)
	return answer, nil
}
