import type { ComponentChildren, FunctionComponent } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Failure } from './api'
import { length, sentence, time, wholeTime } from './format'
import { failingOf, now, useLive } from './live'
import type { ChartProps } from './chart'
import type { Health, Life } from './types'

const shapes: Record<Health, string> = { failing: '▲', degraded: '△', uncertain: '◇', unknown: '?', healthy: '●' }
const lives: Partial<Record<Life, string>> = { starting: '◔', drained: '◑', lost: '✕' }

// Mark says a state by shape, colour and word: no colour alone says anything.
export const Mark = ({ health, life = '', word = true }: { health: Health; life?: Life; word?: boolean }) => (
  <span class={`mark ${health}`}>
    <span class="dot" aria-hidden="true">{lives[life] ?? shapes[health]}</span>
    {word ? health : <span class="hidden">{health}</span>}
  </span>
)

// At is a moment in the viewer's zone.
export const At = ({ at }: { at: string | number }) => {
  const t = typeof at === 'number' ? at : Date.parse(at)
  return (
    <time dateTime={new Date(t).toISOString()} title={wholeTime(t)}>
      {time(t, now())}
    </time>
  )
}

// Ago is a moment and how long it is past.
export const Ago = ({ at, least = false }: { at: string; least?: boolean }) => (
  <>
    {least ? 'before ' : ''}
    <At at={at} /> <span class="soft">({least ? 'over ' : ''}{length(now() - Date.parse(at))})</span>
  </>
)

// Text is a sentence whose flags are not broken at the end of a line.
export const Text = ({ of }: { of: string }) => <>{sentence(of).split(/(--[a-z][\w-]*)/).map((part, i) => (i % 2 ? <span class="nowrap">{part}</span> : part))}</>

// Copy puts a text where it can be pasted.
export function Copy({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [result, setResult] = useState('')
  useEffect(() => {
    if (!result) return
    const t = setTimeout(() => setResult(''), 2000)
    return () => clearTimeout(t)
  }, [result])
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setResult('Copied')
    } catch {
      setResult('Select the text: browsers allow copying only over HTTPS or on localhost')
    }
  }
  return (
    <button type="button" class="small" onClick={copy} aria-live="polite">
      {result || label}
    </button>
  )
}

// Command is text to copy.
export const Command = ({ text, copy = true }: { text: string; copy?: boolean }) => (
  <div class="command">
    <pre>{text}</pre>
    {copy && <Copy text={text} />}
  </div>
)

// Nothing says why there is nothing, and what to do.
export const Nothing = ({ title, children }: { title: string; children?: ComponentChildren }) => (
  <div class="nothing">
    <b>{title}</b>
    {children && <p>{children}</p>}
  </div>
)

// Problem says what went wrong, and the way out.
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

// useSeen is true from when an element comes near the window.
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

// useWidth is the width of an element, in px.
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

// Plot draws a chart; what draws is loaded with the first one.
let loaded: FunctionComponent<ChartProps> | undefined
const loading = () => import('./chart').then((m) => (loaded = m.default))

export function Plot(props: ChartProps) {
  const [, render] = useState(0)
  const C = loaded
  useEffect(() => {
    if (!C) loading().then(() => render(1), () => render(2)) // also where another chart has loaded it since
  }, [])
  return C ? <C {...props} /> : <div class="chart" style={{ height: `${props.height ?? 190}px` }} />
}

// Filter is a field that keys reach.
export const Filter = ({ value, set, what }: { value: string; set: (s: string) => void; what: string }) => (
  <input type="search" data-filter value={value} placeholder={`Filter ${what}   /`} aria-label={`Filter ${what}`} onInput={(e) => set(e.currentTarget.value)} />
)

// matches reports whether any text has all the words.
export function matches(filter: string, ...texts: string[]): boolean {
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

// Tabs are views of which one is shown; the address says which.
export function Tabs({ tabs, label, at, set }: { tabs: [string, string, () => ComponentChildren][]; label: string; at: string; set: (id: string) => void }) {
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

// useTitle names the document; '' leaves that to the view.
export function useTitle(name: string): void {
  const live = useLive()
  const failing = failingOf(live)
  useEffect(() => {
    if (name) document.title = `${failing > 0 ? `(${failing}) ` : ''}${name} · sixty`
  }, [name, failing])
}
