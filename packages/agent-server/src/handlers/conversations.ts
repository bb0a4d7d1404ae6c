import type { Handlers } from '@slipway/http'
import { type agentRoutes, Problem } from '@slipway/protocol'
import type { ConversationRecord, Storage } from '@slipway/storage'
import { type Conversations, missing } from '../conversations.ts'
import { exportEvents, gzipped } from '../export.ts'
import { importEvents } from '../import.ts'
import { send } from '../messages.ts'

type Routes = Pick<
  typeof agentRoutes,
  | 'createConversation'
  | 'getConversations'
  | 'searchConversations'
  | 'countConversations'
  | 'getConversation'
  | 'patchConversation'
  | 'deleteConversation'
  | 'runConversation'
  | 'importConversation'
  | 'exportConversation'
>

const success = { json: { success: true } }

export function conversationHandlers(options: {
  readonly storage: Storage
  readonly conversations: Conversations
  /** Called by what changes something. */
  readonly touch: () => void
  /** Now, in microseconds. */
  readonly now: () => number
}): Handlers<Routes> {
  const { storage, conversations, touch, now } = options
  const infos = (records: readonly (ConversationRecord | undefined)[], includeSkills: boolean | undefined) =>
    Promise.all(
      records.map((record) =>
        record === undefined ? null : conversations.info(record, { includeSkills: includeSkills ?? false }),
      ),
    )
  return {
    async createConversation({ body, query }) {
      touch()
      const { record, created } = await conversations.create(body)
      if (created && body.initial_message)
        await send(storage, record.id, { ...body.initial_message, run: false })
      const [info] = await infos(await storage.conversations.get([record.id]), query.include_skills)
      return { status: created ? 201 : 200, json: info }
    },
    async getConversations({ query }) {
      return { json: await infos(await storage.conversations.get(query.ids), query.include_skills) }
    },
    async searchConversations({ query }) {
      const page = await storage.conversations.search(query)
      return {
        json: { items: await infos(page.items, query.include_skills), next_page_id: page.next_page_id },
      }
    },
    async countConversations({ query }) {
      return { json: await storage.conversations.count(query.status) }
    },
    async getConversation({ params, query }) {
      const [info] = await infos([await conversations.find(params.conversation_id)], query.include_skills)
      return { json: info }
    },
    async patchConversation({ params, body }) {
      touch()
      const { title, tags } = body
      const patched = await storage.conversations.patch(params.conversation_id, {
        ...(title === undefined ? {} : { title }),
        ...(tags === undefined ? {} : { tags }),
      })
      if (patched === undefined) throw missing(params.conversation_id)
      return success
    },
    async deleteConversation({ params }) {
      touch()
      if (!(await storage.conversations.remove(params.conversation_id))) throw missing(params.conversation_id)
      return success
    },
    async runConversation({ params }) {
      await conversations.find(params.conversation_id)
      throw new Problem('conflict', 'This conversation has no agent that could run.')
    },
    async importConversation({ query, stream }) {
      touch()
      return {
        status: 201,
        json: await importEvents(storage, stream, { keep: query.unknown === 'keep', now }),
      }
    },
    async exportConversation({ params, query }) {
      const record = await conversations.find(params.conversation_id)
      const chunks = exportEvents(storage.log, record, { meta: query.meta })
      const name = `${record.id}.jsonl${query.gzip ? '.gz' : ''}`
      const headers = { 'content-disposition': `attachment; filename="${name}"` }
      return query.gzip
        ? { chunks: gzipped(chunks), contentType: 'application/gzip', headers }
        : { chunks, contentType: 'application/x-ndjson', headers }
    },
  }
}
