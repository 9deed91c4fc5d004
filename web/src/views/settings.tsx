import { useState } from 'preact/hooks'
import { useGet } from '../api'
import { zone } from '../format'
import { remember, remembered, setTheme, theme, type Theme } from '../palette'
import { Problem, Waiting } from '../ui'
import { link } from '../route'

// SettingsView shows how the monitor is set, and what this browser remembers.
export function SettingsView() {
  const { data, error, loading, again } = useGet<Record<string, unknown>>('/api/v1/settings')
  const [mode, setMode] = useState<Theme>(theme())
  const [name, setName] = useState(remembered('name'))
  return (
    <>
      <h1>Settings</h1>
      <section>
        <h2 class="head">This browser</h2>
        <p class="links">
          <label>
            Colours{' '}
            <select value={mode} onChange={(e) => { const t = e.currentTarget.value as Theme; setTheme(t); setMode(t) }}>
              <option value="">as the system</option>
              <option value="light">light</option>
              <option value="dark">dark</option>
            </select>
          </label>
          <label>Your name <input value={name} maxLength={100} onInput={(e) => { setName(e.currentTarget.value); remember('name', e.currentTarget.value.trim()) }} /></label>
          <span class="soft">Times are in {zone}.</span>
        </p>
      </section>
      {error && <Problem error={error} again={again} />}
      {loading && !data && <Waiting what="the settings" />}
      {data && Object.entries(data).filter(([k]) => k !== 'login').map(([k, v]) => (
        <section>
          <h2 class="head">{title(k)}</h2>
          <Value v={v} />
        </section>
      ))}
      <p class="links"><a href={link('/metrics')}>Its own metrics</a><a href={link('/api/v1/openapi.json')}>API</a><a href={link('/api/v1/health?format=html')}>Health report</a>{data?.login === true && <a href={link('/login')}>Log out</a>}</p>
    </>
  )
}

const title = (k: string): string => k.charAt(0).toUpperCase() + k.slice(1).replaceAll('_', ' ')

function Value({ v }: { v: unknown }) {
  if (Array.isArray(v)) {
    return v.length === 0 ? <span class="soft">none</span> : <ul class="plain">{v.slice(0, 200).map((x) => <li><Value v={x} /></li>)}{v.length > 200 && <li>and {v.length - 200} more</li>}</ul>
  }
  if (v !== null && typeof v === 'object') {
    return (
      <div class="scroll"><table><tbody>
        {Object.entries(v).map(([k, x]) => <tr><td class="soft nowrap">{k}</td><td class="text"><Value v={x} /></td></tr>)}
      </tbody></table></div>
    )
  }
  if (v === null || v === '') return <span class="soft">–</span>
  const text = String(v)
  return text.includes('\n') ? <pre>{text}</pre> : <span>{text}</span>
}
