import { newSignal, useSignal } from './signal'

declare const COLOURS: string[]

const dark = () => {
  const chosen = document.documentElement.dataset.theme
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
}

// bright returns a colour for a dark page, like style.css of internal/render.
function bright(hex: string): string {
  const parts = [1, 3, 5].map((i) => Math.min(255, Math.round(parseInt(hex.slice(i, i + 2), 16) * 1.45)))
  return `rgb(${parts.join(' ')})`
}

// colour returns the colour of the n-th curve.
export const colour = (n: number): string => (dark() ? bright(COLOURS[n % COLOURS.length]) : COLOURS[n % COLOURS.length])

// symbols mark moments above a chart and in its legend.
export const symbols = { restart: '▲', deploy: '◆' } as const

// dash distinguishes curves of the same colour.
export const dash = (n: number): number[] => [[], [6, 3], [2, 3]][Math.floor(n / COLOURS.length) % 3]

// css returns a colour of the style sheet as #rrggbb.
export const css = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim().replace(/^#(\w)(\w)(\w)$/, '#$1$1$2$2$3$3')

const key = 'theme'
const themed = newSignal()
export const onTheme = themed.listen

export type Theme = '' | 'light' | 'dark'

export const theme = (): Theme => (document.documentElement.dataset.theme as Theme | undefined) ?? ''

export function useTheme(): Theme {
  useSignal(themed)
  return theme()
}

// nextTheme returns the theme that the key d changes to.
export const nextTheme = (): Theme => ({ '': 'dark', dark: 'light', light: '' } as const)[theme()]

function apply(t: string | null): void {
  if (t === 'light' || t === 'dark') document.documentElement.dataset.theme = t
  else delete document.documentElement.dataset.theme
  themed.tell()
}

export function setTheme(t: Theme): void {
  remember(key, t)
  apply(t)
}

// startTheme applies the chosen theme, also when another tab changes it.
export function startTheme(): void {
  apply(remembered(key))
  addEventListener('storage', (e) => e.key === `sixty.${key}` && apply(e.newValue))
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => apply(theme()))
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
  changed.tell()
}
