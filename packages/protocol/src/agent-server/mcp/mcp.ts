import * as z from 'zod'
import { boundedText, given, otherwise } from '../../core/schemas.ts'

const texts = z.record(z.string(), z.string())
const seconds = given(z.number().positive())
/** What servers are described by in the settings, and what a test of them has no use for. */
const described = {
  description: given(z.string()),
  icon: given(z.string()),
  enabled: given(z.boolean()),
  disabled: given(z.boolean()),
  transport: given(z.string()),
  timeout: seconds,
  sse_read_timeout: seconds,
  keep_alive: given(z.boolean()),
}

const stdioServer = z
  .strictObject({
    ...described,
    type: z.literal('stdio'),
    command: z.string().min(1),
    args: otherwise(z.array(z.string()), []),
    env: otherwise(texts, {}),
    cwd: given(z.string()),
  })
  .meta({ id: 'StdioMCPServerSpec' })

const remoteServer = z
  .strictObject({
    ...described,
    type: z.enum(['http', 'shttp', 'streamable-http', 'sse']),
    url: z.string().min(1),
    headers: otherwise(texts, {}),
    auth: given(z.union([z.string(), z.looseObject({ strategy: z.string().optional() })])).meta({
      description:
        'A bearer token, or an object whose strategy is none, bearer, api_key, basic, header or oauth2.',
    }),
  })
  .meta({ id: 'RemoteMCPServerSpec' })

/** A server to be tried: with its type, or as the settings of an agent have it. Unknown members are refused. */
const testedServer = z.preprocess(withType, z.discriminatedUnion('type', [stdioServer, remoteServer]))

/** Without a transport both are tried, which is what a blank one says. */
function withType(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const { type, transport, ...members }: Record<string, unknown> = { ...value }
  if (type !== undefined && type !== null) return value
  const isGiven = (name: string) => members[name] !== undefined && members[name] !== null
  if (isGiven('command') === isGiven('url')) return value
  const meant = isGiven('command') ? 'stdio' : 'http'
  const others = Object.entries(members).filter(([, member]) => member !== null)
  return { ...Object.fromEntries(others), transport: transport ?? '', type: meant }
}

/** `tool_call` is a call that only reads: what comes of it is told, and does not make the server a bad one. */
export const mcpTestRequest = z
  .object({
    name: boundedText(1, 128).default('test-server'),
    server: testedServer,
    timeout: otherwise(z.number().gt(0).max(120), 15).meta({ description: 'Seconds, for all of it.' }),
    tool_call: given(
      z.object({ name: z.string().min(1), arguments: otherwise(z.record(z.string(), z.unknown()), {}) }),
    ),
  })
  .meta({ id: 'MCPTestRequest' })
export type McpTestRequest = z.output<typeof mcpTestRequest>

export const mcpErrorKind = z.enum(['timeout', 'connection', 'unknown'])
export type McpErrorKind = z.infer<typeof mcpErrorKind>

const toolResult = z.object({ is_error: z.boolean(), text: z.string() }).meta({ id: 'MCPToolCallResult' })

/** No secret of the request is in it. */
export const mcpTestResponse = z
  .discriminatedUnion('ok', [
    z.object({ ok: z.literal(true), tools: z.array(z.string()), tool_result: toolResult.optional() }),
    z.object({ ok: z.literal(false), error: z.string(), error_kind: mcpErrorKind }),
  ])
  .meta({ id: 'MCPTestResponse' })
export type McpTestResponse = z.infer<typeof mcpTestResponse>

export const mcpOAuthCallbackRequest = z
  .object({ callback_url: z.string() })
  .meta({ id: 'MCPOAuthCallbackRequest' })

export const mcpOAuthStart = z
  .object({
    ok: z.boolean(),
    job_id: z.string().optional(),
    authorization_url: z.string().optional(),
    error: z.string().optional(),
    error_kind: mcpErrorKind.optional(),
  })
  .meta({ id: 'MCPOAuthStartResponse' })

export const mcpOAuthStatus = z
  .object({
    ok: z.boolean(),
    status: z.enum(['pending', 'authorizing', 'succeeded', 'failed']),
    job_id: z.string(),
    authorization_url: z.string().optional(),
    callback_ready: z.boolean(),
    tools: z.array(z.string()).optional(),
    tool_result: toolResult.optional(),
    error: z.string().optional(),
    error_kind: mcpErrorKind.optional(),
  })
  .meta({ id: 'MCPOAuthStatusResponse' })
