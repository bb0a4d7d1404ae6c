import { setTimeout as delay } from 'node:timers/promises'
import type { Client, Progress, RequestOptions, Tool as ServerTool } from '@modelcontextprotocol/client'
import type { McpServer } from '@slipway/protocol'
import { raceAbort } from '@slipway/shared/async'
import { firstChars } from '@slipway/shared/text'
import type { ToolContext } from '../core/tool.ts'
import type { AnswerQuestion } from './client.ts'
import { describeFailure, McpConnectionError } from './connection-error.ts'
import { answerElicitation } from './elicitation.ts'
import { resolveEndpoint } from './endpoint.ts'
import { canSendHeaders } from './header-arguments.ts'
import { type McpPrompt, readPrompts } from './prompts.ts'
import type { CallResult } from './server-tool.ts'
import { maxSilences, SilenceLimit } from './silence-limit.ts'
import { connect, type OpenConnection } from './transports.ts'

const maxPages = 50
/** The user is asked at most so long. */
const maxQuestionMs = 3_600_000
/** Questions while calls of a server are open; more are declined. */
const maxQuestions = 20
const maxTools = 500
const maxPrompts = 500
/** Characters of a tool's JSON: all of them go into each prompt. */
const maxToolChars = 64_000
const refreshMs = 1000
/** Between two attempts to listen to changes. */
const longestPauseMs = 300_000

/** Failures of a call that leave the connection as it was: the server has answered. */
const answerCodes: ReadonlySet<string> = new Set([
  ...[
    'INVALID_RESULT',
    'UNSUPPORTED_RESULT_TYPE',
    'INPUT_REQUIRED_ROUNDS_EXCEEDED',
    'CAPABILITY_NOT_SUPPORTED',
  ],
])

type ToolCall = { name: string; arguments: Record<string, unknown> }

interface ConnectionOptions {
  readonly server: McpServer
  readonly context: ToolContext
  readonly startMs: number
  readonly callMs: number
  readonly onChange: () => void
}

/** A connection to a server, and its tools. After a failure the next call reconnects, once. */
export class McpConnection {
  readonly name: string
  readonly #options: ConnectionOptions
  tools: readonly ServerTool[] = []
  /** What the server says about its use. */
  instructions: string | undefined
  hasResources = false
  prompts: readonly McpPrompt[] = []
  /** Why the last attempt failed, until the first one succeeds. */
  failure: string | undefined
  #current: OpenConnection | undefined
  #omitted: string[] = []
  #refreshing: Promise<void> | undefined
  #isStale = false
  /** Questions of the server that wait for the user. */
  #questions = 0
  /** Its questions since a call began while none was open. */
  #asked = 0
  #calls = 0
  /** Aborted when no call is left that could use an answer of the user. */
  #callsEnd = new AbortController()
  /** Aborted by `close`. */
  readonly #lifetime = new AbortController()
  #connecting: Promise<void> | undefined

  constructor(name: string, options: ConnectionOptions) {
    this.name = name
    this.#options = options
  }

  /** What the user says of its tools; undefined: nothing. */
  get isReadOnly(): boolean | undefined {
    return this.#options.server.read_only
  }

  /** Time in which the user is asked is no silence. */
  get #answerQuestion(): AnswerQuestion | undefined {
    const { askUser } = this.#options.context
    if (askUser === undefined) return undefined
    return async (params, signal) => {
      // Only a call has a user who expects a question.
      if (this.#calls === 0) return { action: 'cancel' }
      if (++this.#asked > maxQuestions) return { action: 'decline' }
      this.#questions++
      try {
        const stop = AbortSignal.any([signal, this.#callsEnd.signal])
        return await answerElicitation(this.name, params, askUser, stop)
      } finally {
        this.#questions--
      }
    }
  }

  get isConnected(): boolean {
    return this.#current !== undefined
  }

  /** Connects and lists the tools; returns what failed. */
  async start(signal: AbortSignal): Promise<string[]> {
    try {
      await this.connect(signal)
      return this.#omitted
    } catch (error) {
      this.failure = this.#errorDetail(error)
      return [this.failure]
    }
  }

  /** Tries again after a failed start; never rejects. */
  async retry(): Promise<void> {
    try {
      await this.#reportChange(() => this.connect(this.#lifetime.signal))
    } catch (error) {
      if (!this.#lifetime.signal.aborted) this.failure = this.#errorDetail(error)
    }
  }

  /** Calls a tool. A failure of the connection is a text; rejects only when the signal aborts. */
  async call(tool: string, args: Record<string, unknown>, signal: AbortSignal): Promise<CallResult> {
    return await this.#exchange(signal, (client, options) =>
      this.#callTool(client, { name: tool, arguments: args }, options),
    )
  }

  /** Sends another request; its answer is unchecked. As `call`. */
  async request(method: string, params: Record<string, unknown>, signal: AbortSignal): Promise<CallResult> {
    const { specTypeSchemas } = await import('@modelcontextprotocol/client')
    return await this.#exchange(signal, (client, options) =>
      client.request({ method, params }, specTypeSchemas.Result, options),
    )
  }

  async #exchange(
    signal: AbortSignal,
    send: (client: Client, options: RequestOptions) => Promise<unknown>,
  ): Promise<CallResult> {
    const { callMs } = this.#options
    try {
      if (this.#current === undefined) await this.#reportChange(() => this.connect(signal))
    } catch (error) {
      signal.throwIfAborted()
      return { failure: `The MCP server ${this.name} cannot be reached: ${this.#errorDetail(error)}` }
    }
    const live = this.#current
    if (live === undefined) return { failure: `The MCP server ${this.name} is closed.` }
    using limit = new SilenceLimit(callMs, () => this.#questions > 0)
    this.#calls++
    try {
      const options = {
        signal: AbortSignal.any([signal, limit.signal]),
        // Longer than our own limit, to distinguish it from a time-out that the server reports.
        timeout: Math.max(callMs * maxSilences, maxQuestionMs) + 60_000,
        onprogress: (progress: Progress) => limit.addProgress(progress),
      }
      return { result: await send(live.client, options) }
    } catch (error) {
      signal.throwIfAborted()
      if (limit.signal.aborted) return { failure: this.#options.context.secrets.redact(limit.failure) }
      return { failure: await this.#handleCallError(live, error) }
    } finally {
      if (--this.#calls === 0) {
        this.#asked = 0
        this.#callsEnd.abort()
        this.#callsEnd = new AbortController()
      }
    }
  }

  /** The answer as it came: results of older servers need not follow the protocol. */
  async #callTool(client: Client, params: ToolCall, options: RequestOptions): Promise<unknown> {
    if (client.getProtocolEra() === 'legacy') {
      const { specTypeSchemas } = await import('@modelcontextprotocol/client')
      return await client.request({ method: 'tools/call', params }, specTypeSchemas.Result, options)
    }
    const tool = this.tools.find(({ name }) => name === params.name)
    if (tool === undefined) return await client.callTool(params, options)
    // The definition names arguments that go into headers. The model judges the output, not its schema.
    const { outputSchema: _, ...toolDefinition } = tool
    return await client.callTool(params, { ...options, toolDefinition })
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
      const endpoint = await raceAbort(resolveEndpoint(server, context), stop)
      const { workspace } = context
      live = await connect(endpoint, { workspace, answerQuestion: this.#answerQuestion }, stop)
      const connected = live
      live.client.onclose = () => {
        if (this.#current === connected) this.#current = undefined
      }
      await Promise.all([
        this.#list(live, stop),
        this.#findResources(live, stop),
        this.#findPrompts(live, stop),
      ])
      this.#subscribeToListChanges(live)
      stop.throwIfAborted()
      this.#current = live
      this.instructions = live.client.getInstructions()
      this.failure = undefined
    } catch (error) {
      await live?.close()
      if (!timer.aborted) throw error
      const detail = error instanceof McpConnectionError ? `: ${error.message}` : ''
      throw new McpConnectionError(`it was not ready within ${startMs / 1000} seconds${detail}`, 'time')
    }
  }

  /**
   * Connects and lists the tools. Concurrent calls share the attempt, which continues when one of them is
   * aborted. Rejects with the error, which may contain secrets.
   */
  async connect(signal: AbortSignal): Promise<void> {
    this.#lifetime.signal.throwIfAborted()
    this.#connecting ??= this.#openConnection().finally(() => {
      this.#connecting = undefined
    })
    await raceAbort(this.#connecting, signal)
  }

  async #reportChange(listTools: () => Promise<void>): Promise<void> {
    const before = JSON.stringify(this.tools)
    await listTools()
    if (JSON.stringify(this.tools) !== before) this.#options.onChange()
  }

  async #list({ client }: OpenConnection, signal: AbortSignal): Promise<void> {
    const { specTypeSchemas } = await import('@modelcontextprotocol/client')
    const tools: ServerTool[] = []
    const omitted: string[] = []
    // Not by `listTools` of the library, which prints the names of tools that it leaves out.
    const isModern = client.getProtocolEra() === 'modern'
    const mustSendHeaders = isModern && this.#options.server.command === undefined
    const addTool = (candidate: unknown) => {
      const parsed = specTypeSchemas.Tool['~standard'].validate(candidate)
      if (!('value' in parsed))
        omitted.push('a tool was left out: its description does not follow the protocol')
      else if (JSON.stringify(parsed.value).length > maxToolChars)
        omitted.push(
          `the tool ${firstChars(parsed.value.name, 100)} was left out: its description is too long`,
        )
      else if (mustSendHeaders && !canSendHeaders(parsed.value.inputSchema))
        omitted.push('a tool was left out: its arguments cannot go into headers as its description wants')
      else tools.push(parsed.value)
    }
    const timeout = this.#options.startMs + 60_000
    const pages = client.getServerCapabilities()?.tools === undefined ? 0 : maxPages
    let cursor: string | undefined
    for (let page = 0; page < pages && tools.length < maxTools; page++) {
      const params = cursor === undefined ? {} : { cursor }
      const answer = await client.request({ method: 'tools/list', params }, specTypeSchemas.Result, {
        signal,
        timeout,
      })
      for (const tool of Array.isArray(answer.tools) ? answer.tools : []) addTool(tool)
      cursor = typeof answer.nextCursor === 'string' ? answer.nextCursor : undefined
      if (cursor === undefined) break
    }
    if (cursor !== undefined || tools.length > maxTools)
      omitted.push(`it has too many tools: those after the first ${maxTools} were left out`)
    this.tools = tools.slice(0, maxTools)
    this.#omitted = omitted.slice(0, 20)
  }

  /** Many servers declare resources and list no resource. */
  async #findResources({ client }: OpenConnection, signal: AbortSignal): Promise<void> {
    const { specTypeSchemas } = await import('@modelcontextprotocol/client')
    if (client.getServerCapabilities()?.resources === undefined) return
    const timeout = this.#options.startMs + 60_000
    const counts = ['resources/list', 'resources/templates/list'].map(async (method) => {
      const answer = await client.request({ method, params: {} }, specTypeSchemas.Result, { signal, timeout })
      return [answer.resources, answer.resourceTemplates].some(
        (list) => Array.isArray(list) && list.length > 0,
      )
    })
    const found = await Promise.allSettled(counts)
    this.hasResources = found.some((one) => one.status === 'fulfilled' && one.value)
  }

  /** Servers without prompts are used for their tools: a failure is no prompt. */
  async #findPrompts({ client }: OpenConnection, signal: AbortSignal): Promise<void> {
    this.prompts = []
    if (client.getServerCapabilities()?.prompts === undefined) return
    const { specTypeSchemas } = await import('@modelcontextprotocol/client')
    const timeout = this.#options.startMs + 60_000
    const found: McpPrompt[] = []
    let cursor: string | undefined
    for (let page = 0; page < maxPages && found.length < maxPrompts; page++) {
      const params = cursor === undefined ? {} : { cursor }
      const answer = await client
        .request({ method: 'prompts/list', params }, specTypeSchemas.Result, { signal, timeout })
        .catch(() => undefined)
      found.push(...readPrompts(this.name, answer))
      cursor = typeof answer?.nextCursor === 'string' ? answer.nextCursor : undefined
      if (cursor === undefined) break
    }
    this.prompts = found.slice(0, maxPrompts)
  }

  #subscribeToListChanges(live: OpenConnection): void {
    live.client.setNotificationHandler('notifications/tools/list_changed', () => this.#startRefresh(live))
    const hasChanges = live.client.getServerCapabilities()?.tools?.listChanged === true
    if (live.client.getProtocolEra() !== 'modern' || !hasChanges) return
    void this.#listen(live)
  }

  /** Listens again when the stream has closed, after growing pauses. Never rejects. */
  async #listen(live: OpenConnection): Promise<void> {
    const { signal } = this.#lifetime
    let pauseMs = refreshMs
    for (let count = 0; count === 0 || this.#current === live; count++) {
      const started = performance.now()
      try {
        const subscription = await live.client.listen({ toolsListChanged: true }, { signal })
        if (count > 0) this.#startRefresh(live)
        await subscription.closed
      } catch {
        // A server may refuse it: its tools are then those of the start.
        if (count === 0) return
      }
      if (signal.aborted) return
      pauseMs = performance.now() - started > pauseMs ? refreshMs : Math.min(2 * pauseMs, longestPauseMs)
      await delay(pauseMs, undefined, { ref: false })
    }
  }

  #startRefresh(live: OpenConnection): void {
    this.#isStale = true
    this.#refreshing ??= this.#refresh(live).finally(() => {
      this.#refreshing = undefined
    })
  }

  /** Lists again until no change was announced meanwhile, at most once a second. */
  async #refresh(live: OpenConnection): Promise<void> {
    const isUsable = () => (this.#current ?? live) === live && !this.#lifetime.signal.aborted
    while (this.#isStale && isUsable()) {
      this.#isStale = false
      try {
        await this.#reportChange(() => this.#list(live, AbortSignal.timeout(this.#options.startMs)))
      } catch {
        // The previous tools stay; the next call shows whether the server is still there.
        return
      }
      await delay(refreshMs, undefined, { ref: false })
    }
  }

  /** The text for a failed call; closes a broken connection. */
  async #handleCallError(live: OpenConnection, error: unknown): Promise<string> {
    const { ProtocolError, SdkError } = await import('@modelcontextprotocol/client')
    const isAnswer =
      error instanceof ProtocolError || (error instanceof SdkError && answerCodes.has(error.code))
    if (isAnswer && this.#current === live)
      return `The MCP server ${this.name} refused the call: ${this.#errorDetail(error)}`
    if (this.#current === live) this.#current = undefined
    const reason = live.failureReason()
    live.close().catch(() => {})
    const detail = this.#errorDetail(reason === undefined ? error : new Error(reason))
    return `The connection to the MCP server ${this.name} broke: ${detail}. The next call reconnects.`
  }

  #errorDetail(error: unknown): string {
    return firstChars(this.#options.context.secrets.redact(describeFailure(error)), 6000)
  }
}
