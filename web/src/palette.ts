import { newSignal, useSignal } from './signal'

declare const COLOURS: string[]

const isDark = () => {
  const chosen = document.documentElement.dataset.theme
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
}

// brighten returns a colour for a dark page, like style.css of internal/render.
function brighten(hex: string): string {
  const parts = [1, 3, 5].map((i) => Math.min(255, Math.round(parseInt(hex.slice(i, i + 2), 16) * 1.45)))
  return `rgb(${parts.join(' ')})`
}

// curveColour returns the colour of the n-th curve.
export const curveColour = (n: number): string => (isDark() ? brighten(COLOURS[n % COLOURS.length]) : COLOURS[n % COLOURS.length])

// symbols mark moments above a chart and in its legend.
export const symbols = { restart: '▲', deploy: '◆' } as const

// curveDash distinguishes curves of the same colour.
export const curveDash = (n: number): number[] => [[], [6, 3], [2, 3]][Math.floor(n / COLOURS.length) % 3]

// styleColour returns a colour of the style sheet as #rrggbb.
export const styleColour = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim().replace(/^#(\w)(\w)(\w)$/, '#$1$1$2$2$3$3')

const key = 'theme'
const themed = newSignal()
export const onTheme = themed.subscribe

export type Theme = '' | 'light' | 'dark'

export const currentTheme = (): Theme => (document.documentElement.dataset.theme as Theme | undefined) ?? ''

export function useTheme(): Theme {
  useSignal(themed)
  return currentTheme()
}

// nextTheme returns the theme that the key d changes to.
export const nextTheme = (): Theme => ({ '': 'dark', dark: 'light', light: '' } as const)[currentTheme()]

function applyTheme(t: string | null): void {
  if (t === 'light' || t === 'dark') document.documentElement.dataset.theme = t
  else delete document.documentElement.dataset.theme
  themed.notify()
}

export function setTheme(t: Theme): void {
  remember(key, t)
  applyTheme(t)
}

// startTheme applies the chosen theme, also when another tab changes it.
export function startTheme(): void {
  applyTheme(remembered(key))
  addEventListener('storage', (e) => e.key === `sixty.${key}` && applyTheme(e.newValue))
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => applyTheme(currentTheme()))
}

// A browser may refuse to store anything. Then values are kept until the page is left.
const kept = new Map<string, string>()
const changed = newSignal()

export function remembered(name: string): string {
  try {
    return localStorage.getItem(`sixty.${name}`) ?? ''
  } catch {
    return kept.get(name) ?? ''
  }
}

// useRemembered returns a value that this browser remembers, and renders again when it changes.
export function useRemembered(name: string): string {
  useSignal(changed)
  return remembered(name)
}

export function remember(name: string, value: string): void {
  try {
    if (value) localStorage.setItem(`sixty.${name}`, value)
    else localStorage.removeItem(`sixty.${name}`)
  } catch {
    kept.set(name, value)
  }
  changed.notify()
}
