import { type Client, follow } from '@slipway/client'
import type { ConversationInfo } from '@slipway/protocol'
import type { ConversationSource, ConversationSummary } from './source.ts'

/** The conversations of an agent server. */
export function agentSource(client: Client, signal: AbortSignal): ConversationSource {
  const params = (id: string) => ({ conversation_id: id })
  return {
    kind: 'agent',
    async list({ limit, page_id, status }) {
      const query = { limit: String(limit), page_id, status, sort_order: 'UPDATED_AT_DESC' as const }
      const page = await client.call('searchConversations', { query, signal })
      return { items: page.items.map(summarize), nextPageId: page.next_page_id ?? undefined }
    },
    get: async (id) => summarize(await client.call('getConversation', { params: params(id), signal })),
    async rename(id, title) {
      await client.call('patchConversation', { params: params(id), body: { title }, signal })
    },
    async remove(id) {
      await client.call('deleteConversation', { params: params(id), signal })
    },
    agent: async () => client,
    async send(id, text) {
      await client.call('sendMessage', {
        params: params(id),
        body: { content: [{ type: 'text', text }], run: true },
        signal,
      })
    },
    consents: {
      list: () => client.call('listRepositoryConsents', { signal }),
      decide: (consent_id, decision) =>
        client.call('decideRepositoryConsent', { params: { consent_id }, body: { decision }, signal }),
      revoke: (consent_id) => client.call('revokeRepositoryConsent', { params: { consent_id }, signal }),
    },
    openEvents: (id, query) => client.open('searchEvents', { params: params(id), query, signal }),
    countEvents: (id, query) => client.call('countEvents', { params: params(id), query, signal }),
    exportEvents: (id, options) => client.exportEvents(id, { ...options, signal }),
    follow: (id, options) => follow(client, id, { ...options, signal }),
  }
}

function summarize(info: ConversationInfo): ConversationSummary {
  const { id, title, execution_status, created_at, updated_at } = info
  return {
    id,
    title: title ?? '',
    status: execution_status,
    createdAt: String(created_at),
    updatedAt: String(updated_at),
    info: { ...info },
  }
}
