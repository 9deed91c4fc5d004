package perses

// The part of Perses' model that the dashboards use. Types and names are those
// of Perses' own packages, against which tests check what is written.

type resource struct {
	Kind     string   `json:"kind"` // "Dashboard"
	Metadata metadata `json:"metadata"`
	Spec     spec     `json:"spec"`
}

type metadata struct {
	Name    string `json:"name"`
	Project string `json:"project"`
}

type spec struct {
	Display         display           `json:"display"`
	Duration        string            `json:"duration"`
	RefreshInterval string            `json:"refreshInterval"`
	Variables       []object          `json:"variables"`
	Panels          map[string]object `json:"panels"`
	Layouts         []object          `json:"layouts"`
}

type display struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// object is a variable, a panel, a query, a grid, or a plugin with its options.
type object struct {
	Kind string `json:"kind"`
	Spec any    `json:"spec"`
}

type listVariable struct {
	Name           string  `json:"name"`
	Display        display `json:"display"`
	DefaultValue   string  `json:"defaultValue,omitempty"`
	AllowMultiple  bool    `json:"allowMultiple"`
	AllowAllValue  bool    `json:"allowAllValue"`
	CustomAllValue string  `json:"customAllValue,omitempty"`
	Sort           string  `json:"sort,omitempty"`
	Plugin         object  `json:"plugin"`
}

type panelSpec struct {
	Display display  `json:"display"`
	Plugin  object   `json:"plugin"`
	Queries []object `json:"queries"`
	Links   []link   `json:"links,omitempty"`
}

type link struct {
	Name        string `json:"name"`
	URL         string `json:"url"`
	TargetBlank bool   `json:"targetBlank"`
}

type querySpec struct {
	Plugin object `json:"plugin"`
}

type prometheusQuery struct {
	Datasource       string `json:"datasource"`
	Query            string `json:"query"`
	SeriesNameFormat string `json:"seriesNameFormat"`
}

type gridSpec struct {
	Display        gridDisplay `json:"display"`
	Items          []gridItem  `json:"items"`
	RepeatVariable string      `json:"repeatVariable,omitempty"`
}

type gridDisplay struct {
	Title    string `json:"title"`
	Collapse struct {
		Open bool `json:"open"`
	} `json:"collapse"`
}

type gridItem struct {
	X       int `json:"x"`
	Y       int `json:"y"`
	Width   int `json:"width"`
	Height  int `json:"height"`
	Content struct {
		Ref string `json:"$ref"`
	} `json:"content"`
}

type format struct {
	Unit        string `json:"unit"`
	ShortValues *bool  `json:"shortValues,omitempty"`
}

type timeSeriesChart struct {
	Legend     legend      `json:"legend"`
	YAxis      yAxis       `json:"yAxis"`
	Visual     visual      `json:"visual"`
	Thresholds *thresholds `json:"thresholds,omitempty"`
}

type legend struct {
	Position string `json:"position"`
	Mode     string `json:"mode"`
	Size     string `json:"size"`
}

type yAxis struct {
	Label  string   `json:"label,omitempty"`
	Format format   `json:"format"`
	Min    *float64 `json:"min,omitempty"`
	Max    *float64 `json:"max,omitempty"`
}

type visual struct {
	Display     string  `json:"display"`
	LineWidth   float64 `json:"lineWidth"`
	AreaOpacity float64 `json:"areaOpacity"`
	Stack       string  `json:"stack,omitempty"`
}

type thresholds struct {
	Mode         string          `json:"mode"`
	DefaultColor string          `json:"defaultColor,omitempty"`
	Steps        []thresholdStep `json:"steps"`
}

type thresholdStep struct {
	Value float64 `json:"value"`
	Color string  `json:"color"`
	Name  string  `json:"name,omitempty"`
}

type statChart struct {
	Calculation string `json:"calculation"`
	Format      format `json:"format"`
	Sparkline   struct {
		Width float64 `json:"width"`
	} `json:"sparkline"`
	Thresholds *thresholds `json:"thresholds,omitempty"`
}
