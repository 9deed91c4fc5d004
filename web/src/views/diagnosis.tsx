import { useMemo } from 'preact/hooks'
import { useGet } from '../api'
import type { Band, Level, Line, Mark as Moment } from '../chart'
import { about, change, interval, number, opening, plural, sentence, time, written } from '../format'
import { now, useLive } from '../live'
import { quantile } from '../odd'
import { Key, usePanels } from '../panel'
import type { Span } from '../query'
import type { Advice, Diagnosis, Effect, Evidence, Finding, Fix, Incident, Link, Plot as Drawn, Summary } from '../types'
import { At, Command, Nothing, Plot, Range, Text } from '../ui'
import { pathOf } from './path'

// sure says a confidence in a word, as the command line does.
export const sure = (c: number): string => `${c >= 0.8 ? 'high' : c >= 0.5 ? 'medium' : 'low'} confidence`

// useTick is the monitor's time, in steps: what is asked of now follows it.
export function useTick(every: number): number {
  const live = useLive()
  const at = live.overview ? Date.parse(live.overview.at) : now(live)
  return Math.floor(at / every) * every
}

// findingOf is the finding of a pathology on a model: one that fires before one that does not.
function findingOf(d: Diagnosis | null | undefined, id: string, model: string): Finding | undefined {
  const of = d?.findings.filter((f) => f.id === id && (f.model === model || f.model === '')) ?? []
  return of.find((f) => f.status === 'firing') ?? of[0]
}

// plotsOf are the plots of a model, in the order of the story.
const plotsOf = (d: Diagnosis | null | undefined, model: string): Drawn[] => d?.plots?.filter((p) => d.verdicts.length < 2 || p.model === model || p.model === '') ?? []

// The panels whose histograms percentiles are of, by how their signals' names begin.
const families: [string, number][] = [['ttft', 201], ['itl', 202], ['e2e', 203]]

// useBounds are the bounds of the buckets that a percentile's points are interpolated in.
export function useBounds(signals: string[]): (signal: string) => number[] {
  const panels = usePanels().data?.rows.flatMap((r) => r.panels)
  const known = families.map(([name, id]) => {
    const wanted = signals.some((s) => new RegExp(`^${name}_p\\d`).test(s))
    const metrics = [...new Set(JSON.stringify(panels?.find((p) => p.id === id)?.queries ?? '').match(/[\w:]+_bucket\b/g))]
    const match = `{__name__=~"${metrics.join('|')}"}`
    const { data } = useGet<{ data: string[] }>(wanted && metrics.length > 0 ? `/api/v1/label/le/values?${new URLSearchParams({ 'match[]': match })}` : '')
    return useMemo(() => (data?.data ?? []).map(Number).filter(Number.isFinite).sort((a, b) => a - b), [data])
  })
  return (signal) => (/_p\d+$/.test(signal) ? known[families.findIndex(([name]) => signal.startsWith(name))] : undefined) ?? none
}

const none: number[] = []

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
function sinceKept(now: Drawn[], kept: Drawn[]): Drawn[] {
  return now.map((p) => {
    const k = kept.find((k) => k.signal === p.signal && k.model === p.model)
    if (!k) return p
    const [band] = normalOf(k)
    return { ...p, normal: k.normal, normal_text: k.normal_text, onset: k.onset, onset_at_least: k.onset_at_least, range: band && { low: band.from, high: band.to } }
  })
}

// useStory is what is known of an incident, or of a finding that is none yet: from the diagnosis of now, asked for each
// minute while it is wanted, as long as it has the finding, and else from the one that was kept.
export function useStory(i: Incident | undefined, id: string, model: string, wanted: boolean) {
  const tick = useTick(60_000)
  const latest = useGet<Diagnosis>(wanted ? '/api/v1/diagnosis?plots=true' : '', tick).data
  const kept = i?.diagnosis
  const live = findingOf(latest, id, model)?.status === 'firing'
  const d = live ? latest : (kept ?? latest)
  const f = findingOf(d, id, model)
  const fixes = fixesOf(i?.pathology === id ? i : undefined, f, findingOf(kept, id, model))
  const [plots, before] = useMemo(() => {
    const before = plotsOf(kept, model)
    // What is judged of one scrape alone has no course. The onset is the incident's, and what is normal the chain's.
    const plots = sinceKept(plotsOf(d, model), before).filter((p) => !p.value || p.lines.some((l) => l.points.some(([, v]) => v)))
    const told = plots.map((p) => {
      const l = f?.chain?.find((l) => l.signal === p.signal && l.baseline !== null)
      const since = i?.pathology === id ? { onset: p.onset && i.began, onset_at_least: i.began_at_least } : {}
      return { ...p, ...since, ...(l ? { normal: l.baseline, normal_text: l.baseline_text } : {}) }
    })
    return [told, before]
  }, [d, kept])
  return { d, f, fixes, plots, before, live, hops: pathOf(d, model) }
}

// EvidencePlot draws a quantity with what is normal, its threshold and the onset.
export function EvidencePlot({ p, span, at, starts = [], onZoom }: { p: Drawn; span?: Span; at?: number | null; starts?: Moment[]; onZoom?: (s: Span) => void }) {
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
        x={x} lines={lines} unit={p.unit} span={shown} height={150} levels={limits} marks={[...onset, ...starts]} max={p.unit === 'ratio' && (p.value ?? 0) <= 1 ? 1 : undefined}
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

// farthest is, of each signal that holds and rules no chance out, the comparison that is hardest to meet, the worst first.
export function farthest(evidence: Evidence[]): Evidence[] {
  const rows = new Map<string, Evidence>()
  for (const e of evidence) {
    const other = rows.get(e.signal + e.op)
    const harder = !other || (e.op === '>' ? (e.threshold ?? -Infinity) > (other.threshold ?? -Infinity) : (e.threshold ?? Infinity) < (other.threshold ?? Infinity))
    if (e.holds === true && e.role !== 'guard' && harder) rows.set(e.signal + e.op, e)
  }
  const times = (e: Evidence) => Math.abs(Math.log(Math.max(Math.abs(e.value ?? 0), 1e-9) / Math.max(Math.abs(e.threshold ?? e.baseline ?? 0), 1e-9)))
  return [...rows.values()].sort((a, b) => times(b) - times(a))
}

export const EvidenceTable = ({ f, past = false, all = false }: { f: Finding; past?: boolean; all?: boolean }) => (
  <table class="whole">
    <thead><tr><th>Signal</th><th class="n">{past ? 'Then' : 'Now'}</th><th class="n">Normal</th><th class="n">Threshold</th>{all && <th>Role</th>}</tr></thead>
    <tbody>
      {(all ? f.evidence : farthest(f.evidence)).map((e) => (
        <tr>
          <td>{e.title ?? e.signal}</td>
          <td class={`n ${all ? '' : 'bad'}`}>{written(e.value_text, e.value, e.unit)}</td>
          <td class="n">{written(e.baseline_text, e.baseline, e.unit)}</td>
          <td class="n" title={e.threshold_source && `from ${e.threshold_source}`}>{e.limit_text ?? (e.threshold === null ? '–' : `${e.op} ${number(e.threshold, e.unit)}`)}</td>
          {all && <td class="soft">{e.role}{e.holds === false ? ', does not hold' : e.holds === null ? ', unknown' : ''}</td>}
        </tr>
      ))}
    </tbody>
  </table>
)

const predicted = ['ttft_p95', 'itl_p95', 'e2e_mean', 'preemptions', 'requests_waiting', 'generation_token_rate', 'output_tokens_rate']

// Prediction draws what a fix would do: the interval with its most likely value, the present, and what came of it.
function Prediction({ e, came }: { e: Effect; came?: number | null }) {
  const present = e.measured ?? e.unchanged.value
  const top = Math.max(e.after.high ?? 0, e.after.value ?? 0, present ?? 0, came ?? 0, 1e-12)
  const range = interval(e.after, e.unit)
  return (
    <div>
      <span>{e.title ?? e.signal}</span>
      <Range e={e.after} top={top} marks={[['now', present], ['came', came]]} />
      <span class="n">{e.after.value === null ? <b>{range}</b> : <><b>{number(e.after.value, e.unit)}</b> <span class="soft">{range}</span></>}<span class="soft">, {change(e.after.value, present) === 'as usual' ? 'as now' : `now ${written(e.measured_text, present, e.unit)}`}</span>{came != null && <b class="good">, came {number(came, e.unit)}</b>}</span>
    </div>
  )
}

// effectsOf are what a fix is predicted to do, what changes first: of the advice of an incident as that was told when it
// was chosen. What is measured now is that of the chain, where it has the same signal.
export function effectsOf(f: Fix, advice?: Advice, chain: Link[] = []): Effect[] {
  const told = f.stops ? [] : (advice?.expected ?? [])
  const said = f.predicted?.effects ?? []
  const unknown = { value: null, low: null, high: null }
  const list = told.length > 0 && advice?.fixes.some((a) => a.summary === f.summary)
    ? told.map((x): Effect => said.find((e) => e.signal === x.signal) ?? { ...x, measured: x.before, unchanged: unknown, after: { ...unknown, low: x.low, high: x.high } })
    : said
  const same = (e: Effect) => Number(change(e.after.value, e.measured ?? e.unchanged.value) === 'as usual')
  return list.filter((e) => predicted.includes(e.signal)).map((e) => {
    const l = chain.find((l) => l.signal === e.signal)
    return l ? { ...e, measured: l.value, measured_text: l.value_text } : e
  }).sort((a, b) => same(a) - same(b))
}

// filled puts the names of a server into a command; what is left for the reader to fill in is not there to be copied.
export function filled(command: string, target = '', labels: Record<string, string> = {}): { text: string; whole: boolean } {
  const names: Record<string, string | undefined> = { TARGET: /^[\w.:[\]-]*:\d+$/.test(target) ? target : undefined, POD: labels.pod, NAME: labels.deployment }
  const text = command.replace(/\b(TARGET|POD|NAME)\b/g, (word) => names[word] || word)
  return { text, whole: !/\b(TARGET|POD|NAME)\b/.test(text) }
}

// FixBody is what a fix says beneath its summary.
export function FixBody({ f, few = false, advice, chain, target, labels }: { f: Fix; few?: boolean; advice?: Advice; chain?: Link[]; target?: string; labels?: Record<string, string> }) {
  const p = f.predicted
  const effects = effectsOf(f, advice, chain).slice(0, few ? 2 : 3)
  const cameOf = (e: Effect) => (f.stops ? undefined : advice?.expected?.find((x) => x.signal === e.signal)?.came)
  const text = filled(f.args || f.command, target, labels)
  const gone = f.changes.filter((c) => !c.to && !f.summary.includes(c.flag)).map((c) => c.flag)
  const former = f.changes.filter((c) => c.from && c.to && !f.summary.includes(` ${c.from}`)).map((c) => `${c.flag} ${c.from}`)
  return (
    <>
      {text.text && <Command text={text.text} copy={text.whole} />}
      {gone.length > 0 && <p>Remove <code>{gone.join(', ')}</code>.</p>}
      {former.length > 0 && <p class="soft">Replaces {former.join(', ')}.</p>}
      {effects.length > 0 && (
        <>
          <div class="predictions">{effects.map((e) => <Prediction e={e} came={cameOf(e)} />)}</div>
          <p class="legend"><span><u />now</span><span><b />predicted</span><span><i />interval</span>{effects.some((e) => cameOf(e) != null) && <span><u class="came" />what came</span>}</p>
        </>
      )}
      {effects.length === 0 && p?.reason && <p class="soft">No prediction: {sentence(p.reason)}</p>}
      {f.tradeoff && f.tradeoff !== 'none' && <p><span class="soft">Cost:</span> {sentence(f.tradeoff)}</p>}
      {f.verify && <p><span class="soft">Confirm:</span> {sentence(f.verify)}</p>}
      {!few && (f.arithmetic.length > 0 || (p?.basis.length ?? 0) + (p?.caveats.length ?? 0) > 0) && (
        <details>
          <summary>How this was computed{p && p.caveats.length > 0 ? `, ${plural(p.caveats.length, 'caveat')}` : ''}</summary>
          <ul>{f.arithmetic.map((a) => <li>{a}</li>)}</ul>
          {p?.caveats.map((c) => <p class="warning">{opening(c)}</p>)}
          {p?.basis.map((b) => <p class="soft">{sentence(b)}</p>)}
        </details>
      )}
      {few && p?.caveats.some((c) => c.startsWith('extrapolated')) && <p class="warning">Extrapolated beyond the measured range.</p>}
    </>
  )
}

// fixesOf are those of a finding, the advice of its incident first, with the predictions that are kept.
export function fixesOf(i: Summary | undefined, f: Finding | undefined, kept: Finding | undefined): Fix[] {
  const all = (f?.fixes ?? []).map((x) => (x.predicted ? x : (kept?.fixes.find((k) => k.summary === x.summary && k.predicted) ?? x)))
  const advice = i?.advice?.fixes ?? []
  const chosen = advice.map((a): Fix => ({
    changes: [], arithmetic: [], command: '', tradeoff: '', verify: '', predicted: null,
    ...a, args: (a.changes ?? []).filter((c) => c.to).map((c) => `${c.flag} ${c.to}`).join(' '),
    ...all.find((x) => x.summary === a.summary), head: a.stops ? 'Now' : advice[0].stops ? 'Then' : 'Fix',
  }))
  return [...chosen, ...all.filter((x) => !chosen.some((c) => c.summary === x.summary)).map((x) => (i?.advice ? { ...x, head: 'Or' as const } : x))]
}

// Fixes are the cards of what to do: what stops the bleeding, and what cures.
export function Fixes({ i, fixes, chain, past, labels }: { i: Summary; fixes: Fix[]; chain: Link[]; past: boolean; labels?: Record<string, string> }) {
  if (fixes.length === 0) return <Nothing title="No fix was computed">See the runbook.</Nothing>
  const a = i.advice
  const changed = i.events?.filter((e) => e.kind === 'advice').at(-1)
  const body = (f: Fix) => <FixBody f={f} advice={a} chain={chain} target={i.affected?.[0] ?? i.targets[0]} labels={labels} />
  const others = fixes.filter((f) => f.head === 'Or')
  return (
    <>
      {fixes.map((f) => f.head !== 'Or' && (
        <div class={`card best ${f.stops ? 'stops' : ''}`} data-fix>
          <h2 class="label">{past ? 'If it comes back: ' : ''}{f.head}</h2>
          <h3><Text of={f.summary} /></h3>
          {body(f)}
        </div>
      ))}
      {a && <p class="soft">{a.applied && <>Applied at <At at={a.applied} />. </>}{changed ? <>Changed at <At at={changed.at} />{changed.text.includes(', because ') && `, because ${sentence(changed.text.split(', because ')[1])}`}</> : <>Chosen at <At at={a.at} />, unchanged since.</>}</p>}
      {others.length > 0 && <details><summary>{plural(others.length, 'other fix')}</summary><div class="fixes">{others.map((x) => <details data-fix><summary><Text of={x.summary} /></summary>{body(x)}</details>)}</div></details>}
    </>
  )
}
