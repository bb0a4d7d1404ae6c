import {
  type agentServerRoutes,
  continuedConversation,
  conversationId,
  conversationWorkspaceRoutes,
  parseResponseId,
} from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'

type RouteName = keyof typeof agentServerRoutes

/** The request as a handler gets it. */
interface RoutedRequest {
  readonly params: unknown
  readonly body: unknown
  header(name: string): string | undefined
}

/**
 * Routes that need the open conversation or its files, or change it: the server that has its lease answers
 * them.
 */
const ownerRoutes: readonly RouteName[] = [
  'activateCredentialBinding',
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
  'workspaceFile',
  'workspaceRoot',
]
const names = new Set<string>(ownerRoutes)
/** The workspace is a directory of the owner, and so are the commands that run in it and their output. */
const workspaceNames = new Set(Object.keys(conversationWorkspaceRoutes))

/** The conversation whose owner answers a request; undefined when any server does. */
export function ownedConversation(
  route: string,
  { params, body, header }: RoutedRequest,
): string | undefined {
  if (names.has(route)) return isRecord(params) ? String(params.conversation_id) : undefined
  if (workspaceNames.has(route)) return isRecord(params) ? String(params.runtime_conversation_id) : undefined
  // Repeated, it completes what a crash has interrupted.
  if (route === 'createConversation')
    return isRecord(body) && typeof body.conversation_id === 'string' ? body.conversation_id : undefined
  if (route === 'deleteResponse' || route === 'cancelResponse')
    return isRecord(params) ? parseResponseId(String(params.response_id))?.conversation : undefined
  if (route === 'createResponse') return continuedConversation(body)
  if (route !== 'completeChat') return undefined
  const named = conversationId.safeParse(header('x-openhands-serverconversation-id')).data
  return named ?? continuedConversation(body)
}
