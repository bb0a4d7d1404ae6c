import { finalResponse } from '@slipway/agent'
import type { Handlers } from '@slipway/http'
import { type agentRoutes, invalid, Problem, type Wire, wire as wires } from '@slipway/protocol'
import { type ConversationRecord, exportEvents, gzipped } from '@slipway/storage'
import { type Conversations, missing } from '../../conversations/conversation-info.ts'
import { type CreateParts, createConversation } from '../../conversations/create.ts'
import { forkConversation } from '../../conversations/fork.ts'
import { importEvents } from '../../conversations/import.ts'
import { removeConversation } from '../../conversations/remove.ts'

type Routes = Pick<
  typeof agentRoutes,
  | 'createConversation'
  | 'getConversations'
  | 'searchConversations'
  | 'countConversations'
  | 'getConversation'
  | 'patchConversation'
  | 'deleteConversation'
  | 'forkConversation'
  | 'importConversation'
  | 'exportConversation'
  | 'finalResponse'
  | 'navigateConversation'
>

const success = { json: { success: true } }

export function conversationHandlers(options: {
  readonly create: CreateParts
  readonly conversations: Conversations
  /** Called by what changes something. */
  readonly touch: () => void
  /** Now, in microseconds. */
  readonly now: () => number
}): Handlers<Routes> {
  const { create, conversations, touch, now } = options
  const { storage, agents } = create
  const infos = (records: readonly (ConversationRecord | undefined)[], includeSkills: boolean | undefined) =>
    Promise.all(
      records.map(async (record) => {
        if (record === undefined) return null
        const loaded = await agents.peek(record.id)
        const skills = includeSkills ? await agents.skills(record) : []
        return await conversations.info(record, { skills, loaded })
      }),
    )
  return {
    async createConversation({ body, query, header }) {
      touch()
      const wire = wireOf(header('x-slipway-wire'))
      const { record, created } = await createConversation(create, body, wire)
      const [info] = await infos([record], query.include_skills)
      return { status: created ? 201 : 200, json: info }
    },
    async getConversations({ query }) {
      return { json: await infos(await storage.conversations.get(query.ids), query.include_skills) }
    },
    async searchConversations({ query }) {
      const { tag: tags, ...rest } = query
      const page = await storage.conversations.search({ ...rest, tags })
      return {
        json: { items: await infos(page.items, query.include_skills), next_page_id: page.next_page_id },
      }
    },
    async countConversations({ query }) {
      return { json: await storage.conversations.count({ status: query.status, tags: query.tag }) }
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
      const id = params.conversation_id
      if (!(await removeConversation({ storage, agents, conversations }, id))) throw missing(id)
      return success
    },
    async forkConversation({ params, query, body }) {
      touch()
      const source = await conversations.find(params.conversation_id)
      const fork = await forkConversation({ storage, agents }, source, body)
      const [info] = await infos([fork], query.include_skills)
      return { status: 201, json: info }
    },
    async navigateConversation({ params, query, body }) {
      touch()
      const record = await conversations.find(params.conversation_id)
      const conversation = await agents.find(record)
      if (conversation === undefined) throw new Problem('conflict', 'This conversation has no agent.')
      await conversation.navigate(body.event_id ?? null)
      const [info] = await infos([await conversations.find(record.id)], query.include_skills)
      return { json: info }
    },
    async finalResponse({ params }) {
      const { id } = await conversations.find(params.conversation_id)
      return { json: { response: await finalResponse(storage.log, id) } }
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

/** What the creator of a conversation asks for; undefined when nothing is said. */
function wireOf(text: string | undefined): Wire | undefined {
  if (text === undefined || text === '') return undefined
  const { data } = wires.safeParse(text)
  if (data !== undefined) return data
  throw invalid(['header', 'x-slipway-wire'], "Input should be 'seed' or 'current'", 'enum')
}
