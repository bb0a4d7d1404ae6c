import { randomUUID } from 'node:crypto'
import {
  type CallInput,
  type Client,
  follow,
  type PositionedEvent,
  type TransientUpdate,
} from '@slipway/client'
import type { CommandRule, ConversationInfo } from '@slipway/protocol'
import { actionsDigest, PendingActions } from '@slipway/protocol/confirmation'
import {
  buildAgent,
  buildConfirmationSettings,
  buildLlm,
  type SelectedModel,
} from '../conversation/agent-request.ts'
import { readAgentMcpServers } from '../conversation/mcp-servers.ts'
import { allowCommand, answerActions, answeredElsewhere } from '../conversation/pending-actions.ts'
import { agentSource } from '../conversation/source/agent-source.ts'
import { findConversationId } from '../conversation/source/find-id.ts'
import type { ConversationSource, ConversationSummary } from '../conversation/source/source.ts'
import { asObject, asString, type JsonObject } from '../output/action-text.ts'
import { sanitizeLine, sanitizeLines } from '../output/sanitize.ts'
import { paint } from '../output/terminal.ts'
import { TranscriptRenderer } from '../output/transcript.ts'
import { askModel } from './choose-model.ts'
import { contentWithFiles } from './input/mentions.ts'

type PolicyRequest = CallInput<'setConfirmationPolicy'>['body']

/** What a session shows of its conversation. */
export interface SessionScreen {
  readonly columns: number
  /** Prints text above the input; it may end in the middle of a line, which is continued. */
  print(text: string): void
  /** Something that is drawn has changed. */
  update(): void
}

interface SessionOptions {
  readonly client: Client
  readonly directory: string
  readonly screen: SessionScreen
  readonly signal: AbortSignal
  /** The settings of the model for a new conversation; it may ask the user. */
  readonly model: SelectedModel | undefined
  /** Of a new conversation. */
  readonly confirmation: ConfirmationChoice
  /** Called when the connection is lost: it may start the server again. */
  readonly revive: () => Promise<void>
}

/** Actions as a question showed them. */
export interface AskedActions {
  readonly actionIds: readonly string[]
  readonly digest: string
}

/** What a new conversation asks about. */
export interface ConfirmationChoice {
  /** Every action; otherwise risky ones. */
  readonly isAsking: boolean
  readonly rules: readonly CommandRule[]
}

/** The conversation of a session: what is known of it, and what the user may do with it. */
export class Session {
  readonly #options: SessionOptions
  #id: string | undefined
  #following: AbortController | undefined
  #transcript: TranscriptRenderer
  readonly #open = new PendingActions<JsonObject>()
  #asked: AskedActions | undefined
  /** For each message of the user that counts, the id of the event before it. */
  readonly #messageStarts: (string | null)[] = []
  #lastEventId: string | null = null
  #lastResult = ''
  #info: ConversationInfo | undefined
  status = 'idle'
  connection = ''
  startedAt = 0
  tasks: { title: string; status: string }[] = []
  readonly queue: string[] = []
  readonly #source: ConversationSource
  #reviving: Promise<void> | undefined
  #model: SelectedModel | undefined
  /** For a conversation that has not begun. */
  #policy: PolicyRequest['policy'] | undefined
  #isPlanning = false

  constructor(options: SessionOptions) {
    this.#options = options
    this.#model = options.model
    this.#source = agentSource(options.client, options.signal)
    this.#transcript = this.#newTranscript()
  }

  get id(): string | undefined {
    return this.#id
  }

  get isRunning(): boolean {
    return this.status === 'running'
  }

  /** The actions that wait for the user. */
  get pending(): readonly JsonObject[] {
    return this.status === 'waiting_for_confirmation' ? this.#open.list() : []
  }

  /** Model, tokens, context and cost, as far as they are known. */
  get facts(): string[] {
    const { agent, metrics } = this.#info ?? {}
    const model = asString(asObject(asObject(agent).llm).model) || (this.#model?.name ?? '')
    const { accumulated_cost, accumulated_token_usage } = asObject(metrics)
    const { prompt_tokens, completion_tokens, per_turn_token, context_window } =
      asObject(accumulated_token_usage)
    const facts = [model]
    if (typeof accumulated_cost === 'number' && accumulated_cost > 0)
      facts.push(`$${accumulated_cost.toFixed(4)}`)
    if (typeof per_turn_token === 'number' && typeof context_window === 'number' && context_window > 0)
      facts.push(`context ${Math.round((100 * per_turn_token) / context_window)} %`)
    if (typeof prompt_tokens === 'number' && prompt_tokens > 0)
      facts.push(`${prompt_tokens} in, ${typeof completion_tokens === 'number' ? completion_tokens : 0} out`)
    if (this.#id !== undefined) facts.push(this.#id.slice(0, 8))
    return facts.filter((fact) => fact !== '')
  }

  /** Shows the newest events of a conversation and follows it. */
  async attach(id: string): Promise<void> {
    const { client, signal } = this.#options
    const params = { conversation_id: id }
    this.#info = await client.call('getConversation', { params, signal })
    const count = await client.call('countEvents', { params, query: {}, signal })
    this.#following?.abort()
    this.#id = id
    this.status = this.#info.execution_status
    this.#open.clear()
    this.#asked = undefined
    this.#messageStarts.length = 0
    this.tasks = []
    this.#lastEventId = null
    this.#transcript = this.#newTranscript()
    if (count > maxShown) this.#options.screen.print(`… ${count - maxShown} events before these\n`)
    await this.#follow(Math.max(0, count - maxShown))
  }

  /** Sends a message: at once, or when the run that continues has ended. */
  async send(text: string): Promise<void> {
    if (this.isRunning) {
      this.queue.push(text)
      return
    }
    const { client, signal, directory, confirmation } = this.#options
    const model = this.#model
    const policy = this.#policy
    const content = await contentWithFiles(text, directory)
    this.#setStatus('running')
    if (this.#id !== undefined) {
      const params = { conversation_id: this.#id }
      await client.call('sendMessage', { params, body: { content, run: true }, signal })
      return
    }
    if (model === undefined) throw new Error('There is no model. Choose one with /model.')
    const id = randomUUID()
    const body = {
      conversation_id: id,
      agent: buildAgent(buildLlm(model), await readAgentMcpServers(client, signal)),
      workspace: { working_dir: directory },
      // It runs when its stream is open, so that the first words are seen.
      initial_message: { content, run: false },
      ...buildConfirmationSettings(confirmation.isAsking),
      ...(policy === undefined ? {} : { confirmation_policy: policy }),
      ...(this.#isPlanning ? { plan_mode: true } : {}),
      ...(confirmation.rules.length === 0 ? {} : { command_rules: [...confirmation.rules] }),
    }
    this.#info = await client.call('createConversation', { body, signal })
    this.#id = id
    await this.#follow(0)
    await client.call('runConversation', { params: { conversation_id: id }, signal })
  }

  async interrupt(): Promise<void> {
    if (this.#id === undefined) return
    this.queue.length = 0
    const { client, signal } = this.#options
    await client.call('interruptConversation', { params: { conversation_id: this.#id }, signal })
  }

  /** The actions that wait: an answer is for those that the user has seen. */
  get asked(): AskedActions {
    const events = this.pending
    if (events.length === 0) return { actionIds: [], digest: '' }
    this.#asked ??= { actionIds: events.map(({ id }) => asString(id)), digest: actionsDigest(events) }
    return this.#asked
  }

  /** Answers these actions, if they still wait. A rejection without a reason stops the run. */
  async answer(
    isAccepted: boolean,
    { reason, asked = this.asked }: { readonly reason?: string; readonly asked?: AskedActions } = {},
  ): Promise<void> {
    const { client, signal } = this.#options
    const answer = { accept: isAccepted, reason, ...asked, isContinued: reason !== undefined }
    const isAnswered = await answerActions(client, this.#conversationId(), answer, signal)
    if (!isAnswered) throw new Error(answeredElsewhere)
  }

  /** Runs this command from now on without a question, and what waits. */
  async allowAlways(pattern: string, asked: AskedActions = this.asked): Promise<void> {
    const { client, signal } = this.#options
    await allowCommand(client, this.#conversationId(), pattern, signal)
    await this.answer(true, { asked })
  }

  /**
   * Goes back to before the newest message; the id of the conversation, undefined when there is
   * none.
   */
  async undo(): Promise<string | undefined> {
    if (this.#messageStarts.length === 0) return undefined
    const before = this.#messageStarts.pop()
    const { client, signal } = this.#options
    const params = { conversation_id: this.#conversationId() }
    await client.call('navigateConversation', { params, body: { event_id: before ?? undefined }, signal })
    return params.conversation_id
  }

  /** Of this conversation, or of the one that the first message begins. */
  async setPolicy(policy: PolicyRequest['policy']): Promise<void> {
    const { client, signal } = this.#options
    this.#policy = policy
    if (this.#id === undefined) return
    const params = { conversation_id: this.#id }
    await client.call('setConfirmationPolicy', { params, body: { policy }, signal })
  }

  /** Begins plan mode, in this conversation or in the one that the first message begins. */
  async startPlan(): Promise<void> {
    this.#isPlanning = true
    await this.#patchPlanMode(true)
  }

  /** Ends plan mode; an accepted plan is carried out. */
  async endPlan({ isAccepted }: { readonly isAccepted: boolean }): Promise<void> {
    this.#isPlanning = false
    await this.#patchPlanMode(false)
    if (!isAccepted || this.isRunning) return
    const { client, signal } = this.#options
    await client.call('runConversation', { params: { conversation_id: this.#conversationId() }, signal })
  }

  async #patchPlanMode(plan_mode: boolean): Promise<void> {
    const { client, signal } = this.#options
    if (this.#id === undefined) return
    await client.call('patchConversation', {
      params: { conversation_id: this.#id },
      body: { plan_mode },
      signal,
    })
  }

  /** Copies the conversation and continues in the copy; returns its id. */
  async fork(): Promise<string> {
    const { client, signal } = this.#options
    const params = { conversation_id: this.#conversationId() }
    const { id } = await client.call('forkConversation', { params, body: {}, signal })
    await this.attach(id)
    return id
  }

  async compact(): Promise<void> {
    const { client, signal } = this.#options
    await client.call('condenseConversation', { params: { conversation_id: this.#conversationId() }, signal })
  }

  async rename(title: string): Promise<void> {
    await this.#source.rename(this.#conversationId(), title)
  }

  /** The conversations that changed last. */
  async listOthers(): Promise<ConversationSummary[]> {
    return (await this.#source.list({ limit: 20 })).items
  }

  /** Goes to the conversation whose id begins so. */
  async attachTo(text: string): Promise<void> {
    await this.attach(await findConversationId(this.#source, text))
  }

  /** Asks the user for a model, for this conversation and the next ones. */
  async chooseModel(): Promise<void> {
    const { client, signal } = this.#options
    this.#model = await askModel(client, signal)
    if (this.#id === undefined) return
    const params = { conversation_id: this.#id }
    await client.call('switchLlm', { params, body: { llm: buildLlm(this.#model) }, signal })
    this.#info = await client.call('getConversation', { params, signal })
  }

  /** The last result in full. */
  get lastResult(): string {
    return this.#lastResult
  }

  close(): void {
    this.#following?.abort()
  }

  #conversationId(): string {
    if (this.#id === undefined) throw new Error('There is no conversation yet: write a message.')
    return this.#id
  }

  #newTranscript(): TranscriptRenderer {
    const { directory, screen } = this.#options
    return new TranscriptRenderer({ columns: Math.max(20, screen.columns - 1), directory })
  }

  /** Resolves when the stream is open. */
  async #follow(after: number): Promise<void> {
    const { signal, screen } = this.#options
    const abort = new AbortController()
    this.#following = abort
    const opened = Promise.withResolvers<void>()
    this.#read(after, AbortSignal.any([signal, abort.signal]), opened.resolve)
      .catch((error: Error) => {
        if (!abort.signal.aborted) screen.print(paint('red', `✗ ${sanitizeLine(error.message)}\n`))
      })
      .finally(opened.resolve)
    await opened.promise
  }

  async #read(after: number, signal: AbortSignal, onOpen: () => void): Promise<void> {
    const { client, screen } = this.#options
    const items = follow(client, this.#conversationId(), {
      after,
      signal,
      onTransientUpdate: (update) => this.#onUpdate(update),
      onResync: ({ message }) => screen.print(`${sanitizeLine(message)}\n`),
      onDisconnect: () => {
        this.#setConnection('Connection lost, trying again …')
        this.#revive()
      },
      onConnect: () => {
        this.#setConnection('')
        onOpen()
      },
    })
    for await (const item of items) this.#onEvent(item)
  }

  #revive(): void {
    this.#reviving ??= this.#options
      .revive()
      .catch(() => {})
      .finally(() => {
        this.#reviving = undefined
      })
  }

  #setConnection(text: string): void {
    this.connection = text
    this.#options.screen.update()
  }

  #onUpdate(update: TransientUpdate): void {
    this.#options.screen.print(this.#transcript.renderUpdate(update))
  }

  #onEvent({ event }: PositionedEvent): void {
    const members = asObject(event)
    this.#open.apply(members)
    this.#asked = undefined
    if (members.kind === 'MessageEvent' && members.source === 'user')
      this.#messageStarts.push(this.#lastEventId)
    if (members.kind === 'ConversationStateUpdateEvent') {
      if (members.key === 'execution_status') this.#setStatus(asString(members.value))
      else if (members.key === 'leaf_event_id') this.#forgetFrom(members.value)
    }
    this.#remember(members)
    if (members.key === 'leaf_event_id') this.#lastEventId = asString(members.value) || null
    else if (typeof members.id === 'string') this.#lastEventId = members.id
    this.#options.screen.print(this.#transcript.renderEvent(event))
  }

  /** Messages after an event count no more: the conversation has gone back to it. */
  #forgetFrom(eventId: unknown): void {
    const at = this.#messageStarts.indexOf(typeof eventId === 'string' ? eventId : null)
    if (at !== -1) this.#messageStarts.length = at
  }

  /** The task list and the last result. */
  #remember(members: Readonly<Record<string, unknown>>): void {
    const { task_list } = asObject(members.action)
    if (Array.isArray(task_list)) {
      this.tasks = task_list.map(asObject).map((task) => ({
        title: asString(task.title),
        status: asString(task.status),
      }))
    }
    const { content } = asObject(members.observation)
    if (members.kind !== 'ObservationEvent') return
    const parts = Array.isArray(content)
      ? content.map((part) => asString(asObject(part).text))
      : [asString(content)]
    this.#lastResult = sanitizeLines(parts.join('\n')).join('\n')
  }

  #setStatus(status: string): void {
    if (status === 'running' && this.status !== 'running') this.startedAt = Date.now()
    this.status = status
    const { screen } = this.#options
    if (status !== 'running') this.#afterRun()
    screen.update()
  }

  #afterRun(): void {
    const { client, screen, signal } = this.#options
    const id = this.#id
    if (id === undefined) return
    client.call('getConversation', { params: { conversation_id: id }, signal }).then(
      (info) => {
        this.#info = info
        screen.update()
      },
      () => {},
    )
    const next = this.status === 'waiting_for_confirmation' ? undefined : this.queue.shift()
    if (next === undefined) return
    this.send(next).catch((error: Error) => screen.print(paint('red', `✗ ${sanitizeLine(error.message)}\n`)))
  }
}

/** Events that are shown of a conversation when a session joins it. */
const maxShown = 200
