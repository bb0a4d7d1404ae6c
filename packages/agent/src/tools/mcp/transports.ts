import type { Client, Transport } from '@modelcontextprotocol/client'
import { type AnswerEnd, raceAbort } from '@slipway/shared/async'
import { sameOriginFetch } from '@slipway/shared/url'
import { ProgramFolder } from '../../workspace/program-folder.ts'
import type { Workspace } from '../../workspace/workspace.ts'
import type { ToolContext } from '../core/tool.ts'
import { valueWithin } from '../core/value-within.ts'
import { type AnswerQuestion, createClient } from './client.ts'
import { describeFailure, isHttpStatus, McpConnectionError } from './connection-error.ts'
import type { McpEndpoint } from './endpoint.ts'
import { createLimitedFetch } from './limited-fetch.ts'
import { LineProcess } from './line-process.ts'
import { LineTransport } from './line-transport.ts'

/**
 * The protocol has two eras: servers of the revisions up to 2025-11-25 begin with `initialize`, those from
 * 2026-07-28 on know `server/discover` alone, and many speak both. The client package speaks both; which one
 * a connection speaks is decided here, once, and nothing else of the code depends on it.
 *
 * HTTP: `server/discover` first. It costs older servers one refused request. Whatever an older server makes
 * of it (an error of 500, silence), `initialize` follows, and its failure is the one that is reported.
 *
 * Programs: `initialize` first, and `server/discover` to the same program when it answers with an error. Some
 * older programs exit at a request before `initialize`, others ignore it, so that the other order would start
 * programs twice or wait for each of them.
 */

export interface OpenConnection {
  readonly client: Client
  /** Why the connection ended; of a process with its last error output. */
  readonly failureReason: () => string | undefined
  readonly close: () => Promise<void>
}

interface ConnectOptions {
  readonly workspace: ToolContext['workspace']
  readonly answerQuestion: AnswerQuestion | undefined
}

type HttpEndpoint = Extract<McpEndpoint, { kind: 'http' }>

/** Time for `server/discover`; then the server counts as one of the older era. */
const probeMs = 10_000

const listenMethod = 'subscriptions/listen'

/** Connects to a server; HTTP servers without streamable HTTP are tried with server-sent events. */
export async function connect(
  endpoint: McpEndpoint,
  { workspace, answerQuestion }: ConnectOptions,
  signal: AbortSignal,
): Promise<OpenConnection> {
  if (endpoint.kind === 'process')
    return await connectProcess(endpoint, { workspace, answerQuestion }, signal)
  const options = { signal, answerQuestion }
  if (endpoint.transport === 'sse') return await connectHttp(endpoint, 'sse', options)
  try {
    return await connectStreamable(endpoint, options)
  } catch (error) {
    // Answers of servers that support only the older transport.
    if (endpoint.transport === 'streamable' || !isHttpStatus(error, [400, 404, 405])) throw error
    const first = error
    return await connectHttp(endpoint, 'sse', options).catch((error: unknown) => {
      // A server that has neither says more in its first answer.
      const detail = `${describeFailure(first)}; with server-sent events: ${describeFailure(error)}`
      throw new McpConnectionError(detail, 'connection')
    })
  }
}

async function connectStreamable(endpoint: HttpEndpoint, options: ClientOptions): Promise<OpenConnection> {
  const { SdkError, SdkErrorCode } = await import('@modelcontextprotocol/client')
  try {
    return await connectHttp(endpoint, 'streamable', { ...options, mode: 'auto' })
  } catch (error) {
    const isUndecided =
      error instanceof SdkError &&
      [SdkErrorCode.EraNegotiationFailed, SdkErrorCode.RequestTimeout].includes(error.code)
    // Without an answer at all there is no second question.
    if (!isUndecided || options.signal.aborted || error.cause instanceof TypeError) throw error
    return await connectHttp(endpoint, 'streamable', options)
  }
}

const folderHint =
  'It started in an empty folder: give it absolute paths, or the cwd "workspace" to start it in the workspace.'

async function connectProcess(
  { command, args, env, cwd }: Extract<McpEndpoint, { kind: 'process' }>,
  { workspace, answerQuestion }: ConnectOptions,
  signal: AbortSignal,
): Promise<OpenConnection> {
  const { ProtocolError } = await import('@modelcontextprotocol/client')
  const folder = cwd === undefined ? await ProgramFolder.create(workspace) : undefined
  // The agent may read what a server stores there.
  if (folder?.isOwn) await workspace.allowRead([folder.path])
  const process = startProcess(
    () => workspace.spawn(command, args, { env, cwd: cwd ?? folder?.path }),
    folder,
  )
  // A separate server with directories would replace them with the roots.
  const root = args.some((word) => /(?:^|=)\//.test(word)) ? undefined : workspace.directory
  const open = async (mode: 'legacy' | 'auto') =>
    await connectClient(new LineTransport(process), { signal, root, answerQuestion, mode })
  try {
    const client = await open('legacy').catch(async (error: unknown) => {
      if (!(error instanceof ProtocolError) || process.endReason !== undefined) throw error
      return await open('auto')
    })
    return {
      client,
      failureReason: () => processFailureReason(process, 'it gave a wrong answer'),
      close: () => process.close(),
    }
  } catch (error) {
    const reason = processFailureReason(
      process,
      signal.aborted ? 'it did not answer' : describeFailure(error),
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
  { url, headers }: HttpEndpoint,
  kind: 'streamable' | 'sse',
  clientOptions: ClientOptions,
): Promise<OpenConnection> {
  let failureReason: string | undefined
  const onEnd = ({ method = 'GET', headers: sent }: RequestInit, end: AnswerEnd) => {
    // The library would wait for an answer that cannot come. Streams of notifications are opened again.
    const isCall = method === 'POST' && new Headers(sent).get('mcp-method') !== listenMethod
    const endsCalls = kind === 'sse' ? method === 'GET' : isCall && end !== 'whole'
    if (!endsCalls && end !== 'too long') return
    failureReason = end === 'too long' ? 'it sent more than could be used' : 'it broke off its answer'
    transport.close().catch(() => {})
  }
  const options = { requestInit: { headers }, fetch: createLimitedFetch(sameOriginFetch(), onEnd) }
  const { transport, terminate } = await httpTransport(url, kind, options)
  const client = await connectClient(transport, clientOptions)
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
  const { SSEClientTransport, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client')
  if (kind === 'sse') return { transport: new SSEClientTransport(url, options), terminate: async () => {} }
  const transport = new StreamableHTTPClientTransport(url, options)
  return { transport, terminate: () => transport.terminateSession() }
}

/** Why a process ended, or the default when it still runs, with its last output. */
function processFailureReason(process: LineProcess, defaultReason: string): string {
  const reason = process.endReason ?? defaultReason
  return process.lastOutput === '' ? reason : `${reason}; its last output: ${process.lastOutput}`
}

interface ClientOptions {
  readonly signal: AbortSignal
  /** The directory in which a program on this machine should work. */
  readonly root?: string | undefined
  readonly answerQuestion: AnswerQuestion | undefined
  /**
   * `auto`: `server/discover`, and `initialize` where the server does not know it; `legacy` unless passed.
   */
  readonly mode?: 'legacy' | 'auto'
}

async function connectClient(
  transport: Transport,
  { signal, root, answerQuestion, mode = 'legacy' }: ClientOptions,
): Promise<Client> {
  const versionNegotiation = { mode, probe: { timeoutMs: probeMs } }
  const client = await createClient({ root, answerQuestion, versionNegotiation })
  try {
    await raceAbort(client.connect(transport, { signal, timeout: 3_600_000 }), signal)
    return client
  } catch (error) {
    await client.close().catch(() => {})
    throw error
  }
}
