import { navigate, places, urlOf } from './route'

// keyHelp lists the keys for the help pane.
export const keyHelp: [string, string][] = [
  ['?', 'this help'],
  ...places.map(([, title, key]): [string, string] => [`g then ${key}`, title]),
  ['j, k', 'next row, previous row'],
  ['Enter', 'open the row'],
  ['/', 'filter'],
  ['[ and ]', 'earlier, later (Explore)'],
  ['-', 'zoom out (Explore)'],
  ['d', 'theme: dark, light, or the system\'s'],
  ['Esc', 'close, or leave the filter field'],
]

// viewKeys holds the keys of the current view.
const viewKeys = new Map<string, () => void>()

export function bindKeys(keys: Record<string, () => void>): () => void {
  for (const [k, f] of Object.entries(keys)) viewKeys.set(k, f)
  return () => {
    for (const [k, f] of Object.entries(keys)) if (viewKeys.get(k) === f) viewKeys.delete(k)
  }
}

const fields = 'input:not([type=range],[type=checkbox]), textarea, select'
const isTyping = (e: Element | null): e is HTMLElement => e instanceof HTMLElement && (e.matches(fields) || e.isContentEditable)

function focusRow(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>('main [data-row]')].filter((r) => r.offsetParent !== null)
  if (rows.length === 0) return
  const at = rows.indexOf(document.activeElement as HTMLElement)
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)]
  next.focus()
  next.scrollIntoView({ block: 'nearest' })
}

let since = 0 // when "g" was pressed

export function startKeys(toggle: { help: (open?: boolean) => void; theme: () => void }): void {
  const keys: Record<string, (e: KeyboardEvent) => void> = {
    '?': () => toggle.help(),
    g: (e) => (since = e.timeStamp),
    j: () => focusRow(1),
    k: () => focusRow(-1),
    d: toggle.theme,
    '/': () => document.querySelector<HTMLElement>('main [data-filter]')?.focus(),
  }
  addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return
    const active = document.activeElement
    if (e.key === 'Escape') toggle.help(false)
    if (isTyping(active)) return e.key === 'Escape' ? active.blur() : undefined
    const place = e.timeStamp - since < 1500 && places.find(([, , key]) => key === e.key)
    since = 0
    const f = place ? () => navigate(urlOf(place[0])) : viewKeys.get(e.key) ?? keys[e.key]
    if (!f) return
    e.preventDefault()
    f(e)
  })
}
