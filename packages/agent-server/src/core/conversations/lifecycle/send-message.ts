import { hash } from 'node:crypto'
import { invalidInput, type SendMessageRequest } from '@slipway/protocol'
import type { EventDraft, Storage } from '@slipway/storage'
import { getConversationRecord } from '../conversation-info.ts'
import type { ConversationRegistry } from '../registry.ts'
import { shrinkImages } from './message-images.ts'

/**
 * Appends a user message; durable when it resolves. Large images are shrunk. Without an agent, a finished or
 * stuck conversation becomes idle in the same transaction. An idempotency key stores a repeated message once;
 * the same key with another message is a Problem `conflict`.
 */
export async function sendMessage(
  { storage, registry }: { readonly storage: Storage; readonly registry: ConversationRegistry },
  conversation: string,
  options: {
    readonly message: SendMessageRequest
    readonly key?: string | undefined
    /** See `Conversation.send`. */
    readonly mayAnswer?: boolean
  },
): Promise<void> {
  const { key, mayAnswer = true } = options
  if (key !== undefined && (key.length === 0 || key.length > 255)) {
    const issue = 'String should have 1 to 255 characters'
    throw invalidInput(['header', 'idempotency-key'], issue, 'string_length')
  }
  const record = await getConversationRecord(storage.conversations, conversation)
  const loaded = await registry.load(record)
  const message = await shrinkImages(options.message, {
    directory: registry.conversationDirectory(conversation),
    loc: ['body'],
  })
  if (loaded !== undefined) {
    const id = key === undefined ? undefined : deriveEventId(conversation, 'message', key)
    await loaded.send(message, id, undefined, { mayAnswer })
    return
  }
  // An existing id is not written again, so a repetition changes nothing.
  const id = (what: string) => (key === undefined ? {} : { id: deriveEventId(conversation, what, key) })
  const event: EventDraft = {
    ...id('message'),
    kind: 'MessageEvent',
    source: 'user',
    llm_message: { role: message.role, content: message.content, thinking_blocks: [] },
    activated_skills: [],
    extended_content: message.extended_content ?? [],
    sender: message.sender,
  }
  if (record.status !== 'finished' && record.status !== 'stuck') {
    await storage.log.append(conversation, [event])
    return
  }
  const idle: EventDraft = {
    ...id('idle'),
    kind: 'ConversationStateUpdateEvent',
    source: 'environment',
    key: 'execution_status',
    value: 'idle',
  }
  await storage.log.append(conversation, [idle, event], { record: { status: 'idle' } })
}

/** A UUID (version 8) derived from the three values only. */
export function deriveEventId(conversation: string, what: string, key: string): string {
  const hex = hash('sha256', `${conversation}\n${what}\n${key}`)
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 3) | 8).toString(16)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
