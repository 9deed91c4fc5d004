import { describe, expect, test, vi } from 'vitest'
import { parseJSON } from './api'
import { compareWithNormal, formatDuration, formatInterval, formatNumber, formatPoint, formatTick, formatValue, scaleOf, sentence, tickIncrements, titleOf } from './format'
import { acceptOverview, assessTrust, compareWorst, healthOf, healthOfModel, isQuiet } from './live'
import numbers from './numbers.test.json'
import { findOutliers, median, quantile, rankByDistance } from './odd'
import { all, fillVariables, heatmapRows, matchAny, nameSeries, pointsOf, questionsOf, rateOf, replicaQuery, stepOf, timeGrid } from './query'
import { parseRoute, urlOf } from './route'
import type { Advice, Evidence, Finding, Fix, Link, Model, Overview, Panel, Plot, Replica, Summary } from './types'
import { moment, spanOf } from './views/explore'
import { bucketOf, ticksOf } from './views/chain'
import { effectsOf, farthest, filled, fixesOf, normalOf } from './views/diagnosis'
import { shorts } from './views/fleet'
import { scope } from './views/incident'
import { titleIn } from './views/overview'
import { startsOf } from './views/strip'
import { highlightOutliers } from './panel'

// The server writes the titles of verdicts into the page.
vi.hoisted(() => {
  const titles = { 'kv-cache-thrashing': 'KV cache thrashing', 'engine-hung': 'Engine hung', 'not-certain': 'Not certain yet' }
  Object.assign(globalThis, { document: { documentElement: { dataset: {} }, getElementById: () => ({ textContent: JSON.stringify(titles) }) } })
})

describe('measured percentiles', () => {
  test('of a wide bucket are written as that bucket', () => {
    expect(formatValue('10–25 ms', 0.0243, 'seconds')).toBe('10–25 ms')
    expect(formatValue(undefined, 0.022, 'seconds')).toBe('22 ms')
    expect(formatValue(undefined, null, 'seconds')).toBe('–')
    expect(formatInterval({ value: 19.6, low: 19.58, high: 19.62 }, 'seconds')).toBe('')
    expect(formatInterval({ value: 19.6, low: 17.4, high: 22 }, 'seconds')).toBe('17.4 – 22 s')
    expect(formatInterval({ value: 0.9, low: 0.8, high: 2 }, 'seconds')).toBe('800 ms – 2 s')
    expect(formatInterval({ value: 2, low: 1, high: 4 }, 'count')).toBe('1 – 4')
    expect(formatPoint(0.0243, 'seconds', true)).toBe('≈ 24.3 ms')
    expect(formatPoint(0, 'seconds', true)).toBe('0 s')
    expect(formatPoint(null, 'seconds', true)).toBe('–')
  })
})

describe('numbers', () => {
  test.each(numbers)('$value $unit is written as the command line does: $text', ({ value, unit, text }) => {
    expect(formatNumber(value, unit)).toBe(text)
  })
  test('what is not known is a dash, never a zero', () => {
    for (const v of [null, undefined, NaN]) expect(formatNumber(v, 'seconds')).toBe('–')
  })
  test('changes', () => {
    expect(compareWithNormal(2.82, 1)).toBe('2.82× normal')
    expect(compareWithNormal(1.109, 1)).toBe('+10.9 %')
    expect(compareWithNormal(0.754, 1)).toBe('−24.6 %')
    expect(compareWithNormal(1.01, 1)).toBe('as usual')
    expect(compareWithNormal(5, 0)).toBe('')
    expect(compareWithNormal(null, 1)).toBe('')
  })
  test('lengths and sentences', () => {
    expect([0, 59e3, 61e3, 600e3, 3600e3, 5400e3, 72 * 3600e3].map(formatDuration)).toEqual(['0 s', '59 s', '1 min 1 s', '10 min', '1 h', '1 h 30 min', '3 days'])
    expect(sentence('It is')).toBe('It is.')
    expect(sentence('Is it?')).toBe('Is it?')
  })
})

describe('addresses', () => {
  test('go there and back, whatever an id holds', () => {
    const hostile = 'a/b?c#d"><img src=x onerror=alert(1)>%2F'
    const [path] = urlOf('incident', hostile).split('?')
    expect(parseRoute(path, '')).toMatchObject({ view: 'incident', id: hostile })
    const address = urlOf('explore', '', { instance: ['a&b', hostile], model: '' })
    expect(parseRoute('/explore', address.slice(address.indexOf('?'))).query.getAll('instance')).toEqual(['a&b', hostile])
    expect(address).not.toContain('model')
  })
  test('that are none show none', () => {
    for (const p of ['/nowhere', '/incident', '/incident/a/b', '/explore/x', '/incident/%E0%A4%A']) expect(parseRoute(p, '').view).toBe('')
    expect(parseRoute('/', '').view).toBe('overview')
    expect(parseRoute('/runbooks/saturation', '')).toMatchObject({ view: 'runbook', id: 'saturation' })
  })
})

describe('times', () => {
  const present = Date.parse('2026-11-21T07:00:00Z')
  test('of an address', () => {
    expect(moment('now', present)).toBe(present)
    expect(moment('-6h', present)).toBe(present - 6 * 3600e3)
    expect(moment('now-90m', present)).toBe(present - 5400e3)
    expect(moment('1795000000', present)).toBe(1795000000e3)
    expect(moment('2026-11-21T06:00:00Z', present)).toBe(present - 3600e3)
  })
  test('that are wrong are said to be, and never spin', () => {
    for (const [from, until] of [['x', 'now'], ['now', 'now'], ['-1h', '-2h'], ['1970-01-01T00:00:00Z', 'now'], ['', '']]) {
      const s = spanOf(from, until, present)
      expect(s.wrong).toBe(true)
      expect(s.span.to - s.span.from).toBe(3600e3)
    }
    expect(spanOf('-24h', 'now', present)).toMatchObject({ wrong: false, relative: true })
  })
  test('steps hold two scrapes and few points, rates four scrapes', () => {
    expect(stepOf({ from: 0, to: 3600e3 }, 5, 240)).toBe(15)
    expect(stepOf({ from: 0, to: 60e3 }, 5, 240)).toBe(5)
    expect(stepOf({ from: 0, to: 60e3 }, 0.5, 240)).toBe(1)
    expect([0, 330, 5000].map(pointsOf)).toEqual([30, 110, 240])
    expect(rateOf(15, 5)).toBe(20)
    expect(rateOf(5, 5)).toBe(20)
    expect(rateOf(360, 5)).toBe(365)
    const g = timeGrid({ from: 7e3, to: 7e3 + 86400e3 }, 360)
    expect(g.x.length).toBeLessThanOrEqual(242)
    expect(g.place(g.x[17])).toBe(17)
  })
})

describe('queries', () => {
  const expr = 'rate(x{model_name=~"$model",instance=~"$instance",job=~"$job"}[$__rate_interval])'
  test('are filled', () => {
    expect(fillVariables(expr, all, 20, 3600)).toBe('rate(x{model_name=~".*",instance=~".*",job=~".*"}[20s])')
    expect(fillVariables(expr, { ...all, models: ['qwen'], instances: ['10.0.0.1:8000', '10.0.0.2:8000'] }, 20, 1)).toContain('instance=~"10\\\\.0\\\\.0\\\\.1:8000|10\\\\.0\\\\.0\\\\.2:8000"')
  })
  test('cannot be left by a name', () => {
    const hostile = 'a"} or up{x="$&$1\\\n'
    const got = fillVariables(expr, { ...all, models: [hostile] }, 20, 1)
    const quoted = /model_name=~"((?:[^"\\]|\\.)*)",instance/.exec(got)?.[1] ?? ''
    const matched = new RegExp(`^(?:${JSON.parse(`"${quoted}"`)})$`)
    expect(matched.test(hostile)).toBe(true)
    expect(got.endsWith('"}[20s])') || got.endsWith('[20s])')).toBe(true)
    expect(matchAny([])).toBe('.*')
  })
  test('are told apart by the labels that differ', () => {
    const labels = (instance: string) => ({ instance, model_name: 'qwen', cluster: 'eu' })
    expect(nameSeries([{ legend: 'P95 {{model_name}} {{cluster}}', labels: labels('a') }, { legend: 'P50 {{model_name}} {{cluster}}', labels: labels('a') }])).toEqual(['P95', 'P50'])
    expect(nameSeries([{ legend: 'P95 {{model_name}}', labels: labels('a') }, { legend: 'P95 {{model_name}}', labels: labels('b') }])).toEqual(['P95 a', 'P95 b'])
    expect(nameSeries([{ legend: '{{model_name}}', labels: { model_name: 'qwen' } }])).toEqual(['qwen'])
    expect(nameSeries([{ legend: '{{x}}', labels: {} }])).toEqual(['all'])
  })
  test('of buckets become rows of what fell into each', () => {
    const m = (le: string, v: string) => ({ metric: { le }, values: [[10, v]] as [number, string][] })
    const rows = heatmapRows([m('+Inf', '10'), m('100', '4'), m('200', '9'), m('50', '0'), m('20', '0')], 1, () => 0)
    expect(rows.map((r) => [r.name, r.y[0]])).toEqual([['50', 0], ['100', 4], ['200', 5], ['> 200', 1]])
    expect(heatmapRows([], 1, () => 0)).toEqual([])
  })
  test('percentiles of one histogram are one question where the server understands it', () => {
    const q = (expr: string, quantile?: string, buckets?: string) => ({ expr, quantile, buckets, legend: '', unit: '', right: false })
    const [p50, p95, rate] = [q('histogram_quantile(0.5, b)', '0.5', 'b'), q('histogram_quantile(0.95, b)', '0.95', 'b'), q('rate(c)')]
    expect(questionsOf([p50, p95, rate])).toEqual([
      { expr: 'histogram_quantiles(b, "quantile", 0.5, 0.95)', of: [p50, p95] },
      { expr: 'rate(c)', of: [rate] },
    ])
    expect(questionsOf([p95]).map((x) => x.expr)).toEqual(['histogram_quantile(0.95, b)'])
    expect(questionsOf([rate, { ...rate }]).map((x) => x.expr)).toEqual(['rate(c)', 'rate(c)'])
    expect(questionsOf([q('x'), q('y')]).map((x) => x.expr)).toEqual(['x', 'y'])
  })
})

describe('trust', () => {
  const overview = (at: string, state: Overview['state'] = 'ok'): Overview => ({ at, every_s: 15, state, problems: ['store-7 is away'], models: [] })
  const live = (o: Overview | undefined, received: number, heard = received) => ({ overview: o, received, heard, incidents: 0 })
  test('nothing is well that is not known to be', () => {
    const o = overview('2026-11-21T07:00:00Z')
    expect(assessTrust(live(o, 0), 1000)).toEqual({ ok: true })
    expect(assessTrust(live(o, 0), 60_000)).toMatchObject({ ok: false, state: 'lost' })
    expect(assessTrust(live(o, 0, 59_000), 60_000)).toMatchObject({ ok: false, state: 'stale' })
    for (const state of ['partial', 'stale', 'starting'] as const) {
      const t = assessTrust(live(overview('2026-11-21T07:00:00Z', state), 0), 1000)
      expect(t).toMatchObject({ ok: false, state, why: ['store-7 is away'] })
      expect(healthOf({ status: 'ok', severity: '' }, t)).toBe('unknown')
      expect(healthOf({ status: 'idle', severity: '' }, t)).toBe('unknown')
      expect(healthOf({ status: 'firing', severity: 'page' }, t)).toBe('failing')
      expect(healthOf({ status: 'firing', severity: 'info' }, t)).toBe('unknown')
    }
    expect(assessTrust(live(undefined, 0), 1)).toMatchObject({ ok: false, state: 'starting' })
  })
  test('states are five', () => {
    const of = (status: Replica['status'], severity = '') => healthOf({ status, severity }, { ok: true })
    expect([of('firing', 'page'), of('down', 'page'), of('down'), of('firing', 'ticket'), of('down', 'ticket'), of('pending', 'page'), of('pending'), of('unknown'), of('ok'), of('idle'), of('firing', 'info'), of('pending', 'info')]).toEqual(
      ['failing', 'failing', 'failing', 'degraded', 'degraded', 'uncertain', 'uncertain', 'unknown', 'healthy', 'healthy', 'healthy', 'healthy'])
  })
  test('an overview that was overtaken is dropped, a clock that was set back is not', async () => {
    const { monitorNow: now } = await import('./live')
    acceptOverview(overview('2026-11-21T07:00:30Z'))
    acceptOverview(overview('2026-11-21T07:00:15Z'))
    expect(Math.abs(now() - Date.parse('2026-11-21T07:00:30Z'))).toBeLessThan(5000)
    acceptOverview(overview('2026-11-21T05:00:00Z'))
    expect(Math.abs(now() - Date.parse('2026-11-21T05:00:00Z'))).toBeLessThan(5000)
  })
  test('texts do not turn around what is beside them', () => {
    expect(parseJSON('{"a":"x\u202ey\\u202Ez\\u2066"}')).toEqual({ a: 'x y z ' })
    expect(parseJSON('{"a":"\\\\ \\"<b>"}')).toEqual({ a: '\\ "<b>' })
  })
})

test('the evidence is the comparison that is hardest to meet, the worst first, and no guard', () => {
  const e = (signal: string, op: string, threshold: number | null, holds: boolean | null, value = 4, role = 'cause') => ({ signal, op, threshold, holds, value, role }) as Evidence
  const got = farthest([e('b', '<', 5, true, 1), e('a', '>', 0.1, true), e('a', '>', 0.5, true), e('a', '>', 9, false), e('b', '<', 2, true, 1), e('c', '>', null, null), e('g', '<', 900, true, 1e-3, 'guard')])
  expect(got.map((x) => [x.signal, x.threshold])).toEqual([['a', 0.5], ['b', 2]])
})

describe('an incident', () => {
  test('is of the servers on which it was found last', () => {
    const i = { affected: ['a', 'b'], targets: ['a', 'b', 'gpu'], servers: 2 } as Summary
    expect(scope(i, 'qwen')).toBe('all 2 replicas of qwen')
    expect(scope({ ...i, servers: 4 }, 'qwen')).toBe('2 of 4 replicas of qwen')
  })
  const fix = (summary: string, predicted: Fix['predicted'] = null) => ({ head: 'Fix', summary, changes: [], args: '', command: '', arithmetic: [], tradeoff: '', verify: '', predicted }) as Fix
  const advice = { at: '', pathology: '', fixes: [{ ...fix('fp8'), changes: [{ flag: '--kv-cache-dtype', from: 'auto', to: 'fp8' }] }], expected: [{ signal: 'ttft_p95', title: 'TTFT P95', unit: 'seconds', before: 20, low: 1.4, high: 3, came: 2.2 }] } as Advice
  test('has its advice first, whatever a diagnosis ranks', () => {
    const f = { fixes: [fix('add 2'), fix('fp8')] } as Finding
    expect(fixesOf({ advice } as Summary, f, undefined).map((x) => [x.head, x.summary])).toEqual([['Fix', 'fp8'], ['Or', 'add 2']])
    expect(fixesOf({ advice: { ...advice, fixes: [] } } as unknown as Summary, f, undefined).map((x) => x.head)).toEqual(['Or', 'Or'])
    expect(fixesOf({ advice } as Summary, undefined, undefined)[0].args).toBe('--kv-cache-dtype fp8')
  })
  test('shows a prediction beside what the chain has now', () => {
    const effect = { signal: 'ttft_p95', unit: 'seconds', measured: 20, unchanged: { value: 20, low: 20, high: 20 }, after: { value: 2, low: 1.4, high: 3 } }
    const [e] = effectsOf(fix('fp8', { reason: null, effects: [effect], basis: [], caveats: [] }), [{ signal: 'ttft_p95', value: 31, value_text: '20–40 s' }] as Link[])
    expect([e.measured, e.measured_text, e.after.low, e.after.high]).toEqual([31, '20–40 s', 1.4, 3])
    expect(effectsOf(fix('add 2'))).toEqual([])
  })
  test('fills names into commands, and offers none to copy that lacks one', () => {
    expect(filled('curl http://TARGET/health', '10.0.0.1:8000')).toEqual({ text: 'curl http://10.0.0.1:8000/health', whole: true })
    expect(filled('curl http://TARGET/health', 'a b; rm:1')).toEqual({ text: 'curl http://TARGET/health', whole: false })
    expect(filled('kubectl logs POD', 'a:1', { pod: 'vllm-0' })).toEqual({ text: 'kubectl logs vllm-0', whole: true })
    expect(filled('kubectl logs POD', 'a:1')).toMatchObject({ whole: false })
  })
  test('makes its model no healthier than it is', () => {
    const v = { id: 'healthy', status: 'ok', severity: '', summary: '', since: null, since_at_least: false, confidence: null } as Model['verdict']
    expect(isQuiet({ verdict: v, phase: 'quiet' })).toBe(true)
    expect(healthOfModel({ health: 'healthy' }, { ok: true })).toBe('healthy')
    expect(healthOfModel({ health: 'healthy' }, { ok: false, state: 'lost', why: [] })).toBe('unknown')
    expect(healthOfModel({ health: 'failing' }, { ok: false, state: 'lost', why: [] })).toBe('failing')
    const m = { verdict: v, health: 'healthy', name: 'qwen', title: 'qwen is healthy' } as Model
    expect([titleIn(m, { ok: true }), titleIn(m, { ok: false, state: 'lost', why: [] })]).toEqual(['qwen is healthy', 'qwen is in an unknown state'])
    expect(titleIn({ ...m, phase: 'quiet', title: 'qwen is quiet' }, { ok: false, state: 'lost', why: [] })).toBe('qwen is quiet')
  })
})

describe('axes', () => {
  test.each([[750, 'seconds', ' min'], [250, 'seconds', ' s'], [50, 'seconds', ' s'], [0.4, 'seconds', ' ms'], [9000, 'seconds', ' h'], [0.9, 'ratio', ' %'], [25_000, 'tokens/s', ' k'], [3e9, 'bytes', ' GiB'], [40, 'requests', '']])('that end at %d %s have one unit, %s', (top, unit, name) => {
    const s = scaleOf(top, unit)
    expect(s.name).toBe(name)
    const step = tickIncrements(s).find((i) => top / i < 5) ?? NaN
    expect(formatTick(step, s)).toMatch(/^\d+(\.\d)?( \S+)?$/)
  })
  test('of time have round moments', () => {
    const { at, step } = ticksOf({ from: Date.parse('2026-11-21T07:00:07Z'), to: Date.parse('2026-11-21T07:14:00Z') }, 6)
    expect(step).toBe(300)
    expect(at.map((t) => t % 300)).toEqual([0, 0])
  })
  test('percentiles of wide buckets are these, of narrow ones a line', () => {
    const bounds = [0.06, 0.08, 20, 40]
    expect(bucketOf(33, bounds)).toEqual([20, 40])
    expect(bucketOf(0.07, bounds)).toBeUndefined()
    expect(bucketOf(99, bounds)).toBeUndefined()
    expect(bucketOf(3, [])).toBeUndefined()
  })
})

describe('the odd one', () => {
  const replica = (v: number | null) => ({ now: { ttft_p95: v } }) as unknown as Replica
  test('is far from the others', () => {
    expect(findOutliers([0.3, 0.31, 0.29, 0.3, 0.84, null].map(replica), 'ttft_p95').odd).toEqual([false, false, false, false, true, false])
  })
  test('is none among few, nor where all differ, nor for a trifle', () => {
    expect(findOutliers([0.3, 9].map(replica), 'ttft_p95').odd).toEqual([false, false])
    expect(findOutliers([1, 2, 3, 4, 5, 6].map(replica), 'ttft_p95').odd).not.toContain(true)
    expect(findOutliers([1, 1, 1, 1, 1.2].map(replica), 'ttft_p95').odd).not.toContain(true)
    expect(findOutliers([0, 0, 0, 0, 0].map(replica), 'ttft_p95').odd).not.toContain(true)
    expect(median([])).toBeNaN()
  })
})

describe('verdicts', () => {
  test.each([['kv-cache-thrashing', 'KV cache thrashing'], ['not-certain', 'Not certain yet'], ['of-tomorrow', 'of-tomorrow']])('%s is called %s', (id, title) => expect(titleOf(id)).toBe(title))
})

describe('what is not certain yet', () => {
  const waits = 'Not certain yet: 14 requests wait, and nobody got a first token for 20 s on r0'
  const verdict = (id: string, status: Replica['status']) => ({ id, status, severity: '', summary: waits, since: null, since_at_least: false, confidence: 0.5 })
  test('comes behind what is wrong and before what is not known', () => {
    const list = [verdict('healthy', 'ok'), verdict('insufficient-data', 'unknown'), verdict('not-certain', 'pending'), { ...verdict('slow-decode', 'firing'), severity: 'ticket' }]
    expect(list.sort((a, b) => compareWorst(a, b, { ok: true })).map((v) => v.id)).toEqual(['slow-decode', 'not-certain', 'insufficient-data', 'healthy'])
  })
})

describe('cells', () => {
  test('are told apart by what differs, a port on one host too', () => {
    expect(shorts(['localhost:38000', 'localhost:38001', 'http://localhost:38100'])).toEqual([':38000', ':38001', ':38100'])
    expect(shorts(['vllm-7f9c-b2x.prod.svc:8000', 'vllm-7f9c-k8d.prod.svc:8000'])).toEqual(['b2x', 'k8d'])
    expect(shorts(['10.0.0.1:8000', '10.0.1.12:8000'])).toEqual(['0.1', '1.12'])
    expect(shorts(['one:8000'])).toEqual(['one:8000'])
    for (const list of [['a', 'a:1'], ['a-', 'a'], ['x', 'x']]) expect(shorts(list).every((n) => n.length > 0)).toBe(true)
  })
})

describe('charts', () => {
  const line = (name: string, v: number) => ({ name, y: [v, v, v] })
  test('of many lines have colours for those that are far from the others', () => {
    const many = [1, 1.1, 1.2, 9, 1.3, 1.1, 0.1, 1.2].map((v, i) => line(`r${i}`, v))
    const got = highlightOutliers(many)
    expect(got.filter((l) => !l.faint).map((l) => l.name).slice(0, 2)).toEqual(['r3', 'r6'])
    expect(got.filter((l) => l.faint)).toHaveLength(5)
    expect(highlightOutliers(many.slice(0, 4))).toEqual(many.slice(0, 4))
    expect(rankByDistance([[1, null], [1, 1], [5, 5]])[0]).toBe(2)
  })
  test('ask one percentile where there is a line for each replica', () => {
    const q = (legend: string, right = false) => ({ expr: legend, legend, unit: '', right })
    const p = (queries: Panel['queries']) => replicaQuery({ queries } as Panel).legend
    expect([p([q('P50'), q('P95'), q('n', true)]), p([q('n', true), q('mean')]), p([q('n', true)])]).toEqual(['P95', 'mean', 'n'])
  })
  test('show what was normal as a range', () => {
    const plot = (n: number, normal: number | null) => ({ normal, baseline: { from: '1970-01-01T00:00:00Z', to: '1970-01-01T00:01:40Z' }, lines: [{ name: 'a', points: Array.from({ length: n }, (_, i) => [i, 10 + i]) }] }) as unknown as Plot
    expect(normalOf(plot(101, 5))).toEqual({ low: 15, high: 105 })
    expect(normalOf(plot(2, 5))).toEqual({ low: 5, high: 5 })
    expect(normalOf(plot(0, null))).toBeUndefined()
    expect(quantile([3], 0.5)).toBe(3)
  })
  test('mark restarts and new replicas', () => {
    const of = (instance: string, ...values: [number, number][]) => ({ metric: { instance }, values: values.map(([t, v]) => [t, String(v)] as [number, string]) })
    const span = { from: 1000e3, to: 2000e3 }
    const got = startsOf([of('old', [1000, 10], [2000, 10]), of('again', [1000, 10], [1600, 1500]), of('new1', [1300, 1200]), of('new2', [1300, 1230])], span, 15)
    expect(got.map((m) => [m.at, m.kind, m.name])).toEqual([[1200e3, 'deploy', '2 replicas started'], [1500e3, 'restart', 'again restarted']])
  })
})
