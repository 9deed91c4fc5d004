package load

// Server holds the server's own metrics during the test. The command line fills it in: this package reads no metrics.
type Server struct {
	// Series are signals to compare with the client's, by their names in package indicator, aggregated over all
	// servers.
	Series []ServerPoint `json:"series"`
	Missed int           `json:"missed"` // scrapes that failed

	// Normal is the median of every signal over the window, for a baseline.
	Normal map[string]float64 `json:"normal,omitempty"`

	// Phases are the verdicts on the server: one for the window, or one for each step of the load.
	Phases []Phase  `json:"phases,omitempty"`
	Notes  []string `json:"notes,omitempty"` // missing parts, with reasons
}

// A ServerPoint holds the known quantities at one moment.
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
	Findings   []FiredPathology `json:"findings,omitempty"` // firing pathologies, the worst first
	Unchecked  []string         `json:"unchecked,omitempty"`
}

// A FiredPathology is a pathology that fired.
type FiredPathology struct {
	ID        string   `json:"id"`
	Title     string   `json:"title"`
	Severity  string   `json:"severity"`
	Summary   string   `json:"summary"`
	ExplainBy string   `json:"explained_by,omitempty"` // the pathology that causes it
	Evidence  []string `json:"evidence,omitempty"`
	Fixes     []string `json:"fixes,omitempty"`
}
