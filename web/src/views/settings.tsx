import { useState } from 'preact/hooks'
import { useGet } from '../api'
import { length, number, plural, zone } from '../format'
import { now } from '../live'
import { remember, remembered, setTheme, theme, type Theme } from '../palette'
import type { Settings } from '../types'
import { Ago, Filter, matches, Problem, Waiting } from '../ui'
import { link } from '../route'

const several = (n: number): string => length(n * 1000)

// rows are the settings that hold, in words.
function rows(s: Settings): [string, string][] {
  const rules = /^\s*evaluation_interval: (\S+)/m.exec(s.configuration)?.[1]
  const files = /^rule_files:/m.test(s.configuration)
  const keep = [s.storage.retention_s > 0 ? several(s.storage.retention_s) : '15 days', s.storage.retention_bytes > 0 ? `at most ${number(s.storage.retention_bytes, 'bytes')}` : ''].filter(Boolean).join(', ')
  return [
    ['Version', `${s.version.version} (${s.version.go}, ${s.version.platform})`],
    ['Source', s.source],
    ['Evaluation interval', several(s.evaluation_interval_s)],
    ['Scrape interval', several(s.scrape_interval_s)],
    ...(files && rules ? ([['Evaluation interval of rule_files', rules]] as [string, string][]) : []),
    ['Data directory', s.storage.directory],
    ['Retention', keep],
    ['Alertmanagers', s.alertmanagers?.join(', ') || 'none'],
    ['Access', s.login ? [s.user, s.role].filter(Boolean).join(', ') : 'anyone who can reach this address sees everything'],
  ]
}

// SettingsView shows the configuration in effect, and what this browser remembers.
export function SettingsView() {
  const { data, error, loading, again } = useGet<Settings>('/api/v1/settings')
  const [mode, setMode] = useState<Theme>(theme())
  const [name, setName] = useState(remembered('name'))
  const [filter, setFilter] = useState('')
  const targets = (data?.targets ?? []).filter((t) => matches(filter, t.URL, t.Health, t.Error, ...Object.values(t.Labels))).sort((a, b) => Number(a.Health === 'up') - Number(b.Health === 'up') || a.URL.localeCompare(b.URL, undefined, { numeric: true }))
  return (
    <>
      <h1>Settings</h1>
      {error && <Problem error={error} again={again} />}
      {loading && !data && <Waiting what="the settings" />}
      {data && (
        <section>
          <h2 class="head">Configuration</h2>
          <table><tbody>{rows(data).map(([k, v]) => <tr><td class="soft">{k}</td><td class="text">{v}</td></tr>)}</tbody></table>
        </section>
      )}
      {data && (
        <section>
          <h2 class="head">Thresholds and objectives</h2>
          {Object.keys(data.thresholds ?? {}).length === 0 && !data.objectives ? <p class="soft">The catalogue's defaults. Set others with <code>--set</code>, <code>--use-case</code> or <code>--slo</code>.</p> : <Value v={data.objectives ? { ...(data.thresholds ?? {}), objectives: data.objectives } : data.thresholds} />}
        </section>
      )}
      {data?.targets && (
        <section>
          <h2 class="head">{plural(data.targets.length, 'target')} {data.targets.length > 5 && <Filter value={filter} set={setFilter} what="targets" />}</h2>
          <div class="scroll" tabIndex={0} role="region" aria-label="Targets">
            <table class="whole">
              <thead><tr><th>Target</th><th>Job</th><th>Scrape</th><th>Last scrape</th></tr></thead>
              <tbody>
                {targets.slice(0, 200).map((t) => (
                  <tr><td class="text">{t.URL}</td><td>{t.Labels.job}</td><td class={t.Health === 'up' ? 'healthy' : t.Health === 'down' ? 'failing' : 'unknown'}>{t.Error || t.Health}</td><td class="nowrap">{Date.parse(t.At) > now() - 365 * 86400e3 ? <Ago at={t.At} /> : 'never'}</td></tr>
                ))}
              </tbody>
            </table>
          </div>
          {targets.length > 200 && <p class="soft">{targets.length - 200} more</p>}
        </section>
      )}
      {data && (
        <section>
          <details>
            <summary><b>Prometheus configuration</b> <span class="soft">as loaded, including defaults; secrets are hidden</span></summary>
            <p class="soft">evaluation_interval applies to rule_files; models are evaluated every {several(data.evaluation_interval_s)}.</p>
            <pre tabIndex={0}>{data.configuration}</pre>
          </details>
        </section>
      )}
      <section>
        <h2 class="head">This browser</h2>
        <p class="links">
          <label>
            Theme{' '}
            <select value={mode} onChange={(e) => { const t = e.currentTarget.value as Theme; setTheme(t); setMode(t) }}>
              <option value="">system</option>
              <option value="light">light</option>
              <option value="dark">dark</option>
            </select>
          </label>
          <label>Your name <input value={name} maxLength={100} onInput={(e) => { setName(e.currentTarget.value); remember('name', e.currentTarget.value.trim()) }} /></label>
          <span class="soft">Times are in {zone}.</span>
        </p>
      </section>
      <p class="links"><a href={link('/metrics')}>Metrics of this monitor</a><a href={link('/api/v1/openapi.json')}>API</a><a href={link('/api/v1/health?format=html')}>Health report</a></p>
    </>
  )
}

function Value({ v }: { v: unknown }) {
  if (Array.isArray(v)) {
    return v.length === 0 ? <span class="soft">none</span> : <ul class="plain">{v.slice(0, 200).map((x) => <li><Value v={x} /></li>)}{v.length > 200 && <li>{v.length - 200} more</li>}</ul>
  }
  if (v !== null && typeof v === 'object') {
    return <table><tbody>{Object.entries(v).map(([k, x]) => <tr><td class="soft nowrap">{k}</td><td class="text"><Value v={x} /></td></tr>)}</tbody></table>
  }
  return v === null || v === '' ? <span class="soft">–</span> : <span>{String(v)}</span>
}
