import type { Handlers } from '@slipway/http'
import { type McpTestRequest, type mcpRoutes, Problem } from '@slipway/protocol'
import type { Cipher } from '@slipway/storage'
import { openSealedTexts } from '../../secrets/sealed-text.ts'
import { testMcpServer } from '../../settings/mcp-probe.ts'

const noOAuth =
  'This server does not sign in to MCP servers: set a token in the headers or auth of the MCP server.'

function refuseSignIn(): never {
  throw new Problem('not_found', 'There is no such sign-in')
}

/** Secrets of a request may be sealed. No answer has any. */
export function mcpHandlers(options: {
  readonly cipher: Cipher
  readonly environment: Readonly<Record<string, string>>
}): Handlers<typeof mcpRoutes> {
  const { cipher, environment } = options
  return {
    async testMcpServer({ body, signal }) {
      const server = openSealedTexts(cipher, body.server, ['body', 'server']) as McpTestRequest['server'] // texts for texts
      return { json: await testMcpServer({ ...body, server }, environment, signal) }
    },
    startMcpOAuth: () => ({ json: { ok: false, error: noOAuth, error_kind: 'unknown' } }),
    getMcpOAuthStatus: refuseSignIn,
    finishMcpOAuth: refuseSignIn,
  }
}
