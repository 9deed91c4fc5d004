import { useEffect, useRef, useState } from 'preact/hooks'
import { getJSON } from './api'
import type { Panel, Query } from './types'

// A Span is the shown time range, in ms.
export interface Span {
  from: number
  to: number
}

// pointsOf returns the largest number of points of a line: one for every "apart" px of its width.
const [apart, most] = [3, 240]
export const pointsOf = (width: number): number => Math.min(Math.max(Math.floor(width / apart), 30), most)

// stepOf returns the time between two points in s, at least the scrape interval.
export const stepOf = (s: Span, interval: number, points: number): number => Math.max(Math.ceil((s.to - s.from) / 1000 / points), Math.ceil(interval), 1)

// rateOf returns the range of rates in s: four scrape intervals, or a step and an interval if that is longer.
export const rateOf = (step: number, interval: number): number => Math.max(step + interval, 4 * interval, 15)

// matchAny returns a PromQL regular expression, without its quotes, that matches any of the values, or everything if
// there are none.
export function matchAny(values: string[]): string {
  if (values.length === 0) return '.*'
  const exact = values.map((v) => v.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&')).join('|')
  return exact.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}

export interface Choice {
  models: string[]
  instances: string[]
  clusters: string[]
  namespaces: string[]
}

export const all: Choice = { models: [], instances: [], clusters: [], namespaces: [] }

// fillVariables replaces the variables of an expression. A function inserts the values, so that "$" in them has no
// meaning.
export function fillVariables(expr: string, c: Choice, rate: number, shown: number): string {
  const values: Record<string, string> = {
    __rate_interval: `${Math.ceil(rate)}s`,
    __range: `${Math.ceil(shown)}s`,
    model: matchAny(c.models),
    instance: matchAny(c.instances),
    cluster: matchAny(c.clusters),
    namespace: matchAny(c.namespaces),
  }
  return expr.replace(/\$(\w+)/g, (_, name: string) => values[name] ?? '.*')
}

export type Labels = Record<string, string>

export interface Matrix {
  metric: Labels
  values: [number, string][]
}

// rangePath returns the path of a range query; start, end and step are in s.
export const rangePath = (query: string, start: number, end: number, step: number): string =>
  `/api/v1/query_range?${new URLSearchParams({ query, start: String(start), end: String(end), step: String(step) })}`

export interface Answer {
  data: { result: Matrix[] }
  warnings?: string[]
}

// A Curve is one line of a panel, on the grid of its data.
export interface Curve {
  name: string
  labels: Labels
  unit: string
  right: boolean
  about: boolean // interpolated in histogram buckets
  y: (number | null)[]
}

export interface Drawn {
  x: number[] // s
  curves: Curve[]
  rows?: { name: string; y: (number | null)[] }[] // rows of a heat map, from the bottom
}

// timeGrid returns the times of a range query, and a function that returns the place of a sample's time among them.
export function timeGrid(s: Span, step: number): { x: number[]; place: (t: number) => number } {
  const first = Math.floor(s.from / 1000 / step) * step
  const x: number[] = []
  for (let t = first; t <= s.to / 1000 + step / 2 && x.length <= 11000; t += step) x.push(t)
  return { x, place: (t) => Math.round((t - first) / step) }
}

// alignSeries returns the values of a series on a grid of n times; null where it has none.
export function alignSeries(m: Matrix, n: number, place: (t: number) => number): (number | null)[] {
  const y: (number | null)[] = new Array(n).fill(null)
  for (const [t, text] of m.values) {
    const v = Number(text)
    const i = place(t)
    if (i >= 0 && i < n && Number.isFinite(v)) y[i] = v
  }
  return y
}

// nameSeries names series by the labels in which they differ.
export function nameSeries(list: { legend: string; labels: Labels }[]): string[] {
  const same = new Set<string>()
  for (const k of Object.keys(list[0]?.labels ?? {})) {
    if (list.every((s) => s.labels[k] === list[0].labels[k])) same.add(k)
  }
  const names = list.map(({ legend, labels }) => {
    const text = legend.replace(/\{\{(\w+)\}\}/g, (_, k: string) => (same.has(k) ? '' : (labels[k] ?? '')))
    const instance = !same.has('instance') && labels.instance && !legend.includes('{{instance}}') ? labels.instance : ''
    return `${text} ${instance}`.split(/\s+/).filter(Boolean).join(' ')
  })
  return names.map((n, i) => n || list[i].labels.model_name || list[i].labels.instance || 'all')
}

// heatmapRows returns the rows of a heat map from the cumulative buckets of a histogram: the part that fell into each.
export function heatmapRows(series: Matrix[], n: number, place: (t: number) => number): { name: string; y: (number | null)[] }[] {
  const bounds = series
    .map((m) => ({ le: m.metric.le === '+Inf' ? Infinity : Number(m.metric.le), y: alignSeries(m, n, place) }))
    .filter((b) => !Number.isNaN(b.le))
    .sort((a, b) => a.le - b.le)
  const rows = bounds.map((b, i) => ({
    name: b.le === Infinity ? `> ${bounds[i - 1]?.le ?? ''}` : String(b.le),
    y: b.y.map((v, t) => (v === null ? null : Math.max(0, v - (i > 0 ? (bounds[i - 1].y[t] ?? 0) : 0)))),
  }))
  // Leave out the empty buckets at the top and the bottom, except one.
  const some = rows.map((r) => r.y.some((v) => v !== null && v > 0.01))
  const from = some.indexOf(true)
  return from < 0 ? [] : rows.slice(Math.max(0, from - 1), some.lastIndexOf(true) + 2)
}

// At most four queries run at the same time, because a browser has six connections to a server.
let free = 4
const waiting: (() => void)[] = []

async function runLimited<T>(f: () => Promise<T>, signal: AbortSignal): Promise<T> {
  if (free > 0) free--
  else await new Promise<void>((go) => waiting.push(go))
  try {
    signal.throwIfAborted()
    return await f()
  } finally {
    const next = waiting.shift()
    if (next) next()
    else free++
  }
}

// Panels share the answer to a query that is under way. It is aborted when no panel waits for it.
const underWay = new Map<string, { answer: Promise<Answer>; stop: AbortController; waiting: number }>()

function fetchShared(path: string, signal: AbortSignal): Promise<Answer> {
  const stop = new AbortController()
  const one = underWay.get(path) ?? { answer: runLimited(() => getJSON<Answer>(path, stop.signal), stop.signal), stop, waiting: 0 }
  const forget = () => underWay.get(path) === one && underWay.delete(path)
  if (one.waiting++ === 0) {
    underWay.set(path, one)
    one.answer.then(forget, forget)
  }
  signal.addEventListener('abort', () => {
    if (--one.waiting > 0) return
    forget()
    one.stop.abort()
  })
  return one.answer
}

// replicaQuery returns the one query of a panel that is shown by replica: with a line per replica, P50 and P95 could
// not be distinguished.
export const replicaQuery = (p: Panel): Query => p.queries.find((q) => q.legend.startsWith('P95')) ?? p.queries.find((q) => !q.right) ?? p.queries[0]

// A Question is one request: a query, or several percentiles of one histogram.
interface Question {
  expr: string
  of: Query[]
}

// questionsOf groups queries into requests, so that each histogram is read once.
export function questionsOf(queries: Query[]): Question[] {
  const groups = new Map<string | Query, Query[]>()
  for (const q of queries) {
    const key = q.buckets ?? q
    groups.set(key, [...(groups.get(key) ?? []), q])
  }
  return [...groups.values()].map((of) => ({ expr: of.length > 1 ? `histogram_quantiles(${of[0].buckets}, "quantile", ${of.map((q) => q.quantile).join(', ')})` : of[0].expr, of }))
}

// queryOf returns the query to which a series of an answer belongs.
const queryOf = (q: Question, m: Matrix): Query => q.of.find((one) => Number(one.quantile) === Number(m.metric.quantile)) ?? q.of[0]

// fetchPanel runs the queries of a panel.
export async function fetchPanel(p: Panel, c: Choice, s: Span, interval: number, each: boolean, width: number, signal: AbortSignal): Promise<Drawn & { warnings: string[] }> {
  const step = stepOf(s, interval, pointsOf(width))
  const { x, place } = timeGrid(s, step)
  const questions = each && p.kind !== 'heatmap' ? [replicaQuery(p)].map((q) => ({ expr: q.by_replica || q.expr, of: [q] })) : questionsOf(p.queries)
  const answers = await Promise.all(
    questions.map((q) => {
      const expr = fillVariables(q.expr, c, rateOf(step, interval), (s.to - s.from) / 1000)
      return fetchShared(rangePath(expr, x[0], x[x.length - 1], step), signal)
    }),
  )
  const warnings = [...new Set(answers.flatMap((a) => a.warnings ?? []))]
  if (p.kind === 'heatmap') return { x, curves: [], rows: heatmapRows(answers[0]?.data.result ?? [], x.length, place), warnings }
  const list = answers.flatMap((a, i) => a.data.result.map((m) => ({ q: queryOf(questions[i], m), m })))
  const names = nameSeries(list.map(({ q, m }) => ({ legend: q.legend, labels: m.metric })))
  const curves = list.map(({ q, m }, i) => ({ name: names[i], labels: m.metric, unit: q.unit || p.unit, right: q.right, about: q.expr.includes('histogram_quantile('), y: alignSeries(m, x.length, place) }))
  return { x, curves: curves.filter((k) => k.y.some((v) => v !== null)), warnings }
}

export interface Panelled {
  drawn?: Drawn & { warnings: string[] }
  error?: Error
  loading: boolean
}

// usePanel runs a panel's queries while it is wanted, and keeps the last answer until the next one. A later range of
// the same length waits for the request under way: otherwise a server that takes longer than the page's beat would
// never finish one.
export function usePanel(p: Panel, c: Choice, s: Span, interval: number, each: boolean, width: number, wanted: boolean): Panelled {
  const [state, set] = useState<Panelled>({ loading: true })
  const key = JSON.stringify([p.id, c, s, interval, each, pointsOf(width)])
  const question = JSON.stringify([p.id, c, s.to - s.from, interval, each, pointsOf(width)])
  const running = useRef<{ question: string; stop: AbortController } | null>(null)
  const latest = useRef({ key, ask: (_: AbortSignal): Promise<Panelled['drawn']> => Promise.resolve(undefined) })
  latest.current = { key, ask: (signal) => fetchPanel(p, c, s, interval, each, width, signal) }
  const run = (asked: string) => {
    const mine = { question: asked, stop: new AbortController() }
    const { key, ask } = latest.current
    running.current = mine
    set((was) => ({ ...was, loading: true }))
    const done = (answer: Panelled) => {
      if (running.current !== mine) return
      running.current = null
      set(answer)
      if (latest.current.key !== key) run(asked)
    }
    ask(mine.stop.signal).then(
      (drawn) => done({ drawn, loading: false }),
      (error) => done({ error, loading: false }),
    )
  }
  useEffect(() => {
    if (!wanted || running.current?.question === question) return
    running.current?.stop.abort()
    run(question)
  }, [key, wanted])
  useEffect(
    () => () => {
      running.current?.stop.abort()
      running.current = null
    },
    [],
  )
  return state
}
