import type { Quantity, Replica } from './types'

// A replica is odd if one of its numbers is far from the median of its model's replicas. This only guides the eye;
// verdicts do not use it.
const far = 5 // median absolute deviations
const part = 0.3 // of the median
const fewest = 4 // replicas with a usual value

// quantile returns a quantile of a list, interpolated between two values; NaN for an empty list.
export function quantile(list: number[], q: number): number {
  const s = [...list].sort((a, b) => a - b)
  const at = q * (s.length - 1)
  const low = Math.floor(at)
  return s.length === 0 ? NaN : s[low] + (at - low) * ((s[low + 1] ?? s[low]) - s[low])
}

export const median = (list: number[]): number => quantile(list, 0.5)

// findOutliers returns the median of a quantity, and for each replica whether it is far from that.
export function findOutliers(replicas: Replica[], name: Quantity): { usual: number; odd: boolean[] } {
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

// rankByDistance orders curves by their total distance from the median of all curves at each moment, the farthest
// first.
export function rankByDistance(curves: (number | null)[][]): number[] {
  const far = curves.map(() => 0)
  for (let t = 0; t < (curves[0]?.length ?? 0); t++) {
    const usual = median(curves.map((c) => c[t]).filter((v): v is number => v !== null))
    curves.forEach((c, i) => (far[i] += c[t] === null ? 0 : Math.abs((c[t] as number) - usual)))
  }
  return far.map((_, i) => i).sort((a, b) => far[b] - far[a])
}
