import { lazyRouteComponent } from '@tanstack/react-router'
import { useSession } from './api/session.ts'
import { ListPage } from './list/page.tsx'

const FleetPage = lazyRouteComponent(() => import('./sandbox/page.tsx'), 'FleetPage')

/** The first page: conversations of an agent server, sandboxes of a sandbox server. */
export function HomePage() {
  const session = useSession()
  return session.status === 'ready' && session.kind === 'sandbox' ? <FleetPage /> : <ListPage />
}
