import { useState } from 'preact/hooks'
import { useGet } from '../api'
import { length, plural, sentence } from '../format'
import { now, useLive } from '../live'
import { go, to } from '../route'
import type { Summary } from '../types'
import { Ago, At, Filter, matches, Nothing, Problem, tone, Waiting } from '../ui'

// Incidents are all that are kept, the latest first.
export function Incidents() {
  const live = useLive()
  const [filter, setFilter] = useState('')
  const { data, error, loading, again } = useGet<Summary[]>('/api/v1/incidents?limit=500', live.incidents)
  const rows = data?.filter((s) => matches(filter, s.pathology, s.model, s.summary, s.severity, s.ended ? 'closed' : 'open', ...s.targets)) ?? []
  return (
    <>
      <h1 class="head">
        Incidents <Filter value={filter} set={setFilter} what="incidents" />
      </h1>
      {error && <Problem error={error} again={again} />}
      {!data && loading && <Waiting what="incidents" />}
      {data?.length === 0 && <Nothing title="No incident yet">What fires for long enough becomes one, with its evidence and how it went.</Nothing>}
      {data && data.length > 0 && rows.length === 0 && <Nothing title="No incident matches" />}
      <ul class="list">
        {rows.map((s) => (
          <li class={`banner slim ${s.ended || s.severity === 'info' ? 'plain' : tone('firing', s.severity)}`} data-row tabIndex={0} onKeyDown={(e) => e.key === 'Enter' && go(to('incident', s.id))}>
            <h2>
              <a href={to('incident', s.id)}>{s.pathology}</a> {s.model && <span class="soft">{s.model}</span>}
              <span class="tags"><span class="tag">{s.severity}</span>{!s.ended && <span class="tag">open</span>}{s.acknowledged && <span class="tag">{s.acknowledged.by} looks after it</span>}</span>
            </h2>
            <p>{sentence(s.summary)}</p>
            <p class="soft">
              {s.ended ? <><At at={s.began} />, for {length(Date.parse(s.ended) - Date.parse(s.began))}</> : <>since <Ago at={s.began} least={s.began_at_least} /></>}
              {' · '}{s.targets.length === 1 ? s.targets[0] : plural(s.targets.length, 'replica')}
              {s.notes.length > 0 && ` · ${plural(s.notes.length, 'note')}`}
            </p>
          </li>
        ))}
      </ul>
      {data && data.length > 0 && <p class="soft">Times are as of <At at={now()} />.</p>}
    </>
  )
}
