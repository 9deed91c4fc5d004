import { useMemo } from 'preact/hooks'
import { useGet } from './api'
import type { Level, Line, Mark as Moment } from './chart'
import { number, unitOf } from './format'
import { usePanel, type Choice, type Span } from './query'
import type { Panel, Panels, Step } from './types'
import { Plot, Problem, useSeen } from './ui'
import { colour } from './palette'

// usePanels asks once for what panels there are.
export const usePanels = () => useGet<Panels>('/api/v1/panels')

// levels are the thresholds of a panel as lines.
export const levels = (steps: Step[], unit: string): Level[] =>
  steps.map((s) => ({ value: s.value, kind: s.level, label: s.level === 'critical' ? `threshold ${number(s.value, unit)}` : '' }))

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

// PanelView is one panel: it asks when it comes into view.
export function PanelView({ panel, choice, span, interval, each, marks, onZoom }: Props) {
  const [ref, seen] = useSeen<HTMLElement>()
  const { drawn, error, loading } = usePanel(panel, choice, span, interval, each, seen)
  const lines = useMemo(() => (drawn?.curves ?? []).map((c): Line => ({ name: c.name, y: c.y, volume: c.right, right: c.right || c.unit !== panel.unit, unit: c.unit })), [drawn])
  const steps = useMemo(() => levels(panel.steps, panel.unit), [panel])
  const empty = drawn && drawn.curves.length === 0 && !drawn.rows?.length
  const plain = panel.description.replace(/\[([^\]]+)\]\([^)]+\)/g, '$1').replace(/\*+/g, '')
  return (
    <figure ref={ref} class={`panel ${loading ? 'loading' : ''} ${empty ? 'empty' : ''}`} style={{ gridColumn: `span ${panel.width >= 16 ? 24 : 8}` }} data-step={drawn && !loading ? drawn.x[1] - drawn.x[0] : undefined}>
      <h4 title={plain}>
        {panel.title} <span class="soft">{panel.kind !== 'heatmap' && unitOf(panel.unit)}</span> {plain && <span class="why" aria-hidden="true">?</span>}
      </h4>
      {error ? (
        <Problem error={error} />
      ) : empty ? (
        <p class="none">{panel.no_data || 'No data.'}</p>
      ) : drawn ? (
        <>
          <Plot title={panel.title} x={drawn.x} lines={lines} rows={drawn.rows} unit={panel.unit} span={span} max={panel.max || undefined} stack={panel.stack} levels={steps} marks={marks} onZoom={onZoom} />
          {!drawn.rows && (lines.length > 1 || lines.some((l) => l.volume)) && (
            <ul class="legend">
              {lines.slice(0, named).map((l, i) => (
                <li title={l.name}>
                  <i style={{ background: l.volume ? 'var(--soft)' : colour(i) }} />
                  {l.name}{l.right && !l.volume && ', right'}
                </li>
              ))}
              {lines.length > named && <li>and {lines.length - named} more</li>}
            </ul>
          )}
          {drawn.warnings.length > 0 && <p class="warning">Partial: {drawn.warnings.join('; ')}</p>}
        </>
      ) : (
        <div class="chart" />
      )}
    </figure>
  )
}
