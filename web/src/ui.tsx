import type { ComponentChildren, FunctionComponent } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Failure } from './api'
import { length, time, wholeTime } from './format'
import { now } from './live'
import type { ChartProps } from './chart'
import type { Status } from './types'

export const words: Record<Status, string> = { firing: 'sick', down: 'down', pending: 'suspected', noted: 'noted', unknown: 'not known', ok: 'well', idle: 'idle' }
const shapes: Record<Status, string> = { firing: '▲', down: '✕', pending: '△', noted: '▪', unknown: '?', ok: '●', idle: '○' }

// Mark says a status by shape, colour and word: no colour alone says anything.
export const Mark = ({ status, severity = '', word = true }: { status: Status; severity?: string; word?: boolean }) => (
  <span class={`mark ${tone(status, severity)}`} title={words[status]}>
    <span aria-hidden="true">{shapes[status]}</span>
    {word ? ` ${words[status]}` : <span class="hidden">{words[status]}</span>}
  </span>
)

// tone is the class of a status' colour.
export function tone(status: Status, severity = ''): string {
  if (status === 'firing') return severity === 'ticket' ? 'warning' : 'critical'
  return { down: 'critical', pending: 'warning', noted: 'plain', unknown: 'plain', ok: 'good', idle: 'plain' }[status]
}

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

// Copy puts a text where it can be pasted.
export function Copy({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [said, say] = useState('')
  useEffect(() => {
    if (!said) return
    const t = setTimeout(() => say(''), 2000)
    return () => clearTimeout(t)
  }, [said])
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      say('Copied')
    } catch {
      say('Select it: this browser copies only over HTTPS or on localhost')
    }
  }
  return (
    <button type="button" class="small" onClick={copy} aria-live="polite">
      {said || label}
    </button>
  )
}

// Command is text to copy.
export const Command = ({ text }: { text: string }) => (
  <div class="command">
    <pre>{text}</pre>
    <Copy text={text} />
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
        Ask again
      </button>
    )}
  </div>
)

export const Waiting = ({ what }: { what: string }) => (
  <p class="soft waiting" aria-busy="true">
    Asking for {what} …
  </p>
)

// seenOnce is true from when an element comes near the window.
export function useSeen<E extends Element>(): [{ current: E | null }, boolean] {
  const ref = useRef<E>(null)
  const [seen, set] = useState(false)
  useEffect(() => {
    if (!ref.current || seen) return
    const o = new IntersectionObserver((e) => e.some((x) => x.isIntersecting) && set(true), { rootMargin: '300px' })
    o.observe(ref.current)
    return () => o.disconnect()
  }, [seen])
  return [ref, seen]
}

// Plot draws a chart; what draws is loaded with the first one.
let loaded: FunctionComponent<ChartProps> | undefined
const loading = () => import('./chart').then((m) => (loaded = m.default))

export function Plot(props: ChartProps) {
  const [, render] = useState(0)
  useEffect(() => {
    if (!loaded) loading().then(() => render(1), () => render(2))
  }, [])
  const C = loaded
  return C ? <C {...props} /> : <div class="chart" style={{ height: props.height ?? 190 }} />
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
