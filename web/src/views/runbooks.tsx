import type { ComponentChildren } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import { useGet } from '../api'
import { sentence, titleOf } from '../format'
import { useLive } from '../live'
import { serverURL, urlOf } from '../route'
import type { Runbook } from '../types'
import { Copy, Filter, Loaded, matchesFilter, Nothing } from '../ui'
import { open } from './strip'

export function Runbooks() {
  const live = useLive()
  const [filter, setFilter] = useState('')
  const asked = useGet<Runbook[]>('/api/v1/runbooks')
  const firing = new Set(live.overview?.models.filter((m) => m.verdict.status === 'firing').map((m) => m.verdict.id))
  const rows = (asked.data ?? [])
    .filter((r) => matchesFilter(filter, r.id, titleOf(r.id), r.title, r.summary, r.severity))
    .sort((a, b) => Number(firing.has(b.id)) - Number(firing.has(a.id)) || a.id.localeCompare(b.id))
  return (
    <>
      <h1 class="head">Runbooks <Filter value={filter} set={setFilter} what="runbooks" /></h1>
      <Loaded of={asked} what="runbooks">{() => rows.length === 0 && <Nothing title="No matching runbooks" />}</Loaded>
      <ul class="list columns">
        {rows.map((r) => (
          <li data-row tabIndex={0} onKeyDown={open(urlOf('runbooks', r.id))}>
            <a href={urlOf('runbooks', r.id)}><b>{titleOf(r.id)}</b></a> {firing.has(r.id) && <span class="tag failing">firing</span>}
            <div class="soft">{sentence(r.title || r.summary)}</div>
          </li>
        ))}
      </ul>
    </>
  )
}

interface TrustedTypes {
  createPolicy(name: string, rules: { createHTML(s: string): string }): { createHTML(s: string): string }
}

const { trustedTypes } = globalThis as { trustedTypes?: TrustedTypes }
const policy = trustedTypes?.createPolicy('sixty', { createHTML: (s) => s })

// Markup shows a runbook as rendered by the server, which leaves out raw HTML and script links
// (internal/render/markdown.go).
function Markup({ html }: { html: string }) {
  const __html = useMemo(() => policy?.createHTML(html) ?? html, [html])
  return <div class="markup" dangerouslySetInnerHTML={{ __html }} />
}

// RunbookText shows a runbook with its header.
export function RunbookText({ id, above }: { id: string; above?: (r: Runbook) => ComponentChildren }) {
  const missing = <Nothing title={`There is no runbook ${id}`}>See <a href={serverURL('/runbooks')}>all runbooks</a>.</Nothing>
  return (
    <Loaded of={useGet<Runbook>(`/api/v1/runbooks/${encodeURIComponent(id)}`)} what="the runbook" missing={missing}>
      {(r) => <>{above?.(r)}<Markup html={r.html ?? ''} /></>}
    </Loaded>
  )
}

export const RunbookView = ({ id }: { id: string }) => (
  <article class="page">
    <RunbookText id={id} above={(r) => (
      <p class="links">
        <a href={serverURL('/runbooks')}>All runbooks</a>
        {r.markdown && <Copy text={r.markdown} label="Copy as Markdown" />}
      </p>
    )} />
  </article>
)
