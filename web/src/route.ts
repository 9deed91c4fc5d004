import { newSignal, useSignal } from './signal'

// A Route is the current view. Every view has a URL.
interface Route {
  view: string // overview, incidents, incident, explore, fleet, whatif, audit, runbooks, settings, or '' if there is no such view
  id: string
  query: URLSearchParams
}

// places lists the views of the navigation bar, with the key that opens each after "g".
export const places: [view: string, title: string, key: string][] = [
  ['overview', 'Overview', 'o'],
  ['incidents', 'Incidents', 'i'],
  ['explore', 'Explore', 'e'],
  ['fleet', 'Fleet', 'f'],
  ['whatif', 'What if', 'w'],
  ['audit', 'Audit', 'a'],
  ['runbooks', 'Runbooks', 'r'],
  ['settings', 'Settings', 's'],
]

// base is the path prefix of the page, '' for the root.
const base = globalThis.document?.documentElement.dataset.base ?? ''

// serverURL returns the URL of a path of this server.
export const serverURL = (path: string): string => base + path

const withoutBase = (path: string): string => (path.startsWith(base) ? path.slice(base.length) : path)

// parseRoute returns the route of a URL.
export function parseRoute(path: string, search: string): Route {
  const query = new URLSearchParams(search)
  const [first = '', second = '', ...more] = path.split('/').filter(Boolean)
  let id = ''
  try {
    id = decodeURIComponent(second)
  } catch {
    return { view: '', id: '', query }
  }
  if (more.length > 0) return { view: '', id, query }
  if (first === '') return { view: 'overview', id, query }
  if (first === 'incident' && id) return { view: 'incident', id, query }
  if (first === 'runbooks' && id) return { view: 'runbook', id, query }
  const known = first !== 'overview' && places.some(([view]) => view === first)
  return { view: known && !id ? first : '', id, query }
}

// urlOf returns the URL of a view; the id and values are encoded.
export function urlOf(view: string, id = '', query: Record<string, string | string[]> = {}): string {
  const path = view === 'overview' ? '/' : `/${view}${id ? '/' + encodeURIComponent(id) : ''}`
  const q = new URLSearchParams()
  for (const [k, v] of Object.entries(query)) {
    for (const one of Array.isArray(v) ? v : [v]) if (one !== '') q.append(k, one)
  }
  return serverURL(q.size ? `${path}?${q}` : path)
}

const moved = newSignal()

export function navigate(address: string, replace = false): void {
  if (address === location.pathname + location.search) return
  const before = location.pathname
  history[replace ? 'replaceState' : 'pushState'](null, '', address)
  moved.notify()
  if (location.pathname !== before) scrollTo(0, 0)
}

// followLink opens a link within the page without reloading it.
function followLink(e: MouseEvent): void {
  const a = e.target instanceof Element ? e.target.closest('a') : null
  if (!a || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return
  if (a.origin !== location.origin || a.target || a.hasAttribute('download')) return
  if (!parseRoute(withoutBase(a.pathname), a.search).view) return
  if (a.hash && a.pathname === location.pathname && a.search === location.search) return
  e.preventDefault()
  navigate(a.pathname + a.search)
}

export function startRoutes(): void {
  addEventListener('popstate', moved.notify)
  document.addEventListener('click', followLink)
}

export function useRoute(): Route {
  useSignal(moved)
  return parseRoute(withoutBase(location.pathname), location.search)
}
