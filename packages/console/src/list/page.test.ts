import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import {
  createMemoryHistory,
  createRootRoute,
  createRoute,
  createRouter,
  RouterProvider,
} from '@tanstack/react-router'
import { createElement } from 'react'
import { renderToStaticMarkup } from 'react-dom/server'
import { expect, test, vi } from 'vitest'

// The address of the server is read from the document, once.
vi.stubGlobal('document', { baseURI: 'http://127.0.0.1/' })
const { ListPage } = await import('./page.tsx')
vi.unstubAllGlobals()

/** The page as it is first shown, where the server has answered with these pages of conversations. */
async function render(pages?: readonly object[]): Promise<string> {
  const client = new QueryClient()
  if (pages !== undefined)
    client.setQueryData(['conversations', undefined, undefined], { pages, pageParams: [undefined] })
  const root = createRootRoute()
  const route = createRoute({ getParentRoute: () => root, path: '/', component: ListPage })
  const router = createRouter({
    routeTree: root.addChildren([route]),
    history: createMemoryHistory({ initialEntries: ['/'] }),
  })
  await router.load()
  const page = createElement(RouterProvider, { router } as never)
  return renderToStaticMarkup(createElement(QueryClientProvider, { client }, page))
}

test('the list says that it loads until the server has answered', async () => {
  expect(await render()).toContain('Loading …')
  const empty = await render([{ items: [], next_page_id: null }])
  expect(empty).not.toContain('Loading …')
  expect(empty).toContain('No conversations yet')
})
