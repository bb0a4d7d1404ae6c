import { createHash } from 'node:crypto'
import type { agentRoutes, RouteBody } from '@slipway/protocol'
import { invalid } from '@slipway/protocol'
import type { EventDraft, EventLog, Storage } from '@slipway/storage'
import { missing } from './conversations.ts'

type SendMessage = RouteBody<typeof agentRoutes.sendMessage>

/**
 * Puts a user message into the log; resolves when it is durable. A conversation that was finished or stuck goes back
 * to idle first, in the same transaction. With an idempotency key the same message sent again is stored once; the
 * same key with another message is a Problem `conflict`.
 */
export async function send(
  storage: Storage,
  conversation: string,
  message: SendMessage,
  key?: string,
): Promise<void> {
  if (key !== undefined && (key.length === 0 || key.length > 255)) {
    throw invalid(['header', 'idempotency-key'], 'String should have 1 to 255 characters', 'string_length')
  }
  const [record] = await storage.conversations.get([conversation])
  if (record === undefined) throw missing(conversation)
  const draft: EventDraft = {
    ...(key === undefined ? {} : { id: idFor(conversation, key) }),
    kind: 'MessageEvent',
    source: 'user',
    llm_message: { role: message.role, content: message.content, thinking_blocks: [] },
    activated_skills: [],
    extended_content: message.extended_content ?? [],
    sender: message.sender,
  }
  if (key !== undefined && (await wasSent(storage.log, conversation, draft))) return
  if (record.status !== 'finished' && record.status !== 'stuck') {
    await storage.log.append(conversation, [draft])
    return
  }
  const wake: EventDraft = {
    kind: 'ConversationStateUpdateEvent',
    source: 'environment',
    key: 'execution_status',
    value: 'idle',
  }
  await storage.log.append(conversation, [wake, draft], { record: { status: 'idle' } })
}

/** Appending a draft that is there answers the stored event, so a repeat needs no state update in front. */
async function wasSent(log: EventLog, conversation: string, draft: EventDraft): Promise<boolean> {
  const [stored] = await log.get(conversation, [String(draft.id)])
  if (stored === undefined) return false
  await log.append(conversation, [draft])
  return true
}

/** A UUID (version 8) that depends on nothing but the conversation and the key. */
function idFor(conversation: string, key: string): string {
  const hex = createHash('sha256').update(`${conversation}\n${key}`).digest('hex')
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 3) | 8).toString(16)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
