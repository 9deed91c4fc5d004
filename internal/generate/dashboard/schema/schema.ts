// What the generated dashboards must be, put together from the types that
// Grafana and Perses publish. A generated file assigns each dashboard to one of
// these, so that the compiler finds names and values that do not exist.

import type * as common from "@grafana/grafana-foundation-sdk/common";
import type * as dashboard from "@grafana/grafana-foundation-sdk/dashboard";
import type * as heatmap from "@grafana/grafana-foundation-sdk/heatmap";
import type * as prometheus from "@grafana/grafana-foundation-sdk/prometheus";
import type * as stat from "@grafana/grafana-foundation-sdk/stat";
import type * as timeseries from "@grafana/grafana-foundation-sdk/timeseries";
import type * as units from "@grafana/grafana-foundation-sdk/units";

import type { DashboardResource, DashboardSpec, ListVariableSpec, PanelSpec } from "@perses-dev/core";
import type { HeatMapChartDefinition } from "@perses-dev/heatmap-chart-plugin/lib/heat-map-chart-model";
import type { PrometheusTimeSeriesQuerySpec } from "@perses-dev/prometheus-plugin/lib/plugins/prometheus-time-series-query/time-series-query-model";
import type { PrometheusLabelValuesVariableOptions } from "@perses-dev/prometheus-plugin/lib/plugins/types";
import type { StatChartDefinition } from "@perses-dev/stat-chart-plugin/lib/stat-chart-model";
import type { TimeSeriesChartDefinition } from "@perses-dev/timeseries-chart-plugin/lib/time-series-chart-model";

// Plain is a type as JSON holds it: the values of enums, and no functions.
type Plain<T> = 0 extends 1 & T
  ? T
  : T extends string
    ? `${T}`
    : T extends (infer U)[]
      ? Plain<U>[]
      : T extends object
        ? { [K in keyof T as T[K] extends (...args: never[]) => unknown ? never : K]: Plain<T[K]> }
        : T;

// Unit is an id of Grafana, or a text put behind the number.
type Unit = (typeof units)[keyof typeof units] | `suffix:${string}`;

type Override = { id: "unit"; value: Unit } | { [K in keyof common.GraphFieldConfig as `custom.${K}`]: { id: `custom.${K}`; value: Plain<common.GraphFieldConfig[K]> } }[`custom.${keyof common.GraphFieldConfig}`] | { id: "color"; value: Plain<dashboard.FieldColor> };

type Chart<Type, Options, Custom> = Omit<Plain<dashboard.Panel>, "type" | "targets" | "options" | "fieldConfig"> & {
  type: Type;
  targets: Plain<prometheus.Dataquery>[];
  options: Plain<Options>;
  fieldConfig: {
    defaults: Omit<Plain<dashboard.FieldConfig>, "custom" | "unit"> & { custom?: Plain<Custom>; unit?: Unit };
    overrides: { matcher: { id: "byFrameRefID"; options: string }; properties: Override[] }[];
  };
};

type Row = Omit<Plain<dashboard.RowPanel>, "panels"> & { panels: never[] };

export type GrafanaDashboard = Omit<Plain<dashboard.Dashboard>, "panels"> & {
  panels: (
    | Chart<"timeseries", timeseries.Options, timeseries.FieldConfig>
    | Chart<"stat", stat.Options, never>
    | Chart<"heatmap", heatmap.Options, heatmap.FieldConfig>
    | Row
  )[];
};

type Variable = Omit<ListVariableSpec, "plugin"> & {
  plugin:
    | { kind: "DatasourceVariable"; spec: { datasourcePluginKind: "PrometheusDatasource" } }
    | { kind: "PrometheusLabelValuesVariable"; spec: PrometheusLabelValuesVariableOptions };
};

type Query = { kind: "TimeSeriesQuery"; spec: { plugin: { kind: "PrometheusTimeSeriesQuery"; spec: PrometheusTimeSeriesQuerySpec } } };

type Panel = {
  kind: "Panel";
  spec: Omit<PanelSpec, "plugin" | "queries"> & { plugin: TimeSeriesChartDefinition | StatChartDefinition | HeatMapChartDefinition; queries: Query[] };
};

export type PersesDashboard = Omit<DashboardResource, "spec"> & {
  spec: Omit<DashboardSpec, "panels" | "variables"> & { panels: Record<string, Panel>; variables: { kind: "ListVariable"; spec: Variable }[] };
};
