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
import { firstChars } from '@slipway/shared/text'
import { readJson } from './read-json.ts'

const maxServers = 50

/** The state of reading one plugin. */
export interface PluginContext {
  /** Real path of its folder. */
  readonly root: string
  readonly name: string
  /** The members of its manifest. */
  readonly members: Readonly<Record<string, unknown>>
  /** Skipped parts are added. */
  readonly issues: string[]
}

/** The hooks of `hooks/hooks.json`, or of the file or value in the manifest. Unknown events are skipped. */
export async function readHooks(parts: PluginContext): Promise<HookConfig | undefined> {
  const value = await readPart(parts, parts.members.hooks, 'hooks/hooks.json')
  if (value === undefined) return undefined
  const knownNames: ReadonlySet<string> = new Set(hookEvents)
  const config = isRecord(value) ? value : {}
  const events = Object.entries(isRecord(config.hooks) ? config.hooks : config)
  const isKnown = ([event]: [string, unknown]) => knownNames.has(snakeCase(event))
  const knownEvents = events.filter(isKnown)
  for (const entry of events) {
    if (!isKnown(entry) && entry[0] !== 'description')
      parts.issues.push(`hooks: ${firstChars(entry[0], 40)} is no event`)
  }
  const result = hookConfig.safeParse(Object.fromEntries(knownEvents))
  if (result.success) return knownEvents.length === 0 ? undefined : addRootVariables(result.data, parts.root)
  parts.issues.push(`hooks: ${issueText(result.error, value)}`)
  return undefined
}

/** The MCP servers of `.mcp.json`, or of the file or value in the manifest. */
export async function readServers(parts: PluginContext): Promise<Readonly<Record<string, McpServer>>> {
  const value = await readPart(parts, parts.members.mcpServers, '.mcp.json')
  if (value === undefined) return {}
  const config = isRecord(value) && isRecord(value.mcpServers) ? value.mcpServers : value
  const servers: [string, McpServer][] = []
  for (const [name, server] of Object.entries(isRecord(config) ? config : {}).slice(0, maxServers)) {
    const result = mcpServer.safeParse(substituteRoot(withTransport(server), parts.root))
    if (result.success) servers.push([name, result.data])
    else parts.issues.push(`MCP server ${firstChars(name, 100)}: ${issueText(result.error, server)}`)
  }
  return Object.fromEntries(servers)
}

/** A value of the manifest, of the file that it names, or of the default file. */
async function readPart(parts: PluginContext, manifestValue: unknown, defaultPath: string): Promise<unknown> {
  if (isRecord(manifestValue)) return manifestValue
  const path = typeof manifestValue === 'string' ? manifestValue : defaultPath
  const read = await readJson(join(parts.root, path), parts.root)
  if (read !== undefined && 'value' in read) return read.value
  if (read !== undefined) parts.issues.push(`${path}: ${read.issue}`)
  else if (typeof manifestValue === 'string') parts.issues.push(`${firstChars(path, 200)}: is missing`)
  return undefined
}

/** Commands of hooks get the plugin's folder as environment variables, so that it needs no quoting. */
function addRootVariables(config: HookConfig, root: string): HookConfig {
  const quoted = `'${root.replaceAll("'", `'\\''`)}'`
  const exports = `CLAUDE_PLUGIN_ROOT=${quoted} OPENHANDS_PLUGIN_ROOT=${quoted}\nexport CLAUDE_PLUGIN_ROOT OPENHANDS_PLUGIN_ROOT\n`
  const matchers = (list: HookConfig['stop']): HookConfig['stop'] =>
    list.map(({ matcher, hooks }) => ({
      matcher,
      hooks: hooks.map((hook) => (hook.command === '' ? hook : { ...hook, command: exports + hook.command })),
    }))
  const withVariables: HookConfig = { ...config }
  for (const event of hookEvents) withVariables[event] = matchers(config[event])
  return withVariables
}

/** Some configurations write the transport of a server as its `type`. */
function withTransport(server: unknown): unknown {
  if (!isRecord(server) || server.transport !== undefined) return server
  const { type, ...rest } = server
  return type === 'http' || type === 'sse' ? { ...rest, transport: type } : rest
}

/** Replaces the variables for the plugin's folder. */
export function substituteRootText(text: string, root: string): string {
  return text.replace(/\$\{(?:CLAUDE|OPENHANDS)_PLUGIN_ROOT\}/g, () => root)
}

function substituteRoot(value: unknown, root: string): unknown {
  if (typeof value === 'string') return substituteRootText(value, root)
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
