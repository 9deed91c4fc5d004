import { useMemo } from 'preact/hooks'
import { useGet } from '../api'
import type { Mark as Moment } from '../chart'
import { formatTime, plural } from '../format'
import { monitorNow } from '../live'
import { symbols } from '../palette'
import { matchAny, rangePath, type Answer, type Matrix, type Span } from '../query'
import { navigate } from '../route'
import type { Health } from '../types'
import { useWidth } from '../ui'

// An Era is a named time range.
export interface Era {
  from: number // ms
  to: number
  name: string
  health: Health
  href?: string
}

// useStarts returns the process starts of replicas within a time range, from their process_start_time_seconds.
export function useStarts(instances: string[], span: Span): Moment[] {
  const step = Math.max(Math.ceil((span.to - span.from) / 60e3), 15)
  const expr = `max by (instance) (process_start_time_seconds{instance=~"${matchAny(instances)}"})`
  const path = rangePath(expr, Math.floor(span.from / 1000), Math.floor(span.to / 1000), step)
  const { data } = useGet<Answer>(instances.length > 0 && span.to > span.from ? path : '', 0, true)
  return useMemo(() => (data ? startsOf(data.data.result, span, step) : []), [data])
}

// startsOf returns the marks of starts: a restart of a known replica, or the first start of a new one. Starts within a
// minute share a mark.
export function startsOf(series: Matrix[], span: Span, step: number): Moment[] {
  const found: { at: number; kind: 'restart' | 'deploy'; name: string }[] = []
  for (const m of series) {
    const existed = m.values.length > 0 && m.values[0][0] * 1000 < span.from + 2000 * step && Number(m.values[0][1]) * 1000 < span.from
    ;[...new Set(m.values.map(([, v]) => Number(v) * 1000))].forEach((at, i) => {
      if (at >= span.from && at <= span.to) found.push({ at, kind: existed || i > 0 ? 'restart' : 'deploy', name: m.metric.instance ?? '' })
    })
  }
  found.sort((a, b) => a.at - b.at)
  const out: (Moment & { names: string[] })[] = []
  for (const f of found) {
    const last = out.at(-1)
    if (last && last.kind === f.kind && f.at - last.at < 60_000) last.names.push(f.name)
    else out.push({ at: f.at, kind: f.kind, name: '', names: [f.name] })
  }
  return out.map(({ names, ...m }) => {
    const what = names.length === 1 ? names[0] : plural(names.length, 'replica')
    return { ...m, name: m.kind === 'restart' ? `${what} restarted` : `${what} started` }
  })
}

const row = 19 // px
const rows = 4
// weight sorts the entries that must be shown before those that may be left out.
const weight = (health: string): number => ['failing', 'degraded', 'uncertain', 'healthy', 'unknown', ''].indexOf(health)

// Strip draws a timeline, each entry in the first free row.
export function Strip({ span, eras, starts }: { span: Span; eras: Era[]; starts: Moment[] }) {
  const [ref, width] = useWidth<HTMLDivElement>()
  const place = (t: number) => ((Math.min(Math.max(t, span.from), span.to) - span.from) / Math.max(span.to - span.from, 1)) * width
  const items = [
    ...eras.map((e) => ({ at: e.from, to: e.to as number | null, health: e.health as string, name: `${formatTime(e.from, monitorNow())} ${e.name}`, href: e.href })),
    ...starts.map((s) => ({ at: s.at, to: null, health: '', name: `${s.kind === 'onset' ? '' : symbols[s.kind]} ${formatTime(s.at, monitorNow())} ${s.name}`, href: undefined })),
  ].filter((i) => i.at <= span.to && (i.to ?? i.at) >= span.from).sort((a, b) => weight(a.health) - weight(b.health) || a.at - b.at)
  const lanes: [number, number][][] = []
  const placed = items.map((i) => {
    const [left, right] = [place(i.at), place(i.to ?? i.at)]
    const wide = 7 * i.name.length + 12
    const text = left + wide <= width ? left : Math.max(0, left - wide) // left of its beginning, if there is no room to the right
    const [from, to] = [Math.min(left, text), Math.max(right, text + wide)]
    let lane = lanes.findIndex((l) => l.every(([a, b]) => to < a || b < from))
    if (lane < 0) lane = lanes.push([]) - 1
    lanes[lane].push([from, to])
    return { ...i, left, right, text, top: 3 + lane * row, lane }
  }).filter((i) => i.lane < rows)
  return (
    <div class="strip" ref={ref} style={{ height: `${Math.max(1, Math.min(lanes.length, rows)) * row + 4}px` }}>
      {width > 0 && placed.map((i) => (
        <>
          <span class={i.to === null ? 'point' : `era ${i.health}`} style={{ left: `${i.left}px`, top: `${i.top}px`, width: i.to === null ? undefined : `${Math.max(2, i.right - i.left)}px` }} />
          {i.href ? <a class="what" href={i.href} style={{ left: `${i.text}px`, top: `${i.top}px` }}>{i.name}</a> : <span class="what" style={{ left: `${i.text}px`, top: `${i.top}px` }}>{i.name}</span>}
        </>
      ))}
    </div>
  )
}

export const open = (href: string) => (e: KeyboardEvent) => e.key === 'Enter' && e.target === e.currentTarget && navigate(href)
