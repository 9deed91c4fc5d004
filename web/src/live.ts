import { getJSON, parseJSON } from './api'
import { serverURL } from './route'
import { newSignal, useSignal } from './signal'
import type { Health, Model, Overview, Status } from './types'

// Live is the latest overview, and when it came.
interface Live {
  overview?: Overview
  received: number // when this overview first came, ms of the browser's monotonic clock
  heard: number // when the last answer came, the same overview included
  error?: Error
  incidents: number // grows with each event of an incident
}

let live: Live = { received: 0, heard: 0, incidents: 0 }
const changed = newSignal()

function updateLive(part: Partial<Live>): void {
  live = { ...live, ...part }
  changed.notify()
}

// reordered is the age in ms up to which an older overview is taken to have been overtaken by a newer one. If it is
// older than that, the monitor's clock was set back.
const reordered = 60_000

// acceptOverview stores an overview, unless a newer one overtook it. The same one again only shows that the monitor
// answers.
export function acceptOverview(o: Overview): void {
  const younger = live.overview ? Date.parse(o.at) - Date.parse(live.overview.at) : 1
  const heard = performance.now()
  if (younger < 0 && younger > -reordered) return updateLive({ heard, error: undefined })
  updateLive({ overview: o, received: younger === 0 ? live.received : heard, heard, error: undefined })
}

// monitorNow returns the monitor's time: that of its last overview, plus the time since.
export function monitorNow(l: Live = live): number {
  return l.overview ? Date.parse(l.overview.at) + performance.now() - l.received : Date.now()
}

// silenceLimit returns the age in ms from which on an overview must not be trusted.
const silenceLimit = (o: Overview): number => (3 * o.every_s + 5) * 1000

// Trust says whether the overview is current and complete.
export type Trust = { ok: true } | { ok: false; state: 'starting' | 'partial' | 'stale' | 'lost'; why: string[] }

export function assessTrust(l: Live, at = performance.now()): Trust {
  const o = l.overview
  if (!o) return { ok: false, state: l.error ? 'lost' : 'starting', why: l.error ? [l.error.message] : [] }
  if (at - l.heard > silenceLimit(o)) return { ok: false, state: 'lost', why: [l.error?.message ?? 'no answer since then'] }
  if (o.state === 'ok' && at - l.received > silenceLimit(o)) return { ok: false, state: 'stale', why: ['sixty answers, but its evaluations have stopped'] }
  if (o.state !== 'ok') return { ok: false, state: o.state, why: o.problems }
  return { ok: true }
}

// healthOf returns the state to show: failing for a page, degraded for a ticket, uncertain for a pending finding.
// Findings of severity info change nothing. Without trust, nothing is healthy.
export function healthOf(of: { status: Status; severity: string }, t: Trust): Health {
  if (of.status === 'unknown') return 'unknown'
  if (of.severity === 'info') return t.ok ? 'healthy' : 'unknown'
  if (of.status === 'pending') return 'uncertain'
  if (of.status === 'firing' || of.status === 'down') return of.severity === 'ticket' ? 'degraded' : 'failing'
  return t.ok ? 'healthy' : 'unknown'
}

// healthOfModel returns the health of a model as the server states it, but never healthy without trust.
export const healthOfModel = (m: Pick<Model, 'health'>, t: Trust): Health => (m.health === 'healthy' && !t.ok ? 'unknown' : m.health)

// isQuiet reports whether a model's incident is quiet: nothing is found now, and it is not closed.
export const isQuiet = (m: Pick<Model, 'verdict' | 'phase'>): boolean => m.phase === 'quiet' && (m.verdict.status !== 'firing' || m.verdict.severity === 'info')

// failingOf counts the models that are failing or degraded.
export const failingOf = (l: Live): number => l.overview?.models.filter((m) => ['failing', 'degraded'].includes(healthOfModel(m, { ok: true }))).length ?? 0

// healths lists the states, the worst first.
export const healths: Health[] = ['failing', 'degraded', 'uncertain', 'unknown', 'healthy']
const statuses: Status[] = ['down', 'firing', 'pending', 'unknown', 'ok', 'idle']

// compareWorst compares two replicas for sorting: the worst state first, then the worst status.
export const compareWorst = (a: { status: Status; severity: string }, b: { status: Status; severity: string }, t: Trust): number =>
  healths.indexOf(healthOf(a, t)) - healths.indexOf(healthOf(b, t)) || statuses.indexOf(a.status) - statuses.indexOf(b.status)

// followEvents listens to the server's events, and fetches the overview if they do not come.
export function followEvents(): void {
  let source: EventSource | undefined
  let tries = 0
  // One request at a time: a browser has six connections to a server, and a slow server would use them up.
  let asking = false
  const refresh = async () => {
    if (asking) return
    asking = true
    try {
      acceptOverview(await getJSON<Overview>('/api/v1/overview'))
    } catch (error) {
      updateLive({ error: error as Error })
    } finally {
      asking = false
    }
  }
  const listen = () => {
    source?.close()
    source = new EventSource(serverURL('/api/v1/events'))
    source.addEventListener('open', () => (tries = 0))
    source.addEventListener('overview', (e) => {
      try {
        acceptOverview(parseJSON((e as MessageEvent<string>).data))
      } catch {
        void refresh()
      }
    })
    source.addEventListener('incident', () => updateLive({ incidents: live.incidents + 1 }))
    source.addEventListener('error', () => {
      if (source?.readyState === EventSource.CLOSED) tries++
    })
  }
  // Every few seconds, an overdue overview is fetched, and a closed event stream is opened again, less and less often.
  let turn = 0
  const beat = () => {
    if (document.hidden) return
    turn++
    const every = (live.overview?.every_s ?? 5) * 1000
    if (performance.now() - live.received > 1.5 * every) void refresh()
    if (source?.readyState === EventSource.CLOSED && turn % Math.min(2 ** tries, 16) === 0) listen()
    changed.notify() // an overview becomes too old without an event
  }
  // A hidden page closes its event stream, because all pages share the browser's six connections to a server.
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
