import { useLayoutEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { axisUnitOf, formatNumber, formatPoint, formatTick, formatTime, formatTimeTicks, scaleOf, tickIncrements, timeTickDistances } from './format'
import { curveColour, curveDash, onTheme, styleColour, symbols } from './palette'
import type { Span } from './query'

// A Level is a threshold, drawn as a dashed line.
export interface Level {
  value: number
  kind: 'warning' | 'critical'
}

// A Mark is a moment: an onset is a red line, others are symbols above the plot.
export interface Mark {
  at: number // ms
  kind: 'onset' | 'restart' | 'deploy'
  name: string
}

export interface Line {
  name: string
  y: (number | null)[]
  right?: boolean // on the right axis
  volume?: boolean // an area in grey, behind the others
  faint?: boolean // in grey, for comparison
  colour?: number // index into the palette; by default the index of the line
  unit?: string // of the right axis
  about?: boolean // the points of a percentile, interpolated in buckets
}

export interface ChartProps {
  title: string
  x: number[] // s
  lines: Line[]
  rows?: { name: string; y: (number | null)[] }[] // rows of a heat map, from the bottom
  unit: string
  span: Span
  max?: number
  stack?: boolean
  levels?: Level[]
  marks?: Mark[]
  onZoom?: (s: Span) => void
}

const kinds = { warning: 'warning', critical: 'bad' } as const
const strip = 18 // px above the plot: units of the axes, and marks
const listed = 10 // lines in a tooltip
const font = '11px system-ui, sans-serif'

const pale = (c: string): string => (c.startsWith('#') ? c + '33' : c.replace(')', ' / 0.2)'))

// stacked adds each line to those below it.
function stacked(lines: Line[], n: number): (number | null)[][] {
  const sum = new Array<number>(n).fill(0)
  return lines.map((l) => l.y.map((v, i) => (v === null ? null : (sum[i] += v))))
}

function options(p: () => ChartProps, width: number, tip: HTMLElement): uPlot.Options {
  const first = p()
  const heat = first.rows
  const right = first.lines.find((l) => l.right)
  const axis = { stroke: () => styleColour('soft'), font, ticks: { show: false } }
  const series: uPlot.Series[] = first.lines.map((l, i) => ({
    label: l.name,
    scale: l.right ? 'right' : 'y',
    stroke: () => (l.volume ? styleColour('soft') + '99' : l.faint ? styleColour('soft') + '66' : curveColour(l.colour ?? i)),
    fill: l.volume ? () => styleColour('soft') + '22' : first.stack ? () => pale(curveColour(l.colour ?? i)) : undefined,
    width: l.faint || l.volume ? 1 : 1.6,
    dash: l.volume ? [] : l.right ? [5, 3] : curveDash(l.colour ?? i),
    points: { show: (u, si) => lonely(u, si) },
    spanGaps: false,
  }))
  if (heat) series.push({ label: '', scale: 'y', paths: () => null, points: { show: false } })
  return {
    width,
    height: 190,
    legend: { show: false },
    padding: [strip, right ? 0 : 24, 0, 0], // half the width of a tick with seconds
    cursor: {
      sync: { key: 'time', scales: ['x', null] },
      drag: { x: true, y: false, setScale: false },
      focus: { prox: 24 },
      points: { size: 6 },
      y: false,
    },
    focus: { alpha: 0.35 },
    scales: {
      x: { time: true, range: () => [p().span.from / 1000, p().span.to / 1000] },
      y: {
        range: (_, lo, hi) => {
          const q = p()
          if (q.rows) return [0, q.rows.length]
          let top = hi ?? 0
          for (const l of q.levels ?? []) if (l.kind === 'critical' || l.value <= top * 1.6) top = Math.max(top, l.value)
          const bottom = Math.min(lo ?? 0, 0)
          top = q.max ? Math.max(q.max, top) : top + 0.06 * (top - bottom)
          return [bottom, top > bottom ? top : bottom + 1]
        },
      },
      right: { range: (_, _lo, hi) => [0, hi ? hi * 1.05 : 1] },
    },
    axes: [
      { ...axis, grid: { show: false }, space: 58, incrs: timeTickDistances, size: 26, values: (u, splits, _i, _s, step) => formatTimeTicks(splits, step).map((text, i) => (u.valToPos(splits[i], 'x') < 22 ? '' : text)) },
      heat
        ? { ...axis, scale: 'y', size: 58, grid: { show: false }, splits: () => heat.map((_, i) => i + 1).filter((i) => heat.length < 12 || i % 2 === 0), values: (_, s) => s.map((i) => heat[i - 1]?.name ?? '') }
        : {
            ...axis,
            scale: 'y',
            size: 58,
            space: 28,
            grid: { stroke: () => styleColour('line'), width: 1 },
            incrs: (_u: uPlot, _i: number, _min: number, max: number) => tickIncrements(scaleOf(max, first.unit)),
            values: (u, s) => s.map((v) => formatTick(v, scaleOf(u.scales.y.max ?? 1, first.unit), first.unit)),
          },
      ...(right ? [{ ...axis, scale: 'right', side: 1 as const, size: 44, grid: { show: false }, values: (u: uPlot, s: number[]) => s.map((v) => formatTick(v, scaleOf(u.scales.right.max ?? 1, right.unit ?? 'count'))) }] : []),
    ],
    series: [{}, ...series],
    hooks: {
      drawClear: [
        (u) => {
          if (p().rows) cells(u, p(), styleColour('link'))
        },
      ],
      draw: [
        (u) => {
          const ratio = devicePixelRatio
          const { ctx, bbox } = u
          ctx.save()
          ctx.font = `${11 * ratio}px system-ui, sans-serif`
          ctx.lineWidth = 1.4 * ratio
          ctx.fillStyle = styleColour('soft')
          const write = (text: string, x: number, y: number, align: CanvasTextAlign) => {
            ctx.textAlign = align
            ctx.fillText(text, x, y)
          }
          const line = (x1: number, y1: number, x2: number, y2: number, c: string, d: number[]) => {
            ctx.strokeStyle = c
            ctx.setLineDash(d.map((v) => v * ratio))
            ctx.beginPath()
            ctx.moveTo(x1, y1)
            ctx.lineTo(x2, y2)
            ctx.stroke()
          }
          const [from, to] = [bbox.left, bbox.left + bbox.width]
          const above = bbox.top - 6 * ratio
          if (!heat) write(axisUnitOf(first.unit), 2 * ratio, above - 3 * ratio, 'left')
          if (right) write(axisUnitOf(right.unit ?? ''), ctx.canvas.width - 2 * ratio, above - 3 * ratio, 'right')
          for (const l of p().levels ?? []) {
            const y = u.valToPos(l.value, 'y', true)
            if (y < bbox.top - 1 || y > bbox.top + bbox.height + 1) continue
            line(from, y, to, y, styleColour(kinds[l.kind]), [7, 4])
          }
          for (const m of p().marks ?? []) {
            const x = u.valToPos(m.at / 1000, 'x', true)
            if (x < from || x > to) continue
            if (m.kind === 'onset') {
              line(x, bbox.top - 3 * ratio, x, bbox.top + bbox.height, styleColour('bad'), [])
              continue
            }
            line(x, bbox.top, x, bbox.top + bbox.height, styleColour('soft') + '80', [1, 3])
            write(symbols[m.kind], x, above + 2 * ratio, 'center')
          }
          ctx.restore()
        },
      ],
      setSelect: [
        (u) => {
          const { left, width } = u.select
          if (width < 4) return
          const s = { from: u.posToVal(left, 'x') * 1000, to: u.posToVal(left + width, 'x') * 1000 }
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
          p().onZoom?.(s)
        },
      ],
      setCursor: [(u) => describe(u, p(), tip)],
    },
  }
}

// lonely returns the points between two gaps, which a line does not show.
function lonely(u: uPlot, si: number): boolean {
  const y = u.data[si] as (number | null | undefined)[]
  return y.filter((v) => v !== null && v !== undefined).length < 3
}

function cells(u: uPlot, p: ChartProps, c: string): void {
  const rows = p.rows ?? []
  const top = Math.max(...rows.map((r) => Math.max(...r.y.map((v) => v ?? 0))), 1e-9)
  const step = p.x.length > 1 ? p.x[1] - p.x[0] : 60
  const { ctx } = u
  ctx.save()
  ctx.beginPath()
  ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height)
  ctx.clip()
  ctx.fillStyle = c
  rows.forEach((r, k) => {
    const y = u.valToPos(k + 1, 'y', true)
    const h = u.valToPos(k, 'y', true) - y
    r.y.forEach((v, i) => {
      if (!v) return
      const x = u.valToPos(p.x[i] - step, 'x', true)
      ctx.globalAlpha = 0.08 + 0.92 * Math.sqrt(v / top)
      ctx.fillRect(x, y, u.valToPos(p.x[i], 'x', true) - x + 0.5, h + 0.5)
    })
  })
  ctx.restore()
}

// describe fills the tooltip, as text and never as markup, because names come from foreign servers.
function describe(u: uPlot, p: ChartProps, tip: HTMLElement): void {
  const i = u.cursor.idx
  const here = u.over.matches(':hover')
  if (!here || i === null || i === undefined || (u.cursor.left ?? -1) < 0) {
    tip.hidden = true
    return
  }
  const add = (text: string, c = '') => {
    const row = document.createElement('div')
    if (c) {
      const key = document.createElement('i')
      key.style.background = c
      row.append(key)
    }
    row.append(text)
    tip.append(row)
  }
  tip.replaceChildren()
  add(formatTime(p.x[i] * 1000, p.span.to))
  const step = p.x.length > 1 ? 1000 * (p.x[1] - p.x[0]) : 60e3
  for (const m of p.marks ?? []) if (Math.abs(m.at - p.x[i] * 1000) <= step) add(`${m.kind === 'onset' ? '' : symbols[m.kind] + ' '}${m.name}`)
  if (p.rows) {
    const row = p.rows[Math.floor(u.posToVal(u.cursor.top ?? 0, 'y'))]
    if (row) add(`${/^[\d.]/.test(row.name) ? 'to ' : ''}${row.name} ${p.unit}: ${formatNumber(row.y[i], 'count')} requests`)
  } else {
    const values = p.lines.map((l, k) => ({ l, k, v: l.y[i] })).filter((e) => e.v !== null && e.v !== undefined)
    if (!p.stack) values.sort((a, b) => Number(a.l.right ?? 0) - Number(b.l.right ?? 0) || (b.v ?? 0) - (a.v ?? 0))
    for (const { l, k, v } of values.slice(0, listed)) {
      add(`${l.name}  ${formatPoint(v, l.unit ?? p.unit, !!l.about)}`, l.volume || l.faint ? styleColour('soft') : curveColour(l.colour ?? k))
    }
    if (values.length > listed) add(`and ${values.length - listed} more`)
    if (values.length === 0) add('no value')
  }
  tip.hidden = false
  const left = u.bbox.left / devicePixelRatio + (u.cursor.left ?? 0)
  tip.style.left = `${left > u.width / 2 ? left - tip.offsetWidth - 12 : left + 12}px`
  tip.style.top = '8px'
}

export default function Chart(props: ChartProps) {
  const box = useRef<HTMLDivElement>(null)
  const tip = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const latest = useRef(props)
  latest.current = props
  // A plot is created again if its lines changed; otherwise it gets the new data.
  const shape = JSON.stringify([props.lines.map((l) => [l.name, l.right, l.volume, l.faint, l.unit, l.colour]), props.rows?.map((r) => r.name), props.unit, props.stack])
  const data = (): uPlot.AlignedData => {
    const p = latest.current
    const ys = p.stack ? stacked(p.lines, p.x.length) : p.lines.map((l) => l.y)
    return [p.x, ...ys, ...(p.rows ? [p.x.map(() => null)] : [])] as uPlot.AlignedData
  }
  const fresh = useRef(false)
  // Draw at once, not in the next frame: the panel would be empty until then.
  useLayoutEffect(() => {
    const target = box.current
    if (!target || !tip.current) return
    const u = new uPlot(options(() => latest.current, Math.max(target.clientWidth, 120), tip.current), data(), target)
    plot.current = u
    fresh.current = true
    const resized = new ResizeObserver(() => {
      const width = Math.max(target.clientWidth, 120)
      if (width !== u.width) u.setSize({ width, height: u.height })
    })
    resized.observe(target)
    const stop = onTheme(() => u.redraw())
    return () => {
      stop()
      resized.disconnect()
      u.destroy()
      plot.current = null
    }
  }, [shape])
  useLayoutEffect(() => {
    if (fresh.current) fresh.current = false
    else plot.current?.setData(data())
  }, [props.x, props.lines, props.rows, props.span.from, props.span.to, JSON.stringify([props.levels, props.marks])])
  return (
    <div class="chart" ref={box} role="img" aria-label={props.title}>
      <div class="tip" ref={tip} hidden />
    </div>
  )
}
