import { useLayoutEffect, useMemo, useState } from 'preact/hooks'
import { formatDuration, formatTime, formatURLTime, plural, titleOf } from '../format'
import { bindKeys } from '../keys'
import { monitorNow, useLive } from '../live'
import { PanelView, usePanels } from '../panel'
import { all, type Choice, type Span } from '../query'
import { navigate, serverURL, urlOf, useRoute } from '../route'
import { Copy, Filter, Loaded, matchesFilter, Nothing, Pick } from '../ui'
import { useTick } from './diagnosis'
import { instanceOf, useFirst } from './overview'
import { useStarts } from './strip'

const boards: [string, string][] = [
  ['serving', 'Serving'],
  ['incident', 'Incident'],
  ['fleet', 'Replicas'],
  ['gpu', 'GPU'],
  ['host', 'Host'],
  ['gateway', 'Gateway'],
]

const spans: [string, string][] = [
  ['-15m', '15 min'],
  ['-1h', '1 h'],
  ['-6h', '6 h'],
  ['-24h', '24 h'],
  ['-7d', '7 days'],
]

const units: Record<string, number> = { s: 1e3, m: 60e3, h: 3600e3, d: 86400e3, w: 7 * 86400e3 }

// moment parses a time in a URL: "now", "-6h", Unix seconds or RFC 3339; NaN if it is none of them.
export function moment(text: string, present: number): number {
  if (text === 'now') return present
  const back = /^(?:now)?-(\d+(?:\.\d+)?)([smhdw])$/.exec(text)
  if (back) return present - Number(back[1]) * units[back[2]]
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1000
  return Date.parse(text)
}

// spanOf returns the time range of a URL: never empty, at most a year.
export function spanOf(from: string, until: string, present: number): { span: Span; relative: boolean; wrong: boolean } {
  const a = moment(from, present)
  const b = moment(until, present)
  const wrong = !(b - a >= 1000) || b - a > 366 * 86400e3
  const relative = until === 'now'
  return { span: wrong ? { from: present - 3600e3, to: present } : { from: a, to: b }, relative: relative || wrong, wrong }
}

export function Explore() {
  const live = useLive()
  const route = useRoute()
  const panels = usePanels()
  const q = route.query
  const [filter, setFilter] = useState('')
  const board = q.get('board') ?? 'serving'
  const from = q.get('from') ?? '-1h'
  const until = q.get('to') ?? 'now'
  const model = q.get('model') ?? ''
  const instances = q.getAll('instance')
  const each = q.get('each') === '1'
  const { span: rough } = spanOf(from, until, monitorNow(live))
  const coarse = Math.max(15_000, (rough.to - rough.from) / 240)
  const tick = useTick(coarse)
  const { span: asked, relative, wrong } = useMemo(() => spanOf(from, until, tick), [from, until, tick])
  const address = (change: Record<string, string | string[]>) =>
    urlOf('explore', '', { board, from: q.get('from') ?? '', to: q.get('to') ?? '', model, instance: instances, each: each ? '1' : '', ...change })
  const set = (change: Record<string, string | string[]>) => navigate(address(change))
  const models = live.overview?.models ?? []
  const names = [...new Set(models.map((m) => m.model).filter(Boolean))]
  const replicas = [...new Set(models.filter((m) => !model || m.model === model).flatMap((m) => m.replicas.map(instanceOf)))]
  // Without a time in the URL, the range begins where the data begin, so that a new monitor's charts are not mostly
  // empty.
  const first = useFirst(q.has('from') ? [] : replicas.slice(0, 40), tick)
  const span = useMemo(() => (first && !q.has('from') && first > asked.from ? { from: Math.min(first, asked.to - 300e3), to: asked.to } : asked), [first, asked])
  const zoom = (s: Span) => set({ from: formatURLTime(s.from), to: formatURLTime(Math.max(s.to, s.from + 10_000)) })
  const shift = (by: number) => {
    const d = (span.to - span.from) * by
    set({ from: formatURLTime(span.from + d), to: formatURLTime(span.to + d) })
  }
  const out = () => {
    const half = (span.to - span.from) / 2
    const end = Math.min(span.to + half, monitorNow())
    set({ from: formatURLTime(end - 4 * half), to: formatURLTime(end) })
  }
  useLayoutEffect(() => bindKeys({ '[': () => shift(-0.5), ']': () => shift(0.5), '-': out }))
  const choice: Choice = useMemo(() => ({ ...all, models: model ? [model] : [], instances }), [model, instances.join('\n')])
  const rows = panels.data?.rows.filter((r) => r.board === board) ?? []
  const starts = useStarts(instances.length > 0 ? instances : replicas.slice(0, 40), span)
  const onsets = models
    .filter((m) => m.verdict.status === 'firing' && m.verdict.since && (!model || m.model === model))
    .slice(0, 3)
    .map((m) => ({ at: Date.parse(m.verdict.since as string), kind: 'onset' as const, name: titleOf(m.verdict.id) }))
  const marks = [...onsets, ...starts]
  const toggled = (name: string) => (instances.includes(name) ? instances.filter((i) => i !== name) : [...instances, name])
  return (
    <>
      <h1 class="hidden">Explore</h1>
      <div class="tools">
        <div class="tabs" role="group" aria-label="Dashboards">
          {boards.map(([id, title]) => (
            <button type="button" aria-pressed={board === id} onClick={() => set({ board: id })}>{title}</button>
          ))}
        </div>
        <div class="tabs" role="group" aria-label="Time">
          {spans.map(([back, title]) => (
            <button type="button" aria-pressed={relative && from === back && span.from === asked.from} onClick={() => set({ from: back, to: 'now' })}>{title}</button>
          ))}
          <button type="button" onClick={() => shift(-0.5)} title="Earlier  [" aria-label="Earlier">‹</button>
          <button type="button" onClick={out} title="Zoom out  -" aria-label="Zoom out">−</button>
          <button type="button" onClick={() => shift(0.5)} title="Later  ]" aria-label="Later">›</button>
        </div>
        {names.length > 1 && (
          <select value={model} aria-label="Model" onChange={(e) => set({ model: e.currentTarget.value, instance: [] })}>
            <option value="">all models</option>
            {names.map((n) => <option value={n}>{n}</option>)}
          </select>
        )}
        <Pick label={instances.length === 1 ? instances[0] : instances.length > 0 ? `${instances.length} of ${plural(replicas.length, 'replica')}` : `all ${plural(replicas.length, 'replica')}`}>
          <Filter value={filter} set={setFilter} what="replicas" />
          {instances.length > 0 && <button type="button" class="small" onClick={() => set({ instance: [] })}>All</button>}
          <ul>
            {replicas.filter((r) => matchesFilter(filter, r)).slice(0, 200).map((r) => (
              <li><label><input type="checkbox" checked={instances.includes(r)} onChange={() => set({ instance: toggled(r) })} /> {r}</label></li>
            ))}
          </ul>
        </Pick>
        <label class="check"><input type="checkbox" checked={each} onChange={() => set({ each: each ? '' : '1' })} /> by replica</label>
        <span class="grow" />
        <Copy text={location.origin + address({ from: formatURLTime(span.from), to: formatURLTime(span.to) })} label="Copy link to this time" />
      </div>
      <p class="soft">
        {formatTime(span.from, monitorNow())} to {formatTime(span.to, monitorNow())} ({formatDuration(span.to - span.from)}). Drag over a chart to zoom.{each && (instances.length || replicas.length) > 4 && ' In colour: the three replicas farthest from the median.'}
      </p>
      {wrong && <div class="nothing problem" role="alert"><b>The time range in this address is not valid.</b><p>From <code>{from}</code> to <code>{until}</code>: try <a href={urlOf('explore', '', { from: '-6h', to: 'now' })}>the last six hours</a>.</p></div>}
      <Loaded of={panels} what="the panels">
        {() => rows.length === 0 && <Nothing title={`There is no dashboard ${board}`}><a href={serverURL('/explore')}>See the serving dashboard</a>.</Nothing>}
      </Loaded>
      {(first !== undefined || q.has('from') || (live.overview && replicas.length === 0)) && rows.map((r) => (
        <section>
          <h2 class="head">{r.title}</h2>
          <div class="grid24">
            {r.panels.map((p) => (
              <PanelView key={`${board}${p.id}`} panel={p} choice={choice} span={span} interval={panels.data?.interval_s ?? 5} each={each} marks={marks.length > 0 ? marks : undefined} onZoom={zoom} />
            ))}
          </div>
        </section>
      ))}
    </>
  )
}
