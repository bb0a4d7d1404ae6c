import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import {
  type ConfirmationPolicy,
  type ExtensionSource,
  type GoalState,
  type Llm,
  Problem,
  type SecretSource,
  type SecurityAnalyzer,
  type SendMessageRequest,
  type WireVersion,
} from '@slipway/protocol'
import { redact } from '@slipway/shared/redaction'
import type { EventDraft } from '@slipway/storage'
import type { TaskHost } from '../agents/tasks/open-task-runner.ts'
import { addPluginsToAgent } from '../plugins/agent-with-plugins.ts'
import { loadPluginOrProblem } from '../plugins/extensions.ts'
import { Secrets } from '../secrets/secrets.ts'
import { ConfirmationDeadline } from './confirm/deadline.ts'
import type { ConversationStore } from './conversation-store.ts'
import {
  agentErrorEvent,
  rejectionEvent,
  stateUpdate,
  statusUpdate,
  textMessage,
} from './events/event-drafts.ts'
import { eventFormatter } from './events/event-format.ts'
import { redactEvent } from './events/redact-event.ts'
import { type TransientUpdate, TransientUpdates } from './events/transient-updates.ts'
import { ConversationWriter } from './events/writer.ts'
import { AgentLoop } from './loop/agent-loop.ts'
import { endGoalEvents, goalReminder, goalUpdateEvent, newGoal } from './loop/goal.ts'
import {
  closeAbandonedActions,
  interruptEvent,
  navigateEvents,
  pauseEvent,
  resolveNavigateTarget,
  stopEvents,
} from './navigate.ts'
import { AgentRuntime, type ConversationDeps, type ResolvedSettings } from './runtime/agent-runtime.ts'
import { instrument, type WorkOutcome } from './runtime/instrumentation.ts'
import { Checkpoints } from './state/checkpoints.ts'
import type { ConversationState, PendingAction } from './state/state.ts'
import { transition } from './state/status.ts'
import { UsageStats } from './state/usage-stats.ts'
import { generateTitle } from './title.ts'
import { assertSameMessage, messageText, userMessageEvent } from './user-message.ts'

const restartedText =
  'The call was interrupted by a restart before it had a result. It may have been done in part.'
const interruptedText =
  'The call was interrupted by the user before it had a result. It may have been done in part.'
const supersededText = 'Superseded by a new user message'
const sideQuestionPrompt =
  'Answer the following question about this conversation briefly and in words only, without calling a tool:'
/** A run that does not stop is left behind after this. */
const stopMs = 5_000
/** Events between two savings of the fold. */
const checkpointInterval = 1_000

export interface OpenConversationOptions {
  readonly id: string
  readonly settings: ResolvedSettings
  readonly deps: ConversationDeps
  readonly store: ConversationStore
  /** Which members and kinds its events have; `seed` unless given. */
  readonly wire?: WireVersion
  /** Where its hints are heard; others may listen before it is opened and after it is closed. */
  readonly transientUpdates?: TransientUpdates
}

/**
 * A conversation that thinks and acts. Its log is the truth; what is here besides is the fold of it, the tools, and the
 * one loop that runs it. Verbs resolve when what they ask for is durable; the run goes on behind.
 */
export class Conversation implements AsyncDisposable {
  readonly id: string
  readonly transientUpdates: TransientUpdates
  readonly #deps: ConversationDeps
  readonly #store: ConversationStore
  readonly #wire: WireVersion
  readonly #writer: ConversationWriter
  readonly #secrets: Secrets
  readonly #stats: UsageStats
  readonly #agentLoop: AgentLoop
  readonly #closing = new AbortController()
  #settings: ResolvedSettings
  #runtime: Promise<AgentRuntime> | undefined
  /** Those of the equipment, once it is there. */
  #tasks: AgentRuntime['tasks']
  /** The last change of the settings. */
  #lastSettingsChange: Promise<void> = Promise.resolve()
  #hasSessionStarted = false
  /** A title was looked for since it was opened. */
  #hasTriedTitle = false
  /** Messages and questions that are on their way. */
  #pendingRequests = 0
  #activity: Promise<void> | undefined
  /** What the loop is about is a run. */
  #isRunActive = false
  #stepController: AbortController | undefined
  #interruption: Promise<unknown> | undefined
  readonly #deadline: ConfirmationDeadline
  readonly #checkpoints: Checkpoints

  private constructor(options: {
    readonly id: string
    readonly settings: ResolvedSettings
    readonly rim: ConversationDeps
    readonly keeping: ConversationStore
    readonly pen: ConversationWriter
    readonly secrets: Secrets
    readonly hints: TransientUpdates
    readonly wire: WireVersion
    readonly saved: Checkpoints
  }) {
    const { id, settings, rim: deps, keeping: store, pen: writer, secrets, hints } = options
    this.id = id
    this.transientUpdates = hints
    this.#wire = options.wire
    this.#checkpoints = options.saved
    this.#settings = settings
    this.#deps = deps
    this.#store = store
    this.#writer = writer
    this.#secrets = secrets
    this.#stats = new UsageStats(store.stats)
    this.#deadline = new ConfirmationDeadline(
      () => deps.now() / 1000,
      (reason) => void this.resolveConfirmation({ accept: false, reason }).catch(() => undefined),
    )
    this.#agentLoop = new AgentLoop({
      writer,
      settings,
      deps,
      stats: this.#stats,
      secrets,
      hasListeners: () => this.transientUpdates.hasListeners,
      publish: (hint) => this.#publish(hint),
      prepareRuntime: (signal) => this.#prepareRuntime(signal),
      policy: () => this.policy,
      analyzer: () => this.analyzer,
    })
  }

  /**
   * Folds the log from the saved state on. A conversation that was running when its process died is answered: each action
   * without a result gets an AgentErrorEvent, and the conversation is paused.
   */
  static async open(options: OpenConversationOptions): Promise<Conversation> {
    const { id, settings, deps, store, wire = 'seed', transientUpdates = new TransientUpdates() } = options
    const secrets = collectSecrets(settings, deps)
    const checkpoints = new Checkpoints(store.snapshot)
    const writer = await ConversationWriter.open(id, deps.log, {
      redact: (draft) => redactEvent(draft, secrets),
      format: eventFormatter(wire),
      checkpoints: () => checkpoints.all,
    })
    const conversation = new Conversation({
      id,
      settings,
      rim: deps,
      keeping: store,
      pen: writer,
      secrets,
      hints: transientUpdates,
      wire,
      saved: checkpoints,
    })
    await writer.write((now) => ({
      events: now.status === 'running' ? stopEvents(now, restartedText) : endGoalEvents(now),
    }))
    conversation.#scheduleDeadline()
    return conversation
  }

  get state(): ConversationState {
    return this.#writer.state
  }

  get settings(): ResolvedSettings {
    return this.#settings
  }

  get stats(): UsageStats {
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
    return this.#activity !== undefined || this.#pendingRequests > 0 || this.state.goal?.active === true
  }

  /** A run is on its way, or has not begun yet. */
  get isRunning(): boolean {
    return this.#activity !== undefined || this.state.status === 'running'
  }

  /** Resolves when no run is on its way. */
  async waitUntilIdle(): Promise<void> {
    while (this.#activity !== undefined) await this.#activity
  }

  /**
   * Stores a user message, with its activated skills and what hooks add to it. Calls that nobody has begun (they wait for
   * confirmation, or a pause has left them) are rejected; a conversation that was finished or stuck is idle again. `id`
   * makes a repeat harmless: the same message is stored once, another one under the same id is a Problem `conflict`. `run`
   * starts a run, also when one is just ending.
   */
  async send(message: SendMessageRequest, id?: string): Promise<void> {
    this.#pendingRequests++
    try {
      await this.#send(message, { id })
    } finally {
      this.#pendingRequests--
    }
  }

  /** With a `goal` the message is its objective; without one it ends the pursuit of another. */
  async #send(
    message: SendMessageRequest,
    { id: requestedId, goal }: { readonly id?: string | undefined; readonly goal?: GoalState },
  ): Promise<void> {
    const runtime = await this.#openRuntime().catch(() => undefined)
    // What is missing is said when it is run.
    await runtime?.loadMissingPlugins(this.#closing.signal).catch(() => undefined)
    const id = requestedId ?? randomUUID()
    const text = messageText(message)
    const stored = async () =>
      requestedId === undefined ? [] : await this.#deps.log.get(this.id, [requestedId])
    const [before] = await stored()
    const verdict =
      before === undefined
        ? await runtime?.runHooks(
            'user_prompt_submit',
            { message: text, message_id: id },
            this.#closing.signal,
          )
        : undefined
    let isNew = true
    await this.#writer.write(async (now) => {
      const [known] = await stored()
      if (goal !== undefined) assertCanStartGoal(now)
      const draft = userMessageEvent(message, {
        id,
        skills: runtime?.skills,
        activated: now.activatedSkills,
        agentContext: this.#settings.agent.agent_context,
        added: verdict?.additionalContext ?? [],
      })
      if (known !== undefined) {
        isNew = false
        assertSameMessage(JSON.parse(known.bytes.toString()), draft, this.#secrets)
        return undefined
      }
      const status = transition(now.status, 'send')
      const blocked = verdict?.isBlocked
        ? [stateUpdate('blocked_messages', { [id]: verdict.reason ?? 'blocked' })]
        : []
      const events = [
        ...this.#systemPromptEvents(now, runtime),
        ...closeAbandonedActions(now),
        ...this.#unstartedActions(now).map((call) => rejectionEvent(call, supersededText)),
        ...(status === undefined ? [] : [statusUpdate(status)]),
        ...(goal === undefined ? endGoalEvents(now) : [goalUpdateEvent(goal)]),
        ...(verdict?.events ?? []),
        draft,
        ...blocked,
        ...(message.run && now.status !== 'running' ? [statusUpdate('running')] : []),
      ]
      return { events }
    })
    if (isNew) void this.#autoTitle(this.#secrets.redact(text))
    if (message.run && !isNew && this.state.status === 'idle') await this.#ensureRunning()
    else if (message.run && this.state.status === 'running') this.#start()
  }

  /** Starts a run; a Problem `conflict` when it is running already. Nothing happens when it is finished. */
  async run(): Promise<void> {
    // A run that broke so badly that it could not say so: its status stayed, and nobody goes on with it.
    if (this.state.status === 'running' && this.#activity === undefined) return this.#start()
    await this.#writer.write((now) => {
      const status = transition(now.status, 'run')
      return status === undefined
        ? undefined
        : { events: [...closeAbandonedActions(now), statusUpdate(status)] }
    })
    if (this.state.status === 'running') this.#start()
    else this.#publish({ kind: 'rest' })
  }

  /** Lets the pending actions be done, or rejects all of them. Said twice, or with nothing pending, it changes nothing. */
  async resolveConfirmation(options: { readonly accept: boolean; readonly reason: string }): Promise<void> {
    const { accept, reason } = options
    await this.#writer.write((now) => {
      const status = transition(now.status, accept ? 'accept' : 'reject')
      if (status === undefined) return undefined
      const rejections = accept ? [] : now.openActions().map((call) => rejectionEvent(call, reason))
      return { events: [...rejections, ...(accept ? [] : endGoalEvents(now)), statusUpdate(status)] }
    })
    this.#deadline.schedule(undefined)
    if (this.state.status === 'running') this.#start()
  }

  /** Stops after the model call or the tools that are under way. */
  async pause(): Promise<void> {
    await this.#writer.write((now) => {
      const status = transition(now.status, 'pause')
      return status === undefined
        ? undefined
        : { events: [...endGoalEvents(now), statusUpdate(status), pauseEvent] }
    })
    await this.#tasks?.pause()
    this.#publish({ kind: 'rest' })
  }

  /**
   * Goes on from another event, or from the beginning (null): the next event follows it. What has no result on the branch that is
   * left is answered first, and the conversation is idle. Nothing is removed. A Problem `not_found` when there is no such event,
   * `conflict` while it runs.
   */
  async navigate(eventId: string | null): Promise<void> {
    // The last step may be on its way yet; what it writes belongs to the branch that is left.
    if (this.state.status !== 'running')
      await Promise.race([this.waitUntilIdle(), sleep(stopMs, undefined, { ref: false })])
    await this.#writer.write(async (now) => {
      const value =
        eventId === null ? null : await resolveNavigateTarget(this.#deps.log, { id: this.id, eventId, now })
      if (now.status === 'running' || this.#activity !== undefined)
        throw new Problem('conflict', 'The conversation is running. Pause it, then go elsewhere.')
      return { events: navigateEvents(now, value) }
    })
    const runtime = await this.#runtime?.catch(() => undefined)
    runtime?.resetShownRules()
    this.#deadline.schedule(undefined)
    this.#publish({ kind: 'rest' })
  }

  /**
   * Sends an objective and runs; after each round a model judges whether it is reached, and the agent goes on until it is, or
   * the rounds are over. A Problem `conflict` when it is running or pursues a goal already.
   */
  async startGoal(objective: string, maxIterations: number): Promise<void> {
    this.#pendingRequests++
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
      this.#pendingRequests--
    }
  }

  /** Ends the pursuit; a run that is under way is paused. Without one it changes nothing. */
  async stopGoal(): Promise<void> {
    await this.#writer.write((now) => {
      if (!now.goal?.active) return undefined
      const rest = now.status === 'running' ? [statusUpdate('paused'), pauseEvent] : []
      return { events: [...endGoalEvents(now), ...rest] }
    })
    if (this.state.status === 'paused') await this.#tasks?.pause()
    this.#publish({ kind: 'rest' })
  }

  /** Goes on with a goal that was interrupted. A Problem `conflict` when it runs, `bad_request` when there is none. */
  async resumeGoal(): Promise<void> {
    await this.#writer.write((now) => {
      assertCanStartGoal(now)
      const { goal } = now
      if (goal?.status !== 'interrupted')
        throw new Problem('bad_request', 'There is no goal that was interrupted.')
      transition(now.status, 'run')
      const isWaiting = now.isAwaiting || now.openActions().length > 0
      return {
        events: [
          ...closeAbandonedActions(now),
          goalUpdateEvent({ ...goal, active: true, status: 'running' }),
          ...(isWaiting ? [] : [goalReminder(goal)]),
          statusUpdate('running'),
        ],
      }
    })
    this.#start()
  }

  /** Cancels the model call and the tools that are under way; what has no result is answered so. */
  async interrupt(): Promise<void> {
    await this.#abortStep((now) => {
      const status = transition(now.status, 'interrupt')
      // Paused, and still at the step before the pause: that step is what is interrupted.
      if (status === undefined) {
        const isAtWork = this.#isRunActive && now.status === 'paused'
        return isAtWork ? now.pendingActions().map((call) => agentErrorEvent(call, interruptedText)) : []
      }
      if (now.status !== 'running') return [...endGoalEvents(now), statusUpdate(status), pauseEvent]
      const end = this.#wire === 'current' ? interruptEvent : pauseEvent
      return [...stopEvents(now, interruptedText), end]
    })
  }

  async setPolicy(policy: ConfirmationPolicy): Promise<void> {
    await this.#changeSettings(
      (now) => ({ ...now, confirmation_policy: policy }),
      [stateUpdate('confirmation_policy', policy)],
    )
    await this.#tasks?.syncPolicy()
    this.#scheduleDeadline()
  }

  async setAnalyzer(analyzer: SecurityAnalyzer | null): Promise<void> {
    await this.#changeSettings(
      (now) => ({ ...now, security_analyzer: analyzer ?? undefined }),
      [stateUpdate('security_analyzer', analyzer)],
    )
    await this.#tasks?.syncPolicy()
  }

  /** Adds secrets; they are there for the next tool call. */
  async addSecrets(secrets: Readonly<Record<string, SecretSource>>): Promise<void> {
    this.#secrets.add(secrets)
    await this.#changeSettings((now) => ({ ...now, secrets: { ...now.secrets, ...secrets } }), [])
  }

  /** Goes on with another model; history stays. */
  async switchModel(llm: Llm): Promise<void> {
    const agent = { ...this.#settings.agent, llm }
    this.#secrets.addValuesFrom(llm)
    await this.#changeSettings(
      (now) => ({ ...now, agent: { ...now.agent, llm } }),
      [stateUpdate('agent', redact(agent, '**********'))],
    )
    const runtime = await this.#runtime?.catch(() => undefined)
    runtime?.switchModel(llm)
  }

  /**
   * Goes on with one more plugin; one of the same name is replaced. The agent as it is then is a fact, with secrets hidden, and the
   * model is told with the next step. Problems: `conflict` while it is running, `bad_request` when there is no such plugin to be had.
   */
  async loadPlugin(source: ExtensionSource): Promise<void> {
    this.#pendingRequests++
    try {
      this.#assertIdle(this.state)
      const runtime = await this.#openRuntime()
      const { extensions } = runtime
      const loaded = await loadPluginOrProblem(this.#deps.extensions, source, this.#closing.signal)
      this.#secrets.addValuesFrom(loaded.plugin.servers)
      await this.#changeSettings(
        (now) => ({ ...now, plugins: [...extensions.pinnedWith(loaded)] }),
        (now) => {
          this.#assertIdle(now)
          const displayedAgent = addPluginsToAgent(this.#settings.agent, [
            loaded.plugin,
            ...extensions.plugins,
          ])
          return [stateUpdate('agent', redact(displayedAgent, '**********'))]
        },
        async () => {
          extensions.add(loaded)
          await runtime.reload(this.#closing.signal)
        },
      )
    } finally {
      this.#pendingRequests--
    }
  }

  #assertIdle(now: ConversationState): void {
    if (now.status !== 'running' && this.#activity === undefined) return
    throw new Problem('conflict', 'The conversation is running. Wait until it has stopped, or pause it.')
  }

  /** A question beside the conversation: one answer of the model, which leaves no event. A Problem `unavailable` when it gives none. */
  async askSideQuestion(question: string, signal: AbortSignal): Promise<string> {
    const runtime = await this.#openRuntime()
    const messages = [
      ...this.state.view.messages(runtime.model.llm.max_message_chars),
      textMessage('user', `${sideQuestionPrompt}\n\n${this.#secrets.redact(question)}`),
    ]
    const answer = await runtime.model.generate(
      { messages, tools: runtime.modelTools, toolChoice: 'none' },
      AbortSignal.any([signal, this.#closing.signal]),
    )
    if (answer.kind !== 'answer') {
      const detail = answer.kind === 'failure' ? `${answer.code}: ${answer.detail}` : 'It was interrupted.'
      throw new Problem('unavailable', `The model gave no answer. ${this.#secrets.redact(detail)}`)
    }
    await this.#recordUsage(answer, 'ask-agent-llm')
    return this.#secrets.redact(
      answer.message.content.map((part) => (part.type === 'text' ? part.text : '')).join(''),
    )
  }

  /** Lets the condenser forget a part of the history now, or at the next step of a run. A Problem `conflict` when it cannot. */
  async condense(): Promise<void> {
    const { condenser } = this.#settings.agent
    if (condenser === undefined || condenser.kind === 'NoOpCondenser') {
      throw new Problem('conflict', 'The agent of this conversation has no condenser.')
    }
    const runtime = await this.#openRuntime()
    await this.#writer.write(() => ({ events: [{ kind: 'CondensationRequest', source: 'environment' }] }))
    if (this.#activity !== undefined) return
    let failure: string | undefined
    this.#runExclusive(async (signal) => {
      const result = await this.#agentLoop.condense(runtime, signal)
      if (result.kind === 'failed') failure = result.detail
    })
    await this.waitUntilIdle()
    if (failure !== undefined) {
      throw new Problem('conflict', `The history was not condensed. ${this.#secrets.redact(failure)}`)
    }
  }

  /** A title from the model for what the conversation is about. */
  async generateTitle(
    options: { readonly llm?: Llm; readonly maxLength: number },
    signal: AbortSignal,
  ): Promise<string> {
    const runtime = await this.#openRuntime()
    const first = this.state.view.events.find(
      (event) => event.kind === 'MessageEvent' && event.source === 'user',
    )
    const text = first?.kind === 'MessageEvent' ? messageText(first.llm_message) : ''
    const model = options.llm === undefined ? runtime.model : runtime.openModel(options.llm)
    const { title, answer } = await generateTitle(text, { model, maxLength: options.maxLength }, signal)
    if (answer !== undefined) await this.#recordUsage(answer, 'title')
    return this.#secrets.redact(title)
  }

  /** Ends what runs and lets everything go; the log stays as it is when the conversation `isDeleted`. */
  async close(options: { readonly isDeleted?: boolean } = {}): Promise<void> {
    this.#deadline.schedule(undefined)
    const stop = this.#abortStep((now) =>
      options.isDeleted || now.status !== 'running' ? [] : stopEvents(now, restartedText),
    )
    this.#closing.abort()
    await stop.catch(() => undefined)
    const runtime = await this.#runtime?.catch(() => undefined)
    if (runtime !== undefined) {
      if (this.#hasSessionStarted) {
        const limit = AbortSignal.timeout(stopMs)
        // One that takes longer is killed with the rest.
        const hookVerdict = await runtime.runHooks('session_end', {}, limit).catch(() => undefined)
        if (hookVerdict !== undefined && !options.isDeleted)
          await this.#writeHookEvents(hookVerdict).catch(() => undefined)
      }
      await runtime.close()
    }
    if (options.isDeleted !== true) await this.#save()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Calls that nobody has begun: those that wait for confirmation, and those that a pause has left. */
  #unstartedActions(now: ConversationState): PendingAction[] {
    const isResting = now.status === 'waiting_for_confirmation' || this.#activity === undefined
    return isResting && now.status !== 'running' ? now.openActions() : []
  }

  /** What hooks have done, for those whose wire has events of it. */
  async #writeHookEvents({ events }: { readonly events: readonly EventDraft[] }): Promise<void> {
    if (events.length > 0) await this.#writer.write(() => ({ events }), { isPatient: true })
  }

  #publish(hint: TransientUpdate): void {
    this.transientUpdates.publish(hint, this.state.position)
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
    this.#deadline.schedule(undefined)
    this.#agentLoop.reset()
    if (this.#activity !== undefined || this.#closing.signal.aborted) return
    this.#runExclusive(async (signal) => {
      this.#isRunActive = true
      const release = await this.#deps.acquireRunSlot?.(signal)
      try {
        const loop = () => this.#agentLoop.run(() => this.#nextStepSignal())
        await instrument(this.#deps.monitor, { kind: 'run' }, loop, () => runOutcome(this.state.status))
        await this.#writer.write((now) => ({ events: isRunUnfinished(now) ? [] : endGoalEvents(now) }), {
          isPatient: true,
        })
      } finally {
        this.#isRunActive = false
        release?.()
      }
    })
  }

  /** Does something that no run may happen beside. */
  #runExclusive(work: (signal: AbortSignal) => Promise<void>): void {
    const step = new AbortController()
    this.#stepController = step
    let isBroken = false
    const over = work(AbortSignal.any([step.signal, this.#closing.signal]))
      .catch((error: unknown) => {
        isBroken = true
        const reason = error instanceof Error ? error.message : String(error)
        this.#deps.logLine('error', 'a run ended unexpectedly', { conversation: this.id, reason })
      })
      .then(async () => {
        this.#activity = undefined
        this.#stepController = undefined
        this.#publish({ kind: 'rest' })
        if (this.state.position - this.#checkpoints.position >= checkpointInterval / 10) void this.#save()
        if (this.#closing.signal.aborted) return
        // A run that was asked for while this one was ending. One that cannot even write that it failed is not tried again.
        if (this.state.status === 'running' && !isBroken) this.#start()
        else this.#scheduleDeadline()
      })
    this.#activity = over
  }

  async #nextStepSignal(): Promise<AbortSignal> {
    await this.#interruption
    if (this.state.position - this.#checkpoints.position >= checkpointInterval) void this.#save()
    this.#stepController = new AbortController()
    return AbortSignal.any([this.#stepController.signal, this.#closing.signal])
  }

  /**
   * Aborts the step under way, also one that a pause has let go on, and writes what `decide` says before another one begins.
   */
  async #abortStep(decide: (now: ConversationState) => readonly EventDraft[]): Promise<void> {
    const written = this.#writer.write((now) => {
      const events = decide(now)
      const isLate = now.status === 'paused'
      if (events.length > 0 || isLate || this.#closing.signal.aborted) this.#stepController?.abort()
      return { events }
    })
    this.#interruption = written.catch(() => undefined)
    await written
    const loop = this.#activity
    if (loop !== undefined && this.state.status !== 'running') {
      await Promise.race([loop, sleep(stopMs, undefined, { ref: false })])
    }
  }

  #openRuntime(): Promise<AgentRuntime> {
    this.#runtime ??= AgentRuntime.open(
      {
        conversation: this.id,
        settings: this.#settings,
        rim: this.#deps,
        secrets: this.#secrets,
        wire: this.#wire,
        host: this.#host(),
      },
      this.#closing.signal,
    )
    this.#runtime.then(
      ({ tasks }) => {
        this.#tasks = tasks
      },
      () => {
        this.#runtime = undefined
      },
    )
    return this.#runtime
  }

  /** This conversation, as the tasks that it gives need it. */
  #host(): TaskHost {
    return {
      settings: () => this.#settings,
      policy: () => this.policy,
      analyzer: () => this.analyzer,
      redact: (text) => this.#secrets.redact(text),
      onUsage: async (task, stats, isOver) => {
        this.#stats.replace(`task:${task}`, stats)
        if (isOver)
          await this.#writer.write(() => ({ events: [], record: { stats: JSON.stringify(this.#stats) } }))
        this.#publish({ kind: 'stats', value: this.#stats.snapshot() })
      },
    }
  }

  /** What a step works with: MCP servers connected, the system prompt written, the session begun. */
  async #prepareRuntime(signal: AbortSignal): Promise<AgentRuntime> {
    const runtime = await this.#openRuntime()
    await runtime.connect(signal)
    await this.#savePlugins(runtime)
    if (!this.#hasSessionStarted) {
      this.#hasSessionStarted = true
      await this.#writeHookEvents(await runtime.runHooks('session_start', {}, signal))
      await this.#secrets.resolveAll()
    }
    if (!this.state.hasSystemPrompt) {
      await this.#writer.write((now) => ({ events: this.#systemPromptEvents(now, runtime) }), {
        isPatient: true,
      })
    }
    return runtime
  }

  /** Keeps which files its plugins are, and writes the prompt anew when one came after it. */
  async #savePlugins(runtime: AgentRuntime): Promise<void> {
    const isUnchanged = isDeepStrictEqual(
      runtime.extensions.pinned?.map(pluginIdentity),
      this.#settings.plugins?.map(pluginIdentity),
    )
    if (isUnchanged || (this.#settings.plugins ?? []).length === 0) return
    const mustAnnounce = (now: ConversationState) =>
      now.hasSystemPrompt && !runtime.needsConnect && this.#settings.plugins?.some((one) => one.is_untold)
    await this.#changeSettings(
      (now) => ({
        ...now,
        plugins: runtime.needsConnect ? now.plugins : runtime.extensions.pinned?.map((pin) => ({ ...pin })),
      }),
      (now) => (mustAnnounce(now) ? [runtime.systemPromptEvent(this.analyzer !== null)] : []),
    ).catch((error: unknown) => {
      // Settings that were sealed with another key are not written over; the next load finds the plugins as it can.
      if (!(error instanceof Problem && error.code === 'conflict')) throw error
    })
  }

  /** The SystemPromptEvent, once; it waits for MCP servers, whose tools it lists. */
  #systemPromptEvents(now: ConversationState, runtime: AgentRuntime | undefined): EventDraft[] {
    if (now.hasSystemPrompt || runtime === undefined || runtime.needsConnect) return []
    return [runtime.systemPromptEvent(this.analyzer !== null)]
  }

  /** One after another: each change is made of what the one before it has left. `after` belongs to it. */
  #changeSettings(
    change: (settings: ResolvedSettings) => ResolvedSettings,
    events: readonly EventDraft[] | ((now: ConversationState) => readonly EventDraft[]),
    after?: () => Promise<void>,
  ): Promise<void> {
    const done = this.#lastSettingsChange.then(async () => {
      const settings = change(this.#settings)
      await this.#writer.write((now) => ({
        events: typeof events === 'function' ? events(now) : events,
        record: this.#store.seal(settings),
      }))
      this.#settings = settings
      await after?.()
    })
    this.#lastSettingsChange = done.catch(() => undefined)
    return done
  }

  async #recordUsage(answer: Parameters<UsageStats['addReply']>[0], usageId: string): Promise<void> {
    this.#stats.addReply(answer, usageId, this.#deps.now())
    await this.#writer.write(() => ({ events: [], record: { stats: JSON.stringify(this.#stats) } }))
    this.#publish({ kind: 'stats', value: this.#stats.snapshot() })
  }

  /** Gives the conversation a title after its first message, behind everything else. */
  async #autoTitle(text: string): Promise<void> {
    const { title: titleStore } = this.#store
    if (titleStore === undefined || !this.#settings.autotitle || this.#hasTriedTitle) return
    this.#hasTriedTitle = true
    try {
      if (!(await titleStore.isMissing())) return
      const runtime = await this.#openRuntime()
      const own = await titleStore.model()
      const model = own === undefined ? runtime.model : runtime.openModel(own)
      const { title, answer } = await generateTitle(text, { model }, this.#closing.signal)
      if (this.#closing.signal.aborted) return
      if (answer !== undefined) await this.#recordUsage(answer, 'title')
      if (title !== '') await titleStore.set(this.#secrets.redact(title))
    } catch (error) {
      const reason = error instanceof Error ? error.name : typeof error
      this.#deps.logLine('debug', 'no title was found', { conversation: this.id, reason })
    }
  }

  /** Rejects what waits for confirmation when nobody answers in time, where the policy or the server says so. */
  #scheduleDeadline(): void {
    const { policy, state } = this
    const own = 'deadline_seconds' in policy ? policy.deadline_seconds : undefined
    const limitMs = own === undefined ? this.#deps.confirmationDeadlineMs : own * 1000
    const since = Date.parse(state.statusSince ?? '')
    const isWaiting = state.status === 'waiting_for_confirmation' && limitMs !== undefined
    this.#deadline.schedule(isWaiting ? { since, limitMs } : undefined)
  }

  async #save(): Promise<void> {
    const { position, needsBranchReplay } = this.state
    if (position === this.#checkpoints.position || needsBranchReplay) return
    const snapshot = this.#checkpoints.add(position, this.state.save())
    await this.#store.saveSnapshot(snapshot).catch(() => undefined)
  }
}

/** How a run has ended. */
function runOutcome(status: ConversationState['status']): WorkOutcome {
  return { outcome: status, isFailure: status === 'error' || status === 'stuck' }
}

function assertCanStartGoal({ status, goal }: ConversationState): void {
  if (status === 'running') throw new Problem('conflict', 'The conversation is running.')
  if (goal?.active) throw new Problem('conflict', 'The conversation pursues a goal already.')
}

/** The run is over for now, and goes on when somebody has agreed. */
function isRunUnfinished({ status }: ConversationState): boolean {
  return status === 'running' || status === 'waiting_for_confirmation'
}

function collectSecrets(
  settings: ResolvedSettings,
  { redactedValues = [], resolveServerSecret: own }: ConversationDeps,
): Secrets {
  const sources = { ...settings.agent.agent_context?.secrets, ...settings.secrets }
  const secrets = new Secrets(sources, own === undefined ? {} : { resolveServerSecret: own })
  secrets.addValuesFrom(settings.agent)
  secrets.addValuesFrom(settings.agent_definitions)
  for (const value of redactedValues) secrets.addValue(value)
  return secrets
}

/** All that says which plugin it is, and whether the model has been told. */
function pluginIdentity({ source, ref, repo_path, is_untold }: ExtensionSource): readonly unknown[] {
  return [source, ref, repo_path, is_untold === true]
}
