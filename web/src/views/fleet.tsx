import { useState } from 'preact/hooks'
import { change, number, plural, sentence } from '../format'
import { nameOf, order, shown, trust, useLive, worst, type Trust } from '../live'
import { odd } from '../odd'
import { go, link, to, useRoute } from '../route'
import type { Model, Numbers, Replica, Status } from '../types'
import { Filter, Mark, matches, Nothing, tone, Waiting, words } from '../ui'
import { instanceOf, key } from './now'

type Shade = [keyof Numbers, string, string]

const shades: Shade[] = [
  ['ttft_p95', 'TTFT P95', 'seconds'],
  ['itl_p95', 'ITL P95', 'seconds'],
  ['kv_cache_usage', 'KV cache', 'ratio'],
  ['requests_waiting', 'Waiting', 'requests'],
  ['requests_running', 'Running', 'requests'],
  ['request_rate', 'Requests', 'requests/s'],
  ['output_tokens_rate', 'Output', 'tokens/s'],
]

// Fleet shows every replica as a cell: what is sick has a colour, what is odd a frame.
export function Fleet() {
  const live = useLive()
  const route = useRoute()
  const t = trust(live)
  const [filter, setFilter] = useState('')
  const [picked, pick] = useState<{ m: Model; r: Replica } | null>(null)
  const shade = shades.find(([n]) => n === route.query.get('show')) ?? shades[0]
  if (!live.overview) return <Waiting what="the fleet" />
  const models = live.overview.models
  const total = models.flatMap((m) => m.replicas)
  const counts = order.map((s): [Status, number] => [s, total.filter((r) => shown(r.status, t, r.severity) === s).length])
  return (
    <>
      <div class="tools">
        <h1>{plural(total.length, 'replica')}</h1>
        <span>{counts.filter(([, n]) => n > 0).map(([s, n]) => <span class="pad"><Mark status={s} word={false} /> {n} {words[s]}</span>)}</span>
        <span class="grow" />
        <div class="tabs" role="group" aria-label="What the cells show">
          {shades.map(([name, title]) => (
            <button type="button" aria-pressed={name === shade[0]} onClick={() => go(to('fleet', '', { show: name }), true)}>{title}</button>
          ))}
        </div>
        <Filter value={filter} set={setFilter} what="replicas" />
      </div>
      {total.length === 0 && <Nothing title="No replica is watched"><a href={link('/settings')}>Settings</a> show what is looked for.</Nothing>}
      <div class="split">
        <div>
          {[...models].sort((a, b) => worst(a.verdict, b.verdict)).map((m) => (
            <Group key={key(m)} m={m} filter={filter} shade={shade} t={t} picked={picked?.r} pick={(r) => pick({ m, r })} />
          ))}
        </div>
        <Picked models={models} show={shade} one={picked && (models.find((m) => key(m) === key(picked.m)) ?? picked.m)} r={picked && (models.find((m) => key(m) === key(picked.m))?.replicas.find((r) => r.target === picked.r.target) ?? picked.r)} t={t} />
      </div>
      <p class="soft">A colour says what is wrong, a frame what differs from the other replicas of the model in {shade[1]}; the bar is the value. j and k go from cell to cell, Enter opens one.</p>
    </>
  )
}

function Group({ m, filter, shade: [name, title, unit], t, picked, pick }: { m: Model; filter: string; shade: Shade; t: Trust; picked?: Replica; pick: (r: Replica) => void }) {
  const { usual, odd: strange } = odd(m.replicas, name)
  const top = Math.max(...m.replicas.map((r) => r.now[name] ?? 0), usual * 2 || 0, 1e-12)
  const cells = m.replicas.map((r, i) => ({ r, odd: strange[i] })).filter(({ r }) => matches(filter, r.target, r.status, words[r.status], r.pathology, r.reason, m.model, m.cluster, m.namespace, ...Object.values(r.labels)))
  if (cells.length === 0) return null
  const n = cells.filter((c) => c.odd).length
  return (
    <section>
      <h2 class="head">
        <a href={m.incident ? to('incident', m.incident) : to('now', '', { model: key(m) })}>{nameOf(m)}</a>
        <span class="soft">{plural(cells.length, 'replica')}, {title} usually {number(Number.isNaN(usual) ? null : usual, unit)}{n > 0 && `, ${n} far from it`}</span>
      </h2>
      <div class={`cells ${cells.length > 150 ? 'dense' : ''}`}>
        {cells.map(({ r, odd }) => {
          const s = shown(r.status, t, r.severity)
          const v = r.now[name]
          return (
            <a
              class={`cell ${tone(s, r.severity)} ${s} ${odd ? 'odd' : ''} ${picked?.target === r.target ? 'picked' : ''}`}
              data-row
              data-replica={r.target}
              href={to('explore', '', { board: 'incident', model: m.model, instance: instanceOf(r) })}
              title={`${r.target}: ${words[s]}${r.reason ? `. ${sentence(r.reason)}` : ''}`}
              onMouseEnter={() => pick(r)}
              onFocus={() => pick(r)}
            >
              <span class="short">{short(r.target)}</span>
              <span class="value">{number(v, unit)}</span>
              <i style={{ width: `${Math.min(100, (100 * (v ?? 0)) / top)}%` }} />
            </a>
          )
        })}
      </div>
    </section>
  )
}

// short is the part of an address that tells it from its neighbours.
export function short(target: string): string {
  const name = target.replace(/^https?:\/\//, '').replace(/:\d+$/, '')
  return name.length <= 12 ? name : '…' + name.slice(-11)
}

const listed = 12 // of those to look at first

// Picked tells of the replica that was pointed at, or of those to look at first.
function Picked({ models, show, one, r, t }: { models: Model[]; show: Shade; one: Model | null; r: Replica | null; t: Trust }) {
  if (!one || !r) {
    const first = models.flatMap((m) => {
      const strange = odd(m.replicas, show[0])
      return m.replicas
        .map((r, i) => ({ r, m, odd: strange.odd[i], usual: strange.usual }))
        .filter((c) => ['firing', 'down', 'pending'].includes(c.r.status) || c.odd)
    }).sort((a, b) => worst(a.r, b.r))
    return (
      <aside class="picked">
        <h3>{first.length > 0 ? 'To look at first' : 'Nothing stands out'}</h3>
        <ul class="plain">
          {first.slice(0, listed).map(({ r, m, usual }) => (
            <li>
              <Mark status={shown(r.status, t, r.severity)} severity={r.severity} word={false} /> <a href={to('explore', '', { board: 'incident', model: m.model, instance: instanceOf(r) })}>{r.target}</a>{' '}
              <span class="soft">{r.reason ? sentence(r.reason) : `${show[1]} ${number(r.now[show[0]], show[2])}, the others ${number(usual, show[2])}.`}</span>
            </li>
          ))}
          {first.length > listed && <li class="soft">and {first.length - listed} more</li>}
        </ul>
        <p class="soft">Point at a cell to read its numbers.</p>
      </aside>
    )
  }
  return (
    <aside class="picked">
      <h3>{r.target}</h3>
      <p class="soft">{nameOf(one)} · {r.engine} {r.version}</p>
      <p><Mark status={shown(r.status, t, r.severity)} severity={r.severity} /> {r.reason && sentence(r.reason)}</p>
      <table>
        <thead><tr><th /><th class="n">Now</th><th class="n">Normal</th><th class="n" /></tr></thead>
        <tbody>
          {shades.map(([name, title, unit]) => (
            <tr><td>{title}</td><td class="n">{number(r.now[name], unit)}</td><td class="n">{number(r.normal[name], unit)}</td><td class="n soft">{change(r.now[name], r.normal[name])}</td></tr>
          ))}
        </tbody>
      </table>
    </aside>
  )
}
