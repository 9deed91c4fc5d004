import { useState } from 'preact/hooks'
import { compareWithNormal, formatNumber, formatReplicaNumber, plural, quantities, sentence, titleOf } from '../format'
import { assessTrust, compareWorst, healthOf, healths, useLive, type Trust } from '../live'
import { findOutliers } from '../odd'
import { navigate, serverURL, urlOf, useRoute } from '../route'
import type { Model, Quantity, Replica } from '../types'
import { Compared, Filter, Mark, matchesFilter, Nothing, Waiting } from '../ui'
import { instanceOf, key } from './overview'

type Shade = (typeof quantities)[number]

// Fleet shows a cell per replica. Colour: state. Outline: outlier.
export function Fleet() {
  const live = useLive()
  const route = useRoute()
  const t = assessTrust(live)
  const [filter, setFilter] = useState('')
  const [picked, pick] = useState('') // a target
  const shade = quantities.find(([n]) => n === route.query.get('show')) ?? quantities[0]
  if (!live.overview) return <Waiting what="the fleet" />
  const models = live.overview.models
  const total = models.flatMap((m) => m.replicas)
  const counts = healths.map((h) => [h, total.filter((r) => healthOf(r, t) === h).length] as const)
  return (
    <>
      <div class="tools">
        <h1>{plural(total.length, 'replica')}</h1>
        <span class="links">{counts.filter(([, n]) => n > 0).map(([h, n]) => <span class={h}><Mark health={h} word={false} />{n} {h}</span>)}</span>
        <span class="grow" />
        <div class="tabs" role="group" aria-label="What the cells show">
          {quantities.map(([name, title]) => (
            <button type="button" aria-pressed={name === shade[0]} onClick={() => navigate(urlOf('fleet', '', { show: name }), true)}>{title}</button>
          ))}
        </div>
        <Filter value={filter} set={setFilter} what="replicas" />
      </div>
      {total.length === 0 && <Nothing title="No replicas are watched"><a href={serverURL('/settings')}>Settings</a> list the targets.</Nothing>}
      <div class="split">
        <div>
          {[...models].sort((a, b) => compareWorst(a.verdict, b.verdict, t)).map((m) => (
            <Group key={key(m)} m={m} filter={filter} shade={shade} t={t} picked={picked} pick={pick} />
          ))}
        </div>
        <Picked models={models} show={shade} target={picked} t={t} />
      </div>
      <p class="soft">Colour: state. Outline: outlier in {shade[1]}. Bar: value.</p>
    </>
  )
}

function Group({ m, filter, shade: [name, title, unit], t, picked, pick }: { m: Model; filter: string; shade: Shade; t: Trust; picked: string; pick: (target: string) => void }) {
  const { usual, odd: strange } = findOutliers(m.replicas, name)
  const top = Math.max(...m.replicas.map((r) => r.now[name] ?? 0), usual * 2 || 0, 1e-12)
  const cells = m.replicas.map((r, i) => ({ r, odd: strange[i] })).filter(({ r }) => matchesFilter(filter, r.target, r.status, r.life, healthOf(r, t), r.pathology, r.reason, m.model, m.cluster, m.namespace, ...Object.values(r.labels)))
  if (cells.length === 0) return null
  const n = cells.filter((c) => c.odd).length
  const names = shorts(cells.map((c) => c.r.target))
  return (
    <section>
      <h2 class="head">
        <a class="long" title={m.name} href={m.incident ? urlOf('incident', m.incident) : urlOf('overview', '', { model: key(m) })}>{m.name}</a>
        <span class="soft">{plural(cells.length, 'replica')}, {title} median {typical(m.replicas, name, unit, usual)}{n > 0 && `, ${plural(n, 'outlier')}`}</span>
      </h2>
      <div class={`cells ${cells.length > 150 ? 'dense' : cells.length <= 24 ? 'few' : ''}`}>
        {cells.map(({ r, odd }, i) => {
          const h = healthOf(r, t)
          const v = r.now[name]
          return (
            <a
              class={`cell ${h} ${r.status === 'down' ? 'lost' : ''} ${odd ? 'odd' : ''} ${picked === r.target ? 'picked' : ''}`}
              data-row
              data-replica={r.target}
              href={urlOf('explore', '', { board: 'incident', model: m.model, instance: instanceOf(r) })}
              title={`${r.target}: ${h}${r.reason ? `. ${sentence(r.reason)}` : ''}`}
              onMouseEnter={() => pick(r.target)}
              onFocus={() => pick(r.target)}
            >
              <span class="short">{names[i]}<span class="hidden"> {h}</span></span>
              <span class="value">{formatReplicaNumber(r.now, name, unit)}</span>
              <i style={{ width: `${Math.min(100, (100 * (v ?? 0)) / top)}%` }} />
            </a>
          )
        })}
      </div>
    </section>
  )
}

// shorts shortens addresses to the part in which they differ: a common beginning and end are left out, up to a dot, a
// hyphen, a slash or a colon.
export function shorts(targets: string[]): string[] {
  const names = targets.map((t) => t.replace(/^https?:\/\//, ''))
  if (names.length < 2) return names
  const parts = names.map((n) => n.split(/(?<=[-./])|(?=:)/))
  const fewest = Math.min(...parts.map((p) => p.length)) - 1
  let head = 0
  while (head < fewest && parts.every((p) => p[head] === parts[0][head])) head++
  let tail = 0
  while (tail < fewest - head && parts.every((p) => p.at(-1 - tail) === parts[0].at(-1 - tail))) tail++
  return parts.map((p) => p.slice(head, p.length - tail).join('').replace(/^[-./]|[-./]$/g, ''))
}

// typical writes the median like the value of the replica next to it, possibly as a bucket.
function typical(replicas: Replica[], name: Quantity, unit: string, usual: number): string {
  const off = (r: Replica) => Math.abs((r.now[name] ?? Infinity) - usual)
  const near = [...replicas].sort((a, b) => off(a) - off(b))[0]
  return near?.now.bounds?.[name] ?? formatNumber(Number.isNaN(usual) ? null : usual, unit)
}

const listed = 12 // replicas to look at first

// Picked shows the selected replica, or the replicas to look at first.
function Picked({ models, show, target, t }: { models: Model[]; show: Shade; target: string; t: Trust }) {
  const m = models.find((m) => m.replicas.some((r) => r.target === target))
  const r = m?.replicas.find((r) => r.target === target)
  if (!m || !r) {
    const first = models.flatMap((m) => {
      const strange = findOutliers(m.replicas, show[0])
      return m.replicas
        .map((r, i) => ({ r, m, odd: strange.odd[i], usual: strange.usual }))
        .filter((c) => ['firing', 'down', 'pending'].includes(c.r.status) || c.odd)
    }).sort((a, b) => compareWorst(a.r, b.r, t))
    return (
      <aside class="picked">
        <h2>{first.length > 0 ? 'Look at these first' : 'Nothing stands out'}</h2>
        <ul class="plain">
          {first.slice(0, listed).map(({ r, m, usual }) => (
            <li>
              <Mark health={healthOf(r, t)} life={r.life} word={false} /><a href={urlOf('explore', '', { board: 'incident', model: m.model, instance: instanceOf(r) })}>{r.target}</a>{' '}
              <span class="soft">{r.reason ? sentence(r.reason === m.verdict.summary ? titleOf(r.pathology) : r.reason) : `${show[1]} ${formatReplicaNumber(r.now, show[0], show[2])}, the others ${typical(m.replicas, show[0], show[2], usual)}.`}</span>
            </li>
          ))}
          {first.length > listed && <li class="soft">and {first.length - listed} more</li>}
        </ul>
        <p class="soft pointed">Point at a cell to see its values.</p>
      </aside>
    )
  }
  return (
    <aside class="picked">
      <h2>{r.target}</h2>
      <p class="soft">{m.name} · {r.engine} {r.version}</p>
      <p><Mark health={healthOf(r, t)} life={r.life} />{r.pathology && <b>: {titleOf(r.pathology)}</b>}</p>
      {r.reason && <p>{sentence(r.reason)}</p>}
      <Compared
        heads={['Quantity', 'Now', 'Normal', 'Change']}
        rows={quantities.map(([name, title, unit]) => [title, formatReplicaNumber(r.now, name, unit), formatReplicaNumber(r.normal, name, unit), compareWithNormal(r.now[name], r.normal[name])])}
      />
    </aside>
  )
}
