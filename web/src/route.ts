import { newSignal, useSignal } from './signal'

// A Route is where the page is; everything that can be looked at has an address.
interface Route {
  view: string // overview, incidents, incident, explore, fleet, whatif, audit, runbooks, settings, or '' where there is no such page
  id: string
  query: URLSearchParams
}

// places are the views that the bar names, with the key that leads to each after "g".
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

// base is the path under which the page is, '' for the root.
const base = globalThis.document?.documentElement.dataset.base ?? ''

// link is the address of a path of this server.
export const link = (path: string): string => base + path

const here = (path: string): string => (path.startsWith(base) ? path.slice(base.length) : path)

// parse reads an address.
export function parse(path: string, search: string): Route {
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

// to writes an address; an id or a value may hold anything.
export function to(view: string, id = '', query: Record<string, string | string[]> = {}): string {
  const path = view === 'overview' ? '/' : `/${view}${id ? '/' + encodeURIComponent(id) : ''}`
  const q = new URLSearchParams()
  for (const [k, v] of Object.entries(query)) {
    for (const one of Array.isArray(v) ? v : [v]) if (one !== '') q.append(k, one)
  }
  return link(q.size ? `${path}?${q}` : path)
}

const moved = newSignal()

export function go(address: string, replace = false): void {
  if (address === location.pathname + location.search) return
  const before = location.pathname
  history[replace ? 'replaceState' : 'pushState'](null, '', address)
  moved.tell()
  if (location.pathname !== before) scrollTo(0, 0)
}

// follow goes to a link within the page without loading the page again.
function follow(e: MouseEvent): void {
  const a = e.target instanceof Element ? e.target.closest('a') : null
  if (!a || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return
  if (a.origin !== location.origin || a.target || a.hasAttribute('download')) return
  if (!parse(here(a.pathname), a.search).view) return
  if (a.hash && a.pathname === location.pathname && a.search === location.search) return
  e.preventDefault()
  go(a.pathname + a.search)
}

export function startRoutes(): void {
  addEventListener('popstate', moved.tell)
  document.addEventListener('click', follow)
}

export function useRoute(): Route {
  useSignal(moved)
  return parse(here(location.pathname), location.search)
}
