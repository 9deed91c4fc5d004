import { useState } from 'preact/hooks'
import { postJSON, useGet } from '../api'
import { monitorNow } from '../live'
import { remembered } from '../palette'
import type { Health, Settings, Summary } from '../types'
import { At, Mark, Name, Pick, Problem } from '../ui'

export const healthOfSeverity = (severity: string): Health => (severity === 'page' ? 'failing' : severity === 'ticket' ? 'degraded' : 'healthy')

// PhaseOf shows the phase of an incident.
export const PhaseOf = ({ i }: { i: Summary }) => (
  <>
    <Mark health={i.phase} />
    {i.phase === 'quiet' && i.quiet_since && <> since <At at={i.quiet_since} /></>}
    {i.phase === 'quiet' && i.closes_at && <>, closes at <At at={i.closes_at} /></>}
  </>
)

// useWrite posts a change with the reader's name, and returns its progress.
function useWrite(again: () => void) {
  const [state, set] = useState<{ busy: boolean; error?: Error }>({ busy: false })
  const write = async (path: string, body: object): Promise<boolean> => {
    set({ busy: true })
    const error = await postJSON(path, { by: remembered('name').trim(), ...body }).then(() => undefined, (e: Error) => e)
    set({ busy: false, error })
    if (!error) again()
    return !error
  }
  return { ...state, write }
}

// Acknowledge is the button that acknowledges an incident. It asks for a name once.
export function Acknowledge({ path, again }: { path: string; again: () => void }) {
  const [asks] = useState(!remembered('name').trim())
  const { busy, error, write } = useWrite(again)
  const send = (e: Event) => {
    e.preventDefault()
    void write(`${path}/acknowledge`, {})
  }
  if (!asks && !error) return <button type="button" class="main" disabled={busy} onClick={send}>Acknowledge</button>
  return (
    <Pick label="Acknowledge">
      <form class="inline" data-form="acknowledge" onSubmit={send}>
        <Name />
        <button disabled={busy}>Acknowledge</button>
        {error && <Problem error={error} />}
      </form>
    </Pick>
  )
}

// Silence silences the incident's alerts, if an Alertmanager is configured.
export function Silence({ path, again }: { path: string; again: () => void }) {
  const { data } = useGet<Settings>('/api/v1/settings')
  const { busy, error, write } = useWrite(again)
  const [until, setUntil] = useState(0)
  if (!data?.alertmanagers?.length) return null
  const send = async (e: SubmitEvent) => {
    e.preventDefault()
    const hours = Number((e.submitter as HTMLButtonElement).value)
    if (await write(`${path}/silence`, { hours })) setUntil(monitorNow() + hours * 3600e3)
  }
  return (
    <Pick label={until ? 'Silenced' : 'Silence'}>
      <form class="inline" data-form="silence" onSubmit={send}>
        {until ? <p>Silenced in Alertmanager until <At at={until} />.</p> : <Name />}
        {!until && <span>{[1, 4, 24].map((hours) => <><button value={hours} disabled={busy}>{hours} h</button> </>)}</span>}
        {error && <Problem error={error} />}
      </form>
    </Pick>
  )
}

export function Notes({ path, again }: { path: string; again: () => void }) {
  const [text, setText] = useState('')
  const { busy, error, write } = useWrite(again)
  const send = async (e: Event) => {
    e.preventDefault()
    if (text.trim() && (await write(`${path}/notes`, { text: text.trim() }))) setText('')
  }
  return (
    <section>
      <form class="note" onSubmit={send}>
        <Name />
        <textarea value={text} onInput={(e) => setText(e.currentTarget.value)} rows={3} maxLength={4000} placeholder="What was found, what was done" aria-label="Note" required />
        <button disabled={busy}>Add the note</button>
        {error && <Problem error={error} />}
      </form>
    </section>
  )
}
