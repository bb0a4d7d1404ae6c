import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { McpServer } from '@slipway/protocol'
import { unlessAborted } from '../core/race-abort.ts'
import type { Tool, ToolContext } from '../core/tool.ts'
import { NotReachable, type Reach, reachOf } from './endpoint.ts'
import { type BodyEnd, watchedFetch } from './limited-fetch.ts'
import { LineProcess } from './line-process.ts'
import { type CallOutcome, exposedName, mcpTool, type ServerTool } from './server-tool.ts'

export interface McpOptions {
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
export interface Mcp {
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
export async function openMcp(options: McpOptions): Promise<Mcp> {
  const { servers, context, signal, startMs = 30_000, callMs = 300_000, onChange } = options
  const wanted = Object.entries(servers).filter(([, { disabled, enabled }]) => !disabled && enabled !== false)
  let tools: readonly Tool[] = []
  const build = () => {
    tools = toolsOf(connections, context, wanted.length > 1)
  }
  const connections = wanted.map(
    ([name, server]) =>
      new Connection(name, {
        server,
        context,
        startMs,
        callMs: server.timeout === undefined ? callMs : server.timeout * 1000,
        onChange: () => {
          build()
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
  build()
  const failures = connections.flatMap(({ name: server, isUp }, at) =>
    (details[at] ?? []).map((detail) => ({ server, detail, isUp })),
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

interface Live {
  readonly client: Client
  /** Of a process: why it ended and what it said last. */
  readonly lastWords: () => string | undefined
  readonly end: () => Promise<void>
}

/** A server and what it offers. A connection that broke is made anew by the next call, once. */
export class Connection {
  readonly name: string
  readonly #options: ConnectionOptions
  tools: readonly ServerTool[] = []
  #live: Live | undefined
  #leftOut: string[] = []
  #refreshing: Promise<void> | undefined
  #isStale = false
  /** Aborted by `close`. */
  readonly #life = new AbortController()
  #connecting: Promise<void> | undefined

  constructor(name: string, options: ConnectionOptions) {
    this.name = name
    this.#options = options
  }

  get isUp(): boolean {
    return this.#live !== undefined
  }

  /** Connects and lists the tools. Rejects with what went wrong, which may hold secrets. */
  async open(signal: AbortSignal): Promise<void> {
    await this.#connectOnce(signal)
  }

  /** Connects and lists the tools: what failed of it, nothing when all is well. */
  async start(signal: AbortSignal): Promise<string[]> {
    try {
      await this.#connectOnce(signal)
      return this.#leftOut
    } catch (error) {
      return [this.#detail(error)]
    }
  }

  /** Calls a tool. A failure of the connection is a text; it rejects only when the signal aborted it. */
  async call(tool: string, args: Record<string, unknown>, signal: AbortSignal): Promise<CallOutcome> {
    const { callMs } = this.#options
    try {
      if (this.#live === undefined) await this.#reconnect(signal)
    } catch (error) {
      signal.throwIfAborted()
      return { failure: `The MCP server ${this.name} cannot be reached: ${this.#detail(error)}` }
    }
    const live = this.#live
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
      return { failure: await this.#broke(live, error) }
    }
  }

  async close(): Promise<void> {
    this.#life.abort()
    await this.#connecting?.catch(() => {})
    const live = this.#live
    this.#live = undefined
    await live?.end()
  }

  async #connect(): Promise<void> {
    const { startMs, server, context } = this.#options
    const timer = AbortSignal.timeout(startMs)
    const stop = AbortSignal.any([timer, this.#life.signal])
    let live: Live | undefined
    try {
      live = await connect(await unlessAborted(reachOf(server, context), stop), context, stop)
      const own = live
      live.client.onclose = () => {
        if (this.#live === own) this.#live = undefined
      }
      await this.#list(live, stop)
      await this.#watch(live)
      stop.throwIfAborted()
      this.#live = live
    } catch (error) {
      await live?.end()
      if (!timer.aborted) throw error
      const said = error instanceof NotReachable ? `: ${error.message}` : ''
      throw new NotReachable(`it was not ready within ${startMs / 1000} seconds${said}`, 'time')
    }
  }

  /** One connection for all that wait for it; it is made to its end also when one of them is aborted. */
  async #connectOnce(signal: AbortSignal): Promise<void> {
    this.#life.signal.throwIfAborted()
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = undefined
    })
    await unlessAborted(this.#connecting, signal)
  }

  async #reconnect(signal: AbortSignal): Promise<void> {
    const before = JSON.stringify(this.tools)
    await this.#connectOnce(signal)
    if (JSON.stringify(this.tools) !== before) this.#options.onChange()
  }

  async #list({ client }: Live, signal: AbortSignal): Promise<void> {
    const { ResultSchema, ToolSchema } = await import('@modelcontextprotocol/sdk/types.js')
    const tools: ServerTool[] = []
    const leftOut: string[] = []
    const take = (candidate: unknown) => {
      const parsed = ToolSchema.safeParse(candidate)
      if (!parsed.success) leftOut.push('a tool was left out: its description does not follow the protocol')
      else if (JSON.stringify(parsed.data).length > maxToolChars)
        leftOut.push(`the tool ${parsed.data.name.slice(0, 100)} was left out: its description is too long`)
      else tools.push(parsed.data)
    }
    let cursor: string | undefined
    for (let page = 0; page < maxPages && tools.length < maxTools; page++) {
      if (client.getServerCapabilities()?.tools === undefined) break
      const params = cursor === undefined ? {} : { cursor }
      const timeout = this.#options.startMs + 60_000
      const answer = await client.request({ method: 'tools/list', params }, ResultSchema, { signal, timeout })
      for (const tool of Array.isArray(answer.tools) ? answer.tools : []) take(tool)
      cursor = typeof answer.nextCursor === 'string' ? answer.nextCursor : undefined
      if (cursor === undefined) break
    }
    if (cursor !== undefined || tools.length > maxTools)
      leftOut.push(`it has too many tools: those after the first ${maxTools} were left out`)
    this.tools = tools.slice(0, maxTools)
    this.#leftOut = leftOut.slice(0, 20)
  }

  async #watch(live: Live): Promise<void> {
    const { ToolListChangedNotificationSchema } = await import('@modelcontextprotocol/sdk/types.js')
    live.client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
      this.#isStale = true
      this.#refreshing ??= this.#refresh(live).finally(() => {
        this.#refreshing = undefined
      })
    })
  }

  /** Lists anew until nothing changed meanwhile, at most once in a second: a server may say that it changed without end. */
  async #refresh(live: Live): Promise<void> {
    while (this.#isStale && (this.#live === live || this.#live === undefined) && !this.#life.signal.aborted) {
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
  async #broke(live: Live, error: unknown): Promise<string> {
    const { McpError } = await import('@modelcontextprotocol/sdk/types.js')
    const isAnswer = error instanceof McpError && this.#live === live
    if (isAnswer) return `The MCP server ${this.name} refused the call: ${this.#detail(error)}`
    if (this.#live === live) this.#live = undefined
    const words = live.lastWords()
    live.end().catch(() => {})
    const detail = this.#detail(words === undefined ? error : new NotReachable(words, 'connection'))
    return `The connection to the MCP server ${this.name} broke: ${detail}. The next call connects anew.`
  }

  #detail(error: unknown): string {
    const cause = error instanceof Error && error.cause instanceof Error ? ` (${error.cause.message})` : ''
    const message = error instanceof Error ? `${error.message}${cause}` : String(error)
    return this.#options.context.secrets.mask(message).slice(0, 6000)
  }
}

async function connect(reach: Reach, context: ToolContext, signal: AbortSignal): Promise<Live> {
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
  { command, args, env, cwd }: Extract<Reach, { kind: 'process' }>,
  { workspace }: ToolContext,
  signal: AbortSignal,
): Promise<Live> {
  const { JSONRPCMessageSchema } = await import('@modelcontextprotocol/sdk/types.js')
  const process = new LineProcess(workspace.spawn(command, args, { env, cwd }))
  const transport: Transport = {
    start: async () => {
      process.listen((line) => {
        const message = JSONRPCMessageSchema.safeParse(parsed(line))
        // Servers print what does not belong there; it is passed over.
        if (message.success) transport.onmessage?.(message.data)
      })
      process.ended.then(() => transport.onclose?.()).catch(() => {})
    },
    send: (message) => process.write(JSON.stringify(message)),
    close: () => process.close(),
  }
  try {
    const client = await newClient(transport, signal)
    return {
      client,
      lastWords: () => lastWords(process, 'it gave a wrong answer'),
      end: () => process.close(),
    }
  } catch (error) {
    const words = lastWords(
      process,
      signal.aborted || !(error instanceof Error) ? 'it did not answer' : error.message,
    )
    await process.close()
    throw new NotReachable(words, 'connection')
  }
}

async function connectHttp(
  { url, headers }: Extract<Reach, { kind: 'http' }>,
  kind: 'streamable' | 'sse',
  signal: AbortSignal,
): Promise<Live> {
  let words: string | undefined
  const onEnd = (method: string, end: BodyEnd) => {
    // The library waits on for an answer that can no longer come; a stream of news it opens anew by itself.
    const isAnswers = kind === 'sse' ? method === 'GET' : method === 'POST' && end !== 'whole'
    if (!isAnswers && end !== 'too long') return
    words = end === 'too long' ? 'it sent more than could be used' : 'it broke off its answer'
    transport.close().catch(() => {})
  }
  const options = { requestInit: { headers }, fetch: watchedFetch(fetch, onEnd) }
  const { transport, leave } = await httpTransport(url, kind, options)
  const client = await newClient(transport, signal)
  const end = async () => {
    await Promise.race([leave().catch(() => {}), delay(1000, undefined, { ref: false })])
    await client.close()
  }
  return { client, lastWords: () => words, end }
}

/** `leave` tells the server that the session is over, which it may not want to hear. */
async function httpTransport(
  url: URL,
  kind: 'streamable' | 'sse',
  options: { requestInit: RequestInit; fetch: ReturnType<typeof watchedFetch> },
): Promise<{ transport: Transport; leave: () => Promise<void> }> {
  if (kind === 'sse') {
    const { SSEClientTransport } = await import('@modelcontextprotocol/sdk/client/sse.js')
    return { transport: new SSEClientTransport(url, options), leave: async () => {} }
  }
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js')
  const transport = new StreamableHTTPClientTransport(url, options)
  // The library's types do not allow for `exactOptionalPropertyTypes`.
  return { transport: transport as Transport, leave: () => transport.terminateSession() }
}

/** Why a process does not serve; `otherwise` stands for that when it still runs. */
function lastWords(process: LineProcess, otherwise: string): string {
  const reason = process.reason ?? otherwise
  return process.stderr === '' ? reason : `${reason}; the last it said: ${process.stderr}`
}

async function newClient(transport: Transport, signal: AbortSignal): Promise<Client> {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
  const client = new Client({ name: 'slipway', version: '0.1.0' })
  // What goes wrong beside a request, such as a line that is no message, has no one to be told to.
  client.onerror = () => {}
  try {
    await unlessAborted(client.connect(transport, { signal, timeout: 3_600_000 }), signal)
    return client
  } catch (error) {
    await client.close().catch(() => {})
    throw error
  }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}

function toolsOf(connections: readonly Connection[], context: ToolContext, isMany: boolean): Tool[] {
  const names = new Set<string>()
  return connections.flatMap((connection) =>
    connection.tools.map((tool) => {
      const name = exposedName(tool.name, isMany ? connection.name : undefined, names)
      names.add(name)
      return mcpTool(name, context.secrets.maskJson(tool), context, (args, signal) =>
        connection.call(tool.name, args, signal),
      )
    }),
  )
}
