import { useEffect, useState } from 'preact/hooks'
import { change, length, number, plural, sentence } from '../format'
import { nameOf, now, order, shown, trust, useLive, worst, type Trust } from '../live'
import { PanelView, usePanels } from '../panel'
import { all, type Span } from '../query'
import { go, link, to, useRoute } from '../route'
import type { Anomaly, Model, Replica } from '../types'
import { Ago, Filter, Mark, matches, Nothing, Problem, tone, Waiting, words } from '../ui'

const many = 40 // replicas in the table: all of them are on Fleet

export const instanceOf = (r: Replica): string => r.labels.instance ?? r.target

// Now is the first page: one sentence per model and replica, and the three panels to start with.
export function Now() {
  const live = useLive()
  const route = useRoute()
  const t = trust(live)
  const o = live.overview
  if (!o) return live.error ? <Problem error={live.error} /> : <Waiting what="the first answer" />
  if (o.models.length === 0) {
    return o.state === 'starting' ? (
      <Waiting what="the first scrapes" />
    ) : (
      <Nothing title="No inference server is watched">
        Name one: <code>sixty serve http://localhost:8000</code>, or in a cluster <code>sixty serve --kubernetes</code>. <a href={link('/settings')}>Settings</a> show what is looked for.
      </Nothing>
    )
  }
  const models = [...o.models].sort((a, b) => worst({ ...a.verdict, status: shown(a.verdict.status, t, a.verdict.severity) }, { ...b.verdict, status: shown(b.verdict.status, t, b.verdict.severity) }))
  const chosen = models.find((m) => key(m) === route.query.get('model')) ?? models[0]
  return (
    <>
      <h1 class="hidden">Now</h1>
      <section class="verdicts" aria-label="One sentence for each model">
        {models.map((m) => (
          <VerdictLine model={m} t={t} chosen={m === chosen && models.length > 1} />
        ))}
      </section>
      <Start model={chosen} several={models.length > 1} />
      <ReplicaTable model={chosen} t={t} several={models.length > 1} />
      {o.anomalies && <Anomalies list={o.anomalies} />}
    </>
  )
}

// Anomalies are what the plain detector says, beside the judgement.
const Anomalies = ({ list }: { list: Anomaly[] }) => (
  <section>
    <h2 class="head">Unusual values <span class="more soft">the plain detector: three standard deviations from the last hundred; no verdict</span></h2>
    {list.length === 0 && <p class="soft">None at the moment.</p>}
    <ul>
      {list.map((a) => (
        <li>{a.target}: {a.text} {a.pathology ? <a href={to('runbooks', a.pathology)}>runbook</a> : <span class="soft">({number(a.z, '')} σ)</span>}</li>
      ))}
    </ul>
  </section>
)

export const key = (m: Model): string => [m.model, m.namespace, m.cluster].join('/')

export const headOf = (m: Model, t: Trust): string => {
  const v = m.verdict
  if (v.status === 'firing' || v.status === 'pending') return v.id
  if (!t.ok && (v.status === 'ok' || v.status === 'idle')) return 'not known now'
  return v.id || v.status
}

function VerdictLine({ model: m, t, chosen }: { model: Model; t: Trust; chosen: boolean }) {
  const v = m.verdict
  const status = shown(v.status, t, v.severity)
  const open = m.incident ? to('incident', m.incident) : to('now', '', { model: key(m) })
  const counts = order.map((s) => [s, m.replicas.filter((r) => shown(r.status, t, r.severity) === s).length] as const).filter(([, n]) => n > 0)
  return (
    <article
      class={`banner ${tone(status, v.severity)} ${status === 'firing' ? '' : 'slim'} ${chosen ? 'chosen' : ''}`}
      data-row
      data-verdict={v.id}
      tabIndex={0}
      onKeyDown={(e) => e.key === 'Enter' && e.target === e.currentTarget && go(open)}
    >
      <h2>
        <a href={open}>{nameOf(m)}</a>: {headOf(m, t)}
        {v.status === 'firing' && <span class="tags"><span class="tag">{v.severity}</span>{v.confidence !== null && <span class="tag">{sure(v.confidence)}</span>}</span>}
      </h2>
      <p class="lead">{t.ok || status === v.status || status === 'noted' ? sentence(v.summary) : `Was: ${sentence(v.summary)}`}</p>
      <p class="soft">
        {v.since && v.status === 'firing' && <>Since <Ago at={v.since} least={v.since_at_least} />. </>}
        {counts.map(([s, n], i) => (
          <>
            {i > 0 && ', '}
            <Mark status={s} word={false} /> {n} {words[s]}
          </>
        ))}
        {m.incident && v.status === 'firing' && <> · <a href={open}><b>Open the incident: evidence, fixes, runbook</b></a></>}
        {!m.incident && v.status === 'firing' && <> · <a href={link('/api/v1/diagnosis?format=html&plots=true')}>the whole diagnosis</a></>}
      </p>
    </article>
  )
}

// sure says a confidence in a word, as the command line does.
export const sure = (c: number): string => `${c >= 0.8 ? 'high' : c >= 0.5 ? 'medium' : 'low'} confidence`

// useTick is the monitor's time, in steps: plots of now follow it.
export function useTick(every: number): number {
  const live = useLive()
  const at = live.overview ? Date.parse(live.overview.at) : now(live)
  return Math.floor(at / every) * every
}

function Start({ model, several }: { model: Model; several: boolean }) {
  const panels = usePanels()
  const end = useTick(15_000)
  const [zoom, setZoom] = useState<Span | null>(null)
  useEffect(() => setZoom(null), [key(model)])
  const firing = model.verdict.status === 'firing' && model.verdict.since ? Date.parse(model.verdict.since) : null
  // Three quarters are what was before it began; an hour where nothing did.
  const back = firing === null ? 3600e3 : Math.min(Math.max(Math.ceil((4 * (end - firing)) / 900e3), 1), 96) * 900e3
  const span = zoom ?? { from: end - back, to: end + 15_000 }
  const choice = { ...all, models: several && model.model ? [model.model] : [], namespaces: several && model.namespace ? [model.namespace] : [], clusters: several && model.cluster ? [model.cluster] : [] }
  const since = firing === null ? undefined : [{ at: firing, name: 'since' }]
  const start = panels.data?.rows.filter((r) => r.board === 'start').flatMap((r) => r.panels.filter((p) => p.kind === 'lines')) ?? []
  return (
    <section>
      <h2 class="head">
        Start here{several && `: ${nameOf(model)}`}
        <span class="soft"> {zoom ? <button type="button" class="small" onClick={() => setZoom(null)}>Back to now</button> : `the last ${length(back)}`}</span>
        <a class="more" href={to('explore', '', { model: several ? model.model : '' })}>All panels</a>
      </h2>
      {panels.error && !panels.data && <Problem error={panels.error} again={panels.again} />}
      <div class="grid24">
        {start.map((p) => (
          <PanelView key={p.id} panel={{ ...p, width: 8 }} choice={choice} span={span} interval={panels.data?.interval_s ?? 5} each={false} marks={since} onZoom={setZoom} />
        ))}
      </div>
    </section>
  )
}

const columns = [
  ['ttft_p95', 'TTFT P95', 'seconds'],
  ['itl_p95', 'ITL P95', 'seconds'],
  ['requests_running', 'Running', 'requests'],
  ['requests_waiting', 'Waiting', 'requests'],
  ['kv_cache_usage', 'KV cache', 'ratio'],
  ['request_rate', 'Requests', 'requests/s'],
  ['output_tokens_rate', 'Output', 'tokens/s'],
] as const

function ReplicaTable({ model, t, several }: { model: Model; t: Trust; several: boolean }) {
  const [filter, setFilter] = useState('')
  const rows = model.replicas
    .filter((r) => matches(filter, r.target, r.status, r.pathology, r.reason, ...Object.values(r.labels)))
    .sort((a, b) => worst({ ...a, status: shown(a.status, t, a.severity) }, { ...b, status: shown(b.status, t, b.severity) }) || a.target.localeCompare(b.target, undefined, { numeric: true }))
  return (
    <section>
      <h2 class="head">
        {plural(model.replicas.length, 'replica')}{several && ` of ${nameOf(model)}`}
        {model.replicas.length > 5 && <Filter value={filter} set={setFilter} what="replicas" />}
        <a class="more" href={link('/fleet')}>Fleet</a>
      </h2>
      <div class="scroll">
        <table class="replicas">
          <thead>
            <tr>
              <th>Replica</th>
              <th>Now</th>
              {columns.map(([, title]) => <th class="n">{title}</th>)}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, many).map((r) => {
              const open = to('explore', '', { board: 'incident', model: several ? model.model : '', instance: instanceOf(r) })
              return (
                <tr data-row tabIndex={0} onKeyDown={(e) => e.key === 'Enter' && go(open)}>
                  <td><a href={open}>{r.target}</a></td>
                  <td class="text">
                    <Mark status={shown(r.status, t, r.severity)} severity={r.severity} word={!r.reason} /> {r.reason && sentence(r.reason)}
                  </td>
                  {columns.map(([name, , unit]) => (
                    <td class="n" title={r.normal[name] === null || r.normal[name] === undefined ? 'no normal is known' : `normally ${number(r.normal[name], unit)}: ${change(r.now[name], r.normal[name])}`}>
                      {number(r.now[name], unit)}
                    </td>
                  ))}
                </tr>
              )
            })}
          </tbody>
        </table>
      </div>
      {rows.length === 0 && <Nothing title="No replica matches" />}
      {rows.length > many && <p class="soft">And {rows.length - many} more: filter, or see <a href={link('/fleet')}>Fleet</a>.</p>}
    </section>
  )
}
