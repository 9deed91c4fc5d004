import { useLayoutEffect, useState } from 'preact/hooks'

// A Route is where the page is; everything that can be looked at has an address.
export interface Route {
  view: string // overview, incidents, incident, explore, fleet, whatif, audit, runbooks, settings, or '' where there is no such page
  id: string
  query: URLSearchParams
}

// base is the path under which the page is, '' for the root.
export const base = globalThis.document?.documentElement.dataset.base ?? ''

// link is the address of a path of this server.
export const link = (path: string): string => base + path

const here = (path: string): string => (path.startsWith(base) ? path.slice(base.length) : path)

const views = ['incidents', 'explore', 'fleet', 'whatif', 'audit', 'runbooks', 'settings']

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
  if (views.includes(first) && !id) return { view: first, id, query }
  return { view: '', id, query }
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

const listeners = new Set<() => void>()

export function go(address: string, replace = false): void {
  if (address === location.pathname + location.search) return
  const before = location.pathname
  history[replace ? 'replaceState' : 'pushState'](null, '', address)
  for (const l of [...listeners]) l()
  if (location.pathname !== before) scrollTo(0, 0)
}

export function useRoute(): Route {
  const [, render] = useState(0)
  useLayoutEffect(() => {
    const changed = () => render((n) => n + 1)
    // A link within the page is followed without loading it again.
    const follow = (e: MouseEvent) => {
      const a = e.target instanceof Element ? e.target.closest('a') : null
      if (!a || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return
      if (a.origin !== location.origin || a.target || a.hasAttribute('download') || !parse(here(a.pathname), a.search).view) return
      if (a.hash && a.pathname === location.pathname && a.search === location.search) return
      e.preventDefault()
      go(a.pathname + a.search)
    }
    listeners.add(changed)
    addEventListener('popstate', changed)
    document.addEventListener('click', follow)
    return () => {
      listeners.delete(changed)
      removeEventListener('popstate', changed)
      document.removeEventListener('click', follow)
    }
  }, [])
  return parse(here(location.pathname), location.search)
}
