import type { ComponentChildren, FunctionComponent } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Failure, type Asked } from './api'
import { formatDuration, formatFullTime, formatTime, sentence } from './format'
import { failingOf, monitorNow, useLive } from './live'
import { remember, useRemembered } from './palette'
import type { ChartProps } from './chart'
import type { Estimate, Health, Life, Phase } from './types'

const shapes: Record<Health | Phase, string> = {
  failing: '▲', degraded: '△', uncertain: '◇', unknown: '?', healthy: '●', quiet: '◌', closed: '○',
}
const lives: Partial<Record<Life, string>> = { starting: '◔', drained: '◑', lost: '✕' }

// Mark shows a state by shape, colour and word, never by colour alone.
export const Mark = ({ health, life = '', word = true }: { health: Health | Phase; life?: Life; word?: boolean }) => (
  <span class={`mark ${health}`}>
    <span class="dot" aria-hidden="true">{lives[life] ?? shapes[health]}</span>
    {word ? health : <span class="hidden">{health}</span>}
  </span>
)

// At shows a moment in the viewer's time zone.
export const At = ({ at }: { at: string | number }) => {
  const t = typeof at === 'number' ? at : Date.parse(at)
  return (
    <time dateTime={new Date(t).toISOString()} title={formatFullTime(t)}>
      {formatTime(t, monitorNow())}
    </time>
  )
}

// Ago shows a moment and how long ago it was.
export const Ago = ({ at, least = false }: { at: string; least?: boolean }) => (
  <>
    {least ? 'before ' : ''}
    <At at={at} /> <span class="soft">({least ? 'over ' : ''}{formatDuration(monitorNow() - Date.parse(at))})</span>
  </>
)

// Text shows a sentence without line breaks inside flags.
export const Text = ({ of }: { of: string }) => <>{sentence(of).split(/(--[a-z][\w-]*)/).map((part, i) => (i % 2 ? <span class="nowrap">{part}</span> : part))}</>

// Copy is a button that copies a text.
export function Copy({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [result, setResult] = useState('')
  const copy = async () => {
    const done = await navigator.clipboard?.writeText(text).then(() => true, () => false)
    setResult(done ? 'Copied' : 'Select the text: browsers allow copying only over HTTPS or on localhost')
    setTimeout(() => setResult(''), 2000)
  }
  return (
    <button type="button" class="small" onClick={copy} aria-live="polite">
      {result || label}
    </button>
  )
}

// Command shows a command with a button to copy it.
export const Command = ({ text, copy = true }: { text: string; copy?: boolean }) => (
  <div class="command">
    <pre>{text}</pre>
    {copy && <Copy text={text} />}
  </div>
)

// Compared is a table of quantities and their numbers; a row may be marked as wrong.
export const Compared = ({ heads, rows, bad = 0 }: { heads: string[]; rows: string[][]; bad?: number }) => (
  <table class="whole">
    <thead><tr>{heads.map((h, i) => <th class={i > 0 ? 'n' : ''}>{h}</th>)}</tr></thead>
    <tbody>{rows.map((r) => <tr>{r.map((v, i) => <td class={i === 0 ? '' : i === bad ? 'n bad' : 'n'}>{v}</td>)}</tr>)}</tbody>
  </table>
)

// Nothing says why a view is empty, and what to do.
export const Nothing = ({ title, children }: { title: string; children?: ComponentChildren }) => (
  <div class="nothing">
    <b>{title}</b>
    {children && <p>{children}</p>}
  </div>
)

// Problem shows an error and its hint.
export const Problem = ({ error, again }: { error: Error; again?: () => void }) => (
  <div class="nothing problem" role="alert">
    <b>{error.message}</b>
    {error instanceof Failure && error.hint && <p>Try: {error.hint}.</p>}
    {again && (
      <button type="button" onClick={again}>
        Try again
      </button>
    )}
  </div>
)

export const Waiting = ({ what }: { what: string }) => (
  <p class="soft waiting" aria-busy="true">
    Loading {what} …
  </p>
)

interface LoadedProps<T> {
  of: Asked<T>
  what: string
  missing?: ComponentChildren
  children: (data: T) => ComponentChildren
}

// Loaded shows an answer; before that, that it is loading or why it failed. missing is shown for a 404.
export function Loaded<T>({ of: { data, error, loading, again }, what, missing, children }: LoadedProps<T>) {
  if (missing && !data && error instanceof Failure && error.status === 404) return <>{missing}</>
  return (
    <>
      {error && <Problem error={error} again={again} />}
      {loading && !data && <Waiting what={what} />}
      {data && children(data)}
    </>
  )
}

// Name is the field for the reader's name, which this browser remembers.
export const Name = () => (
  <input value={useRemembered('name')} onInput={(e) => remember('name', e.currentTarget.value)} placeholder="Your name" aria-label="Your name" maxLength={100} required />
)

// Range draws an estimate and marks on a scale from 0 to a value.
export function Range({ e, top, marks = [], kind = '' }: { e: Estimate; top: number; marks?: ['now' | 'came', number | null | undefined][]; kind?: string }) {
  const place = (v: number) => `${Math.min(100, (100 * v) / top)}%`
  const [low, high] = [e.low ?? e.value ?? 0, e.high ?? e.value ?? 0]
  return (
    <span class={`range ${kind}`} aria-hidden="true">
      <i style={{ left: place(low), width: `${Math.max((100 * (high - low)) / top, 0.5)}%` }} />
      {e.value !== null && <b style={{ left: place(e.value) }} />}
      {marks.map(([what, v]) => v != null && <u class={what} style={{ left: place(v) }} />)}
    </span>
  )
}

// courseOf returns the SVG path of a curve, with gaps where there is no value.
export function courseOf(points: [x: number, y: number | null][]): string {
  return points.map(([x, y], i) => (y === null ? '' : `${(points[i - 1]?.[1] ?? null) === null ? 'M' : 'L'}${x.toFixed(1)} ${y.toFixed(1)}`)).join('')
}

// useSeen becomes true when an element comes near the window.
export function useSeen<E extends Element>(): [{ current: E | null }, boolean] {
  const ref = useRef<E>(null)
  const [seen, set] = useState(false)
  useEffect(() => {
    if (!ref.current || seen) return
    const o = new IntersectionObserver((e) => e.some((x) => x.isIntersecting) && set(true), { rootMargin: '40px' })
    o.observe(ref.current)
    return () => o.disconnect()
  }, [seen])
  return [ref, seen]
}

// useWidth returns the width of an element in px.
export function useWidth<E extends Element>(): [{ current: E | null }, number] {
  const ref = useRef<E>(null)
  const [width, set] = useState(0)
  useEffect(() => {
    if (!ref.current) return
    const o = new ResizeObserver((e) => set(Math.round(e[0].contentRect.width)))
    o.observe(ref.current)
    return () => o.disconnect()
  }, [])
  return [ref, width]
}

// Plot draws a chart. The first one loads the charting code.
let loaded: FunctionComponent<ChartProps> | undefined
const loading = () => import('./chart').then((m) => (loaded = m.default))

export function Plot(props: ChartProps) {
  const [, render] = useState(0)
  const C = loaded
  useEffect(() => {
    if (!C) loading().then(() => render(1), () => render(2)) // another chart may have loaded it meanwhile
  }, [])
  return C ? <C {...props} /> : <div class="chart" style={{ height: '190px' }} />
}

// Filter is a text field that the key / focuses.
export const Filter = ({ value, set, what }: { value: string; set: (s: string) => void; what: string }) => (
  <input type="search" data-filter value={value} placeholder={`Filter ${what}   /`} aria-label={`Filter ${what}`} onInput={(e) => set(e.currentTarget.value)} />
)

// matchesFilter reports whether the texts contain all words.
export function matchesFilter(filter: string, ...texts: string[]): boolean {
  const all = texts.join(' ').toLowerCase()
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every((w) => all.includes(w))
}

// Pick is a button that opens a small pane.
export const Pick = ({ label, children }: { label: string; children: ComponentChildren }) => (
  <details class="pick" onKeyDown={(e) => e.key === 'Escape' && e.currentTarget.removeAttribute('open')}>
    <summary>{label}</summary>
    <div>{children}</div>
  </details>
)

// A Tab has an id, which is in the URL, a name and its content.
export type Tab = [string, string, () => ComponentChildren]

// Tabs shows one of several tabs, which the URL names.
export function Tabs({ tabs, label, at, set }: { tabs: Tab[]; label: string; at: string; set: (id: string) => void }) {
  const shown = Math.max(0, tabs.findIndex(([id]) => id === at))
  const move = (e: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key]
    if (!by) return
    const next = (shown + by + tabs.length) % tabs.length
    set(tabs[next][0])
    ;(e.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('[role=tab]')[next].focus()
  }
  return (
    <>
      <div class="tablist" role="tablist" aria-label={label} onKeyDown={move}>
        {tabs.map(([id, name], i) => (
          <button type="button" role="tab" id={`tab-${id}`} aria-selected={i === shown} aria-controls="tabpanel" tabIndex={i === shown ? 0 : -1} onClick={() => set(id)}>{name}</button>
        ))}
      </div>
      <div class="tabpanel" role="tabpanel" id="tabpanel" aria-labelledby={`tab-${tabs[shown][0]}`} tabIndex={0}>{tabs[shown][2]()}</div>
    </>
  )
}

// useTitle sets the document's title; '' leaves that to the view.
export function useTitle(name: string): void {
  const live = useLive()
  const failing = failingOf(live)
  useEffect(() => {
    if (name) document.title = `${failing > 0 ? `(${failing}) ` : ''}${name} · sixty`
  }, [name, failing])
}
