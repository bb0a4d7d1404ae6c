import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type ConfirmationPolicy,
  type Llm,
  Problem,
  redact,
  type SecretSource,
  type SecurityAnalyzer,
  type SendMessageRequest,
} from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import { Secrets } from '../secrets.ts'
import { Deadline } from './deadline.ts'
import { agentError, rejection, stateUpdate, statusUpdate, textMessage } from './drafts.ts'
import { Equipment, type Rim, type Settings } from './equipment.ts'
import { type Hint, Hints } from './hints.ts'
import { type Keeping, restored } from './keeping.ts'
import { maskEvent } from './mask.ts'
import { Pen } from './pen.ts'
import { Run } from './run.ts'
import type { Pending, State } from './state.ts'
import { Stats } from './stats.ts'
import { next } from './status.ts'
import { titleOf } from './title.ts'
import { messageEvent, mustBeSame, textOf } from './user-message.ts'

const restarted =
  'The call was interrupted by a restart before it had a result. It may have been done in part.'
const interrupted =
  'The call was interrupted by the user before it had a result. It may have been done in part.'
const superseded = 'Superseded by a new user message'
const sideQuestion =
  'Answer the following question about this conversation briefly and in words only, without calling a tool:'
/** A run that does not stop is left behind after this. */
const stopMs = 5_000
/** Events between two savings of the fold. */
const saveEvery = 1_000

export interface OpenOptions {
  readonly id: string
  readonly settings: Settings
  readonly rim: Rim
  readonly keeping: Keeping
  /** Where its hints are heard; others may listen before it is opened and after it is closed. */
  readonly hints?: Hints
}

/**
 * A conversation that thinks and acts. Its log is the truth; what is here besides is the fold of it, the tools, and the
 * one loop that runs it. Verbs resolve when what they ask for is durable; the run goes on behind.
 */
export class Conversation implements AsyncDisposable {
  readonly id: string
  readonly hints: Hints
  readonly #rim: Rim
  readonly #keeping: Keeping
  readonly #pen: Pen
  readonly #secrets: Secrets
  readonly #stats: Stats
  readonly #run: Run
  readonly #closing = new AbortController()
  #settings: Settings
  #equipment: Promise<Equipment> | undefined
  #hasBegun = false
  /** A title was looked for since it was opened. */
  #isEntitled = false
  /** Messages and questions that are on their way. */
  #asking = 0
  #loop: Promise<void> | undefined
  #step: AbortController | undefined
  #interruption: Promise<unknown> | undefined
  readonly #deadline: Deadline
  #savedAt: number

  private constructor(options: {
    readonly id: string
    readonly settings: Settings
    readonly rim: Rim
    readonly keeping: Keeping
    readonly pen: Pen
    readonly secrets: Secrets
    readonly hints: Hints
  }) {
    const { id, settings, rim, keeping, pen, secrets, hints } = options
    this.id = id
    this.hints = hints
    this.#settings = settings
    this.#rim = rim
    this.#keeping = keeping
    this.#pen = pen
    this.#secrets = secrets
    this.#stats = new Stats(keeping.stats)
    this.#deadline = new Deadline(
      () => rim.now() / 1000,
      (reason) => void this.respond({ accept: false, reason }).catch(() => undefined),
    )
    this.#savedAt = keeping.snapshot?.position ?? 0
    this.#run = new Run({
      pen,
      settings,
      rim,
      stats: this.#stats,
      secrets,
      isHeard: () => this.hints.isHeard,
      hint: (hint) => this.#hint(hint),
      equip: (signal) => this.#equip(signal),
      policy: () => this.policy,
      analyzer: () => this.analyzer,
    })
  }

  /**
   * Folds the log from the saved state on. A conversation that was running when its process died is answered: each action
   * without a result gets an AgentErrorEvent, and the conversation is paused.
   */
  static async open(options: OpenOptions): Promise<Conversation> {
    const { id, settings, rim, keeping, hints = new Hints() } = options
    const secrets = secretsOf(settings, rim.hidden)
    const mask = (draft: EventDraft) => maskEvent(draft, secrets)
    const state = await restored(id, rim.log, keeping)
    const pen = await Pen.open(id, rim.log, { state, mask })
    const conversation = new Conversation({ id, settings, rim, keeping, pen, secrets, hints })
    await pen.write((now) => (now.status === 'running' ? { events: stopped(now, restarted) } : undefined))
    conversation.#watchDeadline()
    return conversation
  }

  get state(): State {
    return this.#pen.state
  }

  get settings(): Settings {
    return this.#settings
  }

  get stats(): Stats {
    return this.#stats
  }

  get policy(): ConfirmationPolicy {
    return this.state.policy ?? this.#settings.confirmation_policy ?? { kind: 'NeverConfirm' }
  }

  get analyzer(): SecurityAnalyzer | null {
    const own = this.state.analyzer
    return own === undefined ? (this.#settings.security_analyzer ?? null) : own
  }

  /** Something is being done: closing now would interrupt it. */
  get isBusy(): boolean {
    return this.#loop !== undefined || this.#asking > 0
  }

  /** Resolves when no run is on its way. */
  async settled(): Promise<void> {
    while (this.#loop !== undefined) await this.#loop
  }

  /**
   * Stores a user message, with its activated skills and what hooks add to it. Calls that nobody has begun (they wait for
   * confirmation, or a pause has left them) are rejected; a conversation that was finished or stuck is idle again. `id`
   * makes a repeat harmless: the same message is stored once, another one under the same id is a Problem `conflict`. `run`
   * starts a run, also when one is just ending.
   */
  async send(message: SendMessageRequest, id?: string): Promise<void> {
    this.#asking++
    try {
      await this.#send(message, id)
    } finally {
      this.#asking--
    }
  }

  async #send(message: SendMessageRequest, givenId: string | undefined): Promise<void> {
    const equipment = await this.#open().catch(() => undefined)
    const id = givenId ?? randomUUID()
    const text = textOf(message)
    const stored = async () => (givenId === undefined ? [] : await this.#rim.log.get(this.id, [givenId]))
    const [before] = await stored()
    const verdict =
      before === undefined
        ? await equipment?.hook('user_prompt_submit', { message: text }, this.#closing.signal)
        : undefined
    let isNew = true
    await this.#pen.write(async (now) => {
      const [known] = await stored()
      const draft = messageEvent(message, {
        id,
        skills: equipment?.skills,
        activated: now.activated,
        agentContext: this.#settings.agent.agent_context,
        added: verdict?.additionalContext ?? [],
      })
      if (known !== undefined) {
        isNew = false
        mustBeSame(JSON.parse(known.bytes.toString()), draft, this.#secrets)
        return undefined
      }
      const status = next(now.status, 'send')
      const blocked = verdict?.isBlocked
        ? [stateUpdate('blocked_messages', { [id]: verdict.reason ?? 'blocked' })]
        : []
      const events = [
        ...this.#prompt(now, equipment),
        ...this.#resting(now).map((call) => rejection(call, superseded)),
        ...(status === undefined ? [] : [statusUpdate(status)]),
        draft,
        ...blocked,
        ...(message.run && now.status !== 'running' ? [statusUpdate('running')] : []),
      ]
      return { events }
    })
    if (isNew) void this.#entitle(this.#secrets.mask(text))
    if (message.run && !isNew && this.state.status === 'idle') await this.#ensureRunning()
    else if (message.run && this.state.status === 'running') this.#start()
  }

  /** Starts a run; a Problem `conflict` when it is running already. Nothing happens when it is finished. */
  async run(): Promise<void> {
    // A run that broke so badly that it could not say so: its status stayed, and nobody goes on with it.
    if (this.state.status === 'running' && this.#loop === undefined) return this.#start()
    await this.#pen.write((now) => {
      const status = next(now.status, 'run')
      return status === undefined ? undefined : { events: [statusUpdate(status)] }
    })
    if (this.state.status === 'running') this.#start()
    else this.#hint({ kind: 'rest' })
  }

  /** Lets the pending actions be done, or rejects all of them. Said twice, or with nothing pending, it changes nothing. */
  async respond(options: { readonly accept: boolean; readonly reason: string }): Promise<void> {
    const { accept, reason } = options
    await this.#pen.write((now) => {
      const status = next(now.status, accept ? 'accept' : 'reject')
      if (status === undefined) return undefined
      const rejections = accept ? [] : now.unanswered().map((call) => rejection(call, reason))
      return { events: [...rejections, statusUpdate(status)] }
    })
    this.#deadline.watch(undefined)
    if (this.state.status === 'running') this.#start()
  }

  /** Stops after the model call or the tools that are under way. */
  async pause(): Promise<void> {
    await this.#pen.write((now) => {
      const status = next(now.status, 'pause')
      return status === undefined ? undefined : { events: [statusUpdate(status), pauseEvent] }
    })
    this.#hint({ kind: 'rest' })
  }

  /** Cancels the model call and the tools that are under way; what has no result is answered so. */
  async interrupt(): Promise<void> {
    await this.#stop((now) => {
      const status = next(now.status, 'interrupt')
      if (status === undefined) return []
      return now.status === 'running'
        ? [...stopped(now, interrupted), pauseEvent]
        : [statusUpdate(status), pauseEvent]
    })
  }

  async setPolicy(policy: ConfirmationPolicy): Promise<void> {
    await this.#configure({ ...this.#settings, confirmation_policy: policy }, [
      stateUpdate('confirmation_policy', policy),
    ])
    this.#watchDeadline()
  }

  async setAnalyzer(analyzer: SecurityAnalyzer | null): Promise<void> {
    await this.#configure({ ...this.#settings, security_analyzer: analyzer ?? undefined }, [
      stateUpdate('security_analyzer', analyzer),
    ])
  }

  /** Adds secrets; they are there for the next tool call. */
  async addSecrets(secrets: Readonly<Record<string, SecretSource>>): Promise<void> {
    this.#secrets.add(secrets)
    await this.#configure({ ...this.#settings, secrets: { ...this.#settings.secrets, ...secrets } }, [])
  }

  /** Goes on with another model; history stays. */
  async switchModel(llm: Llm): Promise<void> {
    const agent = { ...this.#settings.agent, llm }
    this.#secrets.hideIn(llm)
    const settings = { ...this.#settings, agent }
    await this.#configure(settings, [stateUpdate('agent', redact(agent, '**********'))])
    const equipment = await this.#equipment?.catch(() => undefined)
    equipment?.switchModel(llm)
  }

  /** A question beside the conversation: one answer of the model, which leaves no event. A Problem `unavailable` when it gives none. */
  async ask(question: string, signal: AbortSignal): Promise<string> {
    const equipment = await this.#open()
    const messages = [
      ...this.state.view.messages(equipment.model.llm.max_message_chars),
      textMessage('user', `${sideQuestion}\n\n${this.#secrets.mask(question)}`),
    ]
    const answer = await equipment.model.respond(
      { messages, tools: equipment.modelTools, toolChoice: 'none' },
      AbortSignal.any([signal, this.#closing.signal]),
    )
    if (answer.kind !== 'answer') {
      const detail = answer.kind === 'failure' ? `${answer.code}: ${answer.detail}` : 'It was interrupted.'
      throw new Problem('unavailable', `The model gave no answer. ${this.#secrets.mask(detail)}`)
    }
    await this.#count(answer, 'ask-agent-llm')
    return this.#secrets.mask(
      answer.message.content.map((part) => (part.type === 'text' ? part.text : '')).join(''),
    )
  }

  /** Lets the condenser forget a part of the history now, or at the next step of a run. A Problem `conflict` when it cannot. */
  async condense(): Promise<void> {
    const { condenser } = this.#settings.agent
    if (condenser === undefined || condenser.kind === 'NoOpCondenser') {
      throw new Problem('conflict', 'The agent of this conversation has no condenser.')
    }
    const equipment = await this.#open()
    await this.#pen.write(() => ({ events: [{ kind: 'CondensationRequest', source: 'environment' }] }))
    if (this.#loop !== undefined) return
    let failure: string | undefined
    this.#occupy(async (signal) => {
      const result = await this.#run.condense(equipment, signal)
      if (result.kind === 'failed') failure = result.detail
    })
    await this.settled()
    if (failure !== undefined) {
      throw new Problem('conflict', `The history was not condensed. ${this.#secrets.mask(failure)}`)
    }
  }

  /** A title from the model for what the conversation is about. */
  async title(
    options: { readonly llm?: Llm; readonly maxLength: number },
    signal: AbortSignal,
  ): Promise<string> {
    const equipment = await this.#open()
    const first = this.state.view.events.find(
      (event) => event.kind === 'MessageEvent' && event.source === 'user',
    )
    const text = first?.kind === 'MessageEvent' ? textOf(first.llm_message) : ''
    const model = options.llm === undefined ? equipment.model : equipment.openModel(options.llm)
    const { title, answer } = await titleOf(text, { model, maxLength: options.maxLength }, signal)
    if (answer !== undefined) await this.#count(answer, 'title')
    return this.#secrets.mask(title)
  }

  /** Ends what runs and lets everything go; the log stays as it is when the conversation `isDeleted`. */
  async close(options: { readonly isDeleted?: boolean } = {}): Promise<void> {
    this.#deadline.watch(undefined)
    const stop = this.#stop((now) =>
      options.isDeleted || now.status !== 'running' ? [] : stopped(now, restarted),
    )
    this.#closing.abort()
    await stop.catch(() => undefined)
    const equipment = await this.#equipment?.catch(() => undefined)
    if (equipment !== undefined) {
      if (this.#hasBegun) {
        const limit = AbortSignal.timeout(stopMs)
        // One that takes longer is killed with the rest.
        await equipment.hook('session_end', {}, limit).catch(() => undefined)
      }
      await equipment.close()
    }
    if (options.isDeleted !== true) await this.#save()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Calls that nobody has begun: those that wait for confirmation, and those that a pause has left. */
  #resting(now: State): Pending[] {
    const isResting = now.status === 'waiting_for_confirmation' || this.#loop === undefined
    return isResting && now.status !== 'running' ? now.unanswered() : []
  }

  #hint(hint: Hint): void {
    this.hints.give(hint, this.state.position)
  }

  async #ensureRunning(): Promise<void> {
    if (this.state.status !== 'running') {
      await this.run().catch((error: unknown) => {
        // Somebody else started it between the look and the write.
        if (!(error instanceof Problem && error.code === 'conflict')) throw error
      })
    }
  }

  #start(): void {
    this.#deadline.watch(undefined)
    this.#run.restart()
    if (this.#loop !== undefined || this.#closing.signal.aborted) return
    this.#occupy(async (signal) => {
      const release = await this.#rim.turn?.(signal)
      try {
        await this.#run.loop(() => this.#nextSignal())
      } finally {
        release?.()
      }
    })
  }

  /** Does something that no run may happen beside. */
  #occupy(work: (signal: AbortSignal) => Promise<void>): void {
    const step = new AbortController()
    this.#step = step
    let isBroken = false
    const over = work(AbortSignal.any([step.signal, this.#closing.signal]))
      .catch((error: unknown) => {
        isBroken = true
        const reason = error instanceof Error ? error.message : String(error)
        this.#rim.logLine('error', 'a run ended unexpectedly', { conversation: this.id, reason })
      })
      .then(async () => {
        this.#loop = undefined
        this.#step = undefined
        this.#hint({ kind: 'rest' })
        if (this.state.position - this.#savedAt >= saveEvery / 10) void this.#save()
        if (this.#closing.signal.aborted) return
        // A run that was asked for while this one was ending. One that cannot even write that it failed is not tried again.
        if (this.state.status === 'running' && !isBroken) this.#start()
        else this.#watchDeadline()
      })
    this.#loop = over
  }

  async #nextSignal(): Promise<AbortSignal> {
    await this.#interruption
    if (this.state.position - this.#savedAt >= saveEvery) void this.#save()
    this.#step = new AbortController()
    return AbortSignal.any([this.#step.signal, this.#closing.signal])
  }

  /** Aborts the step under way and writes what `decide` says before another one begins. */
  async #stop(decide: (now: State) => readonly EventDraft[]): Promise<void> {
    const written = this.#pen.write((now) => {
      const events = decide(now)
      if (events.length > 0 || this.#closing.signal.aborted) this.#step?.abort()
      return { events }
    })
    this.#interruption = written.catch(() => undefined)
    await written
    const loop = this.#loop
    if (loop !== undefined && this.state.status !== 'running') {
      await Promise.race([loop, sleep(stopMs, undefined, { ref: false })])
    }
  }

  #open(): Promise<Equipment> {
    this.#equipment ??= Equipment.open(
      { conversation: this.id, settings: this.#settings, rim: this.#rim, secrets: this.#secrets },
      this.#closing.signal,
    )
    this.#equipment.catch(() => {
      this.#equipment = undefined
    })
    return this.#equipment
  }

  /** What a step works with: MCP servers connected, the system prompt written, the session begun. */
  async #equip(signal: AbortSignal): Promise<Equipment> {
    const equipment = await this.#open()
    await equipment.connect(signal)
    if (!this.#hasBegun) {
      this.#hasBegun = true
      await equipment.hook('session_start', {}, signal)
      await this.#secrets.resolve()
    }
    if (!this.state.hasSystemPrompt) {
      await this.#pen.write((now) => ({ events: this.#prompt(now, equipment) }), { isPatient: true })
    }
    return equipment
  }

  /** The SystemPromptEvent, once; it waits for MCP servers, whose tools it lists. */
  #prompt(now: State, equipment: Equipment | undefined): EventDraft[] {
    if (now.hasSystemPrompt || equipment === undefined || equipment.mustConnect) return []
    return [equipment.systemPromptEvent(this.analyzer !== null)]
  }

  async #configure(settings: Settings, events: readonly EventDraft[]): Promise<void> {
    await this.#pen.write(() => ({ events, record: this.#keeping.seal(settings) }))
    this.#settings = settings
  }

  async #count(answer: Parameters<Stats['add']>[0], usageId: string): Promise<void> {
    this.#stats.add(answer, usageId, this.#rim.now())
    await this.#pen.write(() => ({ events: [], record: { stats: JSON.stringify(this.#stats) } }))
    this.#hint({ kind: 'stats', value: this.#stats.snapshot() })
  }

  /** Gives the conversation a title after its first message, behind everything else. */
  async #entitle(text: string): Promise<void> {
    const { title: kept } = this.#keeping
    if (kept === undefined || !this.#settings.autotitle || this.#isEntitled) return
    this.#isEntitled = true
    try {
      if (!(await kept.isMissing())) return
      const equipment = await this.#open()
      const own = await kept.model()
      const model = own === undefined ? equipment.model : equipment.openModel(own)
      const { title, answer } = await titleOf(text, { model }, this.#closing.signal)
      if (this.#closing.signal.aborted) return
      if (answer !== undefined) await this.#count(answer, 'title')
      if (title !== '') await kept.set(this.#secrets.mask(title))
    } catch (error) {
      const reason = error instanceof Error ? error.name : typeof error
      this.#rim.logLine('debug', 'no title was found', { conversation: this.id, reason })
    }
  }

  /** Rejects what waits for confirmation when nobody answers in time, where the policy or the server says so. */
  #watchDeadline(): void {
    const { policy, state } = this
    const own = 'deadline_seconds' in policy ? policy.deadline_seconds : undefined
    const limitMs = own === undefined ? this.#rim.confirmationDeadlineMs : own * 1000
    const since = Date.parse(state.statusSince ?? '')
    const isWaiting = state.status === 'waiting_for_confirmation' && limitMs !== undefined
    this.#deadline.watch(isWaiting ? { since, limitMs } : undefined)
  }

  async #save(): Promise<void> {
    const { position } = this.state
    if (position === this.#savedAt) return
    this.#savedAt = position
    const text = JSON.stringify(this.state.save())
    await this.#keeping.saveSnapshot({ position, text }).catch(() => undefined)
  }
}

const pauseEvent: EventDraft = { kind: 'PauseEvent', source: 'user' }

/** Every action without a result is answered, and the run is over. */
function stopped(now: State, reason: string): EventDraft[] {
  return [...now.unanswered().map((call) => agentError(call, reason)), statusUpdate('paused')]
}

function secretsOf(settings: Settings, hidden: readonly string[] = []): Secrets {
  const secrets = new Secrets({ ...settings.agent.agent_context?.secrets, ...settings.secrets })
  secrets.hideIn(settings.agent)
  for (const value of hidden) secrets.hide(value)
  return secrets
}
