import { render } from 'preact'
import { read } from './api'
import { App } from './app'
import { accept, follow } from './live'
import { startTheme } from './palette'
import './style.css'

startTheme()
// The server wrote the overview into the page: nothing has to be asked before the answer
// is there.
const written = document.getElementById('overview')?.textContent
if (written) {
  try {
    accept(read(written))
  } catch {
    // it is asked for
  }
}
const app = document.getElementById('app')
if (app) {
  app.replaceChildren()
  render(<App />, app)
  performance.mark('page')
}
follow()
