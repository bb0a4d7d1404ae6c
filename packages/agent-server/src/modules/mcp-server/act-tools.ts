import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { type McpServerToolInput, Problem } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import type { ConversationParts } from '../../core/conversations/parts.ts'
import type { ServerSettings } from '../settings/module.ts'
import type { Door } from './door.ts'

/** The tools of the scopes `act` and `answer`. */

export interface StartDeps {
  readonly settings: ServerSettings
  readonly models: ConversationParts['models']
  /** Parent of the working directories of conversations that name none. */
  readonly directory: string
}

/**
 * Model, agent and confirmations are those of the server's settings: a request of REST could bring programs
 * and switch confirmations off, and so needs a session key.
 */
async function startConversation(
  door: Door,
  { text, title, working_dir, profile, tags }: McpServerToolInput<'start_conversation'>,
  signal: AbortSignal,
  { settings, models, directory }: StartDeps,
) {
  door.assertMay('act', 'all')
  if (working_dir !== undefined && !working_dir.startsWith('/'))
    throw new Problem('bad_request', 'working_dir should be an absolute path')
  const name = profile ?? (await models.getActiveName()) ?? (await models.list())[0]?.name
  const llm = name === undefined ? undefined : await models.resolve(name)
  if (llm === undefined)
    throw new Problem(
      'not_found',
      profile === undefined ? 'The server has no saved model' : `There is no saved model ${profile}`,
    )
  const id = randomUUID()
  const body = {
    ...(await settings.getConfirmation()),
    conversation_id: id,
    agent_settings: { ...(await settings.getAgentSettings()), llm },
    workspace: { working_dir: working_dir ?? join(directory, id) },
    initial_message: { role: 'user', content: [{ type: 'text', text }], run: true },
    ...{ title, tags },
  }
  await door.callTrusted('createConversation', { body, signal })
  return { conversation_id: id }
}

async function sendMessage(
  door: Door,
  { conversation_id, text, run, idempotency_key }: McpServerToolInput<'send_message'>,
  signal: AbortSignal,
) {
  await door.call('sendMessage', {
    params: { conversation_id },
    body: { role: 'user', content: [{ type: 'text', text }], run },
    headers: { 'idempotency-key': idempotency_key },
    signal,
  })
  return { is_stored: true }
}

async function stopConversation(
  door: Door,
  { conversation_id, interrupt }: McpServerToolInput<'stop_conversation'>,
  signal: AbortSignal,
) {
  const route = interrupt ? 'interruptConversation' : 'pauseConversation'
  await door.call(route, { params: { conversation_id }, signal })
  return { is_stopped: true }
}

async function answerQuestion(
  door: Door,
  { conversation_id, ...answer }: McpServerToolInput<'answer_question'>,
  signal: AbortSignal,
) {
  const { json } = await door.call('respondToConfirmation', {
    params: { conversation_id },
    body: answer,
    signal,
  })
  return { is_answered: isRecord(json) && json.success === true }
}

export const actTools = {
  start_conversation: startConversation,
  send_message: sendMessage,
  stop_conversation: stopConversation,
  answer_question: answerQuestion,
}
