import { useMemo, useState } from 'preact/hooks'
import { useGet } from '../api'
import { compareWithNormal, formatDuration, formatNumber, formatReplicaNumber, formatValue, plural, quantities, sentence, titleOf } from '../format'
import { assessTrust, compareWorst, healthOf, healthOfModel, healths, isQuiet, useLive, type Trust } from '../live'
import { PanelView, usePanels } from '../panel'
import { alignSeries, all, fillVariables, matchAny, rangePath, rateOf, replicaQuery, type Answer, type Span } from '../query'
import { serverURL, urlOf, useRoute } from '../route'
import type { Anomaly, Deployment, Health, Incident, Life, Link, Model, Numbers, Panels, Quantity, Replica, Summary } from '../types'
import { Ago, At, Copy, courseOf, Filter, Mark, matchesFilter, Nothing, Problem, Text, Waiting } from '../ui'
import { Acknowledge, healthOfSeverity, PhaseOf } from './act'
import { Axis, Chain, rowOf } from './chain'
import { FixBody, sure, useStory, useTick } from './diagnosis'
import { open, Strip, useStarts } from './strip'
import { Path } from './path'

const few = 3 // quantities that are shown without a chain
const many = 40 // replicas in the table; Fleet shows all
const past = 15 * 60e3 // ms that a sparkline shows

export const instanceOf = (r: Replica): string => r.labels.instance ?? r.target
export const key = (m: Model): string => [m.model, m.namespace, m.cluster].join('/')

// Overview is the first view: the state of the service, the first fix, who is affected, and every replica.
export function Overview() {
  const live = useLive()
  const route = useRoute()
  const t = assessTrust(live)
  const o = live.overview
  if (!o) return live.error ? <Problem error={live.error} /> : <Waiting what="the first verdict" />
  if (o.models.length === 0) {
    return o.state === 'starting' ? (
      <Waiting what="the first scrapes" />
    ) : o.problems.length > 0 && o.state !== 'ok' ? (
      <Nothing title="No inference server is known yet">
        The reason is above. <a href={serverURL('/settings')}>Settings</a> list the targets.
      </Nothing>
    ) : (
      <Nothing title="No inference server is watched">
        Start with one: <code>sixty serve http://localhost:8000</code>, or in a cluster <code>sixty serve --kubernetes</code>. <a href={serverURL('/settings')}>Settings</a> list the targets.
      </Nothing>
    )
  }
  const models = [...o.models].sort((a, b) => compareWorst(a.verdict, b.verdict, t))
  const chosen = models.find((m) => key(m) === route.query.get('model')) ?? models[0]
  return (
    <>
      <State key={key(chosen)} m={chosen} t={t} several={models.length > 1} />
      {models.length > 1 && <Others models={models} chosen={chosen} t={t} />}
      <Replicas m={chosen} t={t} several={models.length > 1} />
      {o.anomalies && <Anomalies list={o.anomalies} />}
    </>
  )
}

// Others lists the models if there are several.
const Others = ({ models, chosen, t }: { models: Model[]; chosen: Model; t: Trust }) => (
  <section aria-label="Models">
    <h2 class="head">{plural(models.length, 'model')}</h2>
    <ul class="others">
      {models.map((m) => {
        const href = urlOf('overview', '', { model: key(m) })
        const h = healthOfModel(m, t)
        return (
          <li data-row data-verdict={m.verdict.id} data-chosen={m === chosen || undefined} tabIndex={0} onKeyDown={open(m.incident ? urlOf('incident', m.incident) : href)}>
            <Mark health={isQuiet(m) ? 'quiet' : h} /> <a class="long" title={m.name} href={href}><b>{titleIn(m, t)}</b></a>
            {m !== chosen && m.incident && <a href={urlOf('incident', m.incident)}>incident</a>}
          </li>
        )
      })}
    </ul>
  </section>
)

// titleIn returns the title of a model, unless the data are too old to trust.
export const titleIn = (m: Model, t: Trust): string => (healthOfModel(m, t) === m.health || isQuiet(m) ? m.title : `${m.name} is in an unknown state`)

const counts = (m: Model, t: Trust): string =>
  healths.map((h) => [h, m.replicas.filter((r) => healthOf(r, t) === h).length] as const).filter(([, n]) => n > 0).map(([h, n]) => `${n} ${h}`).join(', ')

// State is the top of the view: what is wrong and what to do, or that nothing is wrong.
function State({ m, t, several }: { m: Model; t: Trust; several: boolean }) {
  const live = useLive()
  const v = m.verdict
  const h = healthOfModel(m, t)
  const firing = v.status === 'firing' && !isQuiet(m)
  const path = m.incident ? `/api/v1/incidents/${encodeURIComponent(m.incident)}` : ''
  const { data: incident, again } = useGet<Incident>(path, live.incidents)
  const of = incident?.pathology === v.id ? incident : undefined
  const { f, fixes, hops, plots } = useStory(incident, v.id, m.model, firing)
  const fix = firing ? fixes[0] : undefined
  const href = m.incident ? urlOf('incident', m.incident) : ''
  const links = f?.chain?.length ? f.chain : plots.slice(0, few).map(rowOf)
  const span = plots[0] && { from: Date.parse(plots[0].from), to: Date.parse(plots[0].to) }
  const affected = m.replicas.filter((r) => (of?.affected ? of.affected.includes(r.target) : r.pathology === v.id))
  const title = titleIn(m, t)
  const summary = `${h === m.health || isQuiet(m) ? '' : 'Was: '}${m.text}`
  return (
    <>
      <div class={`hero ${fix ? '' : 'calm'}`}>
        <section data-verdict={v.id} data-row={!several || undefined} tabIndex={several ? undefined : 0} onKeyDown={several ? undefined : open(href)} style={{ margin: 0 }}>
          <p class="eyebrow">
            {incident && (isQuiet(m) || (firing && of)) ? <PhaseOf i={incident} /> : <Mark health={h} />}
            <span class="soft">
              {isQuiet(m) && incident && ` · after ${titleOf(incident.pathology)}`}
              {firing && ` · ${v.severity}`}{firing && v.confidence !== null && ` · ${sure(v.confidence)}`}
              {firing && v.since && <> · since <Ago at={v.since} least={v.since_at_least} /></>}
            </span>
          </p>
          <h1 title={title}>{href ? <a href={href}>{title}</a> : title}</h1>
          <p class="lead"><Text of={summary} /></p>
          {isQuiet(m) && href && <p class="links"><a href={href}>Incident</a> <a href={serverURL(`${path}/postmortem`)}>Post-mortem</a></p>}
          {firing && (
            <p class="links">
              {href && <a href={href}>Evidence</a>}
              <a href={urlOf('runbooks', v.id)}>Runbook</a>
              {!href && <a href={serverURL('/api/v1/diagnosis?format=html&plots=true')}>Full diagnosis</a>}
              <Copy text={location.origin + (href || urlOf('overview', '', { model: key(m) }))} label="Share" />
            </p>
          )}
          {h === 'uncertain' && <p class="links"><a href={serverURL('/api/v1/diagnosis?format=html&plots=true')}>Full diagnosis</a></p>}
        </section>
        <Hurt m={m} affected={firing ? affected : []} hops={hops} links={firing ? f?.chain : undefined} impact={of?.impact} />
        {fix && (
          <section class="card best" data-fix style={{ margin: 0 }}>
            <h2 class="label">{fix.head}</h2>
            <h3><Text of={fix.summary} /></h3>
            <FixBody f={fix} advice={of?.advice} chain={f?.chain} target={of?.affected?.[0] ?? affected[0]?.target} labels={affected[0]?.labels} />
            <p class="actions">
              {incident?.acknowledged ? <span class="soft">Acknowledged by {incident.acknowledged.by}.</span> : path && <Acknowledge path={path} again={again} />}
              {href && <a href={href}>{fixes.length > 1 ? plural(fixes.length - 1, 'more fix') : 'Evidence'}</a>}
            </p>
          </section>
        )}
      </div>
      {hops && firing && <Path d={hops} />}
      {firing && span && <section class="few-links"><h2 class="hidden">What leads to what</h2><Chain links={links} plots={plots} span={span} /></section>}
      {!firing && <Calm m={m} several={several} />}
      <Happened m={m} from={plots[0] ? Date.parse(plots[0].from) : undefined} />
    </>
  )
}

const total = (list: Replica[], of: 'now' | 'normal', name: Quantity): number | null =>
  list.some((r) => r[of][name] !== null) ? list.reduce((sum, r) => sum + (r[of][name] ?? 0), 0) : null
const highest = (list: Replica[], of: 'now' | 'normal', name: Quantity): Numbers | null => {
  const known = list.map((r) => r[of]).filter((n) => n[name] !== null && n[name] !== undefined)
  return known.length > 0 ? known.reduce((a, b) => (b[name]! > a[name]! ? b : a)) : null
}

interface HurtProps {
  m?: Model
  affected: Replica[]
  hops?: Deployment
  links?: Link[]
  impact?: Summary['impact']
}

// Hurt shows who is affected, from the incident: the number of late requests, latencies, and the affected replicas.
// Without an incident it shows the model's current numbers.
export function Hurt({ m, affected, hops, links = [], impact }: HurtProps) {
  const cells: [string, string, string?][] = []
  const count = (n: number) => formatNumber(n, 'count')
  if (impact?.late) cells.push([`${count(impact.late)} late`, `of ${count(impact.of)} requests: first token after ${formatNumber(impact.limit, 'seconds')}`, 'bad'])
  if (impact?.failed) cells.push([`${count(impact.failed)} failed`, `of ${count(impact.of)} requests: HTTP 5xx`, 'bad'])
  if (impact?.slow) cells.push([`${count(impact.slow.count)} slow`, `of ${count(impact.slow.all)} ${impact.slow.of}: more than ${formatNumber(impact.slow.limit, 'seconds')} a token`, 'bad'])
  if (impact?.budget_share) cells.push([formatNumber(impact.budget_share, 'ratio'), "of the month's error budget"])
  for (const l of links.filter((l) => l.role === 'symptom').slice(-2).reverse()) {
    const normally = l.baseline === null ? '' : `, normally ${formatValue(l.baseline_text, l.baseline, l.unit)}`
    cells.push([formatValue(l.value_text, l.value, l.unit), l.title + normally, 'bad'])
  }
  const replicas = m?.replicas ?? []
  if (affected.length > 0) {
    // With separate prefill and decode servers, every request goes to a server of each role.
    const role = hops?.stages.find((s) => s.targets.includes(affected[0].target))
    const peers = replicas.filter((r) => !role || role.targets.includes(r.target))
    const [rate, whole] = [affected, peers].map((of) => total(of, 'now', 'request_rate'))
    const [tokens, wrote] = (['now', 'normal'] as const).map((of) => total(affected, of, 'output_tokens_rate'))
    if (rate && whole && peers.length > affected.length) cells.push([formatNumber(Math.min(1, rate / Math.max(whole, rate)), 'ratio'), `of requests go to ${affected.length === 1 ? 'this replica' : 'these replicas'}`])
    if (wrote && !m?.verdict.since_at_least && (tokens ?? 0) < 0.9 * wrote) cells.push([compareWithNormal(tokens ?? 0, wrote), `output, normally ${formatNumber(wrote, 'tokens/s')}`])
  }
  if (affected.length === 0 || cells.length === 0) {
    for (const [name, title, unit] of columnsOf(['request_rate', 'output_tokens_rate'])) {
      const sum = total(replicas, 'now', name)
      if (sum !== null) cells.push([formatNumber(sum, unit), title.toLowerCase()])
    }
    for (const [name, title, unit] of columnsOf(['ttft_p95', 'itl_p95'])) {
      const [n, normal] = [highest(replicas, 'now', name), highest(replicas, 'normal', name)]
      if (n) cells.push([formatReplicaNumber(n, name, unit), title + (normal ? `, normally ${formatReplicaNumber(normal, name, unit)}` : '')])
    }
  }
  if (cells.length === 0) return null
  return <dl class="kpis">{cells.slice(0, 5).map(([value, what, look]) => <div><dt>{what}</dt><dd class={look}>{value}</dd></div>)}</dl>
}

const dayBack = 24 * 3600e3

// Happened is the timeline of incidents and starts.
function Happened({ m, from }: { m: Model; from?: number }) {
  const live = useLive()
  const end = useTick(15_000)
  const { data } = useGet<Summary[]>(`/api/v1/incidents?limit=50&model=${encodeURIComponent(m.model)}`, live.incidents)
  const mine = (data ?? []).filter((s) => (s.model === m.model || !s.model) && (!s.ended || Date.parse(s.ended) > end - dayBack))
  const earliest = Math.min(from ?? end - 3600e3, ...mine.map((s) => Date.parse(s.began) - 300e3))
  const coarse = Math.floor(Math.max(earliest, end - dayBack) / 60e3) * 60e3
  const span = { from: coarse, to: end + 15_000 }
  const asked = Math.floor(end / 60e3) * 60e3
  const starts = useStarts(m.replicas.slice(0, many).map(instanceOf), { from: coarse, to: asked + 60e3 })
  const eras = mine.map((s) => ({
    from: Date.parse(s.since?.[s.pathology] ?? s.began), to: s.ended ? Date.parse(s.ended) : span.to,
    name: titleOf(s.pathology), href: urlOf('incident', s.id), health: healthOfSeverity(s.severity),
  }))
  if (!data) return null
  return (
    <section>
      <h2 class="head">Timeline {eras.length + starts.length === 0 && <span class="soft">no incidents or restarts in {formatDuration(span.to - span.from)}</span>} <a class="more" href={serverURL('/incidents')}>All incidents</a></h2>
      {eras.length + starts.length > 0 && <><Strip span={span} eras={eras} starts={starts} /><Axis span={span} /></>}
    </section>
  )
}

// Calm shows the charts of a model without findings, from where its data begin.
function Calm({ m, several }: { m: Model; several: boolean }) {
  const panels = usePanels()
  const end = useTick(15_000)
  const [zoom, setZoom] = useState<Span | null>(null)
  const first = useFirst(m.replicas.slice(0, many).map(instanceOf), end)
  const span = zoom ?? { from: Math.max(end - 3600e3, first ?? 0), to: end + 15_000 }
  const choice = { ...all, models: several && m.model ? [m.model] : [], namespaces: several && m.namespace ? [m.namespace] : [], clusters: several && m.cluster ? [m.cluster] : [] }
  const start = panels.data?.rows.filter((r) => r.board === 'start').flatMap((r) => r.panels.filter((p) => p.kind === 'lines')) ?? []
  if (panels.error && !panels.data) return <Problem error={panels.error} again={panels.again} />
  return (
    <section>
      <h2 class="hidden">Charts</h2>
      {zoom && <p><button type="button" class="small" onClick={() => setZoom(null)}>Back to now</button></p>}
      <div class="grid24">
        {(first !== undefined || m.replicas.length === 0) && start.map((p) => (
          <PanelView key={p.id} panel={{ ...p, width: 8 }} choice={choice} span={span} interval={panels.data?.interval_s ?? 5} each={false} onZoom={setZoom} />
        ))}
      </div>
    </section>
  )
}

// useFirst returns the time of the first sample of replicas within the last hour; null if that is unknown, undefined
// while it is being fetched. Without replicas nothing is fetched.
export function useFirst(instances: string[], end: number): number | null | undefined {
  const [asked] = useState(Math.floor(end / 1000))
  const path = rangePath(`count(up{instance=~"${matchAny(instances)}"})`, asked - 3600, asked, 60)
  const { data, error } = useGet<Answer>(instances.length > 0 ? path : '')
  if (error) return null
  if (!data) return undefined
  const at = data.data.result[0]?.values[0]?.[0]
  return at === undefined ? null : at * 1000
}

// Anomalies shows the results of the plain anomaly detector, which verdicts do not use.
const Anomalies = ({ list }: { list: Anomaly[] }) => (
  <section>
    <h2 class="head">Unusual values <span class="more soft">plain detector: far from the mean of the last values, in standard deviations (σ); not a verdict</span></h2>
    {list.length === 0 && <p class="soft">None.</p>}
    <ul>
      {list.map((a) => (
        <li class={a.ended ? 'soft' : ''}><At at={a.at} />{a.ended && <> to <At at={a.ended} /></>} {a.target}: {a.text} {a.pathology ? <a href={urlOf('runbooks', a.pathology)}>runbook</a> : <span class="soft">({formatNumber(a.z, '')} σ)</span>}</li>
      ))}
    </ul>
  </section>
)

const columnsOf = (names: Quantity[]) => names.map((name) => quantities.find(([n]) => n === name) as (typeof quantities)[number])
const columns = columnsOf(['ttft_p95', 'output_tokens_rate', 'kv_cache_usage']) // with a curve
const rest = columnsOf(['requests_running', 'requests_waiting', 'request_rate'])
const panelOf: Partial<Record<Quantity, number>> = { ttft_p95: 412, output_tokens_rate: 419, kv_cache_usage: 416 }

// useCurve returns one quantity of the last minutes by replica.
function useCurve(panels: Panels | undefined, id: number | undefined, instances: string[], end: number): Map<string, (number | null)[]> {
  const panel = panels?.rows.flatMap((r) => r.panels).find((p) => p.id === id)
  const interval = panels?.interval_s ?? 5
  const step = Math.max(interval, 15)
  let path = ''
  if (panel && instances.length > 0) {
    const expr = fillVariables(replicaQuery(panel).expr, { ...all, instances: instances.length > many / 2 ? [] : instances }, rateOf(step, interval), past / 1000)
    path = rangePath(expr, (end - past) / 1000, end / 1000, step)
  }
  const { data } = useGet<Answer>(path, 0, true)
  return useMemo(() => {
    const n = Math.floor(past / 1000 / step) + 1
    const last = Math.max(0, ...(data?.data.result ?? []).map((m) => m.values.at(-1)?.[0] ?? 0))
    const place = (t: number) => n - 1 - Math.round((last - t) / step)
    return new Map((data?.data.result ?? []).map((m) => [m.metric.instance ?? '', alignSeries(m, n, place)]))
  }, [data])
}

// Spark draws a curve without axes; dashes show the normal value.
function Spark({ y, normal, off, max }: { y?: (number | null)[]; normal: number | null; off: boolean; max?: number }) {
  const [w, h] = [110, 22]
  const known = y?.filter((v): v is number => v !== null) ?? []
  const top = Math.max(max ?? 0, ...known, (normal ?? 0) * 1.1, 1e-12)
  const place = (v: number) => h - 2 - (v / top) * (h - 4)
  return (
    <svg class={`spark ${off ? 'off' : ''}`} viewBox={`0 0 ${w} ${h}`} width={w} height={h} preserveAspectRatio="none" aria-hidden="true">
      {normal !== null && known.length > 0 && <line x1={0} x2={w} y1={place(normal)} y2={place(normal)} vector-effect="non-scaling-stroke" />}
      {y && <path d={courseOf(y.map((v, i) => [(i / Math.max(y.length - 1, 1)) * w, v === null ? null : place(v)]))} />}
    </svg>
  )
}

const lives: Partial<Record<Life, string>> = { starting: 'Starting', slow: 'Slow metrics', drained: 'Drained', lost: 'Lost' }

// ReplicaState shows the life cycle of a replica, and what is wrong with it.
function ReplicaState({ r, m, h }: { r: Replica; m: Model; h: Health }) {
  const life = lives[r.life]
  const wrong = r.pathology && r.pathology !== 'target-down' ? titleOf(r.pathology) : r.status === 'idle' ? 'Idle' : r.status === 'down' && !life ? 'Lost' : ''
  const what = [life, wrong].filter(Boolean).join(', ')
  return (
    <>
      <Mark health={h} life={r.life} word={!what} />
      {what && <> <b class={h}>{what}</b></>}
      {r.status === 'pending' && wrong && <span class="soft"> suspected</span>}
      {r.since && <span class="soft nowrap"> since <At at={r.since} /></span>}
      {r.reason && !m.verdict.summary.includes(r.reason) && r.pathology !== m.verdict.id && <span class="soft"> {sentence(r.reason)}</span>}
    </>
  )
}

export function Replicas({ m, t, several }: { m: Model; t: Trust; several: boolean }) {
  const [filter, setFilter] = useState('')
  const panels = usePanels()
  const end = useTick(15_000)
  const matching = m.replicas
    .filter((r) => matchesFilter(filter, r.target, r.status, r.life, healthOf(r, t), r.pathology, r.reason, ...Object.values(r.labels)))
    .sort((a, b) => compareWorst(a, b, t) || a.target.localeCompare(b.target, undefined, { numeric: true }))
  const rows = matching.slice(0, many)
  const instances = rows.map(instanceOf).sort()
  const curves = columns.map(([name]) => useCurve(panels.data, panelOf[name], instances, end))
  return (
    <section>
      <h2 class="head">
        Replicas{several && ` of ${m.name}`} <span class="soft">{counts(m, t)}</span>
        {m.replicas.length > 5 && <Filter value={filter} set={setFilter} what="replicas" />}
        <a class="more" href={urlOf('explore', '', { model: several ? m.model : '' })}>All charts</a>
      </h2>
      <table class="replicas">
        <thead>
          <tr>
            <th>Replica</th>
            <th>State</th>
            {columns.map(([, title], i) => <th>{title}{i === 0 && ', 15 min'}</th>)}
            {rest.map(([, title]) => <th class="n rest">{title}</th>)}
          </tr>
        </thead>
        <tbody>
          {rows.map((r) => {
            const href = urlOf('explore', '', { board: 'incident', model: several ? m.model : '', instance: instanceOf(r) })
            const h = healthOf(r, t)
            return (
              <tr class={`is-${h}`} data-row data-replica={r.target} tabIndex={0} onKeyDown={open(href)}>
                <td class="name"><a href={href}>{r.target}</a></td>
                <td class="text"><ReplicaState r={r} m={m} h={h} /></td>
                {columns.map(([name, title, unit], i) => {
                  const [value, normal] = [r.now[name], r.pathology && m.verdict.since_at_least ? null : (r.normal[name] ?? null)]
                  const off = value !== null && normal !== null && (value > 1.5 * normal || value < normal / 2)
                  return (
                    <td class="metric" data-title={title} title={normal === null ? 'normal value unknown' : `normally ${formatReplicaNumber(r.normal, name, unit)} (${compareWithNormal(value, normal) || 'no change'})`}>
                      <Spark y={curves[i].get(instanceOf(r))} normal={normal} off={off} max={unit === 'ratio' ? 1 : undefined} />
                      <b>{formatReplicaNumber(r.now, name, unit)}</b>
                    </td>
                  )
                })}
                {rest.map(([name, , unit]) => <td class="n rest">{formatNumber(r.now[name], unit)}</td>)}
              </tr>
            )
          })}
        </tbody>
      </table>
      {rows.length === 0 && <Nothing title="No matching replicas" />}
      {matching.length > many && <p class="soft">{matching.length - many} more: filter, or see <a href={serverURL('/fleet')}>Fleet</a>.</p>}
    </section>
  )
}
