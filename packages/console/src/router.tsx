import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  type RouteComponent,
} from '@tanstack/react-router'
import { baseUrl } from './api/session.ts'
import { NotFound, Shell } from './app/shell.tsx'
import { ConversationPage, HomePage, preloadConversation } from './both-servers.tsx'
import { parseListSearch } from './list/list-search.ts'
import { parseFilter } from './log/filters.ts'

const rootRoute = createRootRoute({ component: Shell, notFoundComponent: NotFound })

const page = <P extends string>(path: P, component: RouteComponent) =>
  createRoute({ getParentRoute: () => rootRoute, path, component })

const routes = [
  createRoute({
    getParentRoute: () => rootRoute,
    path: '/',
    component: HomePage,
    validateSearch: parseListSearch,
  }),
  createRoute({
    getParentRoute: () => rootRoute,
    path: '/c/$id',
    validateSearch: parseFilter,
    component: ConversationPage,
    loader: preloadConversation,
  }),
  page(
    '/new',
    lazyRouteComponent(() => import('./settings/new-conversation.tsx'), 'NewConversationPage'),
  ),
  page(
    '/settings',
    lazyRouteComponent(() => import('./settings/page.tsx'), 'SettingsPage'),
  ),
  page(
    '/settings/$section',
    lazyRouteComponent(() => import('./settings/page.tsx'), 'SettingsPage'),
  ),
  page(
    '/fleet/$section',
    lazyRouteComponent(() => import('./sandbox/page.tsx'), 'FleetPage'),
  ),
]

/** Addresses are below the one that the page was served from; filters are readable members of the search. */
export const router = createRouter({
  routeTree: rootRoute.addChildren(routes),
  basepath: new URL(baseUrl).pathname,
  scrollRestoration: false,
  defaultPreload: false,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
