import { useMemo, useRef } from 'preact/hooks'
import { useGet } from './api'
import type { Level, Line, Mark as Moment } from './chart'
import { formatNumber } from './format'
import { usePanel, type Choice, type Span } from './query'
import { rankByDistance } from './odd'
import type { Panel, Panels, Step } from './types'
import { Plot, Problem, useSeen, useWidth } from './ui'
import { curveColour, symbols } from './palette'

// usePanels fetches the list of panels once.
export const usePanels = () => useGet<Panels>('/api/v1/panels')

// thresholdLevels returns the thresholds of a panel as lines.
export const thresholdLevels = (steps: Step[]): Level[] => steps.flatMap((s) => (s.level === 'good' ? [] : [{ value: s.value, kind: s.level }]))

interface Props {
  panel: Panel
  choice: Choice
  span: Span
  interval: number
  each: boolean
  marks?: Moment[]
  onZoom?: (s: Span) => void
}

const named = 8 // lines in a legend
const bright = 3 // coloured lines in a panel with more than "crowd"
const crowd = 4 // lines that can still be distinguished

// highlightOutliers colours the lines that are farthest from the others, and makes the rest grey.
export function highlightOutliers(lines: Line[]): Line[] {
  const ours = lines.filter((l) => !l.volume && !l.right)
  if (ours.length <= crowd) return lines
  const first = rankByDistance(ours.map((l) => l.y)).slice(0, bright).map((i) => ours[i])
  return [...lines.filter((l) => !first.includes(l)).map((l) => (l.volume || l.right ? l : { ...l, faint: true })), ...first.map((l, i) => ({ ...l, colour: i }))]
}

// PanelView shows one panel. It fetches its data when it comes into view, with as many points as its width needs.
export function PanelView({ panel, choice, span, interval, each, marks, onZoom }: Props) {
  const [ref, seen] = useSeen<HTMLElement>()
  const [box, width] = useWidth<HTMLDivElement>()
  const asked = useRef({ width, empty: false })
  if (!asked.current.empty) asked.current.width = width // an empty panel is one line of text, of another width
  const { drawn, error, loading } = usePanel(panel, choice, span, interval, each, asked.current.width, seen && width > 0)
  const lines = useMemo(() => highlightOutliers((drawn?.curves ?? []).map((c): Line => ({ name: c.name, y: c.y, volume: c.right, about: c.about, right: c.right || c.unit !== panel.unit, unit: c.unit }))), [drawn])
  const steps = useMemo(() => thresholdLevels(panel.steps), [panel])
  const empty = drawn && drawn.curves.length === 0 && !drawn.rows?.length
  asked.current.empty = !!empty
  const plain = panel.description.replace(/\[([^\]]+)\]\([^)]+\)/g, '$1').replace(/\*+/g, '')
  return (
    <figure ref={ref} class={`panel ${loading ? 'loading' : ''} ${empty ? 'empty' : ''}`} style={{ gridColumn: `span ${panel.width >= 16 ? 24 : 8}` }} data-step={drawn && !loading ? drawn.x[1] - drawn.x[0] : undefined}>
      <h3 title={plain}>{panel.title}</h3>
      <div ref={box}>
        {error ? (
          <Problem error={error} />
        ) : empty ? (
          <p class="none">{panel.no_data || 'No data.'}</p>
        ) : drawn ? (
          <>
            <Plot title={panel.title} x={drawn.x} lines={lines} rows={drawn.rows} unit={panel.unit} span={span} max={panel.max || undefined} stack={panel.stack} levels={steps} marks={marks} onZoom={onZoom} />
            {!drawn.rows && <Key lines={lines} levels={steps} unit={panel.unit} marks={marks} span={span} />}
            {drawn.warnings.length > 0 && <p class="warning">Partial: {drawn.warnings.join('; ')}</p>}
          </>
        ) : (
          <div class="chart" style={{ height: '190px' }} />
        )}
      </div>
    </figure>
  )
}

// Key is the legend beneath a plot, so that no text covers the data.
function Key({ lines, levels, marks = [], unit, span }: { lines: Line[]; levels: Level[]; marks?: Moment[]; unit: string; span: Span }) {
  const clear = lines.map((l, i) => ({ l, i })).filter(({ l }) => !l.faint)
  const faint = lines.length - clear.length
  const inside = marks.filter((m) => m.at >= span.from && m.at <= span.to)
  const several = clear.length + faint > 1 || clear.some(({ l }) => l.volume)
  return (
    <ul class="legend">
      {several && clear.slice(0, named).map(({ l, i }) => (
        <li title={l.name}>
          <i style={{ background: l.volume ? 'var(--soft)' : curveColour(l.colour ?? i) }} />
          {l.name}{l.right && ' (right axis)'}
        </li>
      ))}
      {clear.length > named && <li>{clear.length - named} more</li>}
      {faint > 0 && <li><i style={{ background: 'color-mix(in srgb, var(--soft) 50%, transparent)' }} />{faint === 1 ? '1 other' : `${faint} others`}</li>}
      {levels.map((l) => <li class={l.kind}><i class="level" />{l.kind === 'critical' ? 'threshold' : 'warning'} {formatNumber(l.value, unit)}</li>)}
      {inside.filter((m) => m.kind === 'onset').map((m) => <li><i class="onset" />{m.name}</li>)}
      {(['restart', 'deploy'] as const).filter((k) => inside.some((m) => m.kind === k)).map((k) => <li><b>{symbols[k]}</b>{k === 'restart' ? 'restart' : 'new replica'}</li>)}
    </ul>
  )
}
