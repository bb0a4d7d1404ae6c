import { isDeepStrictEqual } from 'node:util'
import { type ExtensionSource, isAcpAgent, type Llm, Problem } from '@slipway/protocol'
import { redact, redactedText } from '@slipway/shared/redaction'
import type { EventDraft } from '@slipway/storage'
import { describeEnvironment, recordedEnvironment } from '../../environment/describe-environment.ts'
import { noticeEvent } from '../../repository/repository-access.ts'
import { stateUpdate } from '../events/event-drafts.ts'
import { remainingLimits } from '../limits/check-limits.ts'
import type { ConversationState } from '../state/state.ts'
import type { TaskHost, TaskRunner } from '../tasks/task-runner.ts'
import type { LogEventOf } from '../view/log-event.ts'
import { AgentRuntime } from './agent-runtime.ts'
import type { ConversationContext } from './conversation-context.ts'
import { systemPromptEvent } from './system-prompt.ts'

/** Time limit of session_end hooks. */
const sessionEndMs = 5_000
/** Time limit of the search for what the prompt says about the workspace. */
const environmentMs = 3_000

/** Opens the runtime of a conversation when it is needed, and prepares it for a step of the agent loop. */
export class RuntimeLoader {
  /** The tasks of the runtime; undefined until it is open. */
  tasks: TaskRunner | undefined
  readonly #context: ConversationContext
  #runtime: Promise<AgentRuntime> | undefined
  #environment: Promise<string> | undefined
  /** The runtime that is open now. */
  current: AgentRuntime | undefined
  /** It was prepared for a step: its servers and terminals may run. */
  hasSessionStarted = false

  constructor(context: ConversationContext) {
    this.#context = context
  }

  /** Opens the runtime once; after a failure the next call tries again. */
  open(): Promise<AgentRuntime> {
    this.#runtime ??= AgentRuntime.open(this.#context, this.#taskHost(), (llm) => this.switchModel(llm))
    this.#runtime.then(
      (runtime) => {
        this.tasks = runtime.tasks
        this.current = runtime
      },
      () => {
        this.#runtime = undefined
      },
    )
    return this.#runtime
  }

  /** Opens it with the present settings when it is needed next. */
  async reopen(): Promise<void> {
    const runtime = await this.opened()
    this.#runtime = undefined
    await runtime?.close()
  }

  /** The runtime if it has been opened. */
  async opened(): Promise<AgentRuntime | undefined> {
    return await this.#runtime?.catch(() => undefined)
  }

  /** Continues the same history with another model. */
  async switchModel(llm: Llm): Promise<void> {
    const { secrets, settings } = this.#context
    secrets.addValuesFrom(llm)
    await settings.change(
      (now) => ({ ...now, agent: { ...now.agent, llm } }),
      () => [stateUpdate('agent', redact({ ...settings.current.agent, llm }, redactedText))],
    )
    const runtime = await this.opened()
    if (runtime !== undefined) runtime.model = runtime.openModel(llm)
  }

  /**
   * Connects MCP servers, runs session_start hooks once and writes the system prompt if there is none. Does
   * none of
   * it while the runtime waits for consent to what the repository brings.
   */
  async prepare(signal: AbortSignal): Promise<AgentRuntime> {
    const { secrets } = this.#context
    const runtime = await this.#openDecided()
    await this.#context.appendPatiently((now) => noticeEvents(now, runtime))
    if (runtime.repository.isPending) return runtime
    await runtime.connect(signal)
    await this.#savePlugins(runtime)
    if (!this.hasSessionStarted) {
      this.hasSessionStarted = true
      const { events } = await runtime.hooks.run('session_start', {}, signal)
      await this.#context.appendPatiently(() => events)
      await secrets.resolveAll()
    }
    await this.#tellSettings(runtime)
    if (!this.#context.state.hasSystemPrompt) {
      const environment = await this.environment(runtime)
      await this.#context.appendPatiently((now) => this.systemPromptEvents(now, runtime, environment))
    }
    await this.#context.appendPatiently((now) => runtime.serverNotices(now))
    return runtime
  }

  /** The runtime, opened again when the user has decided what it waited for. */
  async #openDecided(): Promise<AgentRuntime> {
    const runtime = await this.open()
    if (!(await runtime.repository.hasNewVerdict())) return runtime
    this.#runtime = undefined
    await runtime.close()
    return await this.open()
  }

  /** The SystemPromptEvent, once; it lists the tools, so it waits for MCP servers. */
  systemPromptEvents(
    now: ConversationState,
    runtime: AgentRuntime | undefined,
    environment: string | undefined,
  ): EventDraft[] {
    if (now.hasSystemPrompt || runtime === undefined || runtime.needsConnect) return []
    return [this.#systemPromptEvent(runtime, environment)]
  }

  /** What the first prompt says about machine and workspace; it is looked for once in a conversation. */
  async environment(runtime: AgentRuntime | undefined): Promise<string | undefined> {
    const { state, deps, closing, secrets } = this.#context
    if (state.hasSystemPrompt || runtime === undefined || isAcpAgent(runtime.settings.agent)) return undefined
    this.#environment ??= describeEnvironment(runtime.workspace, {
      signal: AbortSignal.any([closing.signal, deps.clock.timeout(environmentMs)]),
      redact: (text) => secrets.redact(text),
    })
    return await this.#environment
  }

  async close({ isDeleted }: { readonly isDeleted: boolean }): Promise<void> {
    const runtime = await this.opened()
    if (runtime === undefined) return
    if (this.hasSessionStarted) {
      const limit = this.#context.deps.clock.timeout(sessionEndMs)
      const verdict = await runtime.hooks.run('session_end', {}, limit).catch(() => undefined)
      if (verdict !== undefined && !isDeleted)
        await this.#context.appendPatiently(() => verdict.events).catch(() => undefined)
    }
    await runtime.close()
  }

  #systemPromptEvent(runtime: AgentRuntime, environment: string | undefined): EventDraft {
    const { deps, secrets, settings } = this.#context
    return systemPromptEvent(runtime, {
      secrets: secrets.list(),
      now: new Date(deps.clock.now()),
      analyzer: settings.analyzer,
      environment,
    })
  }

  #taskHost(): TaskHost {
    const { secrets, settings, stats } = this.#context
    return {
      settings,
      redact: (text) => secrets.redact(text),
      remainingLimits: () => remainingLimits(settings.current.limits, stats),
      onUsage: async (task, usage, isOver) => {
        stats.replace(`task:${task}`, usage)
        if (isOver) await this.#context.saveUsage()
        this.#context.publish({ kind: 'stats', value: stats.snapshot() })
      },
    }
  }

  /** Tells the settings of a request by a new system prompt, once, also after a kill between the two. */
  async #tellSettings(runtime: AgentRuntime): Promise<void> {
    const { settings } = this.#context
    if (settings.current.door?.is_untold !== true || runtime.needsConnect) return
    await settings.change(
      (now) => ({ ...now, door: { ...now.door, is_untold: undefined } }),
      (now) => [this.#systemPromptEvent(runtime, toldEnvironment(now))],
    )
  }

  /** Stores the plugins' pinned versions; announces later plugins by a new system prompt. */
  async #savePlugins(runtime: AgentRuntime): Promise<void> {
    const { settings } = this.#context
    const { plugins = [] } = settings.current
    const { pinned } = runtime.extensions
    if (plugins.length === 0 || isDeepStrictEqual(pinned?.map(pluginIdentity), plugins.map(pluginIdentity)))
      return
    const mustAnnounce = (now: ConversationState) =>
      now.hasSystemPrompt && !runtime.needsConnect && settings.current.plugins?.some((one) => one.is_untold)
    await settings
      .change(
        (now) => {
          const pins = runtime.needsConnect ? now.plugins : runtime.extensions.pinned
          return { ...now, plugins: pins?.map((pin) => ({ ...pin })) }
        },
        (now) => (mustAnnounce(now) ? [this.#systemPromptEvent(runtime, toldEnvironment(now))] : []),
      )
      .catch((error: unknown) => {
        // Settings that were sealed with another key are not overwritten; the next load finds the plugins as
        // it can.
        if (!(error instanceof Problem && error.code === 'conflict')) throw error
      })
  }
}

/** What an earlier prompt of the conversation says about machine and workspace. */
function toldEnvironment({ view }: ConversationState): string | undefined {
  const prompt = view.events.find(
    (event): event is LogEventOf<'SystemPromptEvent'> => event.kind === 'SystemPromptEvent',
  )
  return recordedEnvironment(prompt?.dynamic_context?.text ?? '')
}

/** Tells once of each decision about the repository. */
function noticeEvents(now: ConversationState, { repository }: AgentRuntime): EventDraft[] {
  const { notice } = repository
  const { id, decision } = now.repositoryConsent ?? {}
  return notice === undefined || (notice.id === id && notice.decision === decision)
    ? []
    : [noticeEvent(notice)]
}

/** Which plugin it is, and whether the model knows of it. */
function pluginIdentity({ source, ref, repo_path, is_untold }: ExtensionSource): readonly unknown[] {
  return [source, ref, repo_path, is_untold === true]
}
