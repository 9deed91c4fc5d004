// The JSON of the monitor: docs/api.md and docs/json.md.

export type Status = 'firing' | 'down' | 'pending' | 'unknown' | 'ok' | 'idle'
export type Life = '' | 'starting' | 'serving' | 'slow' | 'drained' | 'lost'
// Health is the state of a replica or a model on the page.
export type Health = 'failing' | 'degraded' | 'uncertain' | 'unknown' | 'healthy'
export type State = 'ok' | 'starting' | 'partial' | 'stale'
export type Maybe<T> = T | null

// Quantity is the name of one of a replica's numbers.
export type Quantity =
  'ttft_p95' | 'itl_p95' | 'requests_running' | 'requests_waiting' | 'kv_cache_usage' | 'request_rate' | 'output_tokens_rate'

export interface Numbers extends Record<Quantity, Maybe<number>> {
  bounds?: Record<string, string> // the texts of percentiles in wide buckets
}

export interface Replica {
  target: string
  labels: Record<string, string>
  engine: string
  version: string
  status: Status
  life: Life
  pathology: string
  severity: string
  reason: string
  since?: Maybe<string>
  now: Numbers
  normal: Numbers
}

export interface Verdict {
  id: string
  status: Status
  severity: string
  summary: string
  since: Maybe<string>
  since_at_least: boolean
  confidence: Maybe<number>
}

export interface Model {
  model: string
  namespace: string
  cluster: string
  name: string // with cluster and namespace, if models share the name
  health: Health
  title: string // the state and where it is, in one sentence
  text: string // the finding, in one or two sentences
  verdict: Verdict
  incident: Maybe<string>
  phase?: Phase // of the incident
  replicas: Replica[]
}

export interface Overview {
  at: string
  every_s: number
  state: State
  problems: string[]
  models: Model[]
  anomalies?: Anomaly[]
}

export interface Anomaly {
  at: string
  ended?: string
  target: string
  metric: string
  text: string
  z: number | null
  pathology: string
}

export interface Note {
  by: string
  at: string
  text: string
}

export type Phase = 'failing' | 'degraded' | 'quiet' | 'closed'

export interface Summary {
  id: string
  model: string
  pathology: string
  title: string
  severity: string
  summary: string
  began: string
  began_at_least: boolean
  phase: Phase
  quiet_since: Maybe<string>
  closes_at?: string
  affected: Maybe<string[]>
  servers: number
  story?: string
  impact?: { late: number; of: number; limit: number; failed?: number; slow?: { count: number; all: number; of: 'answers' | 'tokens'; limit: number }; budget_share?: number; text: string } // of the requests since the incident began
  advice?: Advice
  events?: { at: string; kind: string; text: string }[]
  since?: Record<string, string> // by pathology
  ended: Maybe<string>
  targets: string[]
  acknowledged: Maybe<{ by: string; at: string }>
  notes: Note[]
  has_recording: boolean
  recording_left_out?: number
}

// Advice is what to do: relief first, then the cure, with the predicted and the measured effect.
export interface Advice {
  at: string
  pathology: string
  fixes: (Pick<Fix, 'summary' | 'stops'> & Partial<Pick<Fix, 'changes' | 'command' | 'arithmetic' | 'tradeoff' | 'verify'>>)[]
  expected?: { signal: string; title: string; unit: string; before: Maybe<number>; low: number; high: number; came: Maybe<number> }[]
  applied?: string
}

export interface Incident extends Summary {
  timeline: { at: string; health: Health | ''; text: string }[]
  diagnosis: Maybe<Diagnosis>
  similar: Maybe<{ id: string; note: string; notes: Note[] }>
  slow_requests?: { trace_id: string; request_id: string; began: string; took_s: number; summary: string }[]
}

export interface Estimate {
  value: Maybe<number>
  low: Maybe<number>
  high: Maybe<number>
}

export interface Effect {
  signal: string
  title?: string
  unit: string
  measured: Maybe<number>
  measured_text?: string // the text of a wide bucket or a bound
  unchanged: Estimate
  after: Estimate
}

export interface Fix {
  head: 'Now' | 'Then' | 'Fix' | 'Or'
  summary: string
  stops?: boolean
  changes: { flag: string; from: Maybe<string>; to: string }[]
  args: string
  command: string
  arithmetic: string[]
  tradeoff: string
  verify: string
  predicted: Maybe<{
    reason: Maybe<string>
    effects: Effect[]
    basis: string[]
    caveats: string[]
  }>
}

export interface Evidence {
  signal: string
  title?: string
  unit: string
  value: Maybe<number>
  value_text?: string // the text of a wide bucket or a bound
  baseline: Maybe<number>
  baseline_text?: string
  threshold: Maybe<number>
  threshold_name: string
  threshold_source: string
  op: string
  limit_text?: string // the comparison as text: "> 90 %", "= 0"
  role?: string // cause, symptom or guard
  holds: Maybe<boolean>
}

// Link is one link of the chain from cause to symptom: its text, and when it broke.
export interface Link extends Evidence {
  says: string
  since: Maybe<string>
  at_least: boolean
  first: boolean
}

export interface Finding {
  id: string
  model: string
  status: string
  summary: string
  reasons: string[]
  confidence: Maybe<number>
  evidence: Evidence[]
  chain?: Link[]
  inhibited_by: Maybe<string>
  fixes: Fix[]
}

interface DiagnosedModel {
  model: string
  workload: Workload
}

export interface Workload {
  known: boolean
  changed: boolean
  factors: {
    name: string
    unit: string
    value: Maybe<number>
    baseline: Maybe<number>
    share_of_ttft_change: Maybe<number>
  }[]
}

export interface Plot {
  model: string
  signal: string
  title: string
  unit: string
  from: string
  to: string
  baseline: { from: Maybe<string>; to: Maybe<string> }
  threshold: Maybe<number>
  value: Maybe<number>
  value_text?: string // the text of a wide bucket or a bound
  normal: Maybe<number>
  normal_text?: string
  lines: { name: string; points: [number, Maybe<number>][] }[]
  range?: { low: number; high: number } // the normal range, if the page knows it
}

export interface Diagnosis {
  at: string
  verdict: DiagnosedModel
  verdicts: DiagnosedModel[]
  findings: Finding[]
  coverage: { id: string; missing: string[]; hint: string }[]
  notes: string[]
  plots?: Plot[]
  deployments?: Deployment[]
}

// Deployment is the path of a request through servers with several roles.
export interface Deployment {
  model: string
  first_token: Maybe<number>
  stages: { role: string; targets: string[]; lost: number; waiting: Maybe<number>; seconds: Maybe<number>; findings: string[] }[]
  links: { carries: string; seconds: Maybe<number>; fail_share: Maybe<number>; findings: string[] }[]
}

export interface Step {
  value: number
  level: 'warning' | 'critical' | 'good'
  why: string
}

export interface Query {
  expr: string
  by_replica?: string
  quantile?: string
  buckets?: string // the histogram of expr, for histogram_quantiles over several quantiles
  legend: string
  unit: string
  right: boolean
}

export interface Panel {
  id: number
  title: string
  description: string
  no_data: string
  unit: string
  kind: 'lines' | 'heatmap' | 'stat'
  width: number
  max: number
  stack: boolean
  steps: Step[]
  queries: Query[]
}

export interface Panels {
  interval_s: number
  rows: { board: string; title: string; panels: Panel[] }[]
}

export interface Runbook {
  id: string
  title: string
  severity: string
  summary: string
  html?: string
  markdown?: string
}

export interface WhatIf {
  basis: string
  warnings: string[]
  settings?: { replicas: number; flags: Record<string, string> }
  present: Record<string, Maybe<Estimate>>
  changed: Record<string, Maybe<Estimate>>
  command: string
}

export interface Settings {
  version: { version: string; go: string; platform: string }
  source: string
  evaluation_interval_s: number
  scrape_interval_s: number
  configuration: string
  thresholds: Maybe<Record<string, unknown>>
  objectives?: unknown
  storage: { directory: string; retention_s: number; retention_bytes: number }
  alertmanagers: Maybe<string[]>
  targets: Maybe<{ Labels: Record<string, string>; URL: string; Health: string; Error: string; At: string }[]>
  login?: boolean
  user?: string
  role?: string
}
