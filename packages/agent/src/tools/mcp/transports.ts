import { basename } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { type AnswerEnd, raceAbort } from '@slipway/shared/async'
import { parseJson } from '@slipway/shared/json'
import { sameOriginFetch } from '@slipway/shared/url'
import ownPackage from '../../../package.json' with { type: 'json' }
import { ProgramFolder } from '../../workspace/program-folder.ts'
import type { Workspace } from '../../workspace/workspace.ts'
import type { ToolContext } from '../core/tool.ts'
import { valueWithin } from '../core/value-within.ts'
import { McpConnectionError } from './connection-error.ts'
import type { McpEndpoint } from './endpoint.ts'
import { createLimitedFetch } from './limited-fetch.ts'
import { LineProcess } from './line-process.ts'

export interface OpenConnection {
  readonly client: Client
  /** Why the connection ended; of a process with its last error output. */
  readonly failureReason: () => string | undefined
  readonly close: () => Promise<void>
}

/** Connects to a server; HTTP servers without streamable HTTP are tried with server-sent events. */
export async function connect(
  endpoint: McpEndpoint,
  context: ToolContext,
  signal: AbortSignal,
): Promise<OpenConnection> {
  if (endpoint.kind === 'process') return await connectProcess(endpoint, context, signal)
  if (endpoint.transport !== 'any') return await connectHttp(endpoint, endpoint.transport, signal)
  try {
    return await connectHttp(endpoint, 'streamable', signal)
  } catch (error) {
    const { StreamableHTTPError } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js')
    // Answers of servers that support only the older transport.
    const isOlder = error instanceof StreamableHTTPError && [400, 404, 405].includes(error.code ?? 0)
    if (!isOlder) throw error
    return await connectHttp(endpoint, 'sse', signal)
  }
}

const folderHint =
  'It started in an empty folder: give it absolute paths, or the cwd "workspace" to start it in the workspace.'

async function connectProcess(
  { command, args, env, cwd }: Extract<McpEndpoint, { kind: 'process' }>,
  { workspace }: ToolContext,
  signal: AbortSignal,
): Promise<OpenConnection> {
  const { JSONRPCMessageSchema } = await import('@modelcontextprotocol/sdk/types.js')
  const folder = cwd === undefined ? await ProgramFolder.create(workspace) : undefined
  // The agent may read what a server stores there.
  if (folder?.isOwn) await workspace.allowRead([folder.path])
  const process = startProcess(
    () => workspace.spawn(command, args, { env, cwd: cwd ?? folder?.path }),
    folder,
  )
  const transport: Transport = {
    start: async () => {
      process.setListener((line) => {
        const message = JSONRPCMessageSchema.safeParse(parseJson(line))
        // Other output of the server is ignored.
        if (message.success) transport.onmessage?.(message.data)
      })
      process.ended.then(() => transport.onclose?.()).catch(() => {})
    },
    send: (message) => process.write(JSON.stringify(message)),
    close: () => process.close(),
  }
  try {
    // A server with directories of its own would replace them with the roots.
    const root = args.some((word) => /(?:^|=)\//.test(word)) ? undefined : workspace.directory
    const client = await connectClient(transport, signal, root)
    return {
      client,
      failureReason: () => processFailureReason(process, 'it gave a wrong answer'),
      close: () => process.close(),
    }
  } catch (error) {
    const reason = processFailureReason(
      process,
      signal.aborted || !(error instanceof Error) ? 'it did not answer' : error.message,
    )
    // A relative path without `./` is not refused, because any word could be one.
    const hint = folder === undefined || process.endReason === undefined ? '' : `. ${folderHint}`
    await process.close()
    throw new McpConnectionError(reason + hint, 'connection')
  }
}

/** The folder goes with the process. */
function startProcess(
  spawn: () => ReturnType<Workspace['spawn']>,
  folder: ProgramFolder | undefined,
): LineProcess {
  const remove = () => void folder?.[Symbol.asyncDispose]()
  try {
    const process = new LineProcess(spawn())
    process.ended.then(remove, remove)
    return process
  } catch (error) {
    remove()
    throw error
  }
}

async function connectHttp(
  { url, headers }: Extract<McpEndpoint, { kind: 'http' }>,
  kind: 'streamable' | 'sse',
  signal: AbortSignal,
): Promise<OpenConnection> {
  let failureReason: string | undefined
  const onEnd = (method: string, end: AnswerEnd) => {
    // The library would wait for an answer that cannot come; it reopens a notification stream by itself.
    const endsCalls = kind === 'sse' ? method === 'GET' : method === 'POST' && end !== 'whole'
    if (!endsCalls && end !== 'too long') return
    failureReason = end === 'too long' ? 'it sent more than could be used' : 'it broke off its answer'
    transport.close().catch(() => {})
  }
  const options = { requestInit: { headers }, fetch: createLimitedFetch(sameOriginFetch(), onEnd) }
  const { transport, terminate } = await httpTransport(url, kind, options)
  const client = await connectClient(transport, signal)
  const close = async () => {
    await valueWithin(1000, terminate())
    await client.close()
  }
  return { client, failureReason: () => failureReason, close }
}

/** `terminate` ends the session on the server. */
async function httpTransport(
  url: URL,
  kind: 'streamable' | 'sse',
  options: { requestInit: RequestInit; fetch: ReturnType<typeof createLimitedFetch> },
): Promise<{ transport: Transport; terminate: () => Promise<void> }> {
  if (kind === 'sse') {
    const { SSEClientTransport } = await import('@modelcontextprotocol/sdk/client/sse.js')
    return { transport: new SSEClientTransport(url, options), terminate: async () => {} }
  }
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js')
  const transport = new StreamableHTTPClientTransport(url, options)
  // The library's types do not allow for `exactOptionalPropertyTypes`.
  return { transport: transport as Transport, terminate: () => transport.terminateSession() }
}

/** Why a process ended, or the default when it still runs, with its last error output. */
function processFailureReason(process: LineProcess, defaultReason: string): string {
  const reason = process.endReason ?? defaultReason
  return process.stderr === '' ? reason : `${reason}; its last output: ${process.stderr}`
}

/** `root`: the directory that a program on this machine is told to work in. */
async function connectClient(transport: Transport, signal: AbortSignal, root?: string): Promise<Client> {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
  const capabilities = root === undefined ? {} : { roots: {} }
  const client = new Client({ name: 'slipway', version: ownPackage.version }, { capabilities })
  if (root !== undefined) {
    const { ListRootsRequestSchema } = await import('@modelcontextprotocol/sdk/types.js')
    const roots = [{ uri: pathToFileURL(root).href, name: basename(root) }]
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots }))
  }
  // Errors outside of requests, such as an invalid line, are ignored.
  client.onerror = () => {}
  try {
    await raceAbort(client.connect(transport, { signal, timeout: 3_600_000 }), signal)
    return client
  } catch (error) {
    await client.close().catch(() => {})
    throw error
  }
}
