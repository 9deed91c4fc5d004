import { useMemo } from 'preact/hooks'
import { useGet } from '../api'
import type { Band, Level, Line, Mark as Moment } from '../chart'
import { about, interval, number, opening, sentence, time, titleOf, written } from '../format'
import { now, useLive } from '../live'
import { quantile } from '../odd'
import { Key } from '../panel'
import type { Span } from '../query'
import type { Diagnosis, Effect, Evidence, Finding, Fix, Plot as Drawn } from '../types'
import { Command, Plot } from '../ui'

// sure says a confidence in a word, as the command line does.
export const sure = (c: number): string => `${c >= 0.8 ? 'high' : c >= 0.5 ? 'medium' : 'low'} confidence`

// useTick is the monitor's time, in steps: what is asked of now follows it.
export function useTick(every: number): number {
  const live = useLive()
  const at = live.overview ? Date.parse(live.overview.at) : now(live)
  return Math.floor(at / every) * every
}

// useLatest is the diagnosis of now with what its charts show, each minute, while it is wanted.
export function useLatest(wanted: boolean): Diagnosis | undefined {
  const tick = useTick(60_000)
  return useGet<Diagnosis>(wanted ? '/api/v1/diagnosis?plots=true' : '', tick).data
}

// findingOf is the finding of a pathology on a model: one that fires before one that does not.
export function findingOf(d: Diagnosis | null | undefined, id: string, model: string): Finding | undefined {
  const of = d?.findings.filter((f) => f.id === id && (f.model === model || f.model === '')) ?? []
  return of.find((f) => f.status === 'firing') ?? of[0]
}

// plotsOf are the plots of a model, one of each family first: evidence, then the others. P50
// beside P95 says little that is new.
export function plotsOf(d: Diagnosis | null | undefined, model: string): Drawn[] {
  const all = d?.plots?.filter((p) => d.verdicts.length < 2 || p.model === model || p.model === '') ?? []
  const family = (p: Drawn) => p.title.split(/[ ,]/)[0]
  const sorted = [...all.filter((p) => p.evidence), ...all.filter((p) => !p.evidence)]
  const first = sorted.filter((p, i) => sorted.findIndex((q) => family(q) === family(p)) === i)
  return [...first, ...sorted.filter((p) => !first.includes(p))]
}

// normalOf is the range of what is normal: of nine in ten values while nothing was wrong, or the
// value that is known to be.
export function normalOf(p: Drawn): Band[] {
  if (p.range) return [{ kind: 'normal', from: p.range.low, to: p.range.high }]
  const [from, to] = [p.baseline.from, p.baseline.to].map((t) => (t ? Date.parse(t) / 1000 : NaN))
  const then = (p.lines[0]?.points ?? []).filter(([t, v]) => v !== null && t >= from && t <= to).map(([, v]) => v as number)
  if (then.length >= 4) return [{ kind: 'normal', from: quantile(then, 0.05), to: quantile(then, 0.95) }]
  return p.normal === null ? [] : [{ kind: 'normal', from: p.normal, to: p.normal }]
}

// sinceKept are plots of now with what was normal, and the onset, from when the incident began: in a
// fault that lasts, the past at hand comes to be of nothing else.
export function sinceKept(now: Drawn[], kept: Drawn[]): Drawn[] {
  return now.map((p) => {
    const k = kept.find((k) => k.signal === p.signal && k.model === p.model)
    if (!k) return p
    const [band] = normalOf(k)
    return { ...p, normal: k.normal, normal_text: k.normal_text, onset: k.onset, onset_at_least: k.onset_at_least, range: band && { low: band.from, high: band.to } }
  })
}

// EvidencePlot draws a quantity with what is normal, its threshold and the onset.
export function EvidencePlot({ p, span, at, starts = [], height = 150, onZoom }: { p: Drawn; span?: Span; at?: number | null; starts?: Moment[]; height?: number; onZoom?: (s: Span) => void }) {
  const { x, lines } = useMemo(() => {
    const x = [...new Set(p.lines.flatMap((l) => l.points.map(([t]) => t)))].sort((a, b) => a - b)
    const place = new Map(x.map((t, k) => [t, k]))
    const lines = p.lines.map((l, k): Line => {
      const y: (number | null)[] = new Array(x.length).fill(null)
      for (const [t, v] of l.points) y[place.get(t) as number] = v
      return { name: l.name, y, faint: k > 0, about: !!p.quantile }
    })
    return { x, lines }
  }, [p])
  const shown = span ?? { from: Date.parse(p.from), to: Date.parse(p.to) }
  const limits: Level[] = p.threshold === null || p.threshold < nothing ? [] : [{ value: p.threshold, kind: 'critical' }]
  const onset: Moment[] = p.onset ? [{ at: Date.parse(p.onset), kind: 'onset', name: `${p.onset_at_least ? 'before' : 'since'} ${time(Date.parse(p.onset), now())}` }] : []
  const bands: Band[] = [...normalOf(p), ...(p.window_from ? [{ kind: 'window' as const, from: Date.parse(p.window_from), to: Date.parse(p.to) }] : [])]
  const then = at ? lines[0]?.y[nearest(x, at / 1000)] : undefined
  const [value, normal] = [written(p.value_text, p.value, p.unit), written(p.normal_text, p.normal, p.unit)]
  return (
    <figure class="panel" data-plot={p.signal}>
      <h3>
        {p.title} <b>{at ? about(then, p.unit, !!p.quantile) : value}</b>{' '}
        <span class="soft">{at ? `at ${time(at, now())}` : p.normal !== null && `normally ${normal}`}</span>
      </h3>
      <Plot
        title={`${p.title}: ${value}, normally ${normal}`}
        x={x} lines={lines} unit={p.unit} span={shown} height={height} levels={limits} marks={[...onset, ...starts]} max={p.unit === 'ratio' && (p.value ?? 0) <= 1 ? 1 : undefined}
        bands={bands} at={at} onZoom={onZoom}
      />
      <Key lines={lines} levels={limits} bands={bands} marks={[...onset, ...starts]} unit={p.unit} span={shown} />
    </figure>
  )
}

export function nearest(x: number[], at: number): number {
  let best = 0
  for (let i = 1; i < x.length; i++) if (Math.abs(x[i] - at) < Math.abs(x[best] - at)) best = i
  return best
}

// nothing is a limit below which a quantity counts as zero.
const nothing = 1e-6

// farthest is, of each signal that holds and is no guard, the comparison that is hardest to meet.
export function farthest(evidence: Evidence[]): Evidence[] {
  const rows = new Map<string, Evidence>()
  for (const e of evidence) {
    const other = rows.get(e.signal + e.op)
    const harder = !other || (e.op === '>' ? (e.threshold ?? -Infinity) > (other.threshold ?? -Infinity) : (e.threshold ?? Infinity) < (other.threshold ?? Infinity))
    if (e.holds === true && e.role !== 'guard' && harder) rows.set(e.signal + e.op, e)
  }
  return [...rows.values()]
}

export const EvidenceTable = ({ f, past = false }: { f: Finding; past?: boolean }) => (
  <table class="whole">
    <thead><tr><th>Signal</th><th class="n">{past ? 'Then' : 'Now'}</th><th class="n">Normal</th><th class="n">Threshold</th></tr></thead>
    <tbody>
      {farthest(f.evidence).map((e) => (
        <tr>
          <td>{e.title ?? e.signal}</td>
          <td class="n bad">{written(e.value_text, e.value, e.unit)}</td>
          <td class="n">{written(e.baseline_text, e.baseline, e.unit)}</td>
          <td class="n" title={e.threshold_source && `from ${e.threshold_source}`}>{e.limit_text ?? '–'}</td>
        </tr>
      ))}
    </tbody>
  </table>
)

const predicted = ['ttft_p95', 'itl_p95', 'e2e_mean', 'preemptions', 'requests_waiting', 'generation_token_rate', 'output_tokens_rate']

// Prediction draws what a fix would do: the interval with its most likely value, and the present.
function Prediction({ e }: { e: Effect }) {
  const top = Math.max(e.after.high ?? 0, e.after.value ?? 0, e.unchanged.value ?? 0, e.measured ?? 0, 1e-12)
  const place = (v: number | null) => `${Math.min(100, (100 * (v ?? 0)) / top)}%`
  const present = e.measured ?? e.unchanged.value
  return (
    <div>
      <span>{e.title ?? e.signal}</span>
      <span class="range" aria-hidden="true">
        <i style={{ left: place(e.after.low), width: `${Math.max(0.5, (100 * ((e.after.high ?? 0) - (e.after.low ?? 0))) / top)}%` }} />
        <b style={{ left: place(e.after.value) }} />
        <u style={{ left: place(present) }} />
      </span>
      <span class="n"><b>{number(e.after.value, e.unit)}</b> <span class="soft">{interval(e.after, e.unit) && `${interval(e.after, e.unit)}, `}instead of {written(e.measured_text, present, e.unit)}</span></span>
    </div>
  )
}

// FixBody is what a fix says beneath its summary.
export function FixBody({ f, few = false }: { f: Fix; few?: boolean }) {
  const p = f.predicted
  const effects = p?.effects.filter((e) => predicted.includes(e.signal)) ?? []
  const text = f.args || f.command
  const beyond = (c: string) => c.startsWith('extrapolated')
  const all = p?.caveats ?? []
  const caveats = few && all.some(beyond) ? [...all.filter((c) => !beyond(c)), 'extrapolated beyond the measured range'] : all
  const gone = f.changes.filter((c) => !c.to && !f.summary.includes(c.flag)).map((c) => c.flag)
  const former = f.changes.filter((c) => c.from && c.to && !f.summary.includes(` ${c.from}`)).map((c) => `${c.flag} ${c.from}`)
  return (
    <>
      {text && <Command text={text} />}
      {gone.length > 0 && <p>Remove <code>{gone.join(', ')}</code>.</p>}
      {former.length > 0 && <p class="soft">Replaces {former.join(', ')}.</p>}
      {effects.length > 0 && <div class="predictions">{effects.slice(0, few ? 2 : 4).map((e) => <Prediction e={e} />)}</div>}
      {effects.length === 0 && <p class="soft">No prediction{p?.reason ? `: ${sentence(p.reason)}` : ' for this kind of change.'}</p>}
      {caveats.map((c) => <p class="warning">{opening(c)}</p>)}
      {f.tradeoff && f.tradeoff !== 'none' && <p><span class="soft">Cost:</span> {sentence(f.tradeoff)}</p>}
      {f.verify && <p><span class="soft">Confirm:</span> {sentence(f.verify)}</p>}
      {!few && (f.arithmetic.length > 0 || (p?.basis.length ?? 0) > 0) && (
        <details>
          <summary>How this was computed</summary>
          <ul>{f.arithmetic.map((a) => <li>{a}</li>)}</ul>
          {p?.basis.map((b) => <p class="soft">{sentence(b)}</p>)}
        </details>
      )}
    </>
  )
}

// headline says what is wrong, and where.
export function headline(id: string, name: string, on: number, of: number): string {
  return `${titleOf(id)} on ${of > 1 && on > 0 ? `${on === of ? `all ${of}` : `${on} of ${of}`} replicas of ${name}` : name}`
}
