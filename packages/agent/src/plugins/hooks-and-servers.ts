import { join } from 'node:path'
import {
  type HookConfig,
  hookConfig,
  hookEvents,
  type McpServer,
  mcpServer,
  validationIssues,
} from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import { readJson } from './read-json.ts'

const maxServers = 50

/** What reading one plugin goes along with. */
export interface PluginContext {
  /** Real path of its folder. */
  readonly root: string
  readonly name: string
  /** Of its manifest. */
  readonly members: Readonly<Record<string, unknown>>
  /** What was passed over is added. */
  readonly issues: string[]
}

/** The hooks of `hooks/hooks.json`, or of the file or the value that the manifest names. Events that are not known are left out. */
export async function readHooks(parts: PluginContext): Promise<HookConfig | undefined> {
  const value = await readPart(parts, parts.members.hooks, 'hooks/hooks.json')
  if (value === undefined) return undefined
  const knownNames: ReadonlySet<string> = new Set(hookEvents)
  const events = Object.entries(
    isRecord(value) && isRecord(value.hooks) ? value.hooks : isRecord(value) ? value : {},
  )
  const knownEvents = events.filter(([event]) => knownNames.has(snakeCase(event)))
  for (const [event] of events) {
    if (!knownNames.has(snakeCase(event)) && event !== 'description')
      parts.issues.push(`hooks: ${event.slice(0, 40)} is no event`)
  }
  const result = hookConfig.safeParse(Object.fromEntries(knownEvents))
  if (result.success) return knownEvents.length === 0 ? undefined : addRootVariables(result.data, parts.root)
  parts.issues.push(`hooks: ${issueText(result.error, value)}`)
  return undefined
}

/** The MCP servers of `.mcp.json`, or of the file or the value that the manifest names. */
export async function readServers(parts: PluginContext): Promise<Readonly<Record<string, McpServer>>> {
  const value = await readPart(parts, parts.members.mcpServers, '.mcp.json')
  if (value === undefined) return {}
  const config = isRecord(value) && isRecord(value.mcpServers) ? value.mcpServers : value
  const servers: [string, McpServer][] = []
  for (const [name, server] of Object.entries(isRecord(config) ? config : {}).slice(0, maxServers)) {
    const result = mcpServer.safeParse(substituteRoot(withTransport(server), parts.root))
    if (result.success) servers.push([name, result.data])
    else parts.issues.push(`MCP server ${name.slice(0, 100)}: ${issueText(result.error, server)}`)
  }
  return Object.fromEntries(servers)
}

/** A value that stands in the manifest, or in the file that it names, or in the usual file. */
async function readPart(parts: PluginContext, manifestValue: unknown, defaultPath: string): Promise<unknown> {
  if (isRecord(manifestValue)) return manifestValue
  const path = typeof manifestValue === 'string' ? manifestValue : defaultPath
  const read = await readJson(join(parts.root, path), parts.root)
  if (read !== undefined && 'value' in read) return read.value
  if (read !== undefined) parts.issues.push(`${path}: ${read.issue}`)
  else if (typeof manifestValue === 'string') parts.issues.push(`${path.slice(0, 200)}: is not there`)
  return undefined
}

/** Programs of hooks find the plugin's folder in their environment: so it needs no quoting where they name it. */
function addRootVariables(config: HookConfig, root: string): HookConfig {
  const quoted = `'${root.replaceAll("'", `'\\''`)}'`
  const exports = `CLAUDE_PLUGIN_ROOT=${quoted} OPENHANDS_PLUGIN_ROOT=${quoted}\nexport CLAUDE_PLUGIN_ROOT OPENHANDS_PLUGIN_ROOT\n`
  const matchers = (list: HookConfig['stop']): HookConfig['stop'] =>
    list.map(({ matcher, hooks }) => ({
      matcher,
      hooks: hooks.map((hook) => (hook.command === '' ? hook : { ...hook, command: exports + hook.command })),
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
function substituteRoot(value: unknown, root: string): unknown {
  if (typeof value === 'string') return value.replace(/\$\{(?:CLAUDE|OPENHANDS)_PLUGIN_ROOT\}/g, () => root)
  if (Array.isArray(value)) return value.map((item) => substituteRoot(item, root))
  if (!isRecord(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, substituteRoot(member, root)]),
  )
}

function snakeCase(name: string): string {
  return name.replace(/([a-z])([A-Z])/g, '$1_$2').toLowerCase()
}

function issueText(error: Parameters<typeof validationIssues>[0], value: unknown): string {
  const issues = validationIssues(error, [], value).slice(0, 5)
  return issues.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; ')
}
