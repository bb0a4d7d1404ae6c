import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createElement } from 'react'
import { renderToStaticMarkup } from 'react-dom/server'
import { expect, test, vi } from 'vitest'

// The address of the server is read from the document, once.
vi.stubGlobal('document', { baseURI: 'http://127.0.0.1/' })
const { Specs } = await import('./specs.tsx')
vi.unstubAllGlobals()

test('the default spec is marked, the others are not', async () => {
  const client = new QueryClient()
  const spec = { backend: 'process', image: null, network: 'open' }
  const items = [
    { ...spec, id: 'one', is_default: false },
    { ...spec, id: 'two', is_default: true },
  ]
  client.setQueryData(['sandbox-specs'], { items, next_page_id: null })
  const html = renderToStaticMarkup(createElement(QueryClientProvider, { client }, createElement(Specs)))
  const cells = [...html.matchAll(/data-label="Id">([^<]*)</g)].map(([, text]) => text)
  expect(cells).toEqual(['one', 'two (default)'])
})
