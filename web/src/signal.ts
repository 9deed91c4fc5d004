import { useLayoutEffect, useState } from 'preact/hooks'

// A Signal notifies its listeners that something changed.
export interface Signal {
  notify(): void
  subscribe(f: () => void): () => void
}

export function newSignal(): Signal {
  const listeners = new Set<() => void>()
  return {
    notify: () => [...listeners].forEach((f) => f()),
    subscribe: (f) => {
      listeners.add(f)
      return () => void listeners.delete(f)
    },
  }
}

// useSignal renders a component again at each notification of a signal.
export function useSignal(s: Signal): void {
  const [, render] = useState(0)
  useLayoutEffect(() => s.subscribe(() => render((n) => n + 1)), [])
}
