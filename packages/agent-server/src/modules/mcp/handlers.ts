import type { Handlers } from '@slipway/http'
import type { McpTestRequest, mcpRoutes } from '@slipway/protocol'
import { mapMembers } from '@slipway/shared/json'
import type { Cipher } from '@slipway/storage'
import type { ConversationRegistry } from '../../core/conversations/registry.ts'
import { openSealedTexts, sealText } from '../../core/secrets/sealed-text.ts'
import type { McpOAuthJobs, McpOAuthStatus } from './mcp-oauth-jobs.ts'
import { testMcpServer } from './mcp-probe.ts'

/** Secrets of a request may be sealed. Those of an answer are. */
export function mcpHandlers(options: {
  readonly cipher: Cipher
  readonly environment: Readonly<Record<string, string>>
  readonly jobs: McpOAuthJobs
  readonly registry: Pick<ConversationRegistry, 'get'>
}): Handlers<typeof mcpRoutes> {
  const { cipher, environment, jobs, registry } = options
  const open = (body: McpTestRequest): McpTestRequest => {
    const server = openSealedTexts(cipher, body.server, ['body', 'server']) as McpTestRequest['server'] // texts for texts
    return { ...body, server }
  }
  const sealed = ({ oauth_state, ...status }: McpOAuthStatus) => ({
    json: oauth_state === undefined ? status : { ...status, oauth_state: sealTokens(cipher, oauth_state) },
  })
  return {
    async testMcpServer({ body, signal }) {
      return { json: await testMcpServer(open(body), environment, signal) }
    },
    startMcpOAuth: async ({ body }) => sealed(await jobs.start(open(body))),
    getMcpOAuthStatus: ({ params }) => sealed(jobs.get(params.job_id)),
    finishMcpOAuth: ({ params, body }) => sealed(jobs.finish(params.job_id, body.callback_url)),
    async listMcpPrompts({ params, signal }) {
      const prompts = await (await registry.get(params.conversation_id)).listPrompts(signal)
      const orNull = (text: string | undefined) => text ?? null
      return {
        json: {
          prompts: prompts.map(({ title, description, arguments: args, ...prompt }) => ({
            ...prompt,
            title: orNull(title),
            description: orNull(description),
            arguments: args.map((one) => ({ ...one, description: orNull(one.description) })),
          })),
        },
      }
    },
  }
}

/** A copy of the tokens that a client may store with the server, and reads nothing from. */
function sealTokens(cipher: Cipher, value: unknown): unknown {
  return mapMembers(value, (member, name) =>
    typeof member === 'string' && /^(?:(?:access|refresh|id)_token|client_secret)$/.test(String(name))
      ? sealText(cipher, member)
      : sealTokens(cipher, member),
  )
}
