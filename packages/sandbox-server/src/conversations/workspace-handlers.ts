import type { Handlers } from '@slipway/http'
import { Problem, type sandboxServerRoutes } from '@slipway/protocol'
import { getCaller } from '../auth/authenticator.ts'
import { type AgentCalls, resolveProjectPath } from './agent-calls.ts'
import type { Conversations } from './conversations.ts'
import { ownedGetter } from './read-owned.ts'

/** Files, changes, skills and hooks of a conversation's workspace, which its agent server has. */
export function workspaceHandlers(deps: {
  readonly conversations: Pick<Conversations, 'findOwned' | 'getOwned'>
  readonly calls: AgentCalls
}) {
  const { conversations, calls } = deps
  const getOwned = ownedGetter(conversations)
  return {
    async readAppFile(request) {
      const { params, query, signal } = request
      const [row] = await conversations.findOwned(getCaller(request), [params.conversation_id])
      return { json: row === undefined ? '' : await calls.readFile(row, query.file_path, signal) }
    },
    async listAppFiles(request) {
      return { json: await calls.listFiles(await getOwned(request), request.query.path, request.signal) }
    },
    async appGitChanges(request) {
      const { query } = request
      const row = await getOwned(request)
      const changes = await calls.call(row, request.signal, (connection, signal) => {
        const path = resolveProjectPath(row, connection, query.path)
        return connection.client.call('gitChanges', { query: { ...query, path }, signal })
      })
      return { json: changes }
    },
    async appGitDiff(request) {
      const { query } = request
      const row = await getOwned(request)
      const diff = await calls.call(row, request.signal, (connection, signal) => {
        const path = resolveProjectPath(row, connection, query.path)
        return connection.client.call('gitDiff', { query: { ...query, path }, signal })
      })
      return { json: diff }
    },
    async appSkills(request) {
      return await withErrorMember(async () => ({
        json: { skills: await calls.skills(await getOwned(request), request.signal) },
      }))
    },
    async appHooks(request) {
      return await withErrorMember(async () => ({
        json: { hooks: await calls.hooks(await getOwned(request), request.signal) },
      }))
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

/**
 * These two routes tell of an unknown conversation in `error` (wire 1.1), beside the `detail` of all others.
 */
async function withErrorMember<T>(work: () => Promise<T>) {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== 'not_found') throw error
    return { status: 404, json: { error: error.message, detail: error.message } }
  }
}
