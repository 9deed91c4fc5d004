import type { Numbers, Replica } from './types'

// A replica is odd where one of its numbers is far from those of the others of its model:
// by more than so many median absolute deviations, and by more than such a part of the
// median. It is for the eye; what is wrong, the verdict says.
const far = 5
const part = 0.3
const fewest = 4 // replicas that say what is usual

export function median(list: number[]): number {
  const s = [...list].sort((a, b) => a - b)
  const m = s.length >> 1
  return s.length === 0 ? NaN : s.length % 2 ? s[m] : (s[m - 1] + s[m]) / 2
}

// odd returns, for each replica, whether it is far from the others, and their median.
export function odd(replicas: Replica[], name: keyof Numbers): { usual: number; odd: boolean[] } {
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
