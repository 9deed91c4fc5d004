import type { Quantity, Replica } from './types'

// A replica is odd where one of its numbers is far from those of the others of its model:
// by more than so many median absolute deviations, and by more than such a part of the
// median. It is for the eye; what is wrong, the verdict says.
const far = 5
const part = 0.3
const fewest = 4 // replicas that say what is usual

// quantile is that of a list, between two values where it falls between them; NaN of none.
export function quantile(list: number[], q: number): number {
  const s = [...list].sort((a, b) => a - b)
  const at = q * (s.length - 1)
  const low = Math.floor(at)
  return s.length === 0 ? NaN : s[low] + (at - low) * ((s[low + 1] ?? s[low]) - s[low])
}

export const median = (list: number[]): number => quantile(list, 0.5)

// odd returns, for each replica, whether it is far from the others, and their median.
export function odd(replicas: Replica[], name: Quantity): { usual: number; odd: boolean[] } {
  const known = replicas.map((r) => r.now[name]).filter((v): v is number => v !== null && v !== undefined)
  const usual = median(known)
  if (known.length < fewest) return { usual, odd: replicas.map(() => false) }
  const spread = 1.4826 * median(known.map((v) => Math.abs(v - usual)))
  return {
    usual,
    odd: replicas.map((r) => {
      const v = r.now[name]
      return v !== null && v !== undefined && Math.abs(v - usual) > Math.max(far * spread, part * Math.abs(usual), 1e-9)
    }),
  }
}

// rank orders curves by how far they are from the others: by their mean distance from the median
// of each moment, the farthest first.
export function rank(curves: (number | null)[][]): number[] {
  const far = curves.map(() => 0)
  for (let t = 0; t < (curves[0]?.length ?? 0); t++) {
    const usual = median(curves.map((c) => c[t]).filter((v): v is number => v !== null))
    curves.forEach((c, i) => (far[i] += c[t] === null ? 0 : Math.abs((c[t] as number) - usual)))
  }
  return far.map((_, i) => i).sort((a, b) => far[b] - far[a])
}
