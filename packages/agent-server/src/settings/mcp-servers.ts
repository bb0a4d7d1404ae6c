import {
  type AgentSettings,
  agentSettings,
  type McpServer,
  mcpServer,
  Problem,
  validated,
} from '@slipway/protocol'
import { mask, masked } from '../secrets/expose-secrets.ts'
import { mergePatch, unmasked } from './merge-patch.ts'
import type { ServerSettings } from './server-settings.ts'

type Servers = AgentSettings['mcp_config']
type Json = Readonly<Record<string, unknown>>

/** Adds an MCP server to the settings; a Problem `conflict` when there is one of the name. */
export async function addMcpServer(settings: ServerSettings, name: string, server: McpServer): Promise<void> {
  await changeServers(settings, (servers) => {
    if (Object.hasOwn(servers, name)) throw new Problem('conflict', `There is an MCP server ${name} already`)
    return { ...servers, [name]: parsed(unmasked(server, undefined, undefined)) }
  })
}

/** Merges a patch into one; a Problem `not_found` when there is none of the name. */
export async function changeMcpServer(settings: ServerSettings, name: string, patch: Json): Promise<void> {
  await changeServers(settings, (servers) => {
    const server = serverOf(servers, name)
    const wanted = unmasked(patch, masked(server, mask), server)
    return { ...servers, [name]: parsed(mergePatch(sameWay(server, patch), wanted)) }
  })
}

/** A Problem `not_found` when there is none of the name. */
export async function removeMcpServer(settings: ServerSettings, name: string): Promise<void> {
  await changeServers(settings, (servers) => {
    serverOf(servers, name)
    return Object.fromEntries(Object.entries(servers).filter(([other]) => other !== name))
  })
}

async function changeServers(settings: ServerSettings, work: (servers: Servers) => Servers): Promise<void> {
  await settings.change((kept) => {
    const { mcp_config } = agentSettings.parse(kept.agent_settings)
    return { ...kept, agent_settings: { ...kept.agent_settings, mcp_config: work(mcp_config) } }
  })
}

function serverOf(servers: Servers, name: string): McpServer {
  const server = Object.hasOwn(servers, name) ? servers[name] : undefined
  if (server === undefined) throw new Problem('not_found', `MCP server not found: ${name}`)
  return server
}

/** Without what leads to a process where the patch brings an address, and the other way round. */
function sameWay({ command, args, env, cwd, url, headers, auth, ...rest }: McpServer, patch: Json): Json {
  if (typeof patch.url === 'string' && command !== undefined) return rest
  if (typeof patch.command === 'string' && url !== undefined) return rest
  return { ...rest, command, args, env, cwd, url, headers, auth }
}

function parsed(value: unknown): McpServer {
  return validated(mcpServer, value, ['body'], 'Settings validation failed')
}
