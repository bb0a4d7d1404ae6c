import * as z from 'zod'
import {
  boundedText,
  component,
  jsonObject,
  nullAsUndefined,
  strictComponent,
  withDefault,
} from '../../core/schemas.ts'
import { checkMcpAuth, mcpTransport } from './mcp-rules.ts'

const stringMap = z.record(z.string(), z.string())
const optionalSeconds = nullAsUndefined(z.number().positive())
/** Members of the settings that a test ignores. */
const settingsMembers = {
  description: nullAsUndefined(z.string()),
  icon: nullAsUndefined(z.string()),
  enabled: nullAsUndefined(z.boolean()),
  disabled: nullAsUndefined(z.boolean()),
  required: nullAsUndefined(z.boolean()),
  transport: nullAsUndefined(mcpTransport),
  timeout: optionalSeconds,
  sse_read_timeout: optionalSeconds,
  keep_alive: nullAsUndefined(z.boolean()),
}

const stdioServer = strictComponent('StdioMCPServerSpec', {
  ...settingsMembers,
  type: z.literal('stdio'),
  command: z.string().min(1),
  args: withDefault(z.array(z.string()), []),
  env: withDefault(stringMap, {}),
  cwd: nullAsUndefined(z.string()),
})

const remoteServer = strictComponent('RemoteMCPServerSpec', {
  ...settingsMembers,
  type: z.enum(['http', 'shttp', 'streamable-http', 'sse']),
  url: z.string().min(1),
  headers: withDefault(stringMap, {}),
  auth: nullAsUndefined(z.union([z.string(), z.looseObject({ strategy: z.string().optional() })])).meta({
    description:
      'A bearer token, or an object whose strategy is none, bearer, api_key, basic, header or oauth2.',
  }),
}).superRefine(checkMcpAuth)

/** A server to test: with its type, or in the form of agent settings. Unknown members are refused. */
const serverSpec = z.preprocess(inferType, z.discriminatedUnion('type', [stdioServer, remoteServer]))

/** Without a transport both are tried, which is what a blank one says. */
function inferType(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const { type, transport, ...members }: Record<string, unknown> = { ...value }
  if (type !== undefined && type !== null) return value
  const isPresent = (name: string) => members[name] !== undefined && members[name] !== null
  if (isPresent('command') === isPresent('url')) return value
  const inferredType = isPresent('command') ? 'stdio' : 'http'
  const presentMembers = Object.entries(members).filter(([, member]) => member !== null)
  return { ...Object.fromEntries(presentMembers), transport: transport ?? '', type: inferredType }
}

/** `tool_call` is a read-only call; its result is reported and does not decide `ok`. */
export const mcpTestRequest = component('MCPTestRequest', {
  name: boundedText(1, 128).default('test-server'),
  server: serverSpec,
  timeout: withDefault(z.number().gt(0).max(120), 15).meta({ description: 'Seconds, for all of it.' }),
  tool_call: nullAsUndefined(z.object({ name: z.string().min(1), arguments: withDefault(jsonObject, {}) })),
})
export type McpTestRequest = z.output<typeof mcpTestRequest>

/** The same for a sign-in, which waits for the user. */
export const mcpOAuthStartRequest = mcpTestRequest
  .extend({
    timeout: withDefault(z.number().gt(0).max(600), 300).meta({ description: 'Seconds, with the consent.' }),
  })
  .meta({ id: 'MCPOAuthStartRequest' })

export const mcpErrorKind = z.enum(['timeout', 'connection', 'unknown'])

const toolResult = component('MCPToolCallResult', { is_error: z.boolean(), text: z.string() })

/** No secret of the request is in it. */
export const mcpTestResponse = z
  .discriminatedUnion('ok', [
    z.object({ ok: z.literal(true), tools: z.array(z.string()), tool_result: toolResult.optional() }),
    z.object({ ok: z.literal(false), error: z.string(), error_kind: mcpErrorKind }),
  ])
  .meta({ id: 'MCPTestResponse' })
export type McpTestResponse = z.infer<typeof mcpTestResponse>

export const mcpOAuthStatus = component('MCPOAuthStatusResponse', {
  ok: z.boolean(),
  status: z.enum(['pending', 'authorizing', 'succeeded', 'failed']),
  job_id: z.string(),
  authorization_url: z.string().optional(),
  callback_ready: z.boolean(),
  tools: z.array(z.string()).optional(),
  tool_result: toolResult.optional(),
  oauth_state: jsonObject.optional().meta({
    description: 'The `state` of the `auth` of the server that is stored then; its secrets are sealed.',
  }),
  error: z.string().optional(),
  error_kind: mcpErrorKind.optional(),
})
