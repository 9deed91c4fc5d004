import { useState } from 'preact/hooks'
import { useGet } from '../api'
import { formatDuration, formatNumber, plural, zone } from '../format'
import { monitorNow } from '../live'
import { setTheme, useTheme, type Theme } from '../palette'
import type { Settings } from '../types'
import { Ago, Filter, Loaded, matchesFilter, Name } from '../ui'
import { serverURL } from '../route'

const most = 200 // rows in a list

const several = (n: number): string => formatDuration(n * 1000)

// rows lists the settings in effect as text.
function rows(s: Settings): [string, string][] {
  const keep = [s.storage.retention_s > 0 ? several(s.storage.retention_s) : '15 days', s.storage.retention_bytes > 0 ? `at most ${formatNumber(s.storage.retention_bytes, 'bytes')}` : ''].filter(Boolean).join(', ')
  return [
    ['Version', `${s.version.version} (${s.version.go}, ${s.version.platform})`],
    ['Source', s.source],
    ['Evaluation interval', several(s.evaluation_interval_s)],
    ['Scrape interval', several(s.scrape_interval_s)],
    ['Data directory', s.storage.directory],
    ['Retention', keep],
    ['Alertmanagers', s.alertmanagers?.join(', ') || 'none'],
    ['Access', s.login ? [s.user, s.role].filter(Boolean).join(', ') : 'anyone who can reach this address sees everything'],
  ]
}

// SettingsView shows the configuration in effect, and the settings of this browser.
export function SettingsView() {
  const theme = useTheme()
  return (
    <>
      <h1>Settings</h1>
      <Loaded of={useGet<Settings>('/api/v1/settings')} what="the settings">{(s) => <InEffect s={s} />}</Loaded>
      <section>
        <h2 class="head">This browser</h2>
        <p class="links">
          <label>
            Theme{' '}
            <select value={theme} onChange={(e) => setTheme(e.currentTarget.value as Theme)}>
              <option value="">system</option>
              <option value="light">light</option>
              <option value="dark">dark</option>
            </select>
          </label>
          <label>Your name <Name /></label>
          <span class="soft">Times are in {zone}.</span>
        </p>
      </section>
      <p class="links"><a href={serverURL('/metrics')}>Metrics of this monitor</a></p>
    </>
  )
}

// InEffect shows the configuration of the monitor and its targets.
function InEffect({ s }: { s: Settings }) {
  const [filter, setFilter] = useState('')
  const targets = (s.targets ?? [])
    .filter((t) => matchesFilter(filter, t.URL, t.Health, t.Error, ...Object.values(t.Labels)))
    .sort((a, b) => Number(a.Health === 'up') - Number(b.Health === 'up') || a.URL.localeCompare(b.URL, undefined, { numeric: true }))
  const set = { ...s.thresholds, ...(s.objectives ? { objectives: s.objectives } : {}) }
  return (
    <>
      <section>
        <h2 class="head">Configuration</h2>
        <table><tbody>{rows(s).map(([k, v]) => <tr><td class="soft">{k}</td><td class="text">{v}</td></tr>)}</tbody></table>
      </section>
      <section>
        <h2 class="head">Thresholds and objectives</h2>
        {Object.keys(set).length === 0 ? <p class="soft">The catalogue's defaults. Set others with <code>--set</code>, <code>--use-case</code> or <code>--slo</code>.</p> : <Value v={set} />}
      </section>
      {s.targets && (
        <section>
          <h2 class="head">{plural(s.targets.length, 'target')} {s.targets.length > 5 && <Filter value={filter} set={setFilter} what="targets" />}</h2>
          <div class="scroll" tabIndex={0} role="region" aria-label="Targets">
            <table class="whole">
              <thead><tr><th>Target</th><th>Job</th><th>Scrape</th><th>Last scrape</th></tr></thead>
              <tbody>
                {targets.slice(0, most).map((t) => (
                  <tr>
                    <td class="text">{t.URL}</td>
                    <td>{t.Labels.job}</td>
                    <td class={t.Health === 'up' ? 'healthy' : t.Health === 'down' ? 'failing' : 'unknown'}>{t.Error || t.Health}</td>
                    <td class="nowrap">{Date.parse(t.At) > monitorNow() - 365 * 86400e3 ? <Ago at={t.At} /> : 'never'}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {targets.length > most && <p class="soft">{targets.length - most} more</p>}
        </section>
      )}
      <section>
        <details>
          <summary><b>Prometheus configuration</b> <span class="soft">as loaded, including defaults; secrets are hidden</span></summary>
          <p class="soft">evaluation_interval applies to rule_files; models are evaluated every {several(s.evaluation_interval_s)}.</p>
          <pre tabIndex={0}>{s.configuration}</pre>
        </details>
      </section>
    </>
  )
}

function Value({ v }: { v: unknown }) {
  if (Array.isArray(v)) {
    return v.length === 0 ? <span class="soft">none</span> : <ul class="plain">{v.slice(0, most).map((x) => <li><Value v={x} /></li>)}{v.length > most && <li>{v.length - most} more</li>}</ul>
  }
  if (v !== null && typeof v === 'object') {
    return <table><tbody>{Object.entries(v).map(([k, x]) => <tr><td class="soft nowrap">{k}</td><td class="text"><Value v={x} /></td></tr>)}</tbody></table>
  }
  return v === null || v === '' ? <span class="soft">–</span> : <span>{String(v)}</span>
}
