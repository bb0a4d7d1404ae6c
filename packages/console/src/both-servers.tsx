import { lazyRouteComponent, useParams, useSearch } from '@tanstack/react-router'
import { isSandboxServer, useSession } from './api/session.ts'
import { onDemand } from './app/on-demand.tsx'
import { ListPage } from './list/page.tsx'

const FleetPage = onDemand(lazyRouteComponent(() => import('./sandbox/page.tsx'), 'FleetPage'))
const conversationFile = lazyRouteComponent(() => import('./conversation/page.tsx'), 'Conversation')
const Conversation = onDemand(conversationFile)
const AppConversation = onDemand(
  lazyRouteComponent(() => import('./sandbox/app-conversation.tsx'), 'AppConversation'),
)

/** Loads the file of a conversation's page while the session is asked for. */
export function preloadConversation(): void {
  void conversationFile.preload?.()
}

/** The first page: conversations of an agent server, sandboxes of a sandbox server. */
export function HomePage() {
  const session = useSession()
  return session.status === 'ready' && session.kind === 'sandbox' ? <FleetPage /> : <ListPage />
}

/** A conversation of an agent server, or one in a sandbox. */
export function ConversationPage() {
  const { id } = useParams({ from: '/c/$id' })
  const filter = useSearch({ from: '/c/$id' })
  const Page = isSandboxServer() ? AppConversation : Conversation
  // Another conversation is another window; nothing of the old one stays.
  return <Page key={id} id={id} filter={filter} />
}
