import { resolve } from 'node:path'
import { type McpServer, mcpFolderIssue, workspaceFolder } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import { minSecretLength } from '@slipway/shared/redaction'
import { workspaceVariable } from '../../workspace/program-folder.ts'
import type { ToolContext } from '../core/tool.ts'
import { McpConnectionError } from './connection-error.ts'
import { accessToken } from './oauth.ts'

/** How to connect to a server, with the values of secrets filled in. */
export type McpEndpoint =
  | {
      readonly kind: 'process'
      readonly command: string
      readonly args: readonly string[]
      readonly env: Readonly<Record<string, string>>
      /** Undefined: its own empty folder. */
      readonly cwd: string | undefined
    }
  | {
      readonly kind: 'http'
      readonly url: URL
      readonly headers: Readonly<Record<string, string>>
      /** `any`: streamable HTTP, with server-sent events as fallback. */
      readonly transport: 'streamable' | 'sse' | 'any'
    }

const secretNamePattern = /authorization|cookie|credential|key|pass|secret|token/i

/**
 * Fills secrets into a server's settings and redacts values that look secret. Rejects with
 * McpConnectionError.
 */
export async function resolveEndpoint(
  server: McpServer,
  { secrets, workspace, mcpOAuth }: Pick<ToolContext, 'secrets' | 'workspace' | 'mcpOAuth'>,
): Promise<McpEndpoint> {
  const { command, url } = server
  if (command !== undefined) {
    const issue = mcpFolderIssue(server)
    if (issue !== undefined) throw new McpConnectionError(issue)
    const args = await expandTexts(server.args ?? [], secrets)
    const own = await expandRecord(server.env ?? {}, secrets)
    assertFetched(server, secrets)
    const env = { [workspaceVariable]: workspace.directory, ...own }
    return { kind: 'process', command, args, env, cwd: findFolder(server.cwd, workspace.directory) }
  }
  const [address = ''] = await expandTexts([url ?? ''], secrets)
  const parsed = URL.parse(address)
  if (parsed === null || !/^https?:$/.test(parsed.protocol))
    throw new McpConnectionError('its url is no http or https address')
  const settings: unknown = await secrets.expand(server.auth)
  const auth =
    isRecord(settings) && settings.strategy === 'oauth2'
      ? { Authorization: `Bearer ${await accessToken(parsed.href, settings, mcpOAuth)}` }
      : authHeaders(settings)
  // With and without the authorization scheme.
  for (const value of Object.values(auth))
    for (const secretPart of [value, value.replace(/^\w+ /, '')]) secrets.addValue(secretPart)
  const headers = { ...(await expandRecord(server.headers ?? {}, secrets)), ...auth }
  assertFetched(server, secrets)
  return { kind: 'http', url: parsed, headers, transport: resolveTransport(server.transport, parsed) }
}

function findFolder(cwd: string | undefined, workspace: string): string | undefined {
  if (cwd === undefined) return undefined
  return cwd === workspaceFolder ? workspace : resolve(workspace, cwd)
}

function assertFetched(server: McpServer, secrets: ToolContext['secrets']): void {
  const missing = secrets.lookupFailure(server)
  if (missing !== undefined) throw new McpConnectionError(missing)
}

async function expandTexts(texts: readonly string[], secrets: ToolContext['secrets']): Promise<string[]> {
  return await Promise.all(texts.map(async (text) => String(await secrets.expand(text))))
}

async function expandRecord(
  record: Readonly<Record<string, string>>,
  secrets: ToolContext['secrets'],
): Promise<Record<string, string>> {
  const names = Object.keys(record)
  const values = await expandTexts(Object.values(record), secrets)
  const entries = names.map((name, at): [string, string] => [name, values[at] ?? ''])
  for (const [name, value] of entries) {
    if (secretNamePattern.test(name) && value.length >= minSecretLength) secrets.addValue(value)
  }
  return Object.fromEntries(entries)
}

function resolveTransport(requested: string | undefined, url: URL): 'streamable' | 'sse' | 'any' {
  if (requested === undefined || requested === '') return /\/sse\/?$/.test(url.pathname) ? 'sse' : 'any'
  if (requested === 'sse') return 'sse'
  if (['http', 'shttp', 'streamable-http', 'streamable_http'].includes(requested)) return 'streamable'
  throw new McpConnectionError('its transport is none of http, streamable-http, shttp and sse')
}

/** The headers of an `auth`: a bearer token as text, or an object with a `strategy`. */
function authHeaders(auth: unknown): Record<string, string> {
  if (auth === undefined || auth === null || auth === '') return {}
  if (auth === 'oauth')
    throw new McpConnectionError(
      'OAuth needs an auth with the strategy oauth2: sign in to it, or give it a token',
    )
  if (typeof auth === 'string') return { Authorization: `Bearer ${auth}` }
  const { strategy, value, header_name, username, password, headers }: Record<string, unknown> = { ...auth }
  if (strategy === 'none') return {}
  if (strategy === 'bearer' && typeof value === 'string') return { Authorization: `Bearer ${value}` }
  if (strategy === 'api_key' && typeof value === 'string')
    return { [typeof header_name === 'string' ? header_name : 'X-API-Key']: value }
  if (strategy === 'basic' && typeof username === 'string' && typeof password === 'string')
    return { Authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` }
  if (strategy === 'header' && typeof header_name === 'string' && typeof value === 'string')
    return { [header_name]: value }
  if (strategy === 'header' && typeof headers === 'object' && headers !== null)
    return Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, String(text)]))
  throw new McpConnectionError('its auth is none of none, bearer, api_key, basic, header and oauth2')
}
