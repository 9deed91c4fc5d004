// The files beside this one as a mixin (https://monitoring.mixins.dev):
//   jb install github.com/sixty-dev/sixty/mixin@v0.1.0
//   local sixty = import 'github.com/sixty-dev/sixty/mixin/mixin.libsonnet';
local groups = std.parseYaml(importstr 'rules/rules.yaml').groups;

// only returns the groups that have rules with a key, with these rules alone.
local only(key) = [
  group { rules: [rule for rule in group.rules if std.objectHas(rule, key)] }
  for group in groups
  if std.length([rule for rule in group.rules if std.objectHas(rule, key)]) > 0
];

{
  grafanaDashboards+:: {
    'sixty-fleet.json': import 'dashboards/grafana/sixty-fleet.json',
    'sixty-gateway.json': import 'dashboards/grafana/sixty-gateway.json',
    'sixty-gpu.json': import 'dashboards/grafana/sixty-gpu.json',
    'sixty-host.json': import 'dashboards/grafana/sixty-host.json',
    'sixty-incident.json': import 'dashboards/grafana/sixty-incident.json',
    'sixty-options.json': import 'dashboards/grafana/sixty-options.json',
    'sixty-serving.json': import 'dashboards/grafana/sixty-serving.json',
    'sixty-start.json': import 'dashboards/grafana/sixty-start.json',
  },
  prometheusAlerts+:: { groups+: only('alert') },
  prometheusRules+:: { groups+: only('record') },
}
