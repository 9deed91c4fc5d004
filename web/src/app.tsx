import type { FunctionComponent } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { formatDuration, titleOf, zone } from './format'
import { keyHelp, startKeys } from './keys'
import { assessTrust, failingOf, monitorNow, useLive } from './live'
import { nextTheme, setTheme } from './palette'
import { places, serverURL, urlOf, useRoute } from './route'
import { Nothing, useTitle } from './ui'
import { Audit } from './views/audit'
import { Explore } from './views/explore'
import { Fleet } from './views/fleet'
import { IncidentView } from './views/incident'
import { Incidents } from './views/incidents'
import { Overview } from './views/overview'
import { Runbooks, RunbookView } from './views/runbooks'
import { SettingsView } from './views/settings'
import { WhatIfView } from './views/whatif'

const views: Record<string, FunctionComponent<{ id: string }>> = {
  overview: Overview, incidents: Incidents, incident: IncidentView, explore: Explore, fleet: Fleet, whatif: WhatIfView,
  audit: Audit, runbooks: Runbooks, runbook: RunbookView, settings: SettingsView,
}

const under: Record<string, string> = { incident: 'incidents', runbook: 'runbooks' }
const wide = ['explore', 'fleet', 'incident']

export function App() {
  const route = useRoute()
  const live = useLive()
  const dialog = useRef<HTMLDialogElement>(null)
  const showHelp = (open?: boolean) => {
    const d = dialog.current
    if (!d) return
    if (d.open || open === false) d.close()
    else d.showModal()
  }
  useLayoutEffect(() => startKeys({ help: showHelp, theme: () => setTheme(nextTheme()) }), [])
  const failing = failingOf(live)
  const View = views[route.view] ?? Missing
  const title = places.find(([view]) => view === route.view)?.[1] ?? 'Not found'
  useTitle(route.view === 'incident' ? '' : route.view === 'runbook' ? titleOf(route.id) : title)
  return (
    <>
      <a class="skip" href="#main">Skip to content</a>
      <header class="bar">
        <a class="name" href={serverURL('/')}>sixty</a>
        <nav aria-label="Views">
          {places.map(([view, title]) => (
            <a href={urlOf(view)} aria-current={(under[route.view] ?? route.view) === view ? 'page' : undefined}>
              {title}
              {view === 'overview' && failing > 0 ? <span class="count" title={`${failing} failing or degraded`}>{failing}</span> : null}
            </a>
          ))}
        </nav>
        <span class="grow" />
        <Connection />
        <button type="button" class="icon" onClick={() => showHelp()} aria-label="Keys" title="Keys  ?">?</button>
      </header>
      <Doubt />
      <main id="main" tabIndex={-1} class={wide.includes(route.view) ? 'wide' : ''}><View key={route.id} id={route.id} /></main>
      <dialog ref={dialog} aria-label="Keys">
        <h2>Keys</h2>
        <dl class="keys">
          {keyHelp.map(([key, what]) => (
            <div>
              <dt>{key.split(/( then |, | and )/).map((k, i) => (i % 2 ? k : <kbd>{k}</kbd>))}</dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
        <p class="soft">Drag over a chart to zoom. Times are in {zone}.</p>
        <form method="dialog"><button>Close</button></form>
      </dialog>
    </>
  )
}

const Missing = () => (
  <>
    <h1>Not found</h1>
    <Nothing title="This page does not exist">
      See the <a href={serverURL('/')}>overview</a> or <a href={serverURL('/incidents')}>all incidents</a>.
    </Nothing>
  </>
)

// Connection shows how old the page's data are.
function Connection() {
  const live = useLive()
  const t = assessTrust(live)
  if (!live.overview) return <span class="soft">…</span>
  const lost = !t.ok && t.state === 'lost'
  // Use the browser's clock if it agrees with the monitor's within four evaluations.
  const passed = Date.now() - Date.parse(live.overview.at)
  const since = passed > 0 && passed < 4000 * live.overview.every_s ? passed : monitorNow(live) - Date.parse(live.overview.at)
  const ago = formatDuration(lost ? performance.now() - live.heard : since)
  return (
    <span class={`state ${t.ok ? '' : 'warning'}`} title={t.ok ? `every ${live.overview.every_s} s; times are in ${zone}` : t.why.join('\n')}>
      {!t.ok && `${t.state}, `}{lost ? 'heard' : 'evaluated'} {ago} ago
    </span>
  )
}

const doubts = {
  starting: ['No evaluation yet', 'The first verdict follows after a few scrapes.'],
  partial: ['Some data could not be read', 'What is unknown is not shown as healthy.'],
  stale: ['The last evaluation is out of date', 'Everything below is from that time, and nothing is shown as healthy.'],
  lost: ['No connection to sixty', 'Everything below is from the last update, and nothing is shown as healthy. The page retries every few seconds.'],
} as const

// Doubt warns at the top of every view that its data may be wrong, and lists other problems.
function Doubt() {
  const live = useLive()
  const t = assessTrust(live)
  const why = t.ok ? (live.overview?.problems ?? []) : t.why
  if (t.ok && why.length === 0) return null
  const [title, text] = t.ok ? ['Needs attention', 'The verdicts are not affected.'] : doubts[t.state]
  return (
    <div class={t.ok ? 'doubt note' : 'doubt'} role="status">
      <b>{title}.</b> {text}
      {why.length > 0 && (
        <ul>
          {why.slice(0, 5).map((w) => (
            <li>{w}</li>
          ))}
          {why.length > 5 && <li>{why.length - 5} more</li>}
        </ul>
      )}
    </div>
  )
}
