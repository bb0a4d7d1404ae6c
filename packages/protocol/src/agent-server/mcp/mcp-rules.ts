import * as z from 'zod'

/** The transports of an MCP server; an empty one is chosen by the server's other members. */
export const mcpTransport = z.enum([
  '',
  'stdio',
  'http',
  'shttp',
  'streamable-http',
  'streamable_http',
  'sse',
])

/** Refuses an `auth` beside an `Authorization` header: one of them would be ignored. */
export function checkMcpAuth(
  {
    auth,
    headers,
  }: { readonly auth?: unknown; readonly headers?: Readonly<Record<string, string>> | undefined },
  context: z.RefinementCtx,
): void {
  const isNone = auth === undefined || auth === null || auth === '' || Object(auth).strategy === 'none'
  const hasHeader = Object.keys(headers ?? {}).some((name) => name.toLowerCase() === 'authorization')
  if (isNone || !hasHeader) return
  context.addIssue({
    code: 'custom',
    path: ['auth'],
    message: 'auth cannot be combined with an Authorization header',
  })
}

/** Refuses a transport without what it connects to. */
export function checkMcpTransport(
  { command, transport }: { readonly command?: string | undefined; readonly transport?: string | undefined },
  context: z.RefinementCtx,
): void {
  if (transport === undefined || transport === '') return
  if ((transport === 'stdio') === (command !== undefined)) return
  const message = transport === 'stdio' ? 'stdio needs a command' : `${transport} needs a url`
  context.addIssue({ code: 'custom', path: ['transport'], message })
}
