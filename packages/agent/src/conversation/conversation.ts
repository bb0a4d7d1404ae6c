import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import {
  type ConfirmationPolicy,
  type ExtensionSource,
  type GoalState,
  type Llm,
  Problem,
  redact,
  type SecretSource,
  type SecurityAnalyzer,
  type SendMessageRequest,
  type Wire,
} from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import type { TaskHost } from '../agents/tasks/open-task-runner.ts'
import { agentWith } from '../plugins/agent-with-plugins.ts'
import { pluginFrom } from '../plugins/extensions.ts'
import { Secrets } from '../secrets/secrets.ts'
import { Deadline } from './confirm/deadline.ts'
import type { Keeping } from './conversation-store.ts'
import { agentError, rejection, stateUpdate, statusUpdate, textMessage } from './events/event-drafts.ts'
import { dressFor } from './events/event-format.ts'
import { maskEvent } from './events/redact-event.ts'
import { type Hint, Hints } from './events/transient-updates.ts'
import { Pen } from './events/writer.ts'
import { Run } from './loop/agent-loop.ts'
import { endGoal, goalUpdate, newGoal, reminder } from './loop/goal.ts'
import { departure, interruptEvent, notDoneHere, pauseEvent, placeOf, stopped } from './navigate.ts'
import { Equipment, type Rim, type Settings } from './runtime/agent-runtime.ts'
import { type WorkEnd, watched } from './runtime/instrumentation.ts'
import { Checkpoints } from './state/checkpoints.ts'
import type { Pending, State } from './state/state.ts'
import { next } from './state/status.ts'
import { Stats } from './state/usage-stats.ts'
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
  /** Which members and kinds its events have; `seed` unless given. */
  readonly wire?: Wire
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
  readonly #wire: Wire
  readonly #pen: Pen
  readonly #secrets: Secrets
  readonly #stats: Stats
  readonly #run: Run
  readonly #closing = new AbortController()
  #settings: Settings
  #equipment: Promise<Equipment> | undefined
  /** Those of the equipment, once it is there. */
  #tasks: Equipment['tasks']
  /** The last change of the settings. */
  #configured: Promise<void> = Promise.resolve()
  #hasBegun = false
  /** A title was looked for since it was opened. */
  #isEntitled = false
  /** Messages and questions that are on their way. */
  #asking = 0
  #loop: Promise<void> | undefined
  /** What the loop is about is a run. */
  #isRunning = false
  #step: AbortController | undefined
  #interruption: Promise<unknown> | undefined
  readonly #deadline: Deadline
  readonly #saved: Checkpoints

  private constructor(options: {
    readonly id: string
    readonly settings: Settings
    readonly rim: Rim
    readonly keeping: Keeping
    readonly pen: Pen
    readonly secrets: Secrets
    readonly hints: Hints
    readonly wire: Wire
    readonly saved: Checkpoints
  }) {
    const { id, settings, rim, keeping, pen, secrets, hints } = options
    this.id = id
    this.hints = hints
    this.#wire = options.wire
    this.#saved = options.saved
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
    const { id, settings, rim, keeping, wire = 'seed', hints = new Hints() } = options
    const secrets = secretsOf(settings, rim)
    const saved = new Checkpoints(keeping.snapshot)
    const pen = await Pen.open(id, rim.log, {
      mask: (draft) => maskEvent(draft, secrets),
      dress: dressFor(wire),
      saved: () => saved.all,
    })
    const conversation = new Conversation({ id, settings, rim, keeping, pen, secrets, hints, wire, saved })
    await pen.write((now) => ({ events: now.status === 'running' ? stopped(now, restarted) : endGoal(now) }))
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
    return this.#loop !== undefined || this.#asking > 0 || this.state.goal?.active === true
  }

  /** A run is on its way, or has not begun yet. */
  get isRunning(): boolean {
    return this.#loop !== undefined || this.state.status === 'running'
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
      await this.#send(message, { id })
    } finally {
      this.#asking--
    }
  }

  /** With a `goal` the message is its objective; without one it ends the pursuit of another. */
  async #send(
    message: SendMessageRequest,
    { id: givenId, goal }: { readonly id?: string | undefined; readonly goal?: GoalState },
  ): Promise<void> {
    const equipment = await this.#open().catch(() => undefined)
    // What is missing is said when it is run.
    await equipment?.complete(this.#closing.signal).catch(() => undefined)
    const id = givenId ?? randomUUID()
    const text = textOf(message)
    const stored = async () => (givenId === undefined ? [] : await this.#rim.log.get(this.id, [givenId]))
    const [before] = await stored()
    const verdict =
      before === undefined
        ? await equipment?.hook('user_prompt_submit', { message: text, message_id: id }, this.#closing.signal)
        : undefined
    let isNew = true
    await this.#pen.write(async (now) => {
      const [known] = await stored()
      if (goal !== undefined) mustBeFree(now)
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
        ...notDoneHere(now),
        ...this.#resting(now).map((call) => rejection(call, superseded)),
        ...(status === undefined ? [] : [statusUpdate(status)]),
        ...(goal === undefined ? endGoal(now) : [goalUpdate(goal)]),
        ...(verdict?.events ?? []),
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
      return status === undefined ? undefined : { events: [...notDoneHere(now), statusUpdate(status)] }
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
      const rejections = accept ? [] : now.wanted().map((call) => rejection(call, reason))
      return { events: [...rejections, ...(accept ? [] : endGoal(now)), statusUpdate(status)] }
    })
    this.#deadline.watch(undefined)
    if (this.state.status === 'running') this.#start()
  }

  /** Stops after the model call or the tools that are under way. */
  async pause(): Promise<void> {
    await this.#pen.write((now) => {
      const status = next(now.status, 'pause')
      return status === undefined
        ? undefined
        : { events: [...endGoal(now), statusUpdate(status), pauseEvent] }
    })
    await this.#tasks?.pause()
    this.#hint({ kind: 'rest' })
  }

  /**
   * Goes on from another event, or from the beginning (null): the next event follows it. What has no result on the branch that is
   * left is answered first, and the conversation is idle. Nothing is removed. A Problem `not_found` when there is no such event,
   * `conflict` while it runs.
   */
  async navigate(eventId: string | null): Promise<void> {
    // The last step may be on its way yet; what it writes belongs to the branch that is left.
    if (this.state.status !== 'running')
      await Promise.race([this.settled(), sleep(stopMs, undefined, { ref: false })])
    await this.#pen.write(async (now) => {
      const value = eventId === null ? null : await placeOf(this.#rim.log, { id: this.id, eventId, now })
      if (now.status === 'running' || this.#loop !== undefined)
        throw new Problem('conflict', 'The conversation is running. Pause it, then go elsewhere.')
      return { events: departure(now, value) }
    })
    const equipment = await this.#equipment?.catch(() => undefined)
    equipment?.forgetRules()
    this.#deadline.watch(undefined)
    this.#hint({ kind: 'rest' })
  }

  /**
   * Sends an objective and runs; after each round a model judges whether it is reached, and the agent goes on until it is, or
   * the rounds are over. A Problem `conflict` when it is running or pursues a goal already.
   */
  async pursue(objective: string, maxIterations: number): Promise<void> {
    this.#asking++
    try {
      const content = [{ type: 'text' as const, text: objective, cache_prompt: false }]
      const message = {
        role: 'user' as const,
        content,
        run: true,
        sender: undefined,
        extended_content: undefined,
      }
      await this.#send(message, { goal: newGoal(objective, maxIterations) })
    } finally {
      this.#asking--
    }
  }

  /** Ends the pursuit; a run that is under way is paused. Without one it changes nothing. */
  async stopGoal(): Promise<void> {
    await this.#pen.write((now) => {
      if (!now.goal?.active) return undefined
      const rest = now.status === 'running' ? [statusUpdate('paused'), pauseEvent] : []
      return { events: [...endGoal(now), ...rest] }
    })
    if (this.state.status === 'paused') await this.#tasks?.pause()
    this.#hint({ kind: 'rest' })
  }

  /** Goes on with a goal that was interrupted. A Problem `conflict` when it runs, `bad_request` when there is none. */
  async resumeGoal(): Promise<void> {
    await this.#pen.write((now) => {
      mustBeFree(now)
      const { goal } = now
      if (goal?.status !== 'interrupted')
        throw new Problem('bad_request', 'There is no goal that was interrupted.')
      next(now.status, 'run')
      const isWaiting = now.isAwaiting || now.wanted().length > 0
      return {
        events: [
          ...notDoneHere(now),
          goalUpdate({ ...goal, active: true, status: 'running' }),
          ...(isWaiting ? [] : [reminder(goal)]),
          statusUpdate('running'),
        ],
      }
    })
    this.#start()
  }

  /** Cancels the model call and the tools that are under way; what has no result is answered so. */
  async interrupt(): Promise<void> {
    await this.#stop((now) => {
      const status = next(now.status, 'interrupt')
      // Paused, and still at the step before the pause: that step is what is interrupted.
      if (status === undefined) {
        const isAtWork = this.#isRunning && now.status === 'paused'
        return isAtWork ? now.unanswered().map((call) => agentError(call, interrupted)) : []
      }
      if (now.status !== 'running') return [...endGoal(now), statusUpdate(status), pauseEvent]
      const end = this.#wire === 'current' ? interruptEvent : pauseEvent
      return [...stopped(now, interrupted), end]
    })
  }

  async setPolicy(policy: ConfirmationPolicy): Promise<void> {
    await this.#configure(
      (now) => ({ ...now, confirmation_policy: policy }),
      [stateUpdate('confirmation_policy', policy)],
    )
    await this.#tasks?.follow()
    this.#watchDeadline()
  }

  async setAnalyzer(analyzer: SecurityAnalyzer | null): Promise<void> {
    await this.#configure(
      (now) => ({ ...now, security_analyzer: analyzer ?? undefined }),
      [stateUpdate('security_analyzer', analyzer)],
    )
    await this.#tasks?.follow()
  }

  /** Adds secrets; they are there for the next tool call. */
  async addSecrets(secrets: Readonly<Record<string, SecretSource>>): Promise<void> {
    this.#secrets.add(secrets)
    await this.#configure((now) => ({ ...now, secrets: { ...now.secrets, ...secrets } }), [])
  }

  /** Goes on with another model; history stays. */
  async switchModel(llm: Llm): Promise<void> {
    const agent = { ...this.#settings.agent, llm }
    this.#secrets.hideIn(llm)
    await this.#configure(
      (now) => ({ ...now, agent: { ...now.agent, llm } }),
      [stateUpdate('agent', redact(agent, '**********'))],
    )
    const equipment = await this.#equipment?.catch(() => undefined)
    equipment?.switchModel(llm)
  }

  /**
   * Goes on with one more plugin; one of the same name is replaced. The agent as it is then is a fact, with secrets hidden, and the
   * model is told with the next step. Problems: `conflict` while it is running, `bad_request` when there is no such plugin to be had.
   */
  async loadPlugin(source: ExtensionSource): Promise<void> {
    this.#asking++
    try {
      this.#mustRest(this.state)
      const equipment = await this.#open()
      const { extras } = equipment
      const loaded = await pluginFrom(this.#rim.extensions, source, this.#closing.signal)
      this.#secrets.hideIn(loaded.plugin.servers)
      await this.#configure(
        (now) => ({ ...now, plugins: [...extras.with(loaded)] }),
        (now) => {
          this.#mustRest(now)
          const shown = agentWith(this.#settings.agent, [loaded.plugin, ...extras.plugins])
          return [stateUpdate('agent', redact(shown, '**********'))]
        },
        async () => {
          extras.add(loaded)
          await equipment.refit(this.#closing.signal)
        },
      )
    } finally {
      this.#asking--
    }
  }

  #mustRest(now: State): void {
    if (now.status !== 'running' && this.#loop === undefined) return
    throw new Problem('conflict', 'The conversation is running. Wait until it has stopped, or pause it.')
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
        const told = await equipment.hook('session_end', {}, limit).catch(() => undefined)
        if (told !== undefined && !options.isDeleted) await this.#tell(told).catch(() => undefined)
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
    return isResting && now.status !== 'running' ? now.wanted() : []
  }

  /** What hooks have done, for those whose wire has events of it. */
  async #tell({ events }: { readonly events: readonly EventDraft[] }): Promise<void> {
    if (events.length > 0) await this.#pen.write(() => ({ events }), { isPatient: true })
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
      this.#isRunning = true
      const release = await this.#rim.turn?.(signal)
      try {
        const loop = () => this.#run.loop(() => this.#nextSignal())
        await watched(this.#rim.watch, { kind: 'run' }, loop, () => endOfRun(this.state.status))
        await this.#pen.write((now) => ({ events: isPursuing(now) ? [] : endGoal(now) }), { isPatient: true })
      } finally {
        this.#isRunning = false
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
        if (this.state.position - this.#saved.position >= saveEvery / 10) void this.#save()
        if (this.#closing.signal.aborted) return
        // A run that was asked for while this one was ending. One that cannot even write that it failed is not tried again.
        if (this.state.status === 'running' && !isBroken) this.#start()
        else this.#watchDeadline()
      })
    this.#loop = over
  }

  async #nextSignal(): Promise<AbortSignal> {
    await this.#interruption
    if (this.state.position - this.#saved.position >= saveEvery) void this.#save()
    this.#step = new AbortController()
    return AbortSignal.any([this.#step.signal, this.#closing.signal])
  }

  /**
   * Aborts the step under way, also one that a pause has let go on, and writes what `decide` says before another one begins.
   */
  async #stop(decide: (now: State) => readonly EventDraft[]): Promise<void> {
    const written = this.#pen.write((now) => {
      const events = decide(now)
      const isLate = now.status === 'paused'
      if (events.length > 0 || isLate || this.#closing.signal.aborted) this.#step?.abort()
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
      {
        conversation: this.id,
        settings: this.#settings,
        rim: this.#rim,
        secrets: this.#secrets,
        wire: this.#wire,
        host: this.#host(),
      },
      this.#closing.signal,
    )
    this.#equipment.then(
      ({ tasks }) => {
        this.#tasks = tasks
      },
      () => {
        this.#equipment = undefined
      },
    )
    return this.#equipment
  }

  /** This conversation, as the tasks that it gives need it. */
  #host(): TaskHost {
    return {
      settings: () => this.#settings,
      policy: () => this.policy,
      analyzer: () => this.analyzer,
      mask: (text) => this.#secrets.mask(text),
      used: async (task, stats, isOver) => {
        this.#stats.put(`task:${task}`, stats)
        if (isOver)
          await this.#pen.write(() => ({ events: [], record: { stats: JSON.stringify(this.#stats) } }))
        this.#hint({ kind: 'stats', value: this.#stats.snapshot() })
      },
    }
  }

  /** What a step works with: MCP servers connected, the system prompt written, the session begun. */
  async #equip(signal: AbortSignal): Promise<Equipment> {
    const equipment = await this.#open()
    await equipment.connect(signal)
    await this.#keepPlugins(equipment)
    if (!this.#hasBegun) {
      this.#hasBegun = true
      await this.#tell(await equipment.hook('session_start', {}, signal))
      await this.#secrets.resolve()
    }
    if (!this.state.hasSystemPrompt) {
      await this.#pen.write((now) => ({ events: this.#prompt(now, equipment) }), { isPatient: true })
    }
    return equipment
  }

  /** Keeps which files its plugins are, and writes the prompt anew when one came after it. */
  async #keepPlugins(equipment: Equipment): Promise<void> {
    const isKept = isDeepStrictEqual(equipment.extras.pinned?.map(pinOf), this.#settings.plugins?.map(pinOf))
    if (isKept || (this.#settings.plugins ?? []).length === 0) return
    const isNews = (now: State) =>
      now.hasSystemPrompt && !equipment.mustConnect && this.#settings.plugins?.some((one) => one.is_untold)
    await this.#configure(
      (now) => ({
        ...now,
        plugins: equipment.mustConnect ? now.plugins : equipment.extras.pinned?.map((pin) => ({ ...pin })),
      }),
      (now) => (isNews(now) ? [equipment.systemPromptEvent(this.analyzer !== null)] : []),
    ).catch((error: unknown) => {
      // Settings that were sealed with another key are not written over; the next load finds the plugins as it can.
      if (!(error instanceof Problem && error.code === 'conflict')) throw error
    })
  }

  /** The SystemPromptEvent, once; it waits for MCP servers, whose tools it lists. */
  #prompt(now: State, equipment: Equipment | undefined): EventDraft[] {
    if (now.hasSystemPrompt || equipment === undefined || equipment.mustConnect) return []
    return [equipment.systemPromptEvent(this.analyzer !== null)]
  }

  /** One after another: each change is made of what the one before it has left. `after` belongs to it. */
  #configure(
    change: (settings: Settings) => Settings,
    events: readonly EventDraft[] | ((now: State) => readonly EventDraft[]),
    after?: () => Promise<void>,
  ): Promise<void> {
    const done = this.#configured.then(async () => {
      const settings = change(this.#settings)
      await this.#pen.write((now) => ({
        events: typeof events === 'function' ? events(now) : events,
        record: this.#keeping.seal(settings),
      }))
      this.#settings = settings
      await after?.()
    })
    this.#configured = done.catch(() => undefined)
    return done
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
    const { position, isAstray } = this.state
    if (position === this.#saved.position || isAstray) return
    const snapshot = this.#saved.add(position, this.state.save())
    await this.#keeping.saveSnapshot(snapshot).catch(() => undefined)
  }
}

/** How a run has ended. */
function endOfRun(status: State['status']): WorkEnd {
  return { outcome: status, isFailure: status === 'error' || status === 'stuck' }
}

function mustBeFree({ status, goal }: State): void {
  if (status === 'running') throw new Problem('conflict', 'The conversation is running.')
  if (goal?.active) throw new Problem('conflict', 'The conversation pursues a goal already.')
}

/** The run is over for now, and goes on when somebody has agreed. */
function isPursuing({ status }: State): boolean {
  return status === 'running' || status === 'waiting_for_confirmation'
}

function secretsOf(settings: Settings, { hidden = [], secret: own }: Rim): Secrets {
  const sources = { ...settings.agent.agent_context?.secrets, ...settings.secrets }
  const secrets = new Secrets(sources, own === undefined ? {} : { own })
  secrets.hideIn(settings.agent)
  secrets.hideIn(settings.agent_definitions)
  for (const value of hidden) secrets.hide(value)
  return secrets
}

/** All that says which plugin it is, and whether the model has been told. */
function pinOf({ source, ref, repo_path, is_untold }: ExtensionSource): readonly unknown[] {
  return [source, ref, repo_path, is_untold === true]
}
