import { Client, type SandboxServerClient } from '@slipway/client'
import type { AppConversation } from '@slipway/protocol'
import { Problem } from '@slipway/protocol/client'
import { getAppConversation, remoteEvents } from '../remote-events.ts'
import type { ConversationSource, ConversationSummary } from './source.ts'

/** The conversations of a sandbox server; what is stored of them is there when their sandbox does not run. */
export function sandboxSource(client: SandboxServerClient, signal: AbortSignal): ConversationSource {
  const params = (id: string) => ({ conversation_id: id })
  return {
    kind: 'sandbox',
    async list({ limit, page_id, status }) {
      const query = { limit: String(limit), page_id, sort_order: 'UPDATED_AT_DESC' as const }
      const page = await client.call('searchAppConversations', { query, signal })
      const items = page.items
        .map(summarize)
        .filter((item) => status === undefined || item.info.execution_status === status)
      return { items, nextPageId: page.next_page_id ?? undefined }
    },
    get: async (id) => summarize(await getAppConversation(client, id, signal)),
    async rename(id, title) {
      await client.call('patchAppConversation', { params: params(id), body: { title }, signal })
    },
    async remove(id) {
      await client.call('deleteAppConversation', { params: params(id), signal })
    },
    async agent(id) {
      const { conversation_url, session_api_key, sandbox_status, sandbox_id } = await getAppConversation(
        client,
        id,
        signal,
      )
      if (conversation_url === null) {
        throw new Problem(
          'conflict',
          `Its sandbox is ${sandbox_status}. Resume it with: slipway sandbox resume ${sandbox_id}`,
        )
      }
      const url = conversation_url.replace(/\/api\/.*$/, '')
      return new Client({ url, sessionApiKey: session_api_key ?? undefined })
    },
    async send(id, content) {
      await client.call('sendAppMessage', { params: params(id), body: { content }, signal })
    },
    consents: {
      list: () => client.call('listScriptConsents', { signal }),
      decide: (consent_id, decision) =>
        client.call('decideScriptConsent', { params: { consent_id }, body: { decision }, signal }),
      revoke: (consent_id) => client.call('revokeScriptConsent', { params: { consent_id }, signal }),
    },
    openEvents: (id, query) => client.open('searchHomeEvents', { params: params(id), query, signal }),
    countEvents: (id, query) => client.call('countHomeEvents', { params: params(id), query, signal }),
    async exportEvents(id, { format, meta, gzip }) {
      if (format !== 'jsonl')
        throw new Problem(
          'bad_request',
          `Sandbox servers export jsonl alone. Export it as jsonl, import it into an agent server, and export it there as ${format}.`,
        )
      const query = { meta: String(meta), gzip: String(gzip) }
      const response = await client.open('exportHomeEvents', { params: params(id), query, signal })
      return response.body ?? new Blob([]).stream()
    },
    follow: (id, { after, until }) =>
      remoteEvents(client, id, { signal, until, after: Number.parseInt(after, 10) || 0 }),
  }
}

function summarize(info: AppConversation): ConversationSummary {
  const { id, title, execution_status, sandbox_status, created_at, updated_at } = info
  return {
    id,
    title: title ?? '',
    status: execution_status ?? `sandbox ${sandbox_status.toLowerCase()}`,
    createdAt: String(created_at),
    updatedAt: String(updated_at),
    info: { ...info },
  }
}
