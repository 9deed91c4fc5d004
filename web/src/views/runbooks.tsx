import { useState } from 'preact/hooks'
import { Failure, useGet } from '../api'
import { sentence, titleOf } from '../format'
import { Markup } from '../html'
import { useLive } from '../live'
import { go, link, to } from '../route'
import type { Runbook } from '../types'
import { Copy, Filter, matches, Nothing, Problem, Waiting } from '../ui'

export function Runbooks() {
  const live = useLive()
  const [filter, setFilter] = useState('')
  const { data, error, loading, again } = useGet<Runbook[]>('/api/v1/runbooks')
  const firing = new Set(live.overview?.models.filter((m) => m.verdict.status === 'firing').map((m) => m.verdict.id))
  const rows = (data ?? []).filter((r) => matches(filter, r.id, titleOf(r.id), r.title, r.summary, r.severity)).sort((a, b) => Number(firing.has(b.id)) - Number(firing.has(a.id)) || a.id.localeCompare(b.id))
  return (
    <>
      <h1 class="head">Runbooks <Filter value={filter} set={setFilter} what="runbooks" /></h1>
      {error && <Problem error={error} again={again} />}
      {loading && !data && <Waiting what="runbooks" />}
      {data && rows.length === 0 && <Nothing title="No matching runbooks" />}
      <ul class="list columns">
        {rows.map((r) => (
          <li data-row tabIndex={0} onKeyDown={(e) => e.key === 'Enter' && go(to('runbooks', r.id))}>
            <a href={to('runbooks', r.id)}><b>{titleOf(r.id)}</b></a> {firing.has(r.id) && <span class="tag failing">firing</span>}
            <div class="soft">{sentence(r.title || r.summary)}</div>
          </li>
        ))}
      </ul>
    </>
  )
}

export function RunbookView({ id }: { id: string }) {
  const { data, error, again } = useGet<Runbook>(`/api/v1/runbooks/${encodeURIComponent(id)}`)
  if (error && !data) {
    return error instanceof Failure && error.status === 404 ? <Nothing title={`There is no runbook ${id}`}>See <a href={link('/runbooks')}>all runbooks</a>.</Nothing> : <Problem error={error} again={again} />
  }
  if (!data) return <Waiting what="the runbook" />
  return (
    <article class="page">
      <p class="links">
        <a href={link('/runbooks')}>All runbooks</a>
        {data.markdown && <Copy text={data.markdown} label="Copy as Markdown" />}
      </p>
      <Markup html={data.html ?? ''} />
    </article>
  )
}
