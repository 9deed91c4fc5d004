import { get, read } from './api'
import { link } from './route'
import { newSignal, useSignal } from './signal'
import type { Health, Model, Overview, Status } from './types'

// Live is the overview and how far it can be believed.
interface Live {
  overview?: Overview
  received: number // when it came, of the browser's own monotonic clock, ms
  heard: number // when the last answer came, be it the same one again
  error?: Error
  incidents: number // grows with each event of an incident
}

let live: Live = { received: 0, heard: 0, incidents: 0 }
const changed = newSignal()

function change(part: Partial<Live>): void {
  live = { ...live, ...part }
  changed.tell()
}

// reordered is within how many ms an older overview is one that was overtaken; one that is
// older by more comes from a clock that was set back.
const reordered = 60_000

// accept takes an overview. One that is no younger than what is there proves nothing.
export function accept(o: Overview): void {
  const younger = live.overview ? Date.parse(o.at) - Date.parse(live.overview.at) : 1
  const heard = performance.now()
  if (younger < 0 && younger > -reordered) return change({ heard, error: undefined })
  change({ overview: o, received: younger === 0 ? live.received : heard, heard, error: undefined })
}

// now is the monitor's time: its last one, and what passed here since.
export function now(l: Live = live): number {
  return l.overview ? Date.parse(l.overview.at) + performance.now() - l.received : Date.now()
}

// silence is after how many ms without an overview it is too old to be believed.
const silence = (o: Overview): number => (3 * o.every_s + 5) * 1000

// Trust says whether what is shown is of now and whole.
export type Trust = { ok: true } | { ok: false; state: 'starting' | 'partial' | 'stale' | 'lost'; why: string[] }

export function trust(l: Live, at = performance.now()): Trust {
  const o = l.overview
  if (!o) return { ok: false, state: l.error ? 'lost' : 'starting', why: l.error ? [l.error.message] : [] }
  if (at - l.heard > silence(o)) return { ok: false, state: 'lost', why: [l.error?.message ?? 'no answer since then'] }
  if (o.state === 'ok' && at - l.received > silence(o)) return { ok: false, state: 'stale', why: ['sixty answers, but its evaluations have stopped'] }
  if (o.state !== 'ok') return { ok: false, state: o.state, why: o.problems }
  return { ok: true }
}

// healthOf is the state that may be shown: a page is failing, a ticket degraded, what is not certain
// yet uncertain, what only informs is none of them, and nothing is healthy that is not known to be.
export function healthOf(of: { status: Status; severity: string }, t: Trust): Health {
  if (of.status === 'unknown') return 'unknown'
  if (of.severity === 'info') return t.ok ? 'healthy' : 'unknown'
  if (of.status === 'pending') return 'uncertain'
  if (of.status === 'firing' || of.status === 'down') return of.severity === 'ticket' ? 'degraded' : 'failing'
  return t.ok ? 'healthy' : 'unknown'
}

// healthOfModel is the health that the server tells, unless the page is too old to believe it.
export const healthOfModel = (m: Pick<Model, 'health'>, t: Trust): Health => (m.health === 'healthy' && !t.ok ? 'unknown' : m.health)

// quiet is a model whose incident is not found now and not closed.
export const quiet = (m: Pick<Model, 'verdict' | 'phase'>): boolean => m.phase === 'quiet' && (m.verdict.status !== 'firing' || m.verdict.severity === 'info')

// failingOf is how many models fail or are degraded.
export const failingOf = (l: Live): number => l.overview?.models.filter((m) => ['failing', 'degraded'].includes(healthOfModel(m, { ok: true }))).length ?? 0

// healths are the states, the worst first.
export const healths: Health[] = ['failing', 'degraded', 'uncertain', 'unknown', 'healthy']
const statuses: Status[] = ['down', 'firing', 'pending', 'unknown', 'ok', 'idle']

// worst sorts by state, then status.
export const worst = (a: { status: Status; severity: string }, b: { status: Status; severity: string }, t: Trust): number =>
  healths.indexOf(healthOf(a, t)) - healths.indexOf(healthOf(b, t)) || statuses.indexOf(a.status) - statuses.indexOf(b.status)

// follow listens for the server's events, and asks in between where they do not come.
export function follow(): void {
  let source: EventSource | undefined
  let tries = 0
  // A server that is slow is asked once at a time: a browser has six connections to it.
  let asking = false
  const refresh = async () => {
    if (asking) return
    asking = true
    try {
      accept(await get<Overview>('/api/v1/overview'))
    } catch (error) {
      change({ error: error as Error })
    } finally {
      asking = false
    }
  }
  const listen = () => {
    source?.close()
    source = new EventSource(link('/api/v1/events'))
    source.addEventListener('open', () => (tries = 0))
    source.addEventListener('overview', (e) => {
      try {
        accept(read((e as MessageEvent<string>).data))
      } catch {
        void refresh()
      }
    })
    source.addEventListener('incident', () => change({ incidents: live.incidents + 1 }))
    source.addEventListener('error', () => {
      if (source?.readyState === EventSource.CLOSED) tries++
    })
  }
  // Every few seconds: where nothing came for longer than it should, it is asked for, and
  // where the events ended, they are begun again, less and less often.
  let turn = 0
  const beat = () => {
    if (document.hidden) return
    turn++
    const every = (live.overview?.every_s ?? 5) * 1000
    if (performance.now() - live.received > 1.5 * every) void refresh()
    if (source?.readyState === EventSource.CLOSED && turn % Math.min(2 ** tries, 16) === 0) listen()
    changed.tell() // what is too old becomes so without an event
  }
  // A browser has six connections to a server: a page that nobody sees gives its own back.
  const seen = () => {
    if (document.hidden) {
      source?.close()
    } else {
      listen()
      void refresh()
    }
  }
  if (!document.hidden) listen()
  if (!live.overview) void refresh()
  window.setInterval(beat, 5000)
  document.addEventListener('visibilitychange', seen)
}

export function useLive(): Live {
  useSignal(changed)
  return live
}
