import { go, to } from './route'

// help lists the keys, for the page's own help.
export const help: [string, string][] = [
  ['?', 'this help'],
  ['g then o', 'Overview'],
  ['g then i', 'Incidents'],
  ['g then e', 'Explore'],
  ['g then f', 'Fleet'],
  ['g then w', 'What if'],
  ['g then a', 'Audit'],
  ['g then r', 'Runbooks'],
  ['g then s', 'Settings'],
  ['j, k', 'next row, previous row'],
  ['Enter', 'open the row'],
  ['/', 'filter'],
  ['[ and ]', 'earlier, later (Explore)'],
  ['-', 'zoom out (Explore)'],
  ['d', 'theme: dark, light, or the system\'s'],
  ['Esc', 'close, or leave the filter field'],
]

const places: Record<string, string> = { o: 'overview', i: 'incidents', e: 'explore', f: 'fleet', w: 'whatif', a: 'audit', r: 'runbooks', s: 'settings' }

// own are the keys of the view that is shown.
const own = new Map<string, () => void>()

export function bind(keys: Record<string, () => void>): () => void {
  for (const [k, f] of Object.entries(keys)) own.set(k, f)
  return () => {
    for (const [k, f] of Object.entries(keys)) if (own.get(k) === f) own.delete(k)
  }
}

const typing = (e: Element | null): boolean => e instanceof HTMLElement && (e.matches('input:not([type=range],[type=checkbox]), textarea, select') || e.isContentEditable)

function step(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>('main [data-row]')].filter((r) => r.offsetParent !== null)
  if (rows.length === 0) return
  const at = rows.indexOf(document.activeElement as HTMLElement)
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)]
  next.focus()
  next.scrollIntoView({ block: 'nearest' })
}

let since = 0 // when "g" was pressed

export function start(toggle: { help: (open?: boolean) => void; theme: () => void }): () => void {
  const down = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return
    if (e.key === 'Escape') {
      toggle.help(false)
      if (typing(document.activeElement)) (document.activeElement as HTMLElement).blur()
      return
    }
    if (typing(document.activeElement)) return
    const place = places[e.key]
    if (e.timeStamp - since < 1500 && place) {
      since = 0
      e.preventDefault()
      return go(to(place))
    }
    since = 0
    const keys: Record<string, () => void> = {
      '?': () => toggle.help(),
      g: () => (since = e.timeStamp),
      j: () => step(1),
      k: () => step(-1),
      d: toggle.theme,
      '/': () => document.querySelector<HTMLElement>('main [data-filter]')?.focus(),
    }
    const f = own.get(e.key) ?? keys[e.key]
    if (f) {
      e.preventDefault()
      f()
    }
  }
  addEventListener('keydown', down)
  return () => removeEventListener('keydown', down)
}
