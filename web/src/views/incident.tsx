import { useMemo, useState } from 'preact/hooks'
import { Failure, post, useGet } from '../api'
import type { Band, Level, Line, Mark as Moment } from '../chart'
import { change, length, number, plural, sentence, time } from '../format'
import { now, useLive } from '../live'
import { Markup } from '../html'
import { remember, useRemembered } from '../palette'
import type { Span } from '../query'
import { link, to } from '../route'
import type { Diagnosis, Evidence, Finding, Fix, Incident, Plot as Drawn, Runbook, Workload } from '../types'
import { Ago, At, Command, Copy, Nothing, Plot, Problem, tone, Waiting } from '../ui'
import { sure } from './now'

// lead is the finding that the incident is of.
const lead = (i: Incident, d: Diagnosis): Finding | undefined =>
  d.findings.find((f) => f.id === i.pathology && f.status === 'firing' && (f.model === i.model || f.model === '')) ?? d.findings.find((f) => f.id === i.pathology) ?? d.findings[0]

export function IncidentView({ id }: { id: string }) {
  const live = useLive()
  const path = `/api/v1/incidents/${encodeURIComponent(id)}`
  const { data: i, error, again } = useGet<Incident>(path, live.incidents)
  if (error && !i) {
    return error instanceof Failure && error.status === 404 ? (
      <Nothing title={`There is no incident ${id}`}>
        It may be older than what is kept. See <a href={link('/incidents')}>all that are kept</a>.
      </Nothing>
    ) : (
      <Problem error={error} again={again} />
    )
  }
  if (!i) return <Waiting what="the incident" />
  return <Whole key={i.id} i={i} path={path} again={again} error={error} />
}

function Whole({ i, path, again, error }: { i: Incident; path: string; again: () => void; error?: Error }) {
  const d = i.diagnosis
  const f = d ? lead(i, d) : undefined
  const plots = useMemo(() => d?.plots?.filter((p) => d.verdicts.length < 2 || p.model === i.model || p.model === '') ?? [], [d])
  const verdict = d?.verdicts.find((v) => v.model === i.model) ?? d?.verdict
  const evidence = plots.filter((p) => p.evidence)
  const first = (evidence.length > 0 ? evidence : plots).slice(0, 2)
  const rest = plots.filter((p) => !first.includes(p))
  const [zoom, setZoom] = useState<Span | null>(null)
  const confidence = i.evolution.at(-1)?.confidence ?? f?.confidence ?? null
  return (
    <article class="incident">
      {error && <Problem error={error} again={again} />}
      <header class={`banner ${i.ended || i.severity === 'info' ? 'plain' : tone('firing', i.severity)}`} data-incident={i.id}>
        <h1>
          {i.pathology}
          {i.model && <span class="soft"> on {i.model}</span>}
          <span class="tags">
            <span class="tag">{i.severity}</span>
            {confidence !== null && <span class="tag">{sure(confidence)}</span>}
            <span class="tag">{i.ended ? 'over' : 'open'}</span>
          </span>
        </h1>
        <p class="lead">{sentence(i.summary)}</p>
        <p class="soft">
          {i.ended ? (
            <>From {i.began_at_least && 'before '}<At at={i.began} /> to <At at={i.ended} /> ({length(Date.parse(i.ended) - Date.parse(i.began))})</>
          ) : (
            <>Since <Ago at={i.began} least={i.began_at_least} /></>
          )}
          {' · '}{i.targets.length <= 3 ? i.targets.join(', ') : `${i.targets[0]} and ${i.targets.length - 1} more`}
        </p>
        <Acknowledge i={i} path={path} again={again} />
      </header>

      {!d && <Nothing title="No diagnosis was kept">The evidence may be in the recording below.</Nothing>}
      {d && f && (
        <div class="two">
          <section>
            <h2 class="head">
              What shows it
              {zoom && <button type="button" class="small" onClick={() => setZoom(null)}>Whole time</button>}
            </h2>
            {first.map((p) => <EvidencePlot p={p} zoom={zoom} onZoom={setZoom} />)}
            {verdict && <Changed w={verdict.workload} />}
          </section>
          <section>
            <h2 class="head">Do this first</h2>
            {f.fixes.length > 0 ? <FixCard f={f.fixes[0]} best /> : <Nothing title="No fix is computed for it">The runbook says what to look at.</Nothing>}
            <h2 class="head">Evidence{i.targets.length > 1 && ` from ${f.targets[0]}`}</h2>
            <EvidenceTable f={f} />
          </section>
        </div>
      )}
      {d && f && (
        <>
          {rest.length > 0 && (
            <section>
              <h2 class="head">Over time <Key plots={plots} /></h2>
              <div class="plots">{rest.map((p) => <EvidencePlot p={p} zoom={zoom} onZoom={setZoom} />)}</div>
            </section>
          )}
          <div class="beside">
            <section>
              {f.fixes.length > 1 && <h2 class="head">All fixes, the best first</h2>}
              {f.fixes.length > 1 && <div class="fixes">{f.fixes.map((x, n) => <FixCard f={x} n={n + 1} />)}</div>}
              <h2 class="head">Why</h2>
              {f.reasons.map((r) => <p>{sentence(r)}</p>)}
              <Others d={d} f={f} />
            </section>
            <RunbookBeside id={i.pathology} />
          </div>
        </>
      )}
      <div class="two">
        <Timeline i={i} />
        <Notes path={path} again={again} />
      </div>
      <section>
        <h2 class="head">Take it along</h2>
        <p class="links">
          <a href={link(`${path}/postmortem`)} download={`${i.id}.md`}>Post-mortem (Markdown)</a>
          {i.has_recording && <a href={link(`${path}/recording`)} download={`${i.id}.tar.zst`}>Recording of the evidence</a>}
          <a href={to('explore', '', { board: 'incident', model: i.model, from: at(Date.parse(i.began) - 900e3), to: i.ended ? at(Date.parse(i.ended) + 300e3) : 'now' })}>Explore this time</a>
          <Copy text={location.origin + to('incident', i.id)} label="Copy the link" />
        </p>
        {i.has_recording && <p class="soft">Open it with <code>sixty diagnose {i.id}.tar.zst</code>.{i.recording_left_out ? ` Of the servers ${i.recording_left_out} ${i.recording_left_out === 1 ? 'is' : 'are'} not in it: it has the sick ones first.` : ''}</p>}
      </section>
    </article>
  )
}

const at = (ms: number): string => new Date(ms).toISOString().slice(0, 19) + 'Z'

const Key = ({ plots }: { plots: Drawn[] }) => {
  const lines = plots[0]?.lines.map((l) => l.name) ?? []
  return (
    <span class="soft">
      each point is of the {length((plots[0]?.over_s ?? 0) * 1000)} before it; grey: the time that was judged, green: what is normal
      {lines.length > 1 && `; in colour ${lines[0]}, in grey ${plural(lines.length - 1, 'other')}`}
    </span>
  )
}

const band = (kind: Band['kind'], from: string | null, until: string | null): Band[] => (from && until ? [{ kind, from: Date.parse(from), to: Date.parse(until) }] : [])

// EvidencePlot draws a quantity with what is normal, its threshold and the onset.
function EvidencePlot({ p, zoom, onZoom }: { p: Drawn; zoom: Span | null; onZoom: (s: Span) => void }) {
  const { x, lines } = useMemo(() => {
    const x = [...new Set(p.lines.flatMap((l) => l.points.map(([t]) => t)))].sort((a, b) => a - b)
    const place = new Map(x.map((t, k) => [t, k]))
    const lines = p.lines.map((l, k): Line => {
      const y: (number | null)[] = new Array(x.length).fill(null)
      for (const [t, v] of l.points) y[place.get(t) as number] = v
      return { name: l.name, y, faint: k > 0 }
    })
    return { x, lines }
  }, [p])
  const span = zoom ?? { from: Date.parse(p.from), to: Date.parse(p.to) }
  const limits: Level[] = []
  if (p.normal !== null) limits.push({ value: p.normal, kind: 'good', label: `normal ${number(p.normal, p.unit)}` })
  if (p.threshold !== null) limits.push({ value: p.threshold, kind: 'critical', label: `threshold ${p.op} ${number(p.threshold, p.unit)}` })
  const marks: Moment[] = p.onset ? [{ at: Date.parse(p.onset), name: `${p.onset_at_least ? 'before' : 'since'} ${time(Date.parse(p.onset), now())}` }] : []
  return (
    <figure class="panel" data-plot={p.signal}>
      <h4>
        {p.title} <b>{number(p.value, p.unit)}</b>
        <span class="soft"> {p.normal !== null && `normally ${number(p.normal, p.unit)}`}{p.normal !== null && change(p.value, p.normal) && ` · ${change(p.value, p.normal)}`}</span>
      </h4>
      <Plot
        title={`${p.title}: now ${number(p.value, p.unit)}, normally ${number(p.normal, p.unit)}`}
        x={x} lines={lines} unit={p.unit} span={span} height={170} levels={limits} marks={marks} max={p.unit === 'ratio' && (p.value ?? 0) <= 1 ? 1 : undefined}
        bands={[...band('normal', p.baseline.from, p.baseline.to), ...band('window', p.window_from, p.to)]} onZoom={onZoom}
      />
    </figure>
  )
}

const bound = (e: Evidence): string => (e.value_bound === 'at_least' ? '≥ ' : e.value_bound === 'at_most' ? '≤ ' : '')

// farthest is, of each signal that holds, the comparison that is hardest to meet.
export function farthest(evidence: Evidence[]): Evidence[] {
  const rows = new Map<string, Evidence>()
  for (const e of evidence) {
    const other = rows.get(e.signal + e.op)
    const harder = !other || (e.op === '>' ? (e.threshold ?? -Infinity) > (other.threshold ?? -Infinity) : (e.threshold ?? Infinity) < (other.threshold ?? Infinity))
    if (e.holds === true && harder) rows.set(e.signal + e.op, e)
  }
  return [...rows.values()]
}

function EvidenceTable({ f }: { f: Finding }) {
  const rows = farthest(f.evidence)
  return (
    <div class="scroll">
      <table>
        <thead><tr><th>Signal</th><th class="n">Now</th><th class="n">Normal</th><th class="n">Threshold</th></tr></thead>
        <tbody>
          {rows.map((e) => (
            <tr>
              <td>{e.title ?? e.signal}</td>
              <td class="n bad">{bound(e)}{number(e.value, e.unit)}</td>
              <td class="n">{number(e.baseline, e.unit)}</td>
              <td class="n" title={e.threshold_source && `from ${e.threshold_source}`}>{e.threshold === null ? '–' : `${e.op} ${number(e.threshold, e.unit)}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

const told = ['ttft_p95', 'itl_p95', 'e2e_mean', 'preemptions', 'requests_waiting', 'generation_token_rate', 'output_tokens_rate']

function FixCard({ f, best = false, n = 0 }: { f: Fix; best?: boolean; n?: number }) {
  const p = f.predicted
  const effects = p?.effects.filter((e) => told.includes(e.signal)) ?? []
  const text = f.args || f.command
  const gone = f.changes.filter((c) => !c.to).map((c) => c.flag)
  return (
    <div class={`card ${best ? 'best' : ''}`} data-fix>
      <p><b>{n > 0 && `${n}. `}{sentence(f.summary)}</b></p>
      {text && <Command text={text} />}
      {gone.length > 0 && <p>Remove <code>{gone.join(', ')}</code>.</p>}
      {f.changes.some((c) => c.from && c.to) && <p class="soft">In place of {f.changes.filter((c) => c.from && c.to).map((c) => `${c.flag} ${c.from}`).join(', ')}.</p>}
      {effects.length > 0 && (
        <table class="effects">
          <thead><tr><th>Predicted</th><th class="n">If nothing is done</th><th class="n">With it</th></tr></thead>
          <tbody>
            {effects.slice(0, best ? 4 : 3).map((e) => (
              <tr title={`${number(e.after.low, e.unit)} to ${number(e.after.high, e.unit)} with it; ${number(e.unchanged.low, e.unit)} to ${number(e.unchanged.high, e.unit)} if nothing is done`}>
                <td>{e.title ?? e.signal}</td>
                <td class="n">{number(e.unchanged.value, e.unit)}</td>
                <td class="n"><b>{number(e.after.value, e.unit)}</b> <small class="soft">{number(e.after.low, e.unit)} – {number(e.after.high, e.unit)}</small></td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {p?.reason && <p class="soft">No prediction: {sentence(p.reason)}</p>}
      {p?.caveats.map((c) => <p class="warning">{sentence(c)}</p>)}
      {f.tradeoff && <p><span class="soft">Cost:</span> {sentence(f.tradeoff)}</p>}
      {f.verify && <p><span class="soft">It worked when:</span> {sentence(f.verify)}</p>}
      {(f.arithmetic.length > 0 || (p?.basis.length ?? 0) > 0) && (
        <details>
          <summary>How this was computed</summary>
          <ul>{f.arithmetic.map((a) => <li>{a}</li>)}</ul>
          {p?.basis.map((b) => <p class="soft">{sentence(b)}</p>)}
        </details>
      )}
    </div>
  )
}

const names: Record<string, string> = {
  request_rate: 'Requests', prompt_tokens: 'Prompt tokens per request', output_tokens: 'Output tokens per request', max_tokens: 'Output tokens asked for',
  prefix_cache_hit_ratio: 'Prefix cache hit ratio', computed_prompt_tokens: 'Computed prompt tokens per request', queue_time: 'Queue time',
  prefill_time_per_token: 'Prefill time per token', decode_step_time: 'Decode step', decode_batch: 'Decode batch',
}

function Changed({ w }: { w: Workload }) {
  const rows = w.factors.filter((f) => f.value !== null && f.baseline !== null && change(f.value, f.baseline) !== 'as usual' && !(f.value === 0 && f.baseline === 0))
  const shares = rows.some((f) => f.share_of_ttft_change !== null)
  return (
    <>
      <h2 class="head">What changed{w.target && <span class="soft"> on {w.target}</span>}</h2>
      {!w.known && <p class="soft">There is no earlier time to compare with.</p>}
      {w.known && <p>{w.changed ? 'The traffic changed.' : 'The traffic is as usual: the server deals with it differently.'}</p>}
      {rows.length > 0 && (
        <div class="scroll">
          <table>
            <thead><tr><th>Quantity</th><th class="n">Normal</th><th class="n">Now</th><th class="n">Change</th>{shares && <th class="n" title="the part of the later first token that it explains">Explains</th>}</tr></thead>
            <tbody>
              {rows.map((f) => (
                <tr>
                  <td>{names[f.name] ?? f.name}</td>
                  <td class="n">{number(f.baseline, f.unit)}</td>
                  <td class="n">{number(f.value, f.unit)}</td>
                  <td class="n">{change(f.value, f.baseline) || 'new'}</td>
                  {shares && <td class="n">{number(f.share_of_ttft_change, 'ratio')}</td>}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  )
}

function Others({ d, f }: { d: Diagnosis; f: Finding }) {
  const others = d.findings.filter((o) => o !== f && o.status === 'firing')
  return (
    <>
      {others.length > 0 && <h2 class="head">Fires too</h2>}
      <ul>{others.map((o) => <li><a href={to('runbooks', o.id)}>{o.id}</a>: {sentence(o.summary)}{o.inhibited_by && <span class="soft"> Explained by {o.inhibited_by}.</span>}</li>)}</ul>
      {(d.notes.length > 0 || d.coverage.length > 0) && (
        <details>
          <summary>What is not certain</summary>
          <ul>
            {d.notes.map((n) => <li>{sentence(n)}</li>)}
            {d.coverage.map((c) => <li>{c.id} could not be checked: {c.missing.join('; ')}. {c.hint && `To have it, ${sentence(c.hint)}`}</li>)}
          </ul>
        </details>
      )}
    </>
  )
}

function RunbookBeside({ id }: { id: string }) {
  const { data, error } = useGet<Runbook>(`/api/v1/runbooks/${encodeURIComponent(id)}`)
  return (
    <aside class="runbook" aria-label="Runbook">
      <h2 class="head">Runbook <a class="more" href={to('runbooks', id)}>alone</a></h2>
      {error ? <p class="soft">{sentence(error.message)}</p> : data ? <Markup html={data.html ?? ''} /> : <Waiting what="the runbook" />}
    </aside>
  )
}

function Timeline({ i }: { i: Incident }) {
  const events: { at: string; text: string; kind: string }[] = [
    { at: i.began, text: i.began_at_least ? 'It was there already' : 'It began', kind: 'bad' },
    ...i.evolution.map((t) => ({ at: t.at, text: `${t.id}${t.severity ? ` (${t.severity})` : ''}: ${sentence(t.summary)}`, kind: t.severity === 'page' ? 'bad' : t.severity ? 'warning' : 'good' })),
    ...(i.acknowledged ? [{ at: i.acknowledged.at, text: `${i.acknowledged.by} looks after it`, kind: 'soft' }] : []),
    ...i.notes.map((n) => ({ at: n.at, text: `${n.by}: ${n.text}`, kind: 'soft' })),
    ...(i.ended ? [{ at: i.ended, text: 'It was over', kind: 'good' }] : []),
  ].sort((a, b) => Date.parse(a.at) - Date.parse(b.at))
  return (
    <section>
      <h2 class="head">Timeline</h2>
      <ol class="timeline">
        {events.map((e) => (
          <li class={e.kind}><At at={e.at} /> {e.text}</li>
        ))}
      </ol>
      {i.similar && (
        <>
          <h2 class="head">As before</h2>
          <p>
            <a href={to('incident', i.similar.id)}><At at={i.similar.began} /></a>{i.similar.ended && `, for ${length(Date.parse(i.similar.ended) - Date.parse(i.similar.began))}`}: {sentence(i.similar.note || i.similar.pathology)}
          </p>
          <ul>{i.similar.notes.map((n) => <li>{n.by}: {n.text}</li>)}</ul>
        </>
      )}
    </section>
  )
}

// useWrite sends what was written, and says how it went.
function useWrite(again: () => void) {
  const [state, set] = useState<{ busy: boolean; error?: Error }>({ busy: false })
  const write = async (path: string, body: unknown): Promise<boolean> => {
    set({ busy: true })
    try {
      await post(path, body)
      set({ busy: false })
      again()
      return true
    } catch (e) {
      set({ busy: false, error: e as Error })
      return false
    }
  }
  return { ...state, write }
}

function Acknowledge({ i, path, again }: { i: Incident; path: string; again: () => void }) {
  const [by, setBy] = useRemembered('name')
  const { busy, error, write } = useWrite(again)
  if (i.acknowledged) return <p class="soft">{i.acknowledged.by} looks after it since <At at={i.acknowledged.at} />.</p>
  if (i.ended) return null
  return (
    <form
      class="inline"
      onSubmit={(e) => {
        e.preventDefault()
        if (!by.trim()) return
        remember('name', by.trim())
        void write(`${path}/acknowledge`, { by: by.trim() })
      }}
    >
      <input value={by} onInput={(e) => setBy(e.currentTarget.value)} placeholder="Your name" aria-label="Your name" maxLength={100} required />
      <button disabled={busy}>I look after it</button>
      {error && <Problem error={error} />}
    </form>
  )
}

function Notes({ path, again }: { path: string; again: () => void }) {
  const [by, setBy] = useRemembered('name')
  const [text, setText] = useState('')
  const { busy, error, write } = useWrite(again)
  return (
    <section>
      <h2 class="head">Note</h2>
      <form
        class="note"
        onSubmit={async (e) => {
          e.preventDefault()
          if (!by.trim() || !text.trim()) return
          remember('name', by.trim())
          if (await write(`${path}/notes`, { by: by.trim(), text: text.trim() })) setText('')
        }}
      >
        <input value={by} onInput={(e) => setBy(e.currentTarget.value)} placeholder="Your name" aria-label="Your name" maxLength={100} required />
        <textarea value={text} onInput={(e) => setText(e.currentTarget.value)} rows={3} maxLength={4000} placeholder="What was found, what was done" aria-label="Note" required />
        <button disabled={busy}>Add the note</button>
        {error && <Problem error={error} />}
      </form>
    </section>
  )
}
