package load

// Server is what the server's own metrics said during the test. The command line
// fills it: this package asks for no metrics.
type Server struct {
	// Series are the signals that are laid beside the client's, by their names in
	// package indicator; of several servers together.
	Series []ServerPoint `json:"series"`
	Missed int           `json:"missed"` // scrapes that failed

	// Normal is the median of every signal over the window: what a baseline takes.
	Normal map[string]float64 `json:"normal,omitempty"`

	// Phases are the verdicts on the server: one on the window, or on each step of
	// a load that has steps.
	Phases []Phase  `json:"phases,omitempty"`
	Notes  []string `json:"notes,omitempty"` // why something is missing
}

// ServerPoint is one moment. Quantities that were not known then are missing.
type ServerPoint struct {
	At     float64            `json:"at"`
	Values map[string]float64 `json:"values"`
}

// A Phase is the verdict on a part of the test.
type Phase struct {
	Name string  `json:"name"` // "the window", "5 requests/s"
	From float64 `json:"from"`
	To   float64 `json:"to"`

	Status     string           `json:"status"` // firing, pending, ok or unknown
	Verdict    string           `json:"verdict"`
	Summary    string           `json:"summary"`
	Confidence float64          `json:"confidence"`
	Findings   []FiredPathology `json:"findings,omitempty"` // what fired, the worst first
	Unchecked  []string         `json:"unchecked,omitempty"`
}

// A FiredPathology is one pathology that was there.
type FiredPathology struct {
	ID        string   `json:"id"`
	Title     string   `json:"title"`
	Severity  string   `json:"severity"`
	Summary   string   `json:"summary"`
	ExplainBy string   `json:"explained_by,omitempty"` // the pathology that it follows from
	Evidence  []string `json:"evidence,omitempty"`
	Fixes     []string `json:"fixes,omitempty"`
}
