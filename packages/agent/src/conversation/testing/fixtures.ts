import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Event,
  type Llm,
  type SendMessageRequest,
  startConversationRequest,
  type WireVersion,
} from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import { type EventDraft, type EventLog, openStorage, type SqliteStorage } from '@slipway/storage'
import type {
  Model,
  ModelFailureCode,
  ModelReply,
  ModelRequest,
  ModelResult,
  OpenModel,
} from '../../llm/model.ts'
import type { RepositoryConsents } from '../../repository/repository-access.ts'
import { Conversation } from '../conversation.ts'
import type { TransientUpdate } from '../events/transient-updates.ts'
import type { ConversationDeps, ConversationStore } from '../runtime/deps.ts'
import type { ResolvedSettings } from '../state/resolved-settings.ts'
import type { LogEvent, LogEventOf } from '../view/log-event.ts'

/** Everything that a repository brings may run. */
export const trustedRepositories: RepositoryConsents = {
  check: async () => ({ id: '', verdict: 'trusted' }),
}

/** What a model of a test answers: a text, calls, or whatever is given besides. */
export interface FakeTurn {
  readonly text?: string
  /** Name and arguments; a text stands for the arguments as they are. */
  readonly calls?: readonly (readonly [name: string, args: object | string])[]
  readonly failure?: ModelFailureCode
  readonly detail?: string
  readonly message?: Partial<ModelReply['message']>
  readonly answer?: Partial<Omit<ModelReply, 'message' | 'kind'>>
  /** Pieces that are said before the answer. */
  readonly deltas?: readonly { readonly content?: string; readonly reasoning_content?: string }[]
  /** Waits before it answers; it need not heed the signal. */
  readonly before?: (request: ModelRequest, signal: AbortSignal) => Promise<unknown>
}

/** A model that plays turns and remembers what it was asked. When they are over, it says `The end.` */
export class FakeModel {
  /** Questions with tools, and those beside the work. */
  readonly requests: ModelRequest[] = []
  readonly sideRequests: ModelRequest[] = []
  readonly #turns: (FakeTurn | undefined)[]
  readonly #sideTurns: (FakeTurn | undefined)[]
  readonly #options: { readonly contextWindow?: number; readonly tokens?: (chars: number) => number }
  #count = 0

  constructor(
    turns: readonly FakeTurn[] = [],
    options: {
      readonly sides?: readonly FakeTurn[]
      readonly contextWindow?: number
      readonly tokens?: (chars: number) => number
    } = {},
  ) {
    this.#turns = [...turns]
    this.#sideTurns = [...(options.sides ?? [])]
    this.#options = options
  }

  readonly open: OpenModel = (llm) => this.#model(llm)

  #model(llm: Llm): Model {
    const { contextWindow, tokens = (chars: number) => Math.ceil(chars / 4) } = this.#options
    return {
      llm,
      contextWindow,
      countTokens: (messages) => tokens(JSON.stringify(messages).length),
      generate: (request, signal) => this.#respond(llm, request, signal),
    }
  }

  async #respond(llm: Llm, request: ModelRequest, signal: AbortSignal): Promise<ModelResult> {
    const isAside = request.tools.length === 0 || request.toolChoice === 'none'
    ;(isAside ? this.sideRequests : this.requests).push(request)
    const turn = (isAside ? this.#sideTurns : this.#turns).shift() ?? {
      text: isAside ? 'Aside.' : 'The end.',
    }
    await turn.before?.(request, signal)
    if (signal.aborted) return { kind: 'aborted' }
    for (const delta of turn.deltas ?? []) request.onDelta?.(delta)
    if (turn.failure !== undefined)
      return { kind: 'failure', code: turn.failure, detail: turn.detail ?? 'It failed.' }
    return createReply(turn, { llm, id: `response-${this.#count++}` })
  }
}

function createReply(turn: FakeTurn, { llm, id }: { readonly llm: Llm; readonly id: string }): ModelReply {
  const tool_calls = (turn.calls ?? []).map(([name, args], index) => ({
    id: `${id}-call-${index}`,
    name,
    arguments: typeof args === 'string' ? args : JSON.stringify(args),
    origin: 'completion' as const,
  }))
  return {
    kind: 'reply',
    responseId: id,
    message: {
      role: 'assistant',
      content:
        turn.text === undefined ? [] : [{ type: 'text' as const, text: turn.text, cache_prompt: false }],
      ...(tool_calls.length === 0 ? {} : { tool_calls }),
      thinking_blocks: [],
      ...turn.message,
    },
    usage: {
      model: llm.model,
      prompt_tokens: 10,
      completion_tokens: 5,
      cache_read_tokens: 2,
      cache_write_tokens: 1,
      reasoning_tokens: 3,
      context_window: 1000,
      per_turn_token: 15,
      response_id: id,
    },
    cost: 0.25,
    latencyMs: 500,
    model: llm.model,
    usageId: llm.usage_id,
    stop: tool_calls.length > 0 ? 'tool_calls' : 'stop',
    ...turn.answer,
  }
}

/** What a test says of a conversation; the rest is as a request without it. */
export interface TestConversationOptions {
  /** Members of the agent. */
  readonly agent?: Readonly<Record<string, unknown>>
  /** Members of the request. */
  readonly request?: Readonly<Record<string, unknown>>
  readonly model?: OpenModel
  readonly deps?: Partial<ConversationDeps>
  /** The model for titles. */
  readonly titleLlm?: Llm
  readonly store?: Partial<ConversationStore>
  /** Written before it is opened. */
  readonly events?: readonly EventDraft[]
  readonly status?: string
  readonly wire?: WireVersion
}

/** A store and a directory for the conversations of a test file. */
export class ConversationFixtures implements AsyncDisposable {
  readonly storage: SqliteStorage
  readonly directory: string
  readonly #conversations: TestConversation[] = []

  private constructor(directory: string, storage: SqliteStorage) {
    this.directory = directory
    this.storage = storage
  }

  static async open(): Promise<ConversationFixtures> {
    const directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-conversation-')))
    return new ConversationFixtures(directory, await openStorage({ directory: join(directory, 'store') }))
  }

  /** A conversation with a store, tools and files that are real. */
  async create(given: TestConversationOptions = {}): Promise<TestConversation> {
    const life = new TestConversation(this, given)
    this.#conversations.push(life)
    await life.create()
    return life
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#conversations.map((life) => life.conversation.close().catch(() => undefined)))
    await this.storage[Symbol.asyncDispose]()
    await rm(this.directory, { recursive: true, force: true })
  }
}

/** A conversation that can be closed and opened again. */
export class TestConversation {
  readonly id = randomUUID()
  readonly workspace: string
  /** Lines of the log function, as JSON. */
  readonly logLines: string[] = []
  readonly updates: TransientUpdate[] = []
  readonly titles: string[] = []
  /** Positions from which the log was read. */
  readonly readPositions: number[] = []
  conversation!: Conversation
  /** As they were sealed last. */
  settings: ResolvedSettings
  readonly #fixtures: ConversationFixtures
  readonly #options: TestConversationOptions

  constructor(place: ConversationFixtures, given: TestConversationOptions) {
    this.#fixtures = place
    this.#options = given
    this.workspace = join(place.directory, 'work', this.id)
    this.settings = createSettings(given, this.workspace)
  }

  async create(): Promise<void> {
    const { storage } = this.#fixtures
    await mkdir(this.workspace, { recursive: true })
    await storage.conversations.create({ id: this.id, status: this.#options.status ?? 'idle' })
    if (this.#options.events !== undefined) await storage.log.append(this.id, this.#options.events)
    await this.open()
  }

  /** Opens it as it was stored. */
  async open(more: Pick<TestConversationOptions, 'deps' | 'store' | 'model'> = {}): Promise<Conversation> {
    const { storage, directory } = this.#fixtures
    const deps: ConversationDeps = {
      log: this.#recordReads(storage.log),
      logLine: (...line) => this.logLines.push(JSON.stringify(line)),
      clock: systemClock,
      openModel: more.model ?? this.#options.model ?? new FakeModel().open,
      environment: { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: directory },
      directory: join(directory, 'conversations'),
      isConfined: true,
      repositoryConsents: trustedRepositories,
      ...this.#options.deps,
      ...more.deps,
    }
    const [vault, [record]] = await Promise.all([
      storage.conversations.getSealedState(this.id),
      storage.conversations.get([this.id]),
    ])
    const store: ConversationStore = {
      snapshot: vault?.snapshot ?? null,
      stats: record?.stats ?? null,
      saveSnapshot: (snapshot) => storage.conversations.saveSnapshot(this.id, snapshot),
      seal: (settings) => {
        this.settings = settings
        return { request: JSON.stringify(settings) }
      },
      title: {
        isMissing: async () => (await storage.conversations.get([this.id]))[0]?.title === null,
        set: async (title) => {
          this.titles.push(title)
          await storage.conversations.patch(this.id, { title })
        },
        model: async () => this.#options.titleLlm,
      },
      ...this.#options.store,
      ...more.store,
    }
    this.readPositions.length = 0
    const { wire = 'seed' } = this.#options
    this.conversation = await Conversation.open({ id: this.id, settings: this.settings, deps, store, wire })
    this.conversation.transientUpdates.subscribe((update) => this.updates.push(update))
    return this.conversation
  }

  async reopen(more: Pick<TestConversationOptions, 'deps' | 'store' | 'model'> = {}): Promise<Conversation> {
    await this.conversation.close()
    return await this.open(more)
  }

  /** Sends a text; `run` and the others as given. */
  async send(text: string, more: Partial<SendMessageRequest> & { readonly id?: string } = {}): Promise<void> {
    const { id, ...members } = more
    const message: SendMessageRequest = {
      role: 'user',
      content: [{ type: 'text', text, cache_prompt: false }],
      run: false,
      sender: undefined,
      extended_content: undefined,
      ...members,
    }
    await this.conversation.send(message, id)
  }

  /** Sends a text and lets it run to its end. */
  async sendAndWait(text: string): Promise<void> {
    await this.send(text, { run: true })
    await this.conversation.waitUntilIdle()
  }

  get status(): string {
    return this.conversation.state.status
  }

  async events(): Promise<LogEvent[]> {
    const stored = await this.#fixtures.storage.log.read(this.id, 0, 100_000)
    return stored.map(({ bytes }) => JSON.parse(bytes.toString()))
  }

  async eventsOfKind<K extends Event['kind']>(kind: K): Promise<LogEventOf<K>[]> {
    const events = await this.events()
    return events.filter((event): event is LogEventOf<K> => event.kind === kind)
  }

  /** The kinds of the log in order; of a state update its key and value. */
  async eventSummary(): Promise<string[]> {
    const events = await this.events()
    return events.map((event) => {
      if (event.kind === 'ConversationStateUpdateEvent') {
        const value = typeof event.value === 'string' && event.key === 'execution_status' ? event.value : ''
        return `${event.key}${value === '' ? '' : `: ${value}`}`
      }
      return event.kind === 'MessageEvent' ? `${event.kind} ${event.source}` : event.kind
    })
  }

  /** The store, as this conversation sees it. */
  #recordReads(log: EventLog): EventLog {
    return {
      append: (...args) => log.append(...args),
      read: (...args) => {
        this.readPositions.push(args[1])
        return log.read(...args)
      },
      search: (...args) => log.search(...args),
      count: (...args) => log.count(...args),
      get: (...args) => log.get(...args),
      tail: (...args) => log.tail(...args),
    }
  }
}

function createSettings(
  { agent = {}, request = {} }: TestConversationOptions,
  working_dir: string,
): ResolvedSettings {
  const parsed = startConversationRequest.parse({
    agent: { llm: { model: 'played' }, ...agent },
    workspace: { working_dir },
    autotitle: false,
    ...request,
  })
  if (parsed.agent === undefined) throw new Error('an agent was given')
  return { ...parsed, agent: parsed.agent }
}

/** Resolves when something is so; rejects after ten seconds. */
export async function waitUntil(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 10_000
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error('it did not come to be')
    await sleep(5)
  }
}

/** Something to wait for, and what opens it. */
export function createLatch(): { readonly opened: Promise<void>; readonly open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { opened: promise, open: resolve }
}

/** The texts of events' contents, joined. */
export function contentText(parts: readonly object[] | undefined): string {
  return (parts ?? []).map((part) => ('text' in part ? String(part.text) : '')).join('\n')
}
