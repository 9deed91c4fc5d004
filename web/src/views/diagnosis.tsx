import { useMemo } from 'preact/hooks'
import { useGet } from '../api'
import { compareWithNormal, formatInterval, formatNumber, formatValue, openingSentence, plural, sentence } from '../format'
import { monitorNow, useLive } from '../live'
import { quantile } from '../odd'
import { usePanels } from '../panel'
import type { Advice, Diagnosis, Effect, Evidence, Finding, Fix, Incident, Link, Plot as Drawn, Summary } from '../types'
import { At, Command, Compared, Nothing, Range, Text } from '../ui'
import { pathOf } from './path'

// sure writes a confidence as a word, like the command line.
export const sure = (c: number): string => `${c >= 0.8 ? 'high' : c >= 0.5 ? 'medium' : 'low'} confidence`

// useTick returns the monitor's time in steps of a length, for requests about now.
export function useTick(every: number): number {
  const live = useLive()
  const at = live.overview ? Date.parse(live.overview.at) : monitorNow(live)
  return Math.floor(at / every) * every
}

// findingOf returns the finding of a pathology on a model, a firing one if there is one.
function findingOf(d: Diagnosis | null | undefined, id: string, model: string): Finding | undefined {
  const of = d?.findings.filter((f) => f.id === id && (f.model === model || f.model === '')) ?? []
  return of.find((f) => f.status === 'firing') ?? of[0]
}

// plotsOf returns the plots of a model, in the order of the chain.
const plotsOf = (d: Diagnosis | null | undefined, model: string): Drawn[] => d?.plots?.filter((p) => d.verdicts.length < 2 || p.model === model || p.model === '') ?? []

// The panels with the histograms of percentiles, by the beginning of the signal's name.
const families: [string, number][] = [['ttft', 201], ['itl', 202], ['e2e', 203]]

// useBounds returns the bounds of the histogram buckets of a percentile.
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

// normalOf returns the normal range: nine in ten values of the baseline, or else the known normal value.
export function normalOf(p: Drawn): { low: number; high: number } | undefined {
  if (p.range) return p.range
  const [from, to] = [p.baseline.from, p.baseline.to].map((t) => (t ? Date.parse(t) / 1000 : NaN))
  const then = (p.lines[0]?.points ?? []).filter(([t, v]) => v !== null && t >= from && t <= to).map(([, v]) => v as number)
  if (then.length >= 4) return { low: quantile(then, 0.05), high: quantile(then, 0.95) }
  return p.normal === null ? undefined : { low: p.normal, high: p.normal }
}

// sinceKept returns current plots with the normal range of the incident's beginning: while a fault lasts, the available
// past comes to contain only the fault.
function sinceKept(now: Drawn[], kept: Drawn[]): Drawn[] {
  return now.map((p) => {
    const k = kept.find((k) => k.signal === p.signal && k.model === p.model)
    return k ? { ...p, normal: k.normal, normal_text: k.normal_text, range: normalOf(k) } : p
  })
}

// useStory returns the finding, chain and plots of an incident, or of a finding without one. They come from the current
// diagnosis, which is fetched each minute while wanted, or from the stored one if the current one lacks the finding.
export function useStory(i: Incident | undefined, id: string, model: string, wanted: boolean) {
  const tick = useTick(60_000)
  const latest = useGet<Diagnosis>(wanted ? '/api/v1/diagnosis?plots=true' : '', tick).data
  const kept = i?.diagnosis
  const live = findingOf(latest, id, model)?.status === 'firing'
  const d = live ? latest : (kept ?? latest)
  const f = findingOf(d, id, model)
  const fixes = fixesOf(i?.pathology === id ? i : undefined, f, findingOf(kept, id, model))
  // A finding that needs one scrape only has no plots.
  const plots = useMemo(() => sinceKept(plotsOf(d, model), plotsOf(kept, model)).filter((p) => !p.value || p.lines.some((l) => l.points.some(([, v]) => v))), [d, kept])
  return { d, f, fixes, plots, live, hops: pathOf(d, model) }
}

export function nearest(x: number[], at: number): number {
  let best = 0
  for (let i = 1; i < x.length; i++) if (Math.abs(x[i] - at) < Math.abs(x[best] - at)) best = i
  return best
}

// farthest returns, for each signal, the strictest comparison that holds and is not a guard, the worst first.
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

export function EvidenceTable({ f, past = false, all = false }: { f: Finding; past?: boolean; all?: boolean }) {
  const rows = (all ? f.evidence : farthest(f.evidence)).map((e) => [
    e.title ?? e.signal, formatValue(e.value_text, e.value, e.unit), formatValue(e.baseline_text, e.baseline, e.unit),
    e.limit_text ?? (e.threshold === null ? '–' : `${e.op} ${formatNumber(e.threshold, e.unit)}`),
    ...(all ? [(e.role ?? '') + (e.holds === false ? ', does not hold' : e.holds === null ? ', unknown' : '')] : []),
  ])
  return <Compared heads={['Signal', past ? 'Then' : 'Now', 'Normal', 'Threshold', ...(all ? ['Role'] : [])]} rows={rows} bad={all ? 0 : 1} />
}

const predicted = ['ttft_p95', 'itl_p95', 'e2e_mean', 'preemptions', 'requests_waiting', 'generation_token_rate', 'output_tokens_rate']

// Prediction draws the effect of a fix: the predicted value with its interval, the present value, and the result.
function Prediction({ e, came }: { e: Effect; came?: number | null }) {
  const present = e.measured ?? e.unchanged.value
  const top = Math.max(e.after.high ?? 0, e.after.value ?? 0, present ?? 0, came ?? 0, 1e-12)
  const range = formatInterval(e.after, e.unit)
  return (
    <div>
      <span>{e.title ?? e.signal}</span>
      <Range e={e.after} top={top} marks={[['now', present], ['came', came]]} />
      <span class="n">{e.after.value === null ? <b>{range}</b> : <><b>{formatNumber(e.after.value, e.unit)}</b> <span class="soft">{range}</span></>}<span class="soft">, {compareWithNormal(e.after.value, present) === 'as usual' ? 'as now' : `now ${formatValue(e.measured_text, present, e.unit)}`}</span>{came != null && <b class="good">, came {formatNumber(came, e.unit)}</b>}</span>
    </div>
  )
}

// effectsOf returns the predicted effects of a fix, those that change something first. Present values come from the
// chain if it has the signal.
export function effectsOf(f: Fix, chain: Link[] = []): Effect[] {
  const same = (e: Effect) => Number(compareWithNormal(e.after.value, e.measured ?? e.unchanged.value) === 'as usual')
  return (f.predicted?.effects ?? []).filter((e) => predicted.includes(e.signal)).map((e) => {
    const l = chain.find((l) => l.signal === e.signal)
    return l ? { ...e, measured: l.value, measured_text: l.value_text } : e
  }).sort((a, b) => same(a) - same(b))
}

// filled puts the names of a server into a command. A command with an unknown name in it has no copy button.
export function filled(command: string, target = '', labels: Record<string, string> = {}): { text: string; whole: boolean } {
  const names: Record<string, string | undefined> = { TARGET: /^[\w.:[\]-]*:\d+$/.test(target) ? target : undefined, POD: labels.pod, NAME: labels.deployment }
  const text = command.replace(/\b(TARGET|POD|NAME)\b/g, (word) => names[word] || word)
  return { text, whole: !/\b(TARGET|POD|NAME)\b/.test(text) }
}

// FixBody shows the details of a fix beneath its summary.
export function FixBody({ f, advice, chain, target, labels }: { f: Fix; advice?: Advice; chain?: Link[]; target?: string; labels?: Record<string, string> }) {
  const p = f.predicted
  const effects = effectsOf(f, chain).slice(0, 3)
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
      {(f.arithmetic.length > 0 || (p?.basis.length ?? 0) + (p?.caveats.length ?? 0) > 0) && (
        <details>
          <summary>How this was computed{p && p.caveats.length > 0 ? `, ${plural(p.caveats.length, 'caveat')}` : ''}</summary>
          <ul>{f.arithmetic.map((a) => <li>{a}</li>)}</ul>
          {p?.caveats.map((c) => <p class="warning">{openingSentence(c)}</p>)}
          {p?.basis.map((b) => <p class="soft">{sentence(b)}</p>)}
        </details>
      )}
    </>
  )
}

// fixesOf returns the fixes of a finding, the advice of its incident first, with stored predictions.
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

// Fixes shows the cards of relief and cure.
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
      {a && <p class="soft">{a.applied && <>Applied at <At at={a.applied} />. </>}{changed ? <><At at={changed.at} />: {sentence(changed.text)}</> : <>Chosen at <At at={a.at} />, unchanged since.</>}</p>}
      {others.length > 0 && <details><summary>{plural(others.length, 'other fix')}</summary><div class="fixes">{others.map((x) => <details data-fix><summary><Text of={x.summary} /></summary>{body(x)}</details>)}</div></details>}
    </>
  )
}
