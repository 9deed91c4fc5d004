import { useLayoutEffect, useState } from 'preact/hooks'

// A Signal notifies its listeners that something changed.
export interface Signal {
  tell(): void
  listen(f: () => void): () => void
}

export function newSignal(): Signal {
  const listeners = new Set<() => void>()
  return {
    tell: () => [...listeners].forEach((f) => f()),
    listen: (f) => {
      listeners.add(f)
      return () => void listeners.delete(f)
    },
  }
}

// useSignal renders a component again at each notification of a signal.
export function useSignal(s: Signal): void {
  const [, render] = useState(0)
  useLayoutEffect(() => s.listen(() => render((n) => n + 1)), [])
}
