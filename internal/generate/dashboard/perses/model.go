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
	Display         display          `json:"display"`
	Duration        string           `json:"duration"`
	RefreshInterval string           `json:"refreshInterval"`
	Variables       []variable       `json:"variables"`
	Panels          map[string]panel `json:"panels"`
	Layouts         []grid           `json:"layouts"`
}

type display struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// plugin is a plugin's kind with its options.
type plugin struct {
	Kind string `json:"kind"`
	Spec any    `json:"spec"`
}

type variable struct {
	Kind string       `json:"kind"` // "ListVariable"
	Spec listVariable `json:"spec"`
}

type listVariable struct {
	Name           string  `json:"name"`
	Display        display `json:"display"`
	DefaultValue   string  `json:"defaultValue,omitempty"`
	AllowMultiple  bool    `json:"allowMultiple"`
	AllowAllValue  bool    `json:"allowAllValue"`
	CustomAllValue string  `json:"customAllValue,omitempty"`
	Sort           string  `json:"sort,omitempty"`
	Plugin         plugin  `json:"plugin"`
}

type labelValues struct {
	LabelName string   `json:"labelName"`
	Matchers  []string `json:"matchers"`
}

type datasourceVariable struct {
	DatasourcePluginKind string `json:"datasourcePluginKind"`
}

type panel struct {
	Kind string    `json:"kind"` // "Panel"
	Spec panelSpec `json:"spec"`
}

type panelSpec struct {
	Display display `json:"display"`
	Plugin  plugin  `json:"plugin"`
	Queries []query `json:"queries"`
	Links   []link  `json:"links,omitempty"`
}

type link struct {
	Name        string `json:"name"`
	URL         string `json:"url"`
	TargetBlank bool   `json:"targetBlank"`
}

type query struct {
	Kind string    `json:"kind"` // "TimeSeriesQuery"
	Spec querySpec `json:"spec"`
}

type querySpec struct {
	Plugin queryPlugin `json:"plugin"`
}

type queryPlugin struct {
	Kind string          `json:"kind"` // "PrometheusTimeSeriesQuery"
	Spec prometheusQuery `json:"spec"`
}

type prometheusQuery struct {
	Datasource       string `json:"datasource"`
	Query            string `json:"query"`
	SeriesNameFormat string `json:"seriesNameFormat"`
}

type grid struct {
	Kind string   `json:"kind"` // "Grid"
	Spec gridSpec `json:"spec"`
}

type gridSpec struct {
	Display        gridDisplay `json:"display"`
	Items          []gridItem  `json:"items"`
	RepeatVariable string      `json:"repeatVariable,omitempty"`
}

type gridDisplay struct {
	Title    string   `json:"title"`
	Collapse collapse `json:"collapse"`
}

type collapse struct {
	Open bool `json:"open"`
}

type gridItem struct {
	X       int `json:"x"`
	Y       int `json:"y"`
	Width   int `json:"width"`
	Height  int `json:"height"`
	Content ref `json:"content"`
}

type ref struct {
	Ref string `json:"$ref"`
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
	Calculation string      `json:"calculation"`
	Format      format      `json:"format"`
	Sparkline   sparkline   `json:"sparkline"`
	Thresholds  *thresholds `json:"thresholds,omitempty"`
}

type sparkline struct {
	Width float64 `json:"width"`
}
