import { randomUUID } from 'node:crypto'
import { closeOpenCalls, planModeAt, type ResolvedSettings } from '@slipway/agent'
import { Problem } from '@slipway/protocol'
import {
  type ConversationRecord,
  type ImportSession,
  type ReceivedEvent,
  type Storage,
  type StoredEvent,
  toReceivedEvent,
} from '@slipway/storage'
import { getConversationRecord } from '../conversation-info.ts'
import type { ConversationRegistry } from '../registry.ts'
import { readStoredRequest, readWireVersion } from '../stored-request.ts'

const batchSize = 500

interface ForkRequest {
  readonly id?: string | undefined
  readonly title?: string | undefined
  readonly tags?: Readonly<Record<string, string>> | undefined
  readonly reset_metrics: boolean
  readonly from_event_id?: string | undefined
}

/**
 * Copies a conversation up to and including an event, byte for byte, with its agent, secrets and settings.
 * Open calls are closed, and the new conversation is idle. A whole copy names no event that it was forked
 * from.
 */
export async function forkConversation(
  { storage, registry }: { readonly storage: Storage; readonly registry: ConversationRegistry },
  source: ConversationRecord,
  request: ForkRequest,
): Promise<ConversationRecord> {
  const { id = randomUUID(), title } = request
  const forkPoint = await resolveForkPoint(storage, source, request.from_event_id)
  const tags = { ...(request.tags ?? source.tags), ...(title === undefined ? {} : { title }) }
  const wire = readWireVersion(source)
  const { launched_agent_profile } = readStoredRequest(source)
  const origin = {
    wire: wire === 'seed' ? undefined : wire,
    launched_agent_profile,
    forked_from_conversation_id: source.id,
    forked_from_event_id: request.from_event_id,
  }
  const settingsAt = async (position: number) => {
    const settings = withoutSession((await registry.settings.read(source)).settings)
    if (settings.plan_mode === undefined) return settings
    const plan_mode = await planModeAt(storage.log, source.id, position)
    return { ...settings, plan_mode: plan_mode ?? settings.plan_mode }
  }
  const [existing] = await storage.conversations.get([id])
  if (existing !== undefined) throw new Problem('conflict', `Conversation with id ${id} already exists`)
  const sealed = source.request === null ? {} : registry.settings.seal(await settingsAt(forkPoint), origin)
  const stats = request.reset_metrics || source.stats === null ? {} : { stats: source.stats }
  const record = { title: title ?? null, tags, status: 'idle', ...sealed, ...stats }
  await copyEvents(storage, { from: source.id, to: id, end: forkPoint, record })
  await closeOpenCalls(storage.log, id, wire)
  return await getConversationRecord(storage.conversations, id)
}

/** A session of an external agent belongs to the conversation that it began in. */
function withoutSession({ agent_state, ...settings }: ResolvedSettings): ResolvedSettings {
  if (agent_state === undefined) return settings
  const { acp_session_id: _, acp_session_cwd: __, ...state } = agent_state
  return { ...settings, agent_state: state }
}

async function resolveForkPoint(
  storage: Storage,
  source: ConversationRecord,
  eventId: string | undefined,
): Promise<number> {
  if (eventId === undefined) return source.head
  const [event] = await storage.log.get(source.id, [eventId])
  if (event === undefined) throw new Problem('not_found', `Unknown from_event_id: ${eventId}`)
  return event.position
}

async function copyEvents(
  storage: Storage,
  fork: {
    readonly from: string
    readonly to: string
    readonly end: number
    readonly record: Parameters<ImportSession['publish']>[0]
  },
): Promise<void> {
  const { from, to, end, record } = fork
  const session = await storage.startImport(to)
  try {
    for (let position = 0; position < end; ) {
      const events = await storage.log.read(from, position, Math.min(batchSize, end - position))
      const last = events.at(-1)
      if (last === undefined) break
      position = last.position
      await session.add(events.map(toImportEvent))
    }
    await session.publish(record)
  } catch (error) {
    await session.abort()
    throw error
  }
}

function toImportEvent(event: StoredEvent): ReceivedEvent {
  const { bytes, instant } = event
  return toReceivedEvent(bytes, JSON.parse(bytes.toString()), { keep: true, last: event, now: instant })
}
