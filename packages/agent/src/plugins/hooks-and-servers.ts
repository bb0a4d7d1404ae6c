import { join } from 'node:path'
import {
  faultsOf,
  type HookConfig,
  hookConfig,
  hookEvents,
  type McpServer,
  mcpServer,
} from '@slipway/protocol'
import { readJson } from './read-json.ts'

const maxServers = 50

/** What reading one plugin goes along with. */
export interface PluginParts {
  /** Real path of its folder. */
  readonly root: string
  readonly name: string
  /** Of its manifest. */
  readonly members: Readonly<Record<string, unknown>>
  /** What was passed over is added. */
  readonly faults: string[]
}

/** The hooks of `hooks/hooks.json`, or of the file or the value that the manifest names. Events that are not known are left out. */
export async function readHooks(parts: PluginParts): Promise<HookConfig | undefined> {
  const value = await partOf(parts, parts.members.hooks, 'hooks/hooks.json')
  if (value === undefined) return undefined
  const known: ReadonlySet<string> = new Set(hookEvents)
  const events = Object.entries(
    isRecord(value) && isRecord(value.hooks) ? value.hooks : isRecord(value) ? value : {},
  )
  const kept = events.filter(([event]) => known.has(snake(event)))
  for (const [event] of events) {
    if (!known.has(snake(event)) && event !== 'description')
      parts.faults.push(`hooks: ${event.slice(0, 40)} is no event`)
  }
  const result = hookConfig.safeParse(Object.fromEntries(kept))
  if (result.success) return kept.length === 0 ? undefined : withRoot(result.data, parts.root)
  parts.faults.push(`hooks: ${faultText(result.error, value)}`)
  return undefined
}

/** The MCP servers of `.mcp.json`, or of the file or the value that the manifest names. */
export async function readServers(parts: PluginParts): Promise<Readonly<Record<string, McpServer>>> {
  const value = await partOf(parts, parts.members.mcpServers, '.mcp.json')
  if (value === undefined) return {}
  const given = isRecord(value) && isRecord(value.mcpServers) ? value.mcpServers : value
  const servers: [string, McpServer][] = []
  for (const [name, server] of Object.entries(isRecord(given) ? given : {}).slice(0, maxServers)) {
    const result = mcpServer.safeParse(rooted(withTransport(server), parts.root))
    if (result.success) servers.push([name, result.data])
    else parts.faults.push(`MCP server ${name.slice(0, 100)}: ${faultText(result.error, server)}`)
  }
  return Object.fromEntries(servers)
}

/** A value that stands in the manifest, or in the file that it names, or in the usual file. */
async function partOf(parts: PluginParts, given: unknown, usual: string): Promise<unknown> {
  if (isRecord(given)) return given
  const path = typeof given === 'string' ? given : usual
  const read = await readJson(join(parts.root, path), parts.root)
  if (read !== undefined && 'value' in read) return read.value
  if (read !== undefined) parts.faults.push(`${path}: ${read.fault}`)
  else if (typeof given === 'string') parts.faults.push(`${path.slice(0, 200)}: is not there`)
  return undefined
}

/** Programs of hooks find the plugin's folder in their environment: so it needs no quoting where they name it. */
function withRoot(config: HookConfig, root: string): HookConfig {
  const quoted = `'${root.replaceAll("'", `'\\''`)}'`
  const lead = `CLAUDE_PLUGIN_ROOT=${quoted} OPENHANDS_PLUGIN_ROOT=${quoted}\nexport CLAUDE_PLUGIN_ROOT OPENHANDS_PLUGIN_ROOT\n`
  const matchers = (list: HookConfig['stop']): HookConfig['stop'] =>
    list.map(({ matcher, hooks }) => ({
      matcher,
      hooks: hooks.map((hook) => (hook.command === '' ? hook : { ...hook, command: lead + hook.command })),
    }))
  return {
    pre_tool_use: matchers(config.pre_tool_use),
    post_tool_use: matchers(config.post_tool_use),
    user_prompt_submit: matchers(config.user_prompt_submit),
    session_start: matchers(config.session_start),
    session_end: matchers(config.session_end),
    stop: matchers(config.stop),
  }
}

/** Some write the transport of a server as its `type`. */
function withTransport(server: unknown): unknown {
  if (!isRecord(server) || server.transport !== undefined) return server
  const { type, ...rest } = server
  return type === 'http' || type === 'sse' ? { ...rest, transport: type } : rest
}

/** A value in whose texts the plugin's folder is named. */
function rooted(value: unknown, root: string): unknown {
  if (typeof value === 'string') return value.replace(/\$\{(?:CLAUDE|OPENHANDS)_PLUGIN_ROOT\}/g, () => root)
  if (Array.isArray(value)) return value.map((item) => rooted(item, root))
  if (!isRecord(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, rooted(member, root)]))
}

function snake(name: string): string {
  return name.replace(/([a-z])([A-Z])/g, '$1_$2').toLowerCase()
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function faultText(error: Parameters<typeof faultsOf>[0], value: unknown): string {
  const faults = faultsOf(error, [], value).slice(0, 5)
  return faults.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; ')
}
