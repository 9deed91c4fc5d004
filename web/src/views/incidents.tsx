import { useState } from 'preact/hooks'
import { useGet } from '../api'
import { formatDuration, plural, sentence, titleOf } from '../format'
import { monitorNow, useLive } from '../live'
import { urlOf } from '../route'
import type { Summary } from '../types'
import { At, Filter, Loaded, matchesFilter, Nothing } from '../ui'
import { PhaseOf } from './act'
import { scope } from './incident'
import { open } from './strip'

// Incidents lists all stored incidents, the latest first.
export function Incidents() {
  const live = useLive()
  const [filter, setFilter] = useState('')
  const asked = useGet<Summary[]>('/api/v1/incidents?limit=500', live.incidents)
  const rows = asked.data?.filter((s) => matchesFilter(filter, s.pathology, titleOf(s.pathology), s.model, s.summary, s.severity, s.phase, ...s.targets)) ?? []
  return (
    <>
      <h1 class="head">Incidents <Filter value={filter} set={setFilter} what="incidents" /></h1>
      <Loaded of={asked} what="incidents">
        {(data) => rows.length === 0 && (
          data.length > 0 ? <Nothing title="No matching incidents" /> : <Nothing title="No incidents yet">Persistent findings become incidents, with evidence and a timeline.</Nothing>
        )}
      </Loaded>
      {rows.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Incidents">
          <table class="whole stack">
            <thead><tr><th>Phase</th><th>Incident</th><th>Model</th><th>Began</th><th>Lasted</th><th>Replicas</th><th>Acknowledged</th></tr></thead>
            <tbody>
              {rows.map((s) => (
                <tr data-row tabIndex={0} onKeyDown={open(urlOf('incident', s.id))}>
                  <td class="phase"><PhaseOf i={s} /></td>
                  <td class="text">
                    <a href={urlOf('incident', s.id)}><b>{titleOf(s.pathology)}</b></a> <span class="tag">{s.severity}</span>
                    <div class="soft">{sentence(s.summary)}</div>
                  </td>
                  <td class="text">{s.model}</td>
                  <td class="nowrap">{s.began_at_least && 'before '}<At at={s.began} /></td>
                  <td class="nowrap">{formatDuration((s.ended ? Date.parse(s.ended) : monitorNow()) - Date.parse(s.began))}</td>
                  <td>{scope(s, '').replace(' replicas of ', '')}</td>
                  <td>{s.acknowledged?.by}{s.notes.length > 0 && <span class="soft"> · {plural(s.notes.length, 'note')}</span>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  )
}
