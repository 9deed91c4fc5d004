// Mistakes that the types must find: where one is not an error, the compiler
// complains, and the check of the generated dashboards means nothing.

import type { GrafanaDashboard, PersesDashboard } from "./schema";

type GrafanaPanel = Extract<GrafanaDashboard["panels"][number], { type: "timeseries" }>;
declare const grafana: GrafanaPanel;
declare const perses: PersesDashboard["spec"]["panels"][string]["spec"];

// @ts-expect-error no such way to draw
export const drawStyle: GrafanaPanel["fieldConfig"]["defaults"]["custom"] = { drawStyle: "curve" };
// @ts-expect-error no such unit
export const unit: GrafanaPanel["fieldConfig"]["defaults"] = { unit: "milliseconds" };
// @ts-expect-error no such option
export const options: GrafanaPanel["options"] = { ...grafana.options, axis: "left" };
// @ts-expect-error a number
export const legend: GrafanaPanel["targets"][number] = { refId: "A", expr: 1 };
// @ts-expect-error no such format
export const format: GrafanaPanel["targets"][number] = { refId: "A", expr: "up", format: "histogram" };
// @ts-expect-error no such property
export const override: GrafanaPanel["fieldConfig"]["overrides"][number]["properties"] = [{ id: "custom.axis", value: "right" }];
// @ts-expect-error no such side
export const side: GrafanaPanel["fieldConfig"]["overrides"][number]["properties"] = [{ id: "custom.axisPlacement", value: "east" }];
// @ts-expect-error no such refresh
export const refresh: NonNullable<GrafanaDashboard["templating"]["list"]> = [{ type: "query", name: "model", refresh: 7 }];

// @ts-expect-error no such unit
export const persesUnit: typeof perses.plugin = { kind: "TimeSeriesChart", spec: { yAxis: { format: { unit: "reqps" } } } };
// @ts-expect-error no such threshold mode
export const persesThresholds: typeof perses.plugin = { kind: "TimeSeriesChart", spec: { thresholds: { mode: "fixed", steps: [] } } };
// @ts-expect-error no such chart
export const persesChart: typeof perses.plugin = { kind: "LineChart", spec: {} };
// @ts-expect-error no such calculation
export const persesStat: typeof perses.plugin = { kind: "StatChart", spec: { calculation: "newest", format: { unit: "bytes" } } };
// @ts-expect-error no such option
export const persesHeat: typeof perses.plugin = { kind: "HeatMapChart", spec: { colour: "red" } };
// @ts-expect-error no expression
export const persesQuery: typeof perses.queries = [{ kind: "TimeSeriesQuery", spec: { plugin: { kind: "PrometheusTimeSeriesQuery", spec: { expr: "up" } } } }];
// @ts-expect-error no duration
export const persesDuration: PersesDashboard["spec"]["duration"] = "an hour";
// @ts-expect-error no such place for a legend
export const persesLegend: typeof perses.plugin = { kind: "TimeSeriesChart", spec: { legend: { position: "left" } } };
