import { useState } from 'preact/hooks'
import { useGet } from '../api'
import { plural, sentence } from '../format'
import { Filter, Loaded, matchesFilter, Nothing } from '../ui'

interface AuditReport {
  source: { description: string }
  areas: { id: string; title: string; status: string; items: { name: string; status: string; severity: string; detail?: string; hint?: string }[] }[]
  findings: { check: string; severity: string; file: string; line?: number; where: string; fragment: string; why: string; fix: string }[]
  errors?: string[]
}

const tones: Record<string, [string, string]> = {
  present: ['healthy', '●'], partial: ['degraded', '◐'], missing: ['failing', '✕'], absent: ['failing', '✕'], unknown: ['unknown', '?'],
}

// Audit shows what is measured of this deployment, and what is not.
export function Audit() {
  const [filter, setFilter] = useState('')
  const asked = useGet<AuditReport>('/api/v1/audit')
  return (
    <>
      <h1 class="head">Audit <Filter value={filter} set={setFilter} what="checks" /></h1>
      <Loaded of={asked} what="the audit">{(report) => <Report of={report} filter={filter} />}</Loaded>
    </>
  )
}

function Report({ of, filter }: { of: AuditReport; filter: string }) {
  const areas = of.areas
    .map((a) => ({ ...a, items: a.items.filter((i) => matchesFilter(filter, a.title, i.name, i.status, i.detail ?? '', i.hint ?? '')) }))
    .filter((a) => a.items.length > 0)
  const lacking = of.areas.flatMap((a) => a.items).filter((i) => i.status !== 'present')
  return (
    <>
      <p>{sentence(of.source.description)} {lacking.length > 0 ? `${plural(lacking.length, 'measurement')} missing or incomplete.` : 'All measurements are present.'}</p>
      {of.errors?.map((e) => <p class="warning">{sentence(e)}</p>)}
      {areas.length === 0 && <Nothing title="No matching checks" />}
      {areas.map((a) => (
        <section>
          <h2 class="head"><State of={a.status} /> {a.title}</h2>
          <div class="scroll" tabIndex={0} role="region" aria-label={a.title}>
            <table class="whole checks">
              <tbody>
                {a.items.map((i) => (
                  <tr data-row tabIndex={0}>
                    <td class="nowrap"><State of={i.status} /> {i.name}</td>
                    <td class="text">{i.detail}{i.hint && <div class="soft">To enable: {sentence(i.hint)}</div>}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      ))}
      {of.findings.length > 0 && (
        <section>
          <h2 class="head">Rules and dashboards</h2>
          <ul class="list">
            {of.findings.map((f) => (
              <li class="card" data-row tabIndex={0}>
                <h3><span class={f.severity === 'page' ? 'failing' : 'degraded'}>{f.check}</span> <span class="soft">{f.file}{f.line ? `:${f.line}` : ''} {f.where}</span></h3>
                <p><code>{f.fragment}</code></p>
                <p>{sentence(f.why)} {sentence(f.fix)}</p>
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  )
}

const State = ({ of }: { of: string }) => {
  const [tone, shape] = tones[of] ?? ['unknown', '?']
  return <span class={`mark ${tone}`} title={of}>{shape}<span class="hidden"> {of}</span></span>
}
