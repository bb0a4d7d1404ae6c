import {
  MutationCache,
  QueryCache,
  QueryClient,
  type QueryKey,
  queryOptions,
  useMutation,
  useQuery,
} from '@tanstack/react-query'
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

/** Answers whose key begins so are asked for again. */
export function refresh(...queryKey: QueryKey): Promise<void> {
  return queryClient.invalidateQueries({ queryKey })
}

/** What a server answers, kept under `queryKey`. */
export function useAnswer<T>(queryKey: QueryKey, ask: (signal: AbortSignal) => Promise<T>) {
  return useQuery({ queryKey, queryFn: ({ signal }) => ask(signal) })
}

/** An action of a person; afterwards the answers below `queryKey` are asked for again. */
export function useAction<Result, Input = void>(
  queryKey: QueryKey,
  act: (input: Input) => Promise<Result>,
  onSuccess?: (result: Result, input: Input) => void,
) {
  return useMutation({
    mutationFn: act,
    onSuccess: (result, input) => onSuccess?.(result, input),
    onSettled: () => refresh(...queryKey),
  })
}

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
