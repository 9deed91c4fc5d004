package grafana

// The part of Grafana's dashboard model, schema version 39 (Grafana 11), that
// the dashboards use. Newer Grafanas migrate it as they load it. Types and names
// are those of Grafana's own schema, against which tests check what is written.

type dashboard struct {
	UID           string          `json:"uid"`
	Title         string          `json:"title"`
	Description   string          `json:"description"`
	Tags          []string        `json:"tags"`
	SchemaVersion int             `json:"schemaVersion"`
	Version       int             `json:"version"`
	Editable      bool            `json:"editable"`
	Timezone      string          `json:"timezone"`
	GraphTooltip  int             `json:"graphTooltip"` // 1 shares the crosshair
	Time          timeRange       `json:"time"`
	Refresh       string          `json:"refresh"`
	Links         []link          `json:"links"`
	Annotations   annotations     `json:"annotations"`
	Templating    templating      `json:"templating"`
	Panels        []panel         `json:"panels"`
	ID            *int            `json:"id"` // null: Grafana gives one
	Timepicker    map[string]bool `json:"timepicker"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type link struct {
	Title       string   `json:"title"`
	Type        string   `json:"type"` // "dashboards" or "link"
	Icon        string   `json:"icon"`
	Tooltip     string   `json:"tooltip"`
	URL         string   `json:"url,omitempty"`
	Tags        []string `json:"tags"`
	AsDropdown  bool     `json:"asDropdown"`
	TargetBlank bool     `json:"targetBlank"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type annotations struct {
	List []annotation `json:"list"`
}

type annotation struct {
	Name        string     `json:"name"`
	Datasource  datasource `json:"datasource"`
	Enable      bool       `json:"enable"`
	IconColor   string     `json:"iconColor"`
	Expr        string     `json:"expr"`
	Step        string     `json:"step"`
	TitleFormat string     `json:"titleFormat"`
	TextFormat  string     `json:"textFormat"`
	TagKeys     string     `json:"tagKeys"`
}

type templating struct {
	List []variable `json:"list"`
}

type variable struct {
	Type       string         `json:"type"` // "datasource" or "query"
	Name       string         `json:"name"`
	Label      string         `json:"label"`
	Query      any            `json:"query"` // a string, or a variableQuery
	Definition string         `json:"definition,omitempty"`
	Datasource *datasource    `json:"datasource,omitempty"`
	Current    *variableValue `json:"current,omitempty"`
	IncludeAll bool           `json:"includeAll"`
	AllValue   string         `json:"allValue,omitempty"`
	Multi      bool           `json:"multi"`
	Refresh    int            `json:"refresh"`
	Sort       int            `json:"sort"`
}

type variableQuery struct {
	Kind  int    `json:"qryType"` // 1: label values
	Query string `json:"query"`
	RefID string `json:"refId"`
}

type variableValue struct {
	Text  string `json:"text"`
	Value string `json:"value"`
}

// A panel is a chart, or a row where Type is "row".
type panel struct {
	Type        string       `json:"type"`
	ID          int          `json:"id"`
	Title       string       `json:"title"`
	GridPos     gridPos      `json:"gridPos"`
	Description string       `json:"description,omitempty"`
	Datasource  *datasource  `json:"datasource,omitempty"`
	Links       []link       `json:"links,omitempty"`
	Targets     []target     `json:"targets,omitempty"`
	FieldConfig *fieldConfig `json:"fieldConfig,omitempty"`
	Options     any          `json:"options,omitempty"`
	Repeat      string       `json:"repeat,omitempty"`

	// Of rows alone.
	Collapsed *bool   `json:"collapsed,omitempty"`
	Panels    []panel `json:"panels,omitzero"`
}

type gridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type target struct {
	Datasource   datasource `json:"datasource"`
	RefID        string     `json:"refId"`
	Expr         string     `json:"expr"`
	LegendFormat string     `json:"legendFormat"`
	Range        bool       `json:"range"`
	Instant      bool       `json:"instant"`
	Format       string     `json:"format"`
	EditorMode   string     `json:"editorMode"`
}

type fieldConfig struct {
	Defaults  fieldDefaults   `json:"defaults"`
	Overrides []fieldOverride `json:"overrides"`
}

type fieldDefaults struct {
	Unit       string      `json:"unit,omitempty"`
	Min        *float64    `json:"min,omitempty"`
	Max        *float64    `json:"max,omitempty"`
	Decimals   *int        `json:"decimals,omitempty"`
	NoValue    string      `json:"noValue,omitempty"`
	Color      *color      `json:"color,omitempty"`
	Thresholds *thresholds `json:"thresholds,omitempty"`
	Custom     any         `json:"custom,omitempty"`
}

type color struct {
	Mode       string `json:"mode"`
	FixedColor string `json:"fixedColor,omitempty"`
}

type thresholds struct {
	Mode  string          `json:"mode"`
	Steps []thresholdStep `json:"steps"`
}

type thresholdStep struct {
	Value *float64 `json:"value"` // null: from the beginning
	Color string   `json:"color"`
}

type fieldOverride struct {
	Matcher    matcher         `json:"matcher"`
	Properties []fieldProperty `json:"properties"`
}

type matcher struct {
	ID      string `json:"id"`
	Options string `json:"options"`
}

type fieldProperty struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}

// lines is the custom field configuration of a time series panel.
type lines struct {
	DrawStyle       string          `json:"drawStyle"`
	LineWidth       int             `json:"lineWidth"`
	FillOpacity     int             `json:"fillOpacity"`
	ShowPoints      string          `json:"showPoints"`
	SpanNulls       bool            `json:"spanNulls"`
	AxisSoftMin     float64         `json:"axisSoftMin"`
	Stacking        stacking        `json:"stacking"`
	ThresholdsStyle thresholdsStyle `json:"thresholdsStyle"`
}

type stacking struct {
	Mode  string `json:"mode"`
	Group string `json:"group"`
}

type thresholdsStyle struct {
	Mode string `json:"mode"`
}

type seriesOptions struct {
	Legend  legend  `json:"legend"`
	Tooltip tooltip `json:"tooltip"`
}

type legend struct {
	DisplayMode string   `json:"displayMode"`
	Placement   string   `json:"placement"`
	ShowLegend  bool     `json:"showLegend"`
	Calcs       []string `json:"calcs"`
}

type tooltip struct {
	Mode string `json:"mode"`
	Sort string `json:"sort"`
}

type statOptions struct {
	GraphMode              string        `json:"graphMode"`
	ColorMode              string        `json:"colorMode"`
	JustifyMode            string        `json:"justifyMode"`
	TextMode               string        `json:"textMode"`
	WideLayout             bool          `json:"wideLayout"`
	ShowPercentChange      bool          `json:"showPercentChange"`
	PercentChangeColorMode string        `json:"percentChangeColorMode"`
	Orientation            string        `json:"orientation"`
	ReduceOptions          reduceOptions `json:"reduceOptions"`
}

type reduceOptions struct {
	Calcs  []string `json:"calcs"`
	Fields string   `json:"fields"`
	Values bool     `json:"values"`
}

type heatmapOptions struct {
	Calculate  bool           `json:"calculate"`
	CellGap    int            `json:"cellGap"`
	Color      heatmapColor   `json:"color"`
	YAxis      heatmapAxis    `json:"yAxis"`
	ShowValue  string         `json:"showValue"`
	Legend     heatmapLegend  `json:"legend"`
	Tooltip    heatmapTooltip `json:"tooltip"`
	Exemplars  exemplars      `json:"exemplars"`
	RowsFrame  rowsFrame      `json:"rowsFrame"`
	FilterLeft filterValues   `json:"filterValues"`
}

type heatmapColor struct {
	Mode     string  `json:"mode"`
	Scheme   string  `json:"scheme"`
	Fill     string  `json:"fill"`
	Scale    string  `json:"scale"`
	Exponent float64 `json:"exponent"`
	Steps    int     `json:"steps"`
	Reverse  bool    `json:"reverse"`
}

type heatmapAxis struct {
	AxisPlacement string `json:"axisPlacement"`
	Reverse       bool   `json:"reverse"`
	Unit          string `json:"unit"`
}

type heatmapLegend struct {
	Show bool `json:"show"`
}

type heatmapTooltip struct {
	Mode       string `json:"mode"`
	YHistogram bool   `json:"yHistogram"`
}

type exemplars struct {
	Color string `json:"color"`
}

type rowsFrame struct {
	Layout string `json:"layout"`
}

// filterValues hides empty cells.
type filterValues struct {
	LE float64 `json:"le"`
}
