import type {
  CommandRule,
  ConfirmationPolicy,
  ConversationLimits,
  ExtensionSource,
  HookConfig,
  Llm,
  SecretSource,
  SecurityAnalyzer,
  SendMessageRequest,
} from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import type { Restored, WorkspaceCheckpoints } from '../checkpoints/workspace-checkpoints.ts'
import { mergeHooks } from '../plugins/extensions.ts'
import type { LoadedSkill } from '../skills/skill.ts'
import type { McpPrompt } from '../tools/mcp/prompts.ts'
import {
  addSecrets,
  configureTurn,
  loadPlugin,
  removeSecret,
  setAnalyzer,
  setCommandRules,
  setLimits,
  setPlanMode,
  setPolicy,
  type TurnSettings,
} from './configuration.ts'
import type { ConversationParts } from './conversation-parts.ts'
import { runRequest, stateUpdate } from './events/event-drafts.ts'
import type { TransientUpdates } from './events/transient-updates.ts'
import { ExternalAgent } from './external/external-agent.ts'
import { assertOwnAgent } from './external/external-model.ts'
import { resumeGoal, stopGoal } from './goals.ts'
import { newGoal } from './loop/goal.ts'
import { sendMessage } from './messages.ts'
import { openCheckpoints, restoreCheckpoint } from './restore-checkpoint.ts'
import { RunControl } from './run-control.ts'
import {
  type ConversationContext,
  type OpenConversationOptions,
  openContext,
} from './runtime/conversation-context.ts'
import type { RunSlot } from './runtime/deps.ts'
import { RuntimeLoader } from './runtime/runtime-loader.ts'
import { listPrompts } from './runtime/server-prompts.ts'
import { askSideQuestion } from './side-questions.ts'
import type { ResolvedSettings } from './state/resolved-settings.ts'
import { type ConversationState, isAwaitingConsent } from './state/state.ts'
import type { UsageStats } from './state/usage-stats.ts'
import { reopenEvents } from './stop-events.ts'
import { Titles } from './titles.ts'

/**
 * An open conversation: state, runtime and agent loop. Methods resolve when their effect is durable; a run
 * that they start runs in the background.
 */
export class Conversation implements AsyncDisposable {
  readonly id: string
  readonly transientUpdates: TransientUpdates
  readonly #parts: ConversationParts
  /** Requests that are not durable yet. */
  #pendingRequests = 0

  private constructor(context: ConversationContext) {
    this.id = context.id
    this.transientUpdates = context.transientUpdates
    const runtimes = new RuntimeLoader(context)
    const external = new ExternalAgent(context)
    const runs = new RunControl(context, runtimes, external)
    this.#parts = { context, runtimes, runs, titles: new Titles(context, runtimes), external }
  }

  /**
   * Folds the log from the newest checkpoint on. `cutRun` says what becomes of a run whose process died; each
   * of its actions without a result gets an AgentErrorEvent.
   */
  static async open(options: OpenConversationOptions): Promise<Conversation> {
    const context = await openContext(options)
    const conversation = new Conversation(context)
    await context.append((now) => reopenEvents(now, options.cutRun ?? 'paused'))
    conversation.#parts.runs.scheduleDeadline()
    return conversation
  }

  get state(): ConversationState {
    return this.#parts.context.state
  }

  get settings(): ResolvedSettings {
    return this.#parts.context.settings.current
  }

  get stats(): UsageStats {
    return this.#parts.context.stats
  }

  get policy(): ConfirmationPolicy {
    return this.#parts.context.settings.policy
  }

  get analyzer(): SecurityAnalyzer | null {
    return this.#parts.context.settings.analyzer
  }

  get isPlanning(): boolean {
    return this.#parts.context.settings.isPlanning
  }

  /** True while actions wait for the user, and are rejected when their time is over. */
  get hasDeadline(): boolean {
    return this.#parts.runs.hasDeadline
  }

  /** True while closing it would interrupt something. */
  get isBusy(): boolean {
    const { runs, external } = this.#parts
    const isWaitedFor = runs.isActive || this.#pendingRequests > 0 || external.hasTurn
    return isWaitedFor || this.state.goal?.active === true
  }

  /** True while closing it would end nothing: neither a run nor a program, and no session of hooks. */
  get isAtRest(): boolean {
    const { runtimes, external } = this.#parts
    return (
      !this.isBusy &&
      !this.isRunning &&
      !this.hasDeadline &&
      !runtimes.hasSessionStarted &&
      !external.hasSession
    )
  }

  /** Something that its tools have started continues, such as a program in the background of the terminal. */
  async isOccupied(): Promise<boolean> {
    return (await (await this.#parts.runtimes.opened())?.isOccupied()) ?? false
  }

  /** True while a run is active or about to begin. */
  get isRunning(): boolean {
    return this.#parts.runs.isActive || this.state.status === 'running'
  }

  /** True while its run waits for a free run slot. */
  get isRunQueued(): boolean {
    return this.#parts.runs.isQueued
  }

  /** The id of the consent for which its run waits, if it waits for one. */
  get awaitedConsent(): string | undefined {
    return isAwaitingConsent(this.state) ? this.state.repositoryConsent?.id : undefined
  }

  async waitUntilIdle(): Promise<void> {
    await this.#parts.runs.waitUntilIdle()
  }

  /**
   * Stores a user message with the skills that it activates and what hooks add. Rejects actions that have not
   * started, and makes a finished or stuck conversation idle. A repeat under the same `id` is stored once;
   * another message under it is a Problem `conflict`. `run` starts a run, also while another one ends, in the
   * `slot` that was reserved for it, which becomes the conversation's.
   */
  async send(
    message: SendMessageRequest,
    id?: string,
    slot?: RunSlot,
    options: { readonly mayAnswer?: boolean } = {},
  ): Promise<void> {
    await this.#track(sendMessage(this.#parts, message, { id, slot, ...options }))
  }

  /**
   * Starts a run unless it is finished. Problems: `conflict` while one is active; `too_many` when no run slot
   * is free, unless it `waitsForSlot`.
   */
  async run(options: { readonly waitsForSlot?: boolean; readonly mayAnswer?: boolean } = {}): Promise<void> {
    await this.#parts.runs.run(options)
  }

  /**
   * Approves or rejects all pending actions. Does nothing when none waits for confirmation; with
   * `action_ids` or `actions_digest` a Problem `conflict` then, and when others wait.
   */
  async resolveConfirmation(options: {
    readonly accept: boolean
    readonly reason: string
    readonly action_ids?: readonly string[] | undefined
    readonly actions_digest?: string | undefined
  }): Promise<void> {
    await this.#parts.runs.resolveConfirmation(options)
  }

  /** Stops the run after the current model call or tools. */
  async pause(): Promise<void> {
    await this.#parts.runs.pause()
  }

  /** Cancels the current model call and tools; actions without a result get an error. */
  async interrupt(): Promise<void> {
    await this.#parts.runs.interrupt()
  }

  /**
   * Continues from another event, or from the beginning (null); removes nothing. The conversation is idle
   * then. Problems: `not_found` for an unknown event, `conflict` during a run.
   */
  async navigate(eventId: string | null): Promise<void> {
    await this.#parts.runs.navigate(eventId)
  }

  /** Condenses the history, during a run at its next step. A Problem `conflict` when that is impossible. */
  async condense(): Promise<void> {
    await this.#parts.runs.condense()
  }

  /**
   * Sends an objective and runs until a model judges it reached or `maxIterations` rounds are over. A Problem
   * `conflict` during a run or while another goal is active.
   */
  async startGoal(objective: string, maxIterations: number): Promise<void> {
    assertOwnAgent(this.settings, 'goal')
    const goal = newGoal(objective, maxIterations)
    await this.#track(sendMessage(this.#parts, runRequest(objective), { goal }))
  }

  /** Ends the goal; its round continues. Does nothing without an active goal. */
  async stopGoal(): Promise<void> {
    await stopGoal(this.#parts)
  }

  /** Continues an interrupted goal. Problems: `conflict` during a run, `bad_request` when there is none. */
  async resumeGoal(): Promise<void> {
    await resumeGoal(this.#parts)
  }

  /** The stored states of the workspace. A Problem `conflict` when the server makes none. */
  async checkpoints(): Promise<WorkspaceCheckpoints> {
    return await openCheckpoints(this.#parts)
  }

  /**
   * Makes the files of the workspace those of a checkpoint, after storing what is there. Problems:
   * `not_found`, `conflict` during a run.
   */
  async restoreCheckpoint(id: string): Promise<Restored> {
    return await restoreCheckpoint(this.#parts, id)
  }

  async setPolicy(policy: ConfirmationPolicy): Promise<void> {
    await setPolicy(this.#parts, policy)
  }

  async setAnalyzer(analyzer: SecurityAnalyzer | null): Promise<void> {
    await setAnalyzer(this.#parts, analyzer)
  }

  /** Replaces the limits of each scope that is given, also during a run. */
  async setLimits(limits: ConversationLimits): Promise<void> {
    await setLimits(this.#parts, limits)
  }

  /** Replaces its own rules for commands; those of the server and of the repository stay. */
  async setCommandRules(rules: readonly CommandRule[]): Promise<void> {
    await setCommandRules(this.#parts, rules)
  }

  /** A Problem `bad_request` for an external agent, which has its own plan mode. */
  async setPlanMode(isPlanning: boolean): Promise<void> {
    await setPlanMode(this.#parts, isPlanning)
  }

  /** Stores a state update that changes nothing here: new tags, which the wire `current` has, or a mark. */
  async record(key: string, value: unknown, id?: string): Promise<void> {
    await this.#parts.context.append(() => [{ ...stateUpdate(key, value), ...definedMembers({ id }) }])
  }

  /** What the next run goes by. Problems: `conflict` during a run, `bad_request` for an external agent. */
  async configure(settings: TurnSettings): Promise<void> {
    assertOwnAgent(this.settings, 'the settings of a request')
    await this.#track(configureTurn(this.#parts, settings))
  }

  /** Adds secrets for the tool calls that follow. */
  async addSecrets(secrets: Readonly<Record<string, SecretSource>>): Promise<void> {
    await addSecrets(this.#parts, secrets)
  }

  /** The program of its external agent was started, and not ended since. */
  get hasExternalSession(): boolean {
    return this.#parts.external.hasSession
  }

  /** Its value stays redacted. */
  async removeSecret(name: string): Promise<void> {
    await removeSecret(this.#parts, name)
  }

  /** Continues the same history with another model. */
  async switchModel(llm: Llm): Promise<void> {
    assertOwnAgent(this.settings, 'switch_llm')
    await this.#parts.runtimes.switchModel(llm)
  }

  /**
   * Continues with another model of an external agent. Problems: `bad_request` for another kind of agent and
   * for a model that it does not offer, `timeout`.
   */
  async switchAcpModel(model: string): Promise<void> {
    await this.#parts.external.switchModel(model)
  }

  /**
   * Adds or replaces a plugin; the model sees it with the next step. Problems: `conflict` during a run,
   * `bad_request` when the plugin cannot be loaded.
   */
  async loadPlugin(source: ExtensionSource): Promise<void> {
    await this.#track(loadPlugin(this.#parts, source))
  }

  /** What its MCP servers offer to users: a message that begins with `/server:name` starts a prompt. */
  async listPrompts(signal: AbortSignal): Promise<readonly McpPrompt[]> {
    return await this.#track(listPrompts(await this.#parts.runtimes.open(), signal))
  }

  /** Opens the runtime, so that `pluginAdditions` has the conversation's plugins. Rejects when it cannot. */
  async openPlugins(): Promise<void> {
    await this.#parts.runtimes.open()
  }

  /** What plugins add to the agent, as far as its runtime is open: their skills and hooks. */
  get pluginAdditions(): { readonly skills: readonly LoadedSkill[]; readonly hooks: HookConfig | undefined } {
    const plugins = this.#parts.runtimes.current?.extensions.plugins ?? []
    return { skills: plugins.flatMap(({ skills }) => skills), hooks: mergeHooks(undefined, plugins) }
  }

  /**
   * Asks the model; writes no event but its completion log and token ids. A Problem `unavailable` when it
   * gives no answer.
   */
  async askSideQuestion(question: string, signal: AbortSignal): Promise<string> {
    assertOwnAgent(this.settings, 'ask_agent')
    return await askSideQuestion(this.#parts, question, signal)
  }

  /** A title from the model; does not store it. */
  async generateTitle(
    options: { readonly llm?: Llm; readonly maxLength: number },
    signal: AbortSignal,
  ): Promise<string> {
    return await this.#parts.titles.generate(options, signal)
  }

  /** Stops the run and releases everything. Writes nothing when the conversation `isDeleted`. */
  async close({ isDeleted = false }: { readonly isDeleted?: boolean } = {}): Promise<void> {
    await this.#parts.runs.close({ isDeleted })
    await this.#parts.external.close()
    await this.#parts.runtimes.close({ isDeleted })
    if (!isDeleted) await this.#parts.runs.saveCheckpoint()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #track<T>(request: Promise<T>): Promise<T> {
    this.#pendingRequests++
    try {
      return await request
    } finally {
      this.#pendingRequests--
    }
  }
}
