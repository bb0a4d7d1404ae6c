import { type agentServerRoutes, conversationId } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'

type RouteName = keyof typeof agentServerRoutes

/** The request as a handler gets it. */
interface RoutedRequest {
  readonly params: unknown
  readonly body: unknown
  header(name: string): string | undefined
}

/** Routes that need the open conversation, or change it: the server that has its lease answers them. */
const ownerRoutes: readonly RouteName[] = [
  'askAgent',
  'condenseConversation',
  'deleteConversation',
  'forkConversation',
  'generateTitle',
  'getCheckpointDiff',
  'interruptConversation',
  'listCheckpoints',
  'loadPlugin',
  'navigateConversation',
  'patchConversation',
  'pauseConversation',
  'respondToConfirmation',
  'restoreCheckpoint',
  'resumeGoal',
  'runConversation',
  'sendMessage',
  'setConfirmationPolicy',
  'setSecurityAnalyzer',
  'startGoal',
  'stopGoal',
  'switchAcpModel',
  'switchLlm',
  'switchProfile',
  'updateSecrets',
]
const names = new Set<string>(ownerRoutes)

/** The conversation whose owner answers a request; undefined when any server does. */
export function ownedConversation(
  route: string,
  { params, body, header }: RoutedRequest,
): string | undefined {
  if (names.has(route)) return isRecord(params) ? String(params.conversation_id) : undefined
  // Repeated, it completes what a crash has interrupted.
  if (route === 'createConversation')
    return isRecord(body) && typeof body.conversation_id === 'string' ? body.conversation_id : undefined
  if (route !== 'completeChat') return undefined
  return conversationId.safeParse(header('x-openhands-serverconversation-id')).data
}
