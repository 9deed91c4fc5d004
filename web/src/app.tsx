import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { zone } from './format'
import { help, start } from './keys'
import { now, trust, useLive } from './live'
import { setTheme, theme, type Theme } from './palette'
import { link, to, useRoute } from './route'
import { At, Nothing } from './ui'
import { Audit } from './views/audit'
import { Explore } from './views/explore'
import { Fleet } from './views/fleet'
import { IncidentView } from './views/incident'
import { Incidents } from './views/incidents'
import { Now } from './views/now'
import { RunbookView, Runbooks } from './views/runbooks'
import { SettingsView } from './views/settings'
import { WhatIfView } from './views/whatif'

const places: [string, string][] = [
  ['now', 'Now'],
  ['incidents', 'Incidents'],
  ['explore', 'Explore'],
  ['fleet', 'Fleet'],
  ['whatif', 'What if'],
  ['audit', 'Audit'],
  ['runbooks', 'Runbooks'],
  ['settings', 'Settings'],
]

const titles: Record<string, string> = Object.fromEntries(places)
const under: Record<string, string> = { incident: 'incidents', runbook: 'runbooks' }

export const nextTheme = (t: Theme): Theme => (({ '': 'dark', dark: 'light', light: '' }) as const)[t]

export function App() {
  const route = useRoute()
  const live = useLive()
  const dialog = useRef<HTMLDialogElement>(null)
  const [, again] = useState(0)
  const toggle = () => {
    setTheme(nextTheme(theme()))
    again((n) => n + 1)
  }
  const showHelp = (open?: boolean) => {
    const d = dialog.current
    if (!d) return
    if (d.open || open === false) d.close()
    else d.showModal()
  }
  useLayoutEffect(() => start({ help: showHelp, theme: toggle }), [])
  const sick = live.overview?.models.filter((m) => m.verdict.status === 'firing' && m.verdict.severity !== 'info').length ?? 0
  useEffect(() => {
    const name = route.view === 'incident' || route.view === 'runbook' ? route.id : (titles[route.view] ?? 'Not found')
    document.title = `${sick > 0 ? `(${sick}) ` : ''}${name} · sixty`
  }, [route.view, route.id, sick])
  return (
    <>
      <a class="skip" href="#main">To the content</a>
      <header class="bar">
        <a class="name" href={link('/')}>sixty</a>
        <nav aria-label="Views">
          {places.map(([view, title]) => (
            <a href={to(view)} aria-current={(under[route.view] ?? route.view) === view ? 'page' : undefined}>
              {title}
              {view === 'now' && sick > 0 ? <span class="count">{sick}</span> : null}
            </a>
          ))}
        </nav>
        <span class="grow" />
        <Connection />
        <button type="button" class="icon" onClick={() => showHelp()} aria-label="Keys" title="Keys  ?">?</button>
      </header>
      <Doubt />
      <main id="main">{view(route.view, route.id)}</main>
      <dialog ref={dialog} aria-label="Keys">
        <h2>Keys</h2>
        <dl class="keys">
          {help.map(([key, what]) => (
            <div>
              <dt>{key.split(/( then |, | and )/).map((k, i) => (i % 2 ? k : <kbd>{k}</kbd>))}</dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
        <p class="soft">Drag over a plot to zoom. Times are in {zone}.</p>
        <form method="dialog"><button>Close</button></form>
      </dialog>
    </>
  )
}

function view(name: string, id: string) {
  switch (name) {
    case 'now':
      return <Now />
    case 'incidents':
      return <Incidents />
    case 'incident':
      return <IncidentView key={id} id={id} />
    case 'explore':
      return <Explore />
    case 'fleet':
      return <Fleet />
    case 'whatif':
      return <WhatIfView />
    case 'audit':
      return <Audit />
    case 'runbooks':
      return <Runbooks />
    case 'runbook':
      return <RunbookView id={id} />
    case 'settings':
      return <SettingsView />
  }
  return (
    <Nothing title="There is no such page">
      <a href={link('/')}>See what is wrong now</a>, or look for an incident among <a href={link('/incidents')}>all of them</a>.
    </Nothing>
  )
}

// Connection says of when the page is.
function Connection() {
  const live = useLive()
  const t = trust(live)
  if (!live.overview) return <span class="soft">…</span>
  return (
    <span class={`state ${t.ok ? '' : 'warning'}`} title={t.ok ? `evaluated every ${live.overview.every_s} s; times in ${zone}` : t.why.join('\n')}>
      {t.ok ? 'as of ' : t.state === 'lost' ? 'last heard ' : `${t.state}, `}
      <At at={t.ok || t.state !== 'lost' ? live.overview.at : now(live) - (performance.now() - live.heard)} />
    </span>
  )
}

const doubts = {
  starting: ['Nothing was evaluated yet', 'The first answer comes after some scrapes.'],
  partial: ['Not everything could be read', 'What is not known is not shown as healthy.'],
  stale: ['The last evaluation is too old', 'What is shown is of then; nothing of it is shown as healthy.'],
  lost: ['The connection to sixty is lost', 'What is shown is of then; nothing of it is shown as healthy. It is tried again every few seconds.'],
} as const

// Doubt says at the head of every view what stands in the way of believing it, and what else
// is amiss.
function Doubt() {
  const live = useLive()
  const t = trust(live)
  const why = t.ok ? (live.overview?.problems ?? []) : t.why
  if (t.ok && why.length === 0) return null
  const [title, text] = t.ok ? ['What is shown is true, and this is amiss', ''] : doubts[t.state]
  return (
    <div class={t.ok ? 'doubt note' : 'doubt'} role="status">
      <b>{title}.</b> {text}
      {why.length > 0 && (
        <ul>
          {why.slice(0, 5).map((w) => (
            <li>{w}</li>
          ))}
          {why.length > 5 && <li>and {why.length - 5} more</li>}
        </ul>
      )}
    </div>
  )
}
