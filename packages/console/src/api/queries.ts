import { MutationCache, QueryCache, QueryClient, queryOptions } from '@tanstack/react-query'
import { agentServer, errorText, noteError, onReconnect } from './session.ts'
import { showToast } from './toasts.ts'

/** One cache for all answers. A failed action is shown as a message; a failed page shows its own state. */
export const queryClient = new QueryClient({
  defaultOptions: { queries: { retry: false, staleTime: 5_000 } },
  queryCache: new QueryCache({ onError: noteError }),
  mutationCache: new MutationCache({
    onError: (error) => {
      noteError(error)
      showToast({ text: errorText(error), tone: 'error' })
    },
  }),
})

onReconnect(() => void queryClient.invalidateQueries())

export const conversationQuery = (id: string) =>
  queryOptions({
    queryKey: ['conversation', id],
    queryFn: ({ signal }) => agentServer.call('getConversation', { params: { conversation_id: id }, signal }),
  })

export const profilesQuery = queryOptions({
  queryKey: ['profiles'],
  queryFn: ({ signal }) => agentServer.call('listProfiles', { signal }),
})
