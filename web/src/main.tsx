import { render } from 'preact'
import { parseJSON, seedAnswer } from './api'
import { App } from './app'
import { acceptOverview, followEvents } from './live'
import { startTheme } from './palette'
import { startRoutes } from './route'
import type { Incident } from './types'
import './style.css'

startTheme()
startRoutes()
// What the server wrote into the page has not to be asked for before the answer is there.
function written<T>(id: string, use: (answer: T) => void): void {
  const text = document.getElementById(id)?.textContent
  if (!text) return
  try {
    use(parseJSON(text))
  } catch {
    // it is asked for
  }
}
written('overview', acceptOverview)
written<Incident>('incident', (i) => seedAnswer(`/api/v1/incidents/${encodeURIComponent(i.id)}`, i))
const app = document.getElementById('app')
if (app) {
  app.replaceChildren()
  render(<App />, app)
  performance.mark('page')
}
followEvents()
