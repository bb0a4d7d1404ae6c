import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import type { AgentServerApi, ApiEvent } from './agent-server-api.ts'

/** A conversation as REST returns it; each test checks the members that it reads. */
export interface ConversationInfo {
  readonly id: string
  readonly execution_status: string
  readonly title: string | null
  readonly workspace: { readonly working_dir: string }
  readonly [member: string]: unknown
}

export interface JsonResponse<T = unknown> {
  readonly status: number
  readonly body: T
}

/** One tool call of a script. */
export function toolCall(name: string, args: object = {}): { name: string; arguments: object } {
  return { name, arguments: args }
}

/** A step of a script that calls tools. */
export function toolCallsStep(...tool_calls: readonly object[]): object {
  return { tool_calls }
}

export function bashStep(command: string, more: object = {}): object {
  return toolCallsStep(toolCall('terminal', { command, ...more }))
}

export function finishStep(message = 'Done.'): object {
  return toolCallsStep(toolCall('finish', { message }))
}

/** A model that plays a script. */
export function scriptedModel(script: readonly unknown[], more: object = {}): object {
  return { model: 'scripted/test', usage_id: 'agent', script, ...more }
}

/** The calls of tests that run agents. */
export class AgentDriver {
  readonly api: AgentServerApi
  readonly #directory: string

  constructor(options: {
    readonly api: AgentServerApi
    /** The workspace of conversations that name no other. */
    readonly directory: string
  }) {
    this.api = options.api
    this.#directory = options.directory
  }

  /**
   * Creates a conversation with the terminal; `agent` replaces members of the agent, `more` of the request.
   */
  async create(agent: object, more: object = {}): Promise<ConversationInfo> {
    const { status, body } = await this.tryCreate(agent, more)
    if (status !== 201) throw new Error(`create answered ${status}: ${JSON.stringify(body)}`)
    return body
  }

  async tryCreate(agent: object, more: object = {}): Promise<JsonResponse<ConversationInfo>> {
    const request = {
      agent: { kind: 'Agent', tools: [{ name: 'terminal' }], ...agent },
      workspace: { working_dir: this.#directory },
      autotitle: false,
      ...more,
    }
    return (await this.api.sendJson('POST', '/api/conversations', request)) as JsonResponse<ConversationInfo>
  }

  /** A conversation that plays a script from its first message on. */
  async createScripted(script: readonly unknown[], more: object = {}): Promise<ConversationInfo> {
    return await this.create(
      { llm: scriptedModel(script) },
      { initial_message: { content: [{ type: 'text', text: 'Begin.' }] }, ...more },
    )
  }

  async getInfo(id: string): Promise<ConversationInfo> {
    const { status, body } = await this.api.requestJson<ConversationInfo>(`/api/conversations/${id}`)
    if (status !== 200) throw new Error(`the conversation answered ${status}: ${JSON.stringify(body)}`)
    return body
  }

  async post(id: string, verb: string, body?: object): Promise<JsonResponse> {
    const path = `/api/conversations/${id}/${verb}`
    return body === undefined
      ? await this.api.requestJson(path, { method: 'POST' })
      : await this.api.sendJson('POST', path, body)
  }

  /** A text is sent as one part. */
  async sendMessage(id: string, content: unknown, more: object = {}): Promise<JsonResponse> {
    const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content
    return await this.post(id, 'events', { content: parts, run: true, ...more })
  }

  /** Returns all events after the conversation is idle. */
  async waitUntilIdle(id: string): Promise<ApiEvent[]> {
    const response = await this.api.fetch(`/api/conversations/${id}/events/stream?until=idle`)
    return parseServerSentEvents(await response.text())
  }

  /** The events in the log now. */
  async getEvents(id: string): Promise<ApiEvent[]> {
    const text = (await this.api.export(id)).toString()
    return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]))
  }

  /** Waits until an event is in the log, and returns all events. */
  async waitForEvent(id: string, isExpected: (event: ApiEvent) => boolean): Promise<ApiEvent[]> {
    for (let elapsedMs = 0; elapsedMs < 20_000; elapsedMs += 30) {
      const events = await this.getEvents(id)
      if (events.some(isExpected)) return events
      await sleep(30)
    }
    throw new Error(`the event did not arrive: ${JSON.stringify((await this.getEvents(id)).map(eventLabel))}`)
  }

  openSocket(path: string): SocketClient {
    const { url, headers } = this.api.endpoint
    return new SocketClient(`${url.replace(/^http/, 'ws')}${path}`, headers)
  }
}

/** The stored events of a text of server-sent events. */
export function parseServerSentEvents(text: string): ApiEvent[] {
  return [...text.matchAll(/^id: \d.*\ndata: (.*)$/gm)].map((found) => JSON.parse(String(found[1])))
}

/** A short label of an event; tests compare the order of a run by labels. */
export function eventLabel(event: ApiEvent): string {
  switch (event.kind) {
    case 'ConversationStateUpdateEvent':
      return event.key === 'full_state' ? 'full_state' : `${event.key}=${event.value}`
    case 'MessageEvent':
      return `message:${event.source}`
    case 'ActionEvent':
    case 'AgentErrorEvent':
    case 'UserRejectObservation':
      return `${event.kind}:${event.tool_name}`
    case 'ConversationErrorEvent':
      return `${event.kind}:${event.code}`
    case 'ObservationEvent':
      return `result:${event.tool_name}`
    default:
      return event.kind
  }
}

/** All strings of a value, one a line. */
export function collectTexts(value: unknown): string {
  if (typeof value === 'string') return `${value}\n`
  if (typeof value !== 'object' || value === null) return ''
  return Object.values(value).map(collectTexts).join('')
}

/**
 * Violations of the invariants of every log: unique ids, and for each call exactly one action and, unless it
 * waits, exactly one result.
 */
export function findLogIssues(
  events: readonly ApiEvent[],
  options: { readonly mayWait?: boolean } = {},
): string[] {
  const issues: string[] = []
  const ids = new Set(events.map(({ id }) => id))
  if (ids.size !== events.length) issues.push('an id occurs twice')
  const actions = events.filter(({ kind }) => kind === 'ActionEvent')
  const results = events.filter(({ kind }) =>
    ['ObservationEvent', 'UserRejectObservation', 'AgentErrorEvent'].includes(kind),
  )
  const callIds = actions.map(({ tool_call_id }) => tool_call_id)
  if (new Set(callIds).size !== callIds.length) issues.push('a call occurs twice')
  for (const id of callIds) {
    const count = results.filter(({ tool_call_id }) => tool_call_id === id).length
    if (count !== 1 && !(options.mayWait && count === 0)) issues.push(`call ${id} has ${count} results`)
  }
  for (const { tool_call_id } of results)
    if (!callIds.includes(tool_call_id)) issues.push(`result of no call ${tool_call_id}`)
  const times = events.map(({ timestamp }) => timestamp)
  if (times.some((time, at) => at > 0 && time < String(times[at - 1]))) issues.push('time goes back')
  return issues
}

/** A WebSocket client that records every frame and can wait for one. */
export class SocketClient implements AsyncDisposable {
  readonly frames: string[] = []
  readonly socket: WebSocket
  /** How it ended. */
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>
  #wake: () => void = () => {}

  constructor(url: string, headers: Readonly<Record<string, string>>) {
    this.socket = new WebSocket(url, { headers })
    this.closed = new Promise((resolve) =>
      this.socket.on('close', (code, reason) => resolve({ code, reason: String(reason) })),
    )
    this.socket.on('error', () => {})
    this.socket.on('message', (data) => {
      this.frames.push(String(data))
      this.#wake()
    })
  }

  events(): ApiEvent[] {
    return this.frames.map((frame) => JSON.parse(frame))
  }

  /** Waits until the recorded frames are sufficient. */
  async waitUntil(isEnough: (events: readonly ApiEvent[]) => boolean): Promise<ApiEvent[]> {
    for (;;) {
      const events = this.events()
      if (isEnough(events)) return events
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.terminate()
    await this.closed
  }
}
