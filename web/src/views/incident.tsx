import { useEffect, useState } from 'preact/hooks'
import { useGet } from '../api'
import { compareWithNormal, formatDuration, formatNumber, formatTime, formatURLTime, openingSentence, sentence, titleOf } from '../format'
import { assessTrust, monitorNow, useLive } from '../live'
import { navigate, serverURL, urlOf, useRoute } from '../route'
import type { Diagnosis, Finding, Incident, Summary, Workload } from '../types'
import { Ago, At, Compared, Copy, Loaded, Nothing, Pick, Tabs, Text, useTitle, type Tab } from '../ui'
import { Acknowledge, Notes, PhaseOf, Silence } from './act'
import { Chain, rowOf } from './chain'
import { EvidenceTable, Fixes, sure, useStory } from './diagnosis'
import { Hurt, Replicas } from './overview'
import { hopOf, Path } from './path'
import { RunbookText } from './runbooks'
import { useStarts } from './strip'

export function IncidentView({ id }: { id: string }) {
  const live = useLive()
  const path = `/api/v1/incidents/${encodeURIComponent(id)}`
  const asked = useGet<Incident>(path, live.incidents)
  const missing = (
    <Nothing title={`There is no incident ${id}`}>
      It may be older than the retention period. See <a href={serverURL('/incidents')}>all incidents</a>.
    </Nothing>
  )
  return <Loaded of={asked} what="the incident" missing={missing}>{(i) => <Whole key={i.id} i={i} path={path} again={asked.again} />}</Loaded>
}

function Whole({ i, path, again }: { i: Incident; path: string; again: () => void }) {
  const live = useLive()
  const route = useRoute()
  const open = i.phase === 'failing' || i.phase === 'degraded'
  const q = Object.fromEntries(route.query)
  const put = (name: string, value: string) => navigate(urlOf('incident', i.id, { ...q, [name]: value }), true)
  const [at, setAt] = useState<number | null>(Date.parse(q.at ?? '') || null)
  useEffect(() => {
    const rest = setTimeout(() => put('at', at === null ? '' : formatURLTime(at)), 300) // while the pointer moves, the URL stays
    return () => clearTimeout(rest)
  }, [at])
  const { d, fixes, plots, live: current, hops: way, ...story } = useStory(i, i.pathology, i.model, open)
  const f = story.f ?? d?.findings[0]
  const chain = f?.chain ?? []
  const others = plots.filter((p) => !chain.some((l) => l.signal === p.signal)).map(rowOf)
  const [links, rest] = chain.length > 0 ? [chain, others] : [others, []]
  const hop = hopOf(way, i.pathology)
  const confidence = f?.confidence ?? null
  const m = live.overview?.models.find((m) => m.incident === i.id)
  const name = m?.name ?? (i.model || 'the server')
  const span = { from: plots[0] ? Date.parse(plots[0].from) : Date.parse(i.began) - 300e3, to: plots[0] ? Date.parse(plots[0].to) : Date.parse(i.ended ?? new Date(monitorNow()).toISOString()) }
  const starts = useStarts(i.targets, { from: Math.floor(span.from / 60e3) * 60e3, to: Math.ceil(span.to / 60e3) * 60e3 })
  const events = (i.events ?? []).filter((e) => e.kind === 'scaled' || e.kind === 'advice').map((e) => ({ at: Date.parse(e.at), kind: 'deploy' as const, name: e.kind === 'advice' ? 'advice changed' : e.text }))
  const marks = [...starts, ...events].sort((a, b) => a.at - b.at)
  const title = i.title || titleOf(i.pathology)
  useTitle(`${titleOf(i.pathology)} on ${name}`)
  const affected = m?.replicas.filter((r) => i.affected?.includes(r.target)) ?? []
  const workload = (d?.verdicts.find((v) => v.model === i.model) ?? d?.verdict)?.workload
  const show = { plots, span, marks, at, setAt }
  const slow = i.slow_requests
  const tabs: (Tab | false | undefined)[] = [
    d && f && ['evidence', 'Evidence', () => <Shown d={d} f={f} past={!open} />],
    m && ['replicas', `Replicas (${m.replicas.length})`, () => <Replicas m={m} t={assessTrust(live)} several={false} />],
    f && ['traffic', 'Traffic', () => <Traffic w={workload} past={!open} />],
    rest.length > 0 && ['charts', `More charts (${rest.length})`, () => <Chain links={rest} {...show} />],
    slow && ['slow', `Slow requests (${slow.length})`, () => <ul class="plain">{slow.map(slowRequest)}</ul>],
    ['runbook', 'Runbook', () => <RunbookText id={i.pathology} />],
    ['history', `History and notes${i.notes.length > 0 ? ` (${i.notes.length})` : ''}`, () => <div class="two"><History i={i} /><Notes path={path} again={again} /></div>],
  ]
  return (
    <article class="incident" data-incident={i.id}>
      <header>
        <div>
          <p class="eyebrow">
            <PhaseOf i={i} />
            <span class="soft">
              {` · ${open ? '' : 'was '}${i.severity}`}{confidence !== null && ` · ${sure(confidence)}`}
              {' · '}
              {i.ended ? (
                <>{i.began_at_least && 'before '}<At at={i.began} /> to <At at={i.ended} />, {formatDuration(Date.parse(i.ended) - Date.parse(i.began))}</>
              ) : (
                <>since <Ago at={i.began} least={i.began_at_least} /></>
              )}
              {' · '}{scope(i, name)}{hop && ` · hop: ${hop}`}
            </span>
          </p>
          <h1>{title}</h1>
        </div>
        <div class="actions">
          {i.acknowledged ? <span class="soft">Acknowledged by {i.acknowledged.by}</span> : !i.ended && <Acknowledge path={path} again={again} />}
          {!i.ended && <Silence path={path} again={again} />}
          <Copy text={location.href} label="Share" />
          <Pick label="Download">
            <ul class="plain">
              {i.has_recording && <li><a href={serverURL(`${path}/recording`)} download={`${i.id}.tar.zst`}>Recording of the evidence</a></li>}
              <li><a href={serverURL(`${path}/postmortem`)} download={`${i.id}.md`}>Post-mortem (Markdown)</a></li>
            </ul>
            {i.has_recording && <p class="soft">Open it with <code>sixty diagnose {i.id}.tar.zst</code>.{i.recording_left_out ? ` ${i.recording_left_out} healthy servers are not in it.` : ''}</p>}
          </Pick>
        </div>
      </header>
      <div class="impact">
        <p class="lead"><Text of={openingSentence(i.summary)} /></p>
        {!open && <p class="lead">{i.phase === 'quiet' ? 'Nothing of it is found now: it closes unless it comes back.' : 'It is over.'} <a href={serverURL(`${path}/postmortem`)}>Post-mortem</a></p>}
        <Hurt m={open ? m : undefined} affected={affected} hops={way} links={chain} impact={i.impact} />
      </div>

      <section class="fix" aria-label="What to do"><Fixes i={i} fixes={fixes} chain={chain} past={!open} labels={affected[0]?.labels} /></section>

      <section class="show" aria-label="What leads to what">
        <h2 class="head label">What leads to what
          <span class="links soft">
            {d && <span>{current ? 'live' : <>as of <At at={d.at} /></>}</span>}
            {at && <><a href={serverURL(`/api/v1/diagnosis?format=html&plots=true&at=${formatURLTime(at)}`)}>Diagnosis of {formatTime(at, monitorNow())}</a> <button type="button" class="small" onClick={() => setAt(null)}>Back to the latest</button></>}
          </span>
        </h2>
        {way && <Path d={way} />}
        {!d && <Nothing title="No diagnosis was stored">See the recording for the evidence.</Nothing>}
        {links.length > 0 && <Chain links={links} {...show} />}
      </section>

      <section class="more"><Tabs label="More about the incident" tabs={tabs.filter((t) => !!t)} at={q.tab ?? ''} set={(tab) => put('tab', tab)} /></section>
    </article>
  )
}

// slowRequest links a request to its trace.
const slowRequest = (r: NonNullable<Incident['slow_requests']>[number]) => (
  <li><At at={r.began} /> <a href={serverURL(`/api/v1/traces/${r.trace_id}`)}>{r.request_id || r.trace_id}</a>: {r.summary}</li>
)

// scope writes where an incident is: "2 of 4 replicas of llama-8b".
export function scope(i: Summary, name: string): string {
  const on = (i.affected ?? i.targets).length
  return i.servers > 1 && on > 0 ? `${on === i.servers ? 'all' : `${on} of`} ${i.servers} replicas of ${name}` : name
}

const names: Record<string, string> = {
  request_rate: 'Requests', prompt_tokens: 'Prompt tokens per request', output_tokens: 'Output tokens per request', max_tokens: 'Requested max_tokens',
  prefix_cache_hit_ratio: 'Prefix cache hit ratio', computed_prompt_tokens: 'Computed prompt tokens per request', queue_time: 'Queue time',
  prefill_time_per_token: 'Prefill time per token', decode_step_time: 'Decode step', decode_batch: 'Decode batch',
}

// Shown shows the evidence, the reasons, and what the diagnosis could not check.
function Shown({ d, f, past }: { d: Diagnosis; f: Finding; past: boolean }) {
  const others = d.findings.filter((o) => o.id !== f.id && o.status === 'firing')
  return (
    <div class="two">
      <section class="scroll" tabIndex={0} aria-label="Evidence">
        <EvidenceTable f={f} past={past} />
        <details><summary>All comparisons ({f.evidence.length})</summary><EvidenceTable f={f} past={past} all /></details>
      </section>
      <section>
        {f.reasons.map((r) => <p>{sentence(r)}</p>)}
        {others.length > 0 && <h2 class="head">Also found</h2>}
        <ul>{others.map((o) => <li><a href={urlOf('runbooks', o.id)}>{titleOf(o.id)}</a>: {sentence(o.summary)}{o.inhibited_by === f.id && <span class="soft"> A consequence.</span>}</li>)}</ul>
        {(d.notes.length > 0 || d.coverage.length > 0) && <h2 class="head">Caveats</h2>}
        <ul>
          {d.notes.map((n) => <li>{openingSentence(n)}</li>)}
          {d.coverage.map((c) => <li>{titleOf(c.id)} could not be checked: {c.missing.join('; ')}. {c.hint && `To enable: ${sentence(c.hint)}`}</li>)}
        </ul>
      </section>
    </div>
  )
}

// Traffic compares the workload with normal.
function Traffic({ w, past }: { w?: Workload; past: boolean }) {
  if (!w?.known) return <p class="soft">No earlier traffic to compare with.</p>
  const rows = w.factors.filter((x) => x.value !== null && x.baseline !== null && compareWithNormal(x.value, x.baseline) !== 'as usual' && !(x.value === 0 && x.baseline === 0))
  // Share of the rise in TTFT that a change explains.
  const shares = rows.some((x) => x.share_of_ttft_change !== null)
  return (
    <section class="scroll" tabIndex={0} aria-label="What changed in the traffic">
      <Compared
        heads={[w.changed ? 'The traffic changed' : 'The traffic is as usual', past ? 'Then' : 'Now', 'Normal', 'Change', ...(shares ? ['Explains of the rise in TTFT'] : [])]}
        rows={rows.map((x) => [
          names[x.name] ?? x.name, formatNumber(x.value, x.unit), formatNumber(x.baseline, x.unit), compareWithNormal(x.value, x.baseline) || 'new',
          ...(shares ? [formatNumber(x.share_of_ttft_change, 'ratio')] : []),
        ])}
      />
    </section>
  )
}

function History({ i }: { i: Incident }) {
  return (
    <section>
      <ol class="timeline">
        {i.timeline.map((m) => <li class={m.health}><At at={m.at} /> {m.text}</li>)}
      </ol>
      {i.similar && (
        <>
          <h2 class="head">Previous similar incident</h2>
          <p><a href={urlOf('incident', i.similar.id)}>{i.similar.note}</a></p>
          <ul>{i.similar.notes.map((n) => <li>{n.by}: {n.text}</li>)}</ul>
        </>
      )}
    </section>
  )
}
