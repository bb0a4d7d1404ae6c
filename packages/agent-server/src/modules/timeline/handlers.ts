import { describeView } from '@slipway/agent'
import type { Handlers } from '@slipway/http'
import type { agentServerRoutes } from '@slipway/protocol'
import { readRange, type Storage, searchTexts, Timelines } from '@slipway/storage'
import { getConversationRecord } from '../../core/conversations/conversation-info.ts'
import type { ConversationRegistry } from '../../core/conversations/registry.ts'

/** Parts of long logs by position, and the texts of many logs. */
export function timelineHandlers({
  storage,
  registry,
}: {
  readonly storage: Storage
  readonly registry: Pick<ConversationRegistry, 'peek'>
}) {
  const { log, conversations } = storage
  const timelines = new Timelines(log)
  const getRecord = (id: string) => getConversationRecord(conversations, id)
  return {
    async readEventRange({ params, query }) {
      return { bytes: await readRange(log, await getRecord(params.conversation_id), query) }
    },
    async eventsOverview({ params, query }) {
      return { json: await timelines.overview(await getRecord(params.conversation_id), query.buckets) }
    },
    async findEvents({ params, query }) {
      return { json: await timelines.find(await getRecord(params.conversation_id), query) }
    },
    async getModelView({ params }) {
      const { id } = await getRecord(params.conversation_id)
      const loaded = await registry.peek(id)
      if (loaded !== undefined) return { json: await describeView(id, log, { loaded }) }
      const { snapshot = null } = (await conversations.getSealedState(id)) ?? {}
      return { json: await describeView(id, log, { snapshot }) }
    },
    async searchConversationTexts({ query }) {
      const { status, tag: tags, sort_order, ...search } = query
      const list = (page: { readonly page_id: string | undefined; readonly limit: number }) =>
        conversations.search({ ...page, status, tags, sort_order })
      return { json: await searchTexts(log, list, search) }
    },
  } satisfies Partial<Handlers<typeof agentServerRoutes>>
}
