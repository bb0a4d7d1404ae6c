import { randomUUID } from 'node:crypto'
import { branchOf, settle } from '@slipway/agent'
import { Problem } from '@slipway/protocol'
import {
  type ConversationRecord,
  type Import,
  type ReceivedEvent,
  received,
  type Storage,
  type StoredEvent,
} from '@slipway/storage'
import { findRecord } from './conversation-info.ts'
import type { Agents } from './registry.ts'
import { type KeptRequest, wireOf } from './stored-request.ts'

const batch = 500

interface ForkRequest {
  readonly id?: string | undefined
  readonly title?: string | undefined
  readonly tags?: Readonly<Record<string, string>> | undefined
  readonly reset_metrics: boolean
  readonly from_event_id?: string | undefined
}

/**
 * Copies a conversation up to and including an event, or all of it, into a new one: the same events, byte for byte, the same
 * agent, secrets and settings. What had no result at that point is answered, and the new conversation is idle.
 */
export async function forkConversation(
  { storage, agents }: { readonly storage: Storage; readonly agents: Agents },
  source: ConversationRecord,
  request: ForkRequest,
): Promise<ConversationRecord> {
  const { id = randomUUID(), title } = request
  const end = await endOf(storage, source, request.from_event_id)
  const tags = { ...(request.tags ?? source.tags), ...(title === undefined ? {} : { title }) }
  const wire = wireOf(source)
  const { launched_agent_profile }: KeptRequest = JSON.parse(source.request ?? '{}')
  const origin = {
    ...(wire === 'seed' ? {} : { wire }),
    ...(launched_agent_profile === undefined ? {} : { launched_agent_profile }),
    forked_from_conversation_id: source.id,
    ...(end.id === undefined ? {} : { forked_from_event_id: end.id }),
  }
  const [taken] = await storage.conversations.get([id])
  if (taken !== undefined)
    throw new Problem('conflict', `There is a conversation with this id already: ${id}`)
  const sealed = source.request === null ? {} : agents.seal(await agents.settings(source), origin)
  const stats = request.reset_metrics || source.stats === null ? {} : { stats: source.stats }
  const record = { title: title ?? null, tags, status: 'idle', ...sealed, ...stats }
  await copy(storage, { from: source.id, to: id, end: end.position, record })
  await settle(storage.log, id, wire)
  return await findRecord(storage.conversations, id)
}

async function endOf(
  storage: Storage,
  source: ConversationRecord,
  eventId: string | undefined,
): Promise<{ readonly position: number; readonly id: string | undefined }> {
  if (eventId === undefined) {
    const leaf = (await branchOf(storage.log, source.id)).leafAt(source.head)
    const [last] = leaf === 0 ? [] : await storage.log.read(source.id, leaf - 1, 1)
    return { position: source.head, id: last?.id }
  }
  const [event] = await storage.log.get(source.id, [eventId])
  if (event === undefined) throw new Problem('not_found', `Event not found: ${eventId}`)
  return { position: event.position, id: event.id }
}

async function copy(
  storage: Storage,
  fork: {
    readonly from: string
    readonly to: string
    readonly end: number
    readonly record: Parameters<Import['publish']>[0]
  },
): Promise<void> {
  const { from, to, end, record } = fork
  const into = await storage.startImport(to)
  try {
    for (let position = 0; position < end; ) {
      const events = await storage.log.read(from, position, Math.min(batch, end - position))
      const last = events.at(-1)
      if (last === undefined) break
      position = last.position
      await into.add(events.map(asReceived))
    }
    await into.publish(record)
  } catch (error) {
    await into.abort()
    throw error
  }
}

function asReceived({ bytes, instant }: StoredEvent): ReceivedEvent {
  return received(bytes, JSON.parse(bytes.toString()), { keep: true, lastInstant: instant, now: instant })
}
