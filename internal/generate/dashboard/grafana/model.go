package grafana

import "encoding/json"

// The part of Grafana's dashboard model, schema version 39 (Grafana 11), that
// the dashboards use. Newer Grafanas migrate it as they load it. Types and names
// are those of Grafana's own schema, against which tests check what is written.

type dashboard struct {
	UID           string           `json:"uid"`
	Title         string           `json:"title"`
	Description   string           `json:"description"`
	Tags          []string         `json:"tags"`
	SchemaVersion int              `json:"schemaVersion"`
	Version       int              `json:"version"`
	Editable      bool             `json:"editable"`
	Timezone      string           `json:"timezone"`
	GraphTooltip  int              `json:"graphTooltip"` // 1 shares the crosshair
	Time          timeRange        `json:"time"`
	Refresh       string           `json:"refresh"`
	Links         []link           `json:"links"`
	Annotations   list[annotation] `json:"annotations"`
	Templating    list[variable]   `json:"templating"`
	Panels        []panel          `json:"panels"`
	ID            *int             `json:"id"` // null: Grafana gives one
	Timepicker    map[string]bool  `json:"timepicker"`
}

type list[T any] struct {
	List []T `json:"list"`
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
	Type        string          `json:"type"`
	ID          int             `json:"id"`
	Title       string          `json:"title"`
	GridPos     gridPos         `json:"gridPos"`
	Description string          `json:"description,omitempty"`
	Datasource  *datasource     `json:"datasource,omitempty"`
	Links       []link          `json:"links,omitempty"`
	Targets     []target        `json:"targets,omitempty"`
	FieldConfig *fieldConfig    `json:"fieldConfig,omitempty"`
	Options     json.RawMessage `json:"options,omitempty"`
	Repeat      string          `json:"repeat,omitempty"`

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
	Unit       string          `json:"unit,omitempty"`
	Min        *float64        `json:"min,omitempty"`
	Max        *float64        `json:"max,omitempty"`
	NoValue    string          `json:"noValue,omitempty"`
	Color      *color          `json:"color,omitempty"`
	Thresholds *thresholds     `json:"thresholds,omitempty"`
	Custom     json.RawMessage `json:"custom,omitempty"`
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

// Options of panels that are the same on every dashboard.
const (
	seriesOptions = `{
		"legend": {"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []},
		"tooltip": {"mode": "multi", "sort": "desc"}
	}`
	statOptions = `{
		"graphMode": "area", "colorMode": "value", "justifyMode": "auto", "textMode": "value_and_name",
		"wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard", "orientation": "auto",
		"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false}
	}`
)

// lineOptions and heatmapOptions are options with verbs of package fmt for what differs:
// the opacity, the modes of stacking and of thresholds; the unit. Empty cells are hidden.
const (
	lineOptions = `{
		"drawStyle": "line", "lineWidth": 2, "fillOpacity": %d, "showPoints": "never", "spanNulls": false, "axisSoftMin": 0,
		"stacking": {"mode": %q, "group": "A"}, "thresholdsStyle": {"mode": %q}
	}`
	heatmapOptions = `{
		"calculate": false, "cellGap": 1,
		"color": {
			"mode": "scheme", "scheme": "Oranges", "fill": "dark-orange", "scale": "exponential", "exponent": 0.5, "steps": 64,
			"reverse": false
		},
		"yAxis": {"axisPlacement": "left", "reverse": false, "unit": %q}, "showValue": "never", "legend": {"show": true},
		"tooltip": {"mode": "single", "yHistogram": true}, "exemplars": {"color": "rgba(255,0,255,0.7)"},
		"rowsFrame": {"layout": "auto"}, "filterValues": {"le": 1e-9}
	}`
)
