import * as z from 'zod'

/** The transports of an MCP server; an empty one is chosen by the server's other members. */
export const mcpTransport = z
  .enum(['', 'stdio', 'http', 'shttp', 'streamable-http', 'streamable_http', 'sse'])
  .meta({
    // Generated clients derive one name of two of these values.
    'x-enum-varnames': [
      'DERIVED',
      'STDIO',
      'HTTP',
      'SHTTP',
      'STREAMABLE_HTTP',
      'STREAMABLE_HTTP_SNAKE',
      'SSE',
    ],
  })

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

/** The `cwd` of a server that starts in the workspace of its conversation. */
export const workspaceFolder = 'workspace'

/** Refuses a path below the working directory without a `cwd`: the server starts in an empty folder. */
export function checkMcpFolder(
  server: {
    readonly command?: string | undefined
    readonly args?: readonly string[] | undefined
    readonly cwd?: string | undefined
  },
  context: z.RefinementCtx,
): void {
  const message = mcpFolderIssue(server)
  if (message !== undefined) context.addIssue({ code: 'custom', path: ['cwd'], message })
}

/** Why a server without a `cwd` cannot be meant; undefined when it can. */
export function mcpFolderIssue({
  command,
  args = [],
  cwd,
}: {
  readonly command?: string | undefined
  readonly args?: readonly string[] | undefined
  readonly cwd?: string | undefined
}): string | undefined {
  const path = [command ?? '', ...args].find((word) => /^\.\.?(?:\/|$)/.test(word))
  if (path === undefined || cwd !== undefined) return undefined
  return (
    `${path} is a path of the working directory, and a server starts in an empty folder. ` +
    `Give it an absolute path, or the cwd "${workspaceFolder}" to start it in the workspace.`
  )
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
