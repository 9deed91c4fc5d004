import { useEffect, useRef, useState } from 'preact/hooks'
import { serverURL } from './route'

// A Failure is a request that failed, with a hint what to do about it.
export class Failure extends Error {
  constructor(
    message: string,
    readonly hint = '',
    readonly status = 0,
  ) {
    super(message)
  }
}

const readTimeout = 30_000 // ms
const computeTimeout = 65_000 // ms, for answers that are computed: the server takes at most a minute

// parseJSON parses JSON. Names come from foreign servers, so characters that would change the direction of the text
// around them become spaces, as on the command line.
export const parseJSON = (text: string): any => JSON.parse(text.replace(/[\u202a-\u202e\u2066-\u2069]|\\u(?:202[a-eA-E]|206[6-9])/g, ' '))

async function request(path: string, init: RequestInit, signal?: AbortSignal): Promise<unknown> {
  const most = init.method === 'POST' ? computeTimeout : readTimeout
  const late = AbortSignal.timeout(most)
  let response: Response
  try {
    response = await fetch(serverURL(path), { ...init, signal: signal ? AbortSignal.any([signal, late]) : late })
  } catch (e) {
    if (signal?.aborted) throw e
    if (late.aborted) throw new Failure(`sixty did not answer within ${most / 1000} s`, 'choose a shorter time range or fewer replicas, and check its log')
    throw new Failure('sixty does not answer', 'check that sixty serve is running and can be reached from this machine')
  }
  if (response.status === 401) location.reload() // the session ended: the server asks for the token
  let body: any
  try {
    body = parseJSON(await response.text())
  } catch {
    if (response.status === 404) throw new Failure(`sixty has no endpoint ${path.split('?')[0]}`, 'reload the page: it may be from another version', 404)
    throw new Failure(`sixty answered ${response.status} without JSON`, 'check whether a proxy in between answered instead', response.status)
  }
  if (!response.ok) throw new Failure(String(body?.error ?? `sixty answered ${response.status}`), String(body?.hint ?? ''), response.status)
  return body
}

export const getJSON = <T>(path: string, signal?: AbortSignal): Promise<T> => request(path, {}, signal) as Promise<T>

export const postJSON = <T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> =>
  request(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }, signal) as Promise<T>

export interface Asked<T> {
  data?: T
  error?: Error
  loading: boolean
  again: () => void
}

// seeded holds answers that the server wrote into the page. Each is used once.
const seeded = new Map<string, unknown>()

export const seedAnswer = (path: string, answer: unknown): void => void seeded.set(path, answer)

function takeSeeded<T>(path: string): T | undefined {
  const answer = seeded.get(path) as T | undefined
  seeded.delete(path)
  return answer
}

// useGet fetches a path, again whenever the path or the beat changes. The last answer stays until the same path is
// answered again; with keep, which is for paths that differ in their time only, until any path is answered.
export function useGet<T>(path: string, beat: unknown = 0, keep = false): Asked<T> {
  const [state, set] = useState<{ path: string; data?: T; error?: Error; loading: boolean }>(() => ({ path, data: takeSeeded<T>(path), loading: true }))
  const [round, again] = useState(0)
  const last = useRef(path)
  useEffect(() => {
    if (!path) return
    const stop = new AbortController()
    const kept = keep || last.current === path
    last.current = path
    set((s) => ({ path, data: kept ? s.data : undefined, error: kept ? s.error : undefined, loading: true }))
    getJSON<T>(path, stop.signal).then(
      (data) => set({ path, data, loading: false }),
      (error) => stop.signal.aborted || set((s) => ({ path, data: kept ? s.data : undefined, error, loading: false })),
    )
    return () => stop.abort()
  }, [path, beat, round])
  const current = keep || state.path === path ? state : { loading: true }
  return { ...current, again: () => again((n) => n + 1) }
}
