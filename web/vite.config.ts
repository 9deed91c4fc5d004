import { readFileSync } from 'node:fs'
import { defineConfig, type Plugin } from 'vite'

// The page has the colours of every other thing that sixty draws: package render's.
const render = (name: string) => readFileSync(new URL(`../internal/render/${name}`, import.meta.url), 'utf8')

function variables(style: string): { light: string; dark: string } {
  const found = [...style.matchAll(/:root \{([^}]*)\}/g)].map((m) => m[1].trim())
  if (found.length !== 2) throw new Error('internal/render/style.css: want one :root for light and one for dark')
  return { light: found[0], dark: found[1] }
}

function palette(): Plugin {
  return {
    name: 'palette',
    enforce: 'pre',
    transform(code, id) {
      if (!id.endsWith('/src/style.css')) return
      const { light, dark } = variables(render('style.css'))
      return (
        `:root { color-scheme: light dark; ${light} }\n` +
        `@media (prefers-color-scheme: dark) { :root { ${dark} } }\n` +
        `:root[data-theme=light] { color-scheme: light; ${light} }\n` +
        `:root[data-theme=dark] { color-scheme: dark; ${dark} }\n${code}`
      )
    },
  }
}

function colours(): string[] {
  const list = /var palette = \[\.\.\.\]string\{([^}]*)\}/.exec(render('chart.go'))
  if (!list) throw new Error('internal/render/chart.go: no list of colours')
  return list[1].split(',').map((c) => c.trim().replaceAll('"', ''))
}

export default defineConfig({
  base: './', // the page may be under a path of a proxy's
  plugins: [palette()],
  define: { COLOURS: JSON.stringify(colours()) },
  build: {
    outDir: '../internal/monitor/web/page/dist',
    emptyOutDir: true,
    manifest: 'manifest.json',
    target: 'es2022',
    modulePreload: { polyfill: false },
    rollupOptions: { input: 'src/main.tsx' },
  },
  server: { proxy: { '/api': 'http://127.0.0.1:6060', '/-': 'http://127.0.0.1:6060' } },
})
