import {
  type AgentSettings,
  agentSettings,
  checkMcpAuth,
  checkMcpFolder,
  checkMcpTransport,
  type McpServer,
  mcpServer,
  Problem,
  parseOrThrow,
} from '@slipway/protocol'
import { mergePatch, ownMember, restoreRedacted, withoutMember } from '@slipway/shared/json'
import { redactedText } from '@slipway/shared/redaction'
import { redactSecrets } from '../../core/secrets/expose-secrets.ts'
import type { ServerSettings } from './server-settings.ts'

type McpServers = AgentSettings['mcp_config']
type JsonObject = Readonly<Record<string, unknown>>

/** Adds an MCP server to the settings; a Problem `conflict` when the name is in use. */
export async function addMcpServer(settings: ServerSettings, name: string, server: McpServer): Promise<void> {
  await updateServers(settings, (servers) => {
    if (Object.hasOwn(servers, name)) throw new Problem('conflict', `MCP server '${name}' already exists`)
    return { ...servers, [name]: parseServer(restoreRedacted(server, undefined, undefined)) }
  })
}

/** Merges a patch into an MCP server; a Problem `not_found` when there is none of the name. */
export async function patchMcpServer(
  settings: ServerSettings,
  name: string,
  patch: JsonObject,
): Promise<void> {
  await updateServers(settings, (servers) => {
    const server = getServer(servers, name)
    const restoredPatch = restoreRedacted(patch, redactSecrets(server, redactedText), server)
    const merged = mergePatch(withoutOtherTransport(server, patch), restoredPatch)
    const changesStart = ['command', 'args', 'cwd'].some((member) => Object.hasOwn(patch, member))
    return { ...servers, [name]: parseServer(merged, changesStart) }
  })
}

/** A Problem `not_found` when there is none of the name. */
export async function removeMcpServer(settings: ServerSettings, name: string): Promise<void> {
  await updateServers(settings, (servers) => {
    getServer(servers, name)
    return withoutMember(servers, name)
  })
}

async function updateServers(
  settings: ServerSettings,
  update: (servers: McpServers) => McpServers,
): Promise<void> {
  await settings.modify((current) => {
    const { agent_settings: stored } = current
    const { mcp_config } = agentSettings.parse({ mcp_config: stored.mcp_config })
    return { ...current, agent_settings: { ...stored, mcp_config: update(mcp_config) } }
  })
}

function getServer(servers: McpServers, name: string): McpServer {
  const server = ownMember(servers, name)
  if (server === undefined) throw new Problem('not_found', `MCP server '${name}' was not found`)
  return server
}

/** Without the members of the other transport when the patch changes it from process to URL or back. */
function withoutOtherTransport(
  { command, args, env, cwd, url, headers, auth, ...rest }: McpServer,
  patch: JsonObject,
): JsonObject {
  if (typeof patch.url === 'string' && command !== undefined) return rest
  if (typeof patch.command === 'string' && url !== undefined) return rest
  return { ...rest, command, args, env, cwd, url, headers, auth }
}

/** What works, with `enabled`: a server that cannot be meant is not stored. */
const storedServer = mcpServer
  .superRefine(checkMcpAuth)
  .superRefine(checkMcpTransport)
  .transform((server) => ({ ...server, enabled: server.enabled ?? server.disabled !== true }))

/**
 * The rule is not applied to a server that is off or whose start is unchanged: it may be from before the
 * rule.
 */
const startedServer = storedServer.superRefine((server, context) => {
  if (server.enabled) checkMcpFolder(server, context)
})

function parseServer(value: unknown, changesStart = true): McpServer {
  const schema = changesStart ? startedServer : storedServer
  return parseOrThrow(schema, value, ['body'], 'Settings validation failed')
}
