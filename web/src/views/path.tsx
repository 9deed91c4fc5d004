import { formatNumber, plural, titleOf } from '../format'
import type { Deployment, Diagnosis, Maybe } from '../types'

const box = { w: 168, h: 76, gap: 132 }

const known = (v: Maybe<number>, what: string, unit: string): string => (v === null ? '' : `${formatNumber(v, unit)} ${what}`)

// pathOf returns the request path of a model, if the diagnosis has one.
export const pathOf = (d: Maybe<Diagnosis> | undefined, model: string): Deployment | undefined => d?.deployments?.find((w) => w.model === model || w.model === '')

type Stage = Deployment['stages'][number]
type Link = Deployment['links'][number]

const servers = (s: Stage): string => (s.lost > 0 ? `${s.lost} of ${s.targets.length} lost` : plural(s.targets.length, 'server'))
const waiting = (s: Stage): string => known(s.waiting, 'waiting', 'count')
const takes = (s: Stage): string => known(s.seconds, s.role === 'router' ? 'held' : 'to first token', 'seconds')
const fails = (l: Link): string => (l.fail_share ? known(l.fail_share, 'fail', 'ratio') : '')

// A Hop is a stage of the path, or the link between two.
interface Hop {
  name: string
  state: string[]
  found: string[]
}

// hopsOf returns the hops of a path, with a line of text each.
const hopsOf = (d: Deployment): Hop[] =>
  d.stages.flatMap((s, i): Hop[] => {
    const l = d.links[i - 1]
    const stage = { name: s.role, state: [servers(s), waiting(s), takes(s)], found: s.findings }
    if (!l) return [stage]
    return [{ name: `${l.carries} from ${d.stages[i - 1].role} to ${s.role}`, state: [formatNumber(l.seconds, 'seconds'), fails(l)], found: l.findings }, stage]
  })

// hopOf names the hop of a finding as verdicts do; '' if the finding has none.
export const hopOf = (d: Deployment | undefined, id: string): string => (d && hopsOf(d).find((h) => h.found.includes(id))?.name) ?? ''

// Path draws the path of a request through servers of several roles, with the time of each hop and where something is
// wrong.
export function Path({ d }: { d: Deployment }) {
  const width = d.stages.length * box.w + (d.stages.length - 1) * box.gap + 2
  const hops = hopsOf(d).map((h) => ({ ...h, state: h.state.filter((x) => x && x !== '–').join(', '), found: h.found.map(titleOf).join(', ') }))
  return (
    <section class="path">
      <h2 class="head">Request path {d.first_token !== null && <span class="soft">mean TTFT {formatNumber(d.first_token, 'seconds')}, all hops</span>}</h2>
      <svg viewBox={`0 0 ${width} ${box.h + 24}`} style={{ maxWidth: `${width}px` }} role="img" aria-label={hops.map((h) => [h.name, h.state, h.found].filter(Boolean).join(', ')).join('; ')}>
        {d.links.map((l, i) => {
          const x = 1 + (i + 1) * box.w + i * box.gap
          const bad = l.findings.length > 0
          const middle = x + box.gap / 2
          return (
            <g class={bad ? 'bad' : ''}>
              <path d={`M${x + 4} ${box.h / 2} H${x + box.gap - 12}`} stroke-dasharray={bad ? '6 5' : undefined} />
              <path class="tip" d={`M${x + box.gap - 4} ${box.h / 2} l-10 -5 v10 z`} />
              <text x={middle} y={box.h / 2 - 9}>{l.carries}</text>
              <text x={middle} y={box.h / 2 + 19}>{fails(l) || known(l.seconds, '', 'seconds')}</text>
              {bad && <text class="what" x={middle} y={box.h + 18}>{titleOf(l.findings[0])}</text>}
            </g>
          )
        })}
        {d.stages.map((s, i) => {
          const x = 1 + i * (box.w + box.gap)
          const middle = x + box.w / 2
          const bad = s.findings.length > 0
          return (
            <g class={bad ? 'bad' : ''}>
              <title>{s.targets.join(', ')}</title>
              <rect x={x} y={1} width={box.w} height={box.h - 2} rx={8} />
              <text class="name" x={middle} y={22}>{s.role}</text>
              <text x={middle} y={42}>{[servers(s), waiting(s)].filter(Boolean).join(', ')}</text>
              <text x={middle} y={62}>{takes(s)}</text>
              {bad && <text class="what" x={middle} y={box.h + 18}>{titleOf(s.findings[0])}</text>}
            </g>
          )
        })}
      </svg>
      <ol class="hops">
        {hops.map((h) => (
          <li class={h.found && 'bad'}><b>{h.name}</b> <span class="soft">{h.state}</span> {h.found && <b>{h.found}</b>}</li>
        ))}
      </ol>
    </section>
  )
}
