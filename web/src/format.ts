import type { Estimate, Maybe, Numbers, Quantity } from './types'

// Numbers and times for people. Numbers are written as the command line writes them
// (internal/catalog/indicator/format.go): numbers.json holds examples that both are tested with.

// formatDigits writes a number with three significant digits.
function formatDigits(v: number): string {
  const a = Math.abs(v)
  if (!Number.isFinite(v)) return String(v)
  if (a === 0) return '0'
  if (a >= 100) return v.toFixed(0)
  if (a >= 10) return String(Number(v.toFixed(1)))
  if (a >= 0.01) return String(Number(v.toFixed(2)))
  if (a >= 1e-4) return String(Number(v.toPrecision(2)))
  return v.toExponential(1).replace('.0e', 'e').replace(/e-(\d)$/, 'e-0$1')
}

// A Scale is the unit for numbers from a size on: they are divided by "by".
interface Scale {
  from: number
  by: number
  name: string
}

const scales: Record<string, Scale[]> = {
  seconds: [
    { from: 7200, by: 3600, name: ' h' }, { from: 300, by: 60, name: ' min' }, { from: 1, by: 1, name: ' s' },
    { from: 1e-3, by: 1e-3, name: ' ms' }, { from: 0, by: 1e-6, name: ' µs' },
  ],
  bytes: [...['TiB', 'GiB', 'MiB', 'KiB'].map((unit, i) => ({ from: 1024 ** (4 - i), by: 1024 ** (4 - i), name: ` ${unit}` })), { from: 0, by: 1, name: ' B' }],
  ratio: [{ from: 0, by: 0.01, name: ' %' }],
}
const none: Scale = { from: 0, by: 1, name: '' }
const counts: Scale[] = [{ from: 1e6, by: 1e6, name: ' M' }, { from: 1e4, by: 1e3, name: ' k' }, none] // for axes only

const kindOf = (unit: string): string => unit.split('/')[0]
const scaleIn = (list: Scale[], v: number): Scale => list.find((s) => v >= s.from) ?? none
const formatScaled = (v: number, s: Scale): string => formatDigits(s.by < 1 ? v * Math.round(1 / s.by) : v / s.by) + s.name

const suffixes: Record<string, string> = {
  times: '×', '1/s': '/s', '1/request': '/request', 'requests/s': ' req/s', 'tokens/s': ' tok/s', tokens: ' tokens', watts: ' W', celsius: ' °C', MHz: ' MHz',
}

// quantities lists the numbers of a replica, each with its title and unit.
export const quantities: [Quantity, string, string][] = [
  ['ttft_p95', 'TTFT P95', 'seconds'],
  ['itl_p95', 'ITL P95', 'seconds'],
  ['kv_cache_usage', 'KV cache', 'ratio'],
  ['requests_waiting', 'Waiting', 'requests'],
  ['requests_running', 'Running', 'requests'],
  ['request_rate', 'Requests', 'requests/s'],
  ['output_tokens_rate', 'Output', 'tokens/s'],
]

// formatReplicaNumber writes a number of a replica. A percentile in a wide histogram bucket is written as that bucket.
export const formatReplicaNumber = (n: Numbers, name: Quantity, unit: string): string => n.bounds?.[name] ?? formatNumber(n[name], unit)

// formatValue writes a value, in the monitor's words if there are any: a percentile in a wide bucket is written as that
// bucket.
export const formatValue = (text: string | undefined, v: Maybe<number>, unit: string): string => text || formatNumber(v, unit)

// formatInterval writes the interval of an estimate; nothing if both ends read the same.
export function formatInterval(e: Estimate | null | undefined, unit: string): string {
  const [low, high] = [formatNumber(e?.low, unit), formatNumber(e?.high, unit)]
  const of = (text: string) => text.slice(text.indexOf(' ') + 1)
  return low === high || e?.low === null ? '' : `${of(low) === of(high) ? low.split(' ')[0] : low} – ${high}`
}

// formatPoint writes a point of a curve, with "≈" for a percentile, because that is interpolated in its bucket.
export const formatPoint = (v: number | null | undefined, unit: string, quantile: boolean): string => (quantile && v ? '≈ ' : '') + formatNumber(v, unit)

// formatNumber writes a value in its unit, and a dash for an unknown value.
export function formatNumber(v: number | null | undefined, unit: string): string {
  if (v === null || v === undefined || Number.isNaN(v)) return '–'
  const kind = kindOf(unit)
  if (!scales[kind]) return formatDigits(v) + (suffixes[unit] ?? '')
  const size = v === 0 && kind === 'seconds' ? 1 : Math.abs(v) // zero is written "0 s", not "0 µs"
  return formatScaled(v, scaleIn(scales[kind], size)) + unit.slice(kind.length)
}

// scaleOf returns the scale of an axis that ends at a value. All its ticks have one unit.
export const scaleOf = (top: number, unit: string): Scale => scaleIn(scales[kindOf(unit)] ?? counts, top)

// formatTick writes a value at an axis, without units that the axis' title has.
export const formatTick = (v: number, s: Scale, unit = ''): string =>
  formatScaled(v, s) + (s === none && ['watts', 'celsius', 'MHz'].includes(unit) ? suffixes[unit] : '')

// tickIncrements returns the round distances that ticks may have on a scale.
export function tickIncrements(s: Scale): number[] {
  const round = s.by === 60 || s.by === 3600 ? [1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440] : s.by >= 1024 && Number.isInteger(Math.log2(s.by)) ? Array.from({ length: 14 }, (_, i) => 2 ** (i - 3)) : [-4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6].flatMap((e) => [1, 2, 5].map((m) => m * 10 ** e))
  return round.map((r) => r * s.by)
}

// axisUnitOf returns the title of an axis whose ticks have no unit.
export const axisUnitOf = (unit: string): string => (({ 'requests/s': 'requests/s', 'tokens/s': 'tokens/s', tokens: 'tokens', requests: 'requests', '1/s': 'per second', '1/request': 'per request', 'seconds/token': 'per token', times: 'times' }) as Record<string, string>)[unit] ?? ''

// Times are in the viewer's zone.
const seconds = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' })
const day = new Intl.DateTimeFormat(undefined, { weekday: 'short', day: 'numeric', month: 'short' })
const year = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric' })
const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'long' })

export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone

// formatTime writes a moment, without its date if it is today or less than twelve hours away.
export function formatTime(at: number, now: number): string {
  const ago = Math.abs(now - at)
  const sameDay = new Date(at).toDateString() === new Date(now).toDateString()
  if (sameDay || ago < 12 * 3600e3) return seconds.format(at)
  return `${ago < 300 * 86400e3 ? day.format(at) : year.format(at)} ${seconds.format(at)}`
}

// formatURLTime writes a moment for a URL, to the second.
export const formatURLTime = (ms: number): string => new Date(Math.round(ms / 1000) * 1000).toISOString().replace('.000', '')

export const formatFullTime = (at: number): string => full.format(at)

// formatDuration writes how long something took, in one or two units.
export function formatDuration(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000))
  if (s < 60) return `${s} s`
  const m = Math.floor(s / 60)
  if (m < 60) return s % 60 && m < 10 ? `${m} min ${s % 60} s` : `${m} min`
  const h = Math.floor(m / 60)
  if (h < 48) return m % 60 ? `${h} h ${m % 60} min` : `${h} h`
  return `${Math.floor(h / 24)} days`
}

// timeTickDistances lists the distances that ticks of the time axis may have, in s.
export const timeTickDistances = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000, 7776000]

// formatTimeTicks writes the ticks of the time axis in the viewer's zone, as precisely as their distance needs.
export function formatTimeTicks(splits: number[], step: number): string[] {
  const f = new Intl.DateTimeFormat(
    undefined,
    step >= 86400
      ? { day: 'numeric', month: 'short' }
      : { hour: '2-digit', minute: '2-digit', ...(step < 60 ? { second: '2-digit' } : {}), hourCycle: 'h23' },
  )
  return splits.map((s) => f.format(s * 1000))
}

// compareWithNormal compares a value with its normal value.
export function compareWithNormal(now: number | null | undefined, normal: number | null | undefined): string {
  if (now === null || now === undefined || !normal) return ''
  const times = now / normal
  if (!Number.isFinite(times)) return ''
  if (times >= 0.95 && times <= 1.05) return 'as usual'
  if (times >= 2) return formatDigits(times) + '× normal'
  return `${times > 1 ? '+' : '−'}${formatDigits(Math.abs(times - 1) * 100)} %`
}

// plural writes a number with its noun.
export const plural = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? '' : noun.endsWith('x') ? 'es' : 's'}`

// sentence ends a text with a full stop.
export const sentence = (s: string): string => (!s || /[.!?…]$/.test(s) ? s : s + '.')

// openingSentence writes a sentence for the beginning of a line: with a capital, unless it begins with a name.
export const openingSentence = (s: string): string => sentence(/^[a-z]+(: |[ ,;])/.test(s) && !/^(sixty|vllm)\b/.test(s) ? s.charAt(0).toUpperCase() + s.slice(1) : s)

// titles holds the titles of verdicts by id. The server writes them into the page.
const titles: Record<string, string> = JSON.parse(globalThis.document?.getElementById('titles')?.textContent || '{}')

// titleOf returns the title of a verdict by its id: "KV cache thrashing".
export const titleOf = (id: string): string => titles[id] ?? id

// summaryOf returns the summary of a verdict without its title.
export const summaryOf = (v: { id: string; summary: string }): string => openingSentence(v.summary.replace(`${titleOf(v.id)}: `, ''))
