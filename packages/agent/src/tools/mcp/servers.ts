import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { McpServer } from '@slipway/protocol'
import { raceAbort } from '@slipway/shared/async'
import { parseJson } from '@slipway/shared/json'
import type { Tool, ToolContext } from '../core/tool.ts'
import { McpConnectionError, type McpEndpoint, resolveEndpoint } from './endpoint.ts'
import { type BodyOutcome, createLimitedFetch } from './limited-fetch.ts'
import { LineProcess } from './line-process.ts'
import { type CallResult, createMcpTool, modelToolName, type ServerTool } from './server-tool.ts'

export interface OpenMcpOptions {
  /** By name; one with `disabled` (or `enabled: false`) is left out. */
  readonly servers: Readonly<Record<string, McpServer>>
  readonly context: ToolContext
  /** Ends the start. */
  readonly signal: AbortSignal
  /** Until a server has started and listed its tools; default 30 s. */
  readonly startMs?: number
  /** Of one call, unless the server's own `timeout` (seconds) says something else; default 300 s. */
  readonly callMs?: number
  /** After the tools became others. */
  readonly onChange?: () => void
}

/** The tools of MCP servers. */
export interface McpServers {
  /** Those of now: in the order of the servers, names are unique. A server that came back may change them. */
  readonly tools: readonly Tool[]
  /**
   * Servers that could not be started (not `isUp`), and tools of others that were left out, with reasons without secrets.
   */
  readonly failures: readonly { readonly server: string; readonly detail: string; readonly isUp: boolean }[]
  /** Ends the connections, and the servers that were started. */
  close(): Promise<void>
}

const maxPages = 50
const maxTools = 500
/** Characters of a tool's JSON: all of them go into each prompt. */
const maxToolChars = 64_000
const refreshMs = 1000

/**
 * Starts servers side by side and lists their tools; those that fail are told in `failures` and hold up nobody longer
 * than `startMs`. Never rejects because of a server; rejects when the signal aborts, and then nothing is left.
 */
export async function openMcpServers(options: OpenMcpOptions): Promise<McpServers> {
  const { servers, context, signal, startMs = 30_000, callMs = 300_000, onChange } = options
  const enabledServers = Object.entries(servers).filter(
    ([, { disabled, enabled }]) => !disabled && enabled !== false,
  )
  let tools: readonly Tool[] = []
  const rebuildTools = () => {
    tools = buildTools(connections, context, enabledServers.length > 1)
  }
  const connections = enabledServers.map(
    ([name, server]) =>
      new McpConnection(name, {
        server,
        context,
        startMs,
        callMs: server.timeout === undefined ? callMs : server.timeout * 1000,
        onChange: () => {
          rebuildTools()
          onChange?.()
        },
      }),
  )
  const details = await Promise.all(connections.map((connection) => connection.start(signal)))
  const close = async () => {
    await Promise.all(connections.map((connection) => connection.close()))
  }
  if (signal.aborted) await close()
  signal.throwIfAborted()
  rebuildTools()
  const failures = connections.flatMap(({ name: server, isConnected }, at) =>
    (details[at] ?? []).map((detail) => ({ server, detail, isUp: isConnected })),
  )
  return {
    get tools() {
      return tools
    },
    failures,
    close,
  }
}

interface ConnectionOptions {
  readonly server: McpServer
  readonly context: ToolContext
  readonly startMs: number
  readonly callMs: number
  readonly onChange: () => void
}

interface OpenConnection {
  readonly client: Client
  /** Of a process: why it ended and what it said last. */
  readonly failureReason: () => string | undefined
  readonly close: () => Promise<void>
}

/** A server and what it offers. A connection that broke is made anew by the next call, once. */
export class McpConnection {
  readonly name: string
  readonly #options: ConnectionOptions
  tools: readonly ServerTool[] = []
  #current: OpenConnection | undefined
  #omitted: string[] = []
  #refreshing: Promise<void> | undefined
  #isStale = false
  /** Aborted by `close`. */
  readonly #lifetime = new AbortController()
  #connecting: Promise<void> | undefined

  constructor(name: string, options: ConnectionOptions) {
    this.name = name
    this.#options = options
  }

  get isConnected(): boolean {
    return this.#current !== undefined
  }

  /** Connects and lists the tools. Rejects with what went wrong, which may hold secrets. */
  async connect(signal: AbortSignal): Promise<void> {
    await this.#connectOnce(signal)
  }

  /** Connects and lists the tools: what failed of it, nothing when all is well. */
  async start(signal: AbortSignal): Promise<string[]> {
    try {
      await this.#connectOnce(signal)
      return this.#omitted
    } catch (error) {
      return [this.#errorDetail(error)]
    }
  }

  /** Calls a tool. A failure of the connection is a text; it rejects only when the signal aborted it. */
  async call(tool: string, args: Record<string, unknown>, signal: AbortSignal): Promise<CallResult> {
    const { callMs } = this.#options
    try {
      if (this.#current === undefined) await this.#reconnect(signal)
    } catch (error) {
      signal.throwIfAborted()
      return { failure: `The MCP server ${this.name} cannot be reached: ${this.#errorDetail(error)}` }
    }
    const live = this.#current
    if (live === undefined) return { failure: `The MCP server ${this.name} is closed.` }
    const timer = AbortSignal.timeout(callMs)
    const { ResultSchema } = await import('@modelcontextprotocol/sdk/types.js')
    try {
      const request = { method: 'tools/call' as const, params: { name: tool, arguments: args } }
      // Longer than our own limit, which is told from an answer of the server that looks like a time-out.
      const timeout = callMs + 60_000
      const stop = AbortSignal.any([signal, timer])
      return { result: await live.client.request(request, ResultSchema, { signal: stop, timeout }) }
    } catch (error) {
      signal.throwIfAborted()
      if (timer.aborted) return { failure: `The tool gave no answer within ${callMs / 1000} seconds.` }
      return { failure: await this.#handleCallError(live, error) }
    }
  }

  async close(): Promise<void> {
    this.#lifetime.abort()
    await this.#connecting?.catch(() => {})
    const live = this.#current
    this.#current = undefined
    await live?.close()
  }

  async #openConnection(): Promise<void> {
    const { startMs, server, context } = this.#options
    const timer = AbortSignal.timeout(startMs)
    const stop = AbortSignal.any([timer, this.#lifetime.signal])
    let live: OpenConnection | undefined
    try {
      live = await connect(await raceAbort(resolveEndpoint(server, context), stop), context, stop)
      const connected = live
      live.client.onclose = () => {
        if (this.#current === connected) this.#current = undefined
      }
      await this.#list(live, stop)
      await this.#subscribeToListChanges(live)
      stop.throwIfAborted()
      this.#current = live
    } catch (error) {
      await live?.close()
      if (!timer.aborted) throw error
      const detail = error instanceof McpConnectionError ? `: ${error.message}` : ''
      throw new McpConnectionError(`it was not ready within ${startMs / 1000} seconds${detail}`, 'time')
    }
  }

  /** One connection for all that wait for it; it is made to its end also when one of them is aborted. */
  async #connectOnce(signal: AbortSignal): Promise<void> {
    this.#lifetime.signal.throwIfAborted()
    this.#connecting ??= this.#openConnection().finally(() => {
      this.#connecting = undefined
    })
    await raceAbort(this.#connecting, signal)
  }

  async #reconnect(signal: AbortSignal): Promise<void> {
    const before = JSON.stringify(this.tools)
    await this.#connectOnce(signal)
    if (JSON.stringify(this.tools) !== before) this.#options.onChange()
  }

  async #list({ client }: OpenConnection, signal: AbortSignal): Promise<void> {
    const { ResultSchema, ToolSchema } = await import('@modelcontextprotocol/sdk/types.js')
    const tools: ServerTool[] = []
    const omitted: string[] = []
    const addTool = (candidate: unknown) => {
      const parsed = ToolSchema.safeParse(candidate)
      if (!parsed.success) omitted.push('a tool was left out: its description does not follow the protocol')
      else if (JSON.stringify(parsed.data).length > maxToolChars)
        omitted.push(`the tool ${parsed.data.name.slice(0, 100)} was left out: its description is too long`)
      else tools.push(parsed.data)
    }
    let cursor: string | undefined
    for (let page = 0; page < maxPages && tools.length < maxTools; page++) {
      if (client.getServerCapabilities()?.tools === undefined) break
      const params = cursor === undefined ? {} : { cursor }
      const timeout = this.#options.startMs + 60_000
      const answer = await client.request({ method: 'tools/list', params }, ResultSchema, { signal, timeout })
      for (const tool of Array.isArray(answer.tools) ? answer.tools : []) addTool(tool)
      cursor = typeof answer.nextCursor === 'string' ? answer.nextCursor : undefined
      if (cursor === undefined) break
    }
    if (cursor !== undefined || tools.length > maxTools)
      omitted.push(`it has too many tools: those after the first ${maxTools} were left out`)
    this.tools = tools.slice(0, maxTools)
    this.#omitted = omitted.slice(0, 20)
  }

  async #subscribeToListChanges(live: OpenConnection): Promise<void> {
    const { ToolListChangedNotificationSchema } = await import('@modelcontextprotocol/sdk/types.js')
    live.client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
      this.#isStale = true
      this.#refreshing ??= this.#refresh(live).finally(() => {
        this.#refreshing = undefined
      })
    })
  }

  /** Lists anew until nothing changed meanwhile, at most once in a second: a server may say that it changed without end. */
  async #refresh(live: OpenConnection): Promise<void> {
    while (
      this.#isStale &&
      (this.#current === live || this.#current === undefined) &&
      !this.#lifetime.signal.aborted
    ) {
      this.#isStale = false
      const before = JSON.stringify(this.tools)
      try {
        await this.#list(live, AbortSignal.timeout(this.#options.startMs))
      } catch {
        // The tools of before stay; a call will show whether the server is still there.
        return
      }
      if (JSON.stringify(this.tools) !== before) this.#options.onChange()
      await delay(refreshMs, undefined, { ref: false })
    }
  }

  /** What an error of a call means; a connection that it ended is not used again. */
  async #handleCallError(live: OpenConnection, error: unknown): Promise<string> {
    const { McpError } = await import('@modelcontextprotocol/sdk/types.js')
    const isAnswer = error instanceof McpError && this.#current === live
    if (isAnswer) return `The MCP server ${this.name} refused the call: ${this.#errorDetail(error)}`
    if (this.#current === live) this.#current = undefined
    const reason = live.failureReason()
    live.close().catch(() => {})
    const detail = this.#errorDetail(
      reason === undefined ? error : new McpConnectionError(reason, 'connection'),
    )
    return `The connection to the MCP server ${this.name} broke: ${detail}. The next call connects anew.`
  }

  #errorDetail(error: unknown): string {
    const cause = error instanceof Error && error.cause instanceof Error ? ` (${error.cause.message})` : ''
    const message = error instanceof Error ? `${error.message}${cause}` : String(error)
    return this.#options.context.secrets.redact(message).slice(0, 6000)
  }
}

async function connect(
  reach: McpEndpoint,
  context: ToolContext,
  signal: AbortSignal,
): Promise<OpenConnection> {
  if (reach.kind === 'process') return await connectProcess(reach, context, signal)
  if (reach.transport !== 'any') return await connectHttp(reach, reach.transport, signal)
  try {
    return await connectHttp(reach, 'streamable', signal)
  } catch (error) {
    const { StreamableHTTPError } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js')
    // How servers answer that know only the older transport.
    const isOlder = error instanceof StreamableHTTPError && [400, 404, 405].includes(error.code ?? 0)
    if (!isOlder) throw error
    return await connectHttp(reach, 'sse', signal)
  }
}

async function connectProcess(
  { command, args, env, cwd }: Extract<McpEndpoint, { kind: 'process' }>,
  { workspace }: ToolContext,
  signal: AbortSignal,
): Promise<OpenConnection> {
  const { JSONRPCMessageSchema } = await import('@modelcontextprotocol/sdk/types.js')
  const process = new LineProcess(workspace.spawn(command, args, { env, cwd }))
  const transport: Transport = {
    start: async () => {
      process.setListener((line) => {
        const message = JSONRPCMessageSchema.safeParse(parseJson(line))
        // Servers print what does not belong there; it is passed over.
        if (message.success) transport.onmessage?.(message.data)
      })
      process.ended.then(() => transport.onclose?.()).catch(() => {})
    },
    send: (message) => process.write(JSON.stringify(message)),
    close: () => process.close(),
  }
  try {
    const client = await connectClient(transport, signal)
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
    await process.close()
    throw new McpConnectionError(reason, 'connection')
  }
}

async function connectHttp(
  { url, headers }: Extract<McpEndpoint, { kind: 'http' }>,
  kind: 'streamable' | 'sse',
  signal: AbortSignal,
): Promise<OpenConnection> {
  let failureReason: string | undefined
  const onEnd = (method: string, end: BodyOutcome) => {
    // The library waits on for an answer that can no longer come; a stream of news it opens anew by itself.
    const endsCalls = kind === 'sse' ? method === 'GET' : method === 'POST' && end !== 'whole'
    if (!endsCalls && end !== 'too long') return
    failureReason = end === 'too long' ? 'it sent more than could be used' : 'it broke off its answer'
    transport.close().catch(() => {})
  }
  const options = { requestInit: { headers }, fetch: createLimitedFetch(fetch, onEnd) }
  const { transport, terminate } = await httpTransport(url, kind, options)
  const client = await connectClient(transport, signal)
  const close = async () => {
    await Promise.race([terminate().catch(() => {}), delay(1000, undefined, { ref: false })])
    await client.close()
  }
  return { client, failureReason: () => failureReason, close }
}

/** `leave` tells the server that the session is over, which it may not want to hear. */
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

/** Why a process does not serve; `otherwise` stands for that when it still runs. */
function processFailureReason(process: LineProcess, defaultReason: string): string {
  const reason = process.endReason ?? defaultReason
  return process.stderr === '' ? reason : `${reason}; the last it said: ${process.stderr}`
}

async function connectClient(transport: Transport, signal: AbortSignal): Promise<Client> {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
  const client = new Client({ name: 'slipway', version: '0.1.0' })
  // What goes wrong beside a request, such as a line that is no message, has no one to be told to.
  client.onerror = () => {}
  try {
    await raceAbort(client.connect(transport, { signal, timeout: 3_600_000 }), signal)
    return client
  } catch (error) {
    await client.close().catch(() => {})
    throw error
  }
}

function buildTools(connections: readonly McpConnection[], context: ToolContext, isMany: boolean): Tool[] {
  const names = new Set<string>()
  return connections.flatMap((connection) =>
    connection.tools.map((tool) => {
      const name = modelToolName(tool.name, isMany ? connection.name : undefined, names)
      names.add(name)
      return createMcpTool(name, context.secrets.redactJson(tool), context, (args, signal) =>
        connection.call(tool.name, args, signal),
      )
    }),
  )
}
