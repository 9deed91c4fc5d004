import { h, type ComponentChildren, type VNode } from 'preact'

// What a runbook may be made of. Anything else is left out, its text kept.
const allowed = new Set(
  'p h1 h2 h3 h4 h5 h6 ul ol li em strong del code pre blockquote table thead tbody tr th td hr br a div'.split(' '),
)

// safeLink is an address that a runbook may lead to: a page, or a place on this one.
export function safeLink(href: string): string {
  try {
    const u = new URL(href, 'https://sixty.invalid/')
    return u.protocol === 'https:' || u.protocol === 'http:' ? href : ''
  } catch {
    return ''
  }
}

interface TrustedTypes {
  createPolicy(name: string, rules: { createHTML(s: string): string }): { createHTML(s: string): string }
}

// The parser makes a document that runs and loads nothing; its text never reaches this
// page as HTML.
const parser: { createHTML(s: string): string } =
  (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes?.createPolicy('sixty', { createHTML: (s) => s }) ?? { createHTML: (s) => s }

function nodes(list: NodeListOf<ChildNode>): ComponentChildren[] {
  return Array.from(list, (n): ComponentChildren => {
    if (n.nodeType === Node.TEXT_NODE) return n.textContent
    if (!(n instanceof Element)) return null
    const tag = n.tagName.toLowerCase()
    if (tag === 'script' || tag === 'style') return null
    const inner = nodes(n.childNodes)
    if (!allowed.has(tag)) return inner
    if (tag === 'a') {
      const href = safeLink(n.getAttribute('href') ?? '')
      return href ? h('a', { href, rel: 'noreferrer' }, inner) : inner
    }
    if (tag === 'table') return h('div', { class: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'Table' }, h('table', null, inner))
    if (tag === 'pre') return h('pre', { tabIndex: 0 }, inner)
    return h(tag, null, inner)
  })
}

// Markup shows HTML that the server made of a runbook.
export function Markup({ html }: { html: string }): VNode {
  const doc = new DOMParser().parseFromString(parser.createHTML(html) as string, 'text/html')
  return <div class="markup">{nodes(doc.body.childNodes)}</div>
}
