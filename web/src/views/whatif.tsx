import { useEffect, useState } from 'preact/hooks'
import { postJSON } from '../api'
import { compareWithNormal as compared, formatInterval, formatNumber, openingSentence } from '../format'
import { useLive } from '../live'
import { navigate, urlOf, useRoute } from '../route'
import type { WhatIf } from '../types'
import { Command, Copy, Nothing, Problem, Range, Waiting } from '../ui'

const outcomes: [string, string, string, boolean][] = [
  ['ttft_p50', 'TTFT P50', 'seconds', true],
  ['ttft_p95', 'TTFT P95', 'seconds', true],
  ['itl_p95', 'ITL P95', 'seconds', true],
  ['e2e_mean', 'End-to-end, mean', 'seconds', true],
  ['output_tokens_rate', 'Output', 'tokens/s', false],
  ['requests_rate', 'Requests', 'requests/s', false],
  ['kv_cache_usage', 'KV cache', 'ratio', true],
  ['preemptions_rate', 'Preemptions', '1/s', true],
]

const factors: [string, string][] = [
  ['load', 'Load'],
  ['prompt', 'Prompt lengths'],
  ['output', 'Output lengths'],
]

// The settings that are changed most often; the others are collapsed.
const usual = ['--max-num-seqs', '--max-num-batched-tokens', '--max-model-len', '--num-gpu-blocks']

// A slider of factors is logarithmic: from a quarter to four times.
const least = -2
const most = 2
const factor = (v: string | null): number => {
  const f = Number(v)
  return f > 0 && Number.isFinite(f) ? Math.min(Math.max(f, 2 ** least), 2 ** most) : 1
}
const tidy = (f: number): number => Number(f.toPrecision(2))

// WhatIfView shows the simulated effect of a change, which the URL holds.
export function WhatIfView() {
  const live = useLive()
  const route = useRoute()
  const q = route.query
  const names = [...new Set((live.overview?.models ?? []).map((m) => [m.cluster, m.namespace, m.model].filter(Boolean).join('/')))]
  const model = q.get('model') ?? names[0] ?? ''
  const flags = Object.fromEntries([...q].filter(([k]) => k.startsWith('--')))
  const replicas = Math.max(0, Math.round(Number(q.get('replicas')) || 0))
  const change = {
    ...(replicas > 0 ? { replicas } : {}),
    arrival_rate_factor: factor(q.get('load')), prompt_factor: factor(q.get('prompt')), output_factor: factor(q.get('output')), flags,
  }
  const body = JSON.stringify({ model, change })
  const [state, set] = useState<{ data?: WhatIf; error?: Error; busy: boolean; took?: number }>({ busy: true })
  const [round, again] = useState(0)
  const ready = names.length > 0
  useEffect(() => {
    if (!ready) return
    const stop = new AbortController()
    set((s) => ({ ...s, busy: true }))
    // Fetch when the slider rests.
    const timer = setTimeout(() => {
      const began = performance.now()
      postJSON<WhatIf>('/api/v1/simulate', JSON.parse(body), stop.signal).then(
        (data) => set({ data, busy: false, took: performance.now() - began }),
        (error) => stop.signal.aborted || set((s) => ({ data: s.data, error, busy: false })),
      )
    }, 250)
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [body, ready, round])
  const put = (name: string, value: string) => {
    const next: Record<string, string> = Object.fromEntries(q)
    next[name] = value
    navigate(urlOf('whatif', '', next), true)
  }
  if (!live.overview) return <Waiting what="the models" />
  if (!ready) return <Nothing title="Nothing to simulate">No model is watched.</Nothing>
  const settings = state.data?.settings
  const present = settings?.replicas ?? 0
  const changed = [...q].some(([k]) => k !== 'model')
  const all = Object.entries(settings?.flags ?? {})
  const [shownFlags, otherFlags] = [all.filter(([flag]) => usual.includes(flag)), all.filter(([flag]) => !usual.includes(flag))]
  const field = ([flag, value]: [string, string]) => (
    <label class="flag">
      <span><code>{flag}</code>{value && <span class="soft"> now {value}</span>}</span>
      <input value={flags[flag] ?? ''} placeholder={value || 'unknown'} maxLength={60} onChange={(e) => put(flag, e.currentTarget.value.trim())} />
    </label>
  )
  return (
    <>
      <h1 class="head">
        What if
        {names.length > 1 && (
          <select value={model} aria-label="Model" onChange={(e) => navigate(urlOf('whatif', '', { model: e.currentTarget.value }))}>
            {names.map((n) => <option value={n}>{n || 'the server'}</option>)}
          </select>
        )}
        {changed && <button type="button" class="small" onClick={() => navigate(urlOf('whatif', '', { model: names.length > 1 ? model : '' }))}>Reset</button>}
        <Copy text={location.href} label="Share" />
      </h1>
      <div class="two even">
        <section class="sliders">
          {factors.map(([name, title]) => {
            const f = factor(q.get(name))
            return (
              <label>
                <span>{title} <b>× {tidy(f)}</b></span>
                <input type="range" min={least} max={most} step={0.1} value={Math.log2(f)} data-slider={name}
                  onInput={(e) => { const v = tidy(2 ** Number(e.currentTarget.value)); put(name, v === 1 ? '' : String(v)) }} />
              </label>
            )
          })}
          <label>
            <span>Replicas <b>{replicas || present || '–'}</b>{replicas > 0 && present > 0 && replicas !== present && <span class="soft"> instead of {present}</span>}</span>
            <input type="range" min={1} max={Math.max(16, 2 * present)} step={1} value={replicas || present || 1} data-slider="replicas"
              onInput={(e) => put('replicas', Number(e.currentTarget.value) === present ? '' : e.currentTarget.value)} />
          </label>
          {shownFlags.map(field)}
          {otherFlags.length > 0 && (
            <details open={otherFlags.some(([flag]) => flags[flag])}>
              <summary>More settings</summary>
              {otherFlags.map(field)}
            </details>
          )}
        </section>
        <section>
          {state.error && <Problem error={state.error} again={() => again((n) => n + 1)} />}
          {state.busy && !state.data && !state.error && <p class="soft waiting" aria-busy="true">Simulating: this takes some seconds …</p>}
          {state.data && !state.error && <Answer data={state.data} busy={state.busy} changed={changed} />}
          {!state.error && state.data?.warnings.map((w) => <p class="warning">{openingSentence(w)}</p>)}
        </section>
      </div>
      {state.data && !state.error && (
        <section>
          <p class="soft">{openingSentence(state.data.basis)} {state.took !== undefined && `Simulated in ${formatNumber(state.took / 1000, 'seconds')}.`} Intervals: lowest and highest of several simulations.</p>
          {state.data.command && <Command text={state.data.command} />}
        </section>
      )}
    </>
  )
}

function Answer({ data, busy, changed }: { data: WhatIf; busy: boolean; changed: boolean }) {
  return (
    <div class={`scroll ${busy ? 'loading' : ''}`} data-answer tabIndex={0} role="region" aria-label="Simulated">
      <table class="whatif">
        <thead><tr><th>Simulated</th><th class="n">Now</th>{changed && <><th class="n">With the change</th><th class="n">Difference</th></>}<th class="wide-only">Interval</th></tr></thead>
        <tbody>
          {outcomes.map(([name, title, unit, less]) => {
            const p = data.present[name]
            const c = data.changed[name]
            if (!p && !c) return null
            const ratio = p?.value && c?.value !== null && c?.value !== undefined ? c.value / p.value : 1
            const good = !changed || (ratio > 0.95 && ratio < 1.05) ? '' : ratio < 1 === less ? 'good' : 'bad'
            const top = Math.max(p?.high ?? p?.value ?? 0, (changed && (c?.high ?? c?.value)) || 0, 1e-12)
            return (
              <tr>
                <td>{title}</td>
                <td class="n">{changed ? formatNumber(p?.value, unit) : <><b>{formatNumber(p?.value, unit)}</b> <small class="soft">{formatInterval(p, unit)}</small></>}</td>
                {changed && <td class="n"><b>{formatNumber(c?.value, unit)}</b> <small class="soft">{formatInterval(c, unit)}</small></td>}
                {changed && <td class={`n ${good}`}>{compared(c?.value, p?.value).replace('normal', '').replace('as usual', 'unchanged')}</td>}
                <td class="wide-only"><span class="ranges">{p?.value != null && <Range e={p} top={top} kind="before" />}{changed && c?.value != null && <Range e={c} top={top} />}</span></td>
              </tr>
            )
          })}
        </tbody>
      </table>
      <ul class="legend">
        <li><i style={{ background: 'var(--soft)' }} />now</li>
        {changed && <li><i style={{ background: 'var(--link)' }} />with the change</li>}
      </ul>
      {!changed && <p class="soft">Move a slider to simulate a change.</p>}
    </div>
  )
}
