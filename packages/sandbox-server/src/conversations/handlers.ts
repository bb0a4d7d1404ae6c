import type { Handlers } from '@slipway/http'
import { type Llm, Problem, type sandboxServerRoutes } from '@slipway/protocol'
import type { AppConversationRow } from '@slipway/storage/control-plane'
import type { Accounts } from '../accounts/accounts.ts'
import { type Caller, getCaller, hideSessionKey } from '../auth/authenticator.ts'
import type { Organizations } from '../organizations/organizations.ts'
import type { AgentCalls } from './agent-calls.ts'
import type { Conversations } from './conversations.ts'
import type { ConversationDownloads } from './download.ts'
import type { PendingMessages } from './pending-messages.ts'
import { ownedGetter } from './read-owned.ts'
import { toHexId } from './records/conversation-ids.ts'

const success = { json: { success: true } }

export function appConversationHandlers(deps: {
  readonly conversations: Conversations
  readonly calls: AgentCalls
  readonly downloads: ConversationDownloads
  readonly pendingMessages: PendingMessages
  readonly accounts: Pick<Accounts, 'model'>
  readonly organizations: Pick<Organizations, 'sharedWith' | 'limitsOf'>
}) {
  const { conversations, calls, downloads, pendingMessages, organizations } = deps
  const getOwned = ownedGetter(conversations)
  const search = async (caller: Caller, query: Parameters<typeof conversations.search>[1]) => {
    const page = await conversations.search(caller, query)
    return { ...page, items: page.items.map((info) => hideSessionKey(caller, info)) }
  }
  return {
    async listAppConversations(request) {
      const { ids, ...query } = request.query
      const caller = getCaller(request)
      if (ids === undefined) return { json: await search(caller, query) }
      const rows = await conversations.findOwned(caller, ids)
      const infos = await conversations.toInfos(rows.filter((row) => row !== undefined))
      const byId = new Map(infos.map((info) => [info.id, info]))
      const found = ids.map((id) => byId.get(toHexId(id)))
      return { json: found.map((info) => (info === undefined ? null : hideSessionKey(caller, info))) }
    },
    async searchAppConversations(request) {
      return { json: await search(getCaller(request), request.query) }
    },
    async countAppConversations(request) {
      return { json: await conversations.count(getCaller(request), request.query) }
    },
    async patchAppConversation(request) {
      const { params, body } = request
      return { json: await conversations.update(getCaller(request), params.conversation_id, body) }
    },
    async deleteAppConversation(request) {
      await conversations.remove(getCaller(request), request.params.conversation_id)
      return success
    },
    async sendAppMessage(request) {
      const { body, signal } = request
      const key = request.header('idempotency-key')
      const sandbox_status = await calls.sendMessage(await getOwned(request), body, { key, signal })
      return { json: { success: true, sandbox_status, message: null } }
    },
    async switchAppProfile(request) {
      const row = await getOwned(request)
      const { profile_name: name } = request.body
      const llm = await findProfile(deps, row, name)
      await calls.switchModel(row, { name, llm }, request.signal)
      return success
    },
    async switchAppAcpModel(request) {
      const row = await getOwned(request)
      ;(await organizations.limitsOf(row.org)).requireModel(request.body)
      await calls.switchAcpModel(row, request.body.model, request.signal)
      return success
    },
    async downloadAppConversation(request) {
      const row = await getOwned(request)
      const [info] = await conversations.toInfos([row])
      // A file to pass on contains no key of a sandbox.
      const meta = { ...info, session_api_key: null, conversation_url: null }
      return {
        contentType: 'application/zip',
        headers: { 'content-disposition': `attachment; filename=conversation_${toHexId(row.id)}.zip` },
        chunks: downloads.zip(row.id, meta),
      }
    },
    async addPendingMessage(request) {
      const { params, body } = request
      const { id, position } = await pendingMessages.add(getCaller(request), params.target, body)
      return { status: 201, json: { id, queued: true, position } }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

/** A model of its owner, or one that the organisation shares; it must be allowed. */
async function findProfile(
  {
    accounts,
    organizations,
  }: Pick<Parameters<typeof appConversationHandlers>[0], 'accounts' | 'organizations'>,
  { owner, org }: AppConversationRow,
  profile: string,
): Promise<Llm> {
  const shared = await organizations.sharedWith(owner, org)
  const llm = await accounts.model(owner, { profile }, shared).catch((error: unknown) => {
    const isUnusable = error instanceof Problem && error.code === 'invalid'
    throw isUnusable ? new Problem('not_found', `Profile not found: ${profile}`) : error
  })
  ;(await organizations.limitsOf(org)).requireModel(llm)
  return llm
}
