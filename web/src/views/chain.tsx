import { useMemo, useState } from 'preact/hooks'
import { compareWithNormal, formatNumber, formatTime, formatTimeTicks, formatValue, plural, timeTickDistances } from '../format'
import { monitorNow } from '../live'
import type { Span } from '../query'
import type { Link, Plot } from '../types'
import { courseOf, useWidth } from '../ui'
import { nearest, normalOf, useBounds } from './diagnosis'
import { Strip } from './strip'
import type { Mark as Moment } from '../chart'

// ticksOf returns round moments within a span in s, at most "most" of them.
export function ticksOf(span: Span, most: number): { at: number[]; step: number } {
  const [from, to] = [span.from / 1000, span.to / 1000]
  const step = timeTickDistances.find((s) => (to - from) / s <= most) ?? to - from
  const zone = new Date(span.from).getTimezoneOffset() * 60
  const first = Math.ceil((from - zone) / step) * step + zone
  return { at: Array.from({ length: Math.max(0, Math.floor((to - first) / step) + 1) }, (_, i) => first + i * step), step }
}

// Axis is the time axis that the charts above it share; with setAt, the reader can choose a moment on it.
export function Axis({ span, at, setAt }: { span: Span; at?: number | null; setAt?: (at: number | null) => void }) {
  const [ref, width] = useWidth<HTMLDivElement>()
  const ticks = ticksOf(span, Math.max(2, Math.floor(width / 80)))
  const texts = formatTimeTicks(ticks.at, ticks.step)
  const place = (ms: number) => `${(100 * (ms - span.from)) / (span.to - span.from)}%`
  return (
    <div class="axis" ref={ref}>
      {ticks.at.map((t, i) => Math.abs(t * 1000 - (span.from + span.to) / 2) < (0.5 - 28 / width) * (span.to - span.from) && <span style={{ left: place(t * 1000) }}>{texts[i]}</span>)}
      {at ? <span class="hand" style={{ left: place(at) }} /> : null}
      {setAt && (
        <input type="range" aria-label="Time" min={span.from} max={span.to} step={1000} value={at ?? span.to} aria-valuetext={formatTime(at ?? span.to, monitorNow())}
          onInput={(e) => setAt(Number(e.currentTarget.value))} onKeyDown={(e) => e.key === 'Escape' && setAt(null)} />
      )}
    </div>
  )
}

const [wide, high] = [1000, 56]

// bucketOf returns the histogram bucket of a value, if the bucket is too wide for interpolation.
export function bucketOf(v: number, bounds: number[]): [number, number] | undefined {
  const k = bounds.findIndex((b) => v <= b)
  const low = k > 0 ? bounds[k - 1] : 0
  return k >= 0 && low > 0 && bounds[k] / low >= 1.5 ? [low, bounds[k]] : undefined
}

// Curve draws the signal of a link: other replicas in grey, a percentile in wide buckets as those buckets, and the
// moment at which the link broke.
function Curve({ p, link, span, marks, at, bounds, point, pick }: { p: Plot; link: Link; span: Span; marks: Moment[]; at?: number | null; bounds: number[]; point: (t: number | null) => void; pick: (t: number) => void }) {
  const x = (ms: number) => ((ms - span.from) / Math.max(span.to - span.from, 1)) * wide
  const drawn = useMemo(() => {
    const values = p.lines.flatMap((l) => l.points.map(([, v]) => v ?? 0))
    const known = Math.max(...values, p.normal ?? 0, 0)
    const limit = link.threshold !== null && link.threshold > 1e-6 && (link.threshold <= 3 * known || known === 0) ? link.threshold : null
    const top = p.unit === 'ratio' && known <= 1 ? 1 : Math.max(known, limit ?? 0, 1e-12)
    const y = (v: number) => high - 3 - (v / top) * (high - 6)
    const lines = p.lines.map((l, i) => {
      const bands: string[] = []
      const half = (((l.points[1]?.[0] ?? 0) - (l.points[0]?.[0] ?? 0)) * 500 * wide) / (span.to - span.from)
      const path = courseOf(l.points.map(([t, v]) => {
        const ms = t * 1000
        if (v === null || ms < span.from || ms > span.to) return [x(ms), null]
        const bucket = i === 0 ? bucketOf(v, bounds) : undefined
        if (bucket) bands.push(`M${(x(ms) - half).toFixed(1)} ${y(bucket[0]).toFixed(1)}h${(2 * half).toFixed(1)}V${y(bucket[1]).toFixed(1)}h${(-2 * half).toFixed(1)}z`)
        return [x(ms), bucket ? null : y(v)]
      }))
      return { path, bands: bands.join('') }
    })
    return { y, lines, limit, normal: normalOf(p) }
  }, [p, span.from, span.to, bounds])
  const when = (e: PointerEvent) => {
    const box = (e.currentTarget as Element).getBoundingClientRect()
    return span.from + ((e.clientX - box.left) / box.width) * (span.to - span.from)
  }
  const { y, lines, limit, normal } = drawn
  return (
    <svg class="curve" viewBox={`0 0 ${wide} ${high}`} height={high} preserveAspectRatio="none" role="img" aria-label={`${link.title} over time`} data-plot={p.signal}
      onPointerMove={(e) => point(when(e))} onPointerLeave={() => point(null)} onClick={(e) => pick(when(e as unknown as PointerEvent))}>
      {normal && <rect class="normal" x={0} width={wide} y={y(normal.high)} height={Math.max(2, y(normal.low) - y(normal.high))} />}
      {marks.map((m) => <line class="event" x1={x(m.at)} x2={x(m.at)} y1={0} y2={high} />)}
      {limit !== null && <line class="limit" x1={0} x2={wide} y1={y(limit)} y2={y(limit)} />}
      {lines.slice(1).map((l) => <path class="other" d={l.path} />)}
      {lines[0].bands && <path class="bucket" d={lines[0].bands} />}
      <path d={lines[0].path} />
      {link.since && <line class="broke" x1={x(Date.parse(link.since))} x2={x(Date.parse(link.since))} y1={0} y2={high} />}
      {at ? <line class="hand" x1={x(at)} x2={x(at)} y1={0} y2={high} /> : null}
    </svg>
  )
}

// rowOf returns a chart of a quantity that is not in the chain.
export const rowOf = (p: Plot): Link => ({
  ...p, says: p.title, baseline: p.normal, baseline_text: p.normal_text, threshold_name: '', threshold_source: '', op: '', holds: true,
  role: 'guard', since: null, at_least: false, first: false,
})

interface ChainProps {
  links: Link[]
  plots: Plot[]
  span: Span
  marks?: Moment[]
  at?: number | null
  setAt?: (at: number | null) => void
}

// Chain draws the links from cause to symptom, each with its value now and normally, on one time axis.
export function Chain({ links, plots, span, marks = [], at = null, setAt }: ChainProps) {
  const bounds = useBounds(links.map((l) => l.signal))
  const [pointed, point] = useState<number | null>(null)
  const moment = pointed ?? at
  return (
    <div class="chain">
      {marks.length > 0 && <div class="across"><Strip span={span} eras={[]} starts={marks} /></div>}
      {links.map((l, i) => {
        const p = plots.find((p) => p.signal === l.signal)
        const points = p?.lines[0]?.points ?? []
        const then = moment && points.length > 0 ? points[nearest(points.map(([t]) => t), moment / 1000)][1] : undefined
        const bucket = then ? bucketOf(then, bounds(l.signal)) : undefined
        const times = compareWithNormal(l.value, l.baseline).replace(' normal', '')
        return (
          <div class="link" data-link={l.signal}>
            <h3>{i > 0 && l.role !== 'guard' && <span class="arrow" aria-hidden="true">↓</span>}{l.says}{l.says !== l.title && <span class="soft">{l.title}</span>}</h3>
            <div class="value">
              {moment ? (
                <><b>{bucket ? `${formatNumber(bucket[0], l.unit)} – ${formatNumber(bucket[1], l.unit)}` : formatNumber(then, l.unit)}</b><span class="soft">at {formatTime(moment, monitorNow())}</span></>
              ) : (
                <>
                  <b class={l.role === 'guard' ? '' : 'bad'}>{formatValue(l.value_text, l.value, l.unit)} {times.includes('×') && <small>{times}</small>}</b>
                  {l.baseline !== null && <span class="soft">normally {formatValue(l.baseline_text, l.baseline, l.unit)}</span>}
                </>
              )}
            </div>
            {p ? <Curve p={p} link={l} span={span} marks={marks} at={moment} bounds={bounds(l.signal)} point={point} pick={(t) => setAt?.(Math.round(t / 1000) * 1000)} /> : <span class="curve soft" />}
            <div class="when">
              <b>{l.since ? `${l.at_least ? 'before ' : ''}${formatTime(Date.parse(l.since), monitorNow())}` : ''}</b>
              <span class={l.first ? 'bad' : 'soft'}>{l.first ? 'first change' : l.role === 'symptom' && l.threshold_name.endsWith('objective') ? `objective ${formatNumber(l.threshold, l.unit)}` : ''}</span>
            </div>
          </div>
        )
      })}
      <div class="across">
        <Axis span={span} at={at} setAt={setAt} />
        <Legend plots={plots.filter((p) => links.some((l) => l.signal === p.signal))} />
      </div>
    </div>
  )
}

// Legend explains the curves and lines.
function Legend({ plots }: { plots: Plot[] }) {
  const most = plots.reduce<string[]>((most, p) => (p.lines.length > most.length ? p.lines.map((l) => l.name) : most), [])
  return (
    <ul class="legend">
      {most.length > 0 && <li><i style={{ background: 'var(--link)' }} />{most[0]}</li>}
      {most.length > 1 && <li><i style={{ background: 'var(--soft)' }} />{plural(most.length - 1, 'other replica')}</li>}
      <li><i class="band" />normal</li>
      <li class="critical"><i class="level" />threshold</li>
      <li><i class="onset" />change</li>
    </ul>
  )
}
