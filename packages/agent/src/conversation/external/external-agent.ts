import { type AcpAgent, type AcpState, isAcpAgent, Problem } from '@slipway/protocol'
import { redact, redactedText } from '@slipway/shared/redaction'
import type { Clock } from '@slipway/shared/time'
import { RpcError } from '../../acp/rpc.ts'
import type { AcpSession } from '../../acp/session.ts'
import { readRecord } from '../../acp/session-messages.ts'
import { conversationFolder } from '../../workspace/conversation-folder.ts'
import { agentErrorEvent, endedExternalCalls, stateUpdate } from '../events/event-drafts.ts'
import type { AgentRuntime } from '../runtime/agent-runtime.ts'
import type { ConversationContext } from '../runtime/conversation-context.ts'
import type { ResolvedSettings } from '../state/resolved-settings.ts'
import { withAcpModel } from './external-model.ts'
import { ExternalTurn, type ReplyStream } from './external-turn.ts'
import { externalPrompt } from './prompt.ts'
import { QuietPeriod } from './quiet-period.ts'

const goneText =
  'The external agent that asked for this has ended before it had an answer. It may ask for it again.'
/** A loaded session is prompted when it has repeated what was said: some answer the load before that. */
const replayLimits = { quietMs: 250, limitMs: 5_000 }
const notAcpText = 'switch_acp_model is only supported for ACP conversations.'

/** The external agent of a conversation, which answers instead of a model: its program, session and turn. */
export class ExternalAgent {
  readonly #context: ConversationContext
  #session: AcpSession | undefined
  #turn: ExternalTurn | undefined
  /** What a loaded session repeats is not over. */
  #replay: QuietPeriod | undefined
  /** A step works with the turn. */
  #isInStep = false
  /** By the session's own account, in dollars. */
  #cost = 0
  #secretsAtStart: ResolvedSettings['secrets']

  constructor(context: ConversationContext) {
    this.#context = context
  }

  /** A prompt is on the way, also while its request waits for the user. */
  get hasTurn(): boolean {
    return this.#turn !== undefined
  }

  /** Its program was started, and not ended since. */
  get hasSession(): boolean {
    return this.#session !== undefined
  }

  /** Closes the calls that an ended program has left; false when there is none. */
  async closeLeftCalls(): Promise<boolean> {
    const { state, appendPatiently } = this.#context
    if (state.openActions().length === 0 && state.externalCalls === undefined) return false
    await appendPatiently((now) => [
      ...endedExternalCalls(now, 'failed'),
      ...now.openActions().map((call) => agentErrorEvent(call, goneText)),
    ])
    return true
  }

  /**
   * Does a turn, or continues with one, until it ends, waits for the user, or the signal aborts. Rejects with
   * AcpError.
   */
  async step(runtime: AgentRuntime, createReply: () => ReplyStream, signal: AbortSignal): Promise<void> {
    const turn = this.#turn ?? (await this.#begin(runtime, createReply, signal))
    if (turn === undefined) return
    let outcome: Awaited<ReturnType<ExternalTurn['wait']>> = 'stopped'
    this.#isInStep = true
    try {
      await turn.settlePermissions()
      outcome = await turn.wait(signal)
    } finally {
      this.#isInStep = false
      if (outcome === 'stopped') await this.#stopTurn(turn)
      else if (outcome === 'ended') this.#turn = undefined
    }
    if (outcome !== 'ended') return
    this.#cost = turn.cost
    try {
      await turn.store()
    } finally {
      await this.#session?.saveCredentials()
      if (this.#session?.endReason !== undefined) await this.#closeSession()
    }
  }

  /** Cancels a turn whose request waits for the user; a step ends its turn on its own. */
  async stopWaitingTurn(): Promise<void> {
    if (this.#turn !== undefined && !this.#isInStep) await this.#stopTurn(this.#turn)
  }

  async #stopTurn(turn: ExternalTurn): Promise<void> {
    if (this.#turn === turn) this.#turn = undefined
    if (!(await turn.stop())) await this.#closeSession()
  }

  /**
   * Continues with another model, at once in an open session. Problems: `bad_request` for another kind of
   * agent and for a model that it does not offer, `timeout`.
   */
  async switchModel(model: string): Promise<void> {
    const { settings } = this.#context
    const { agent } = settings.current
    if (!isAcpAgent(agent)) throw new Problem('bad_request', notAcpText)
    if (model.trim() === '') throw new Problem('bad_request', 'model must be a non-empty string')
    const session = this.#session
    if (session !== undefined && session.endReason === undefined)
      await switchSession(session, { agent, model, clock: this.#context.deps.clock })
    await settings.change(
      (now) => ({
        ...now,
        agent: isAcpAgent(now.agent) ? withAcpModel(now.agent, model) : now.agent,
        agent_state: { ...now.agent_state, acp_current_model_id: model },
      }),
      () => [stateUpdate('agent', redact(withAcpModel(agent, model), redactedText))],
    )
  }

  /** The conversation continues from another event: the session knows what does not belong to it any more. */
  async forgetSession(): Promise<void> {
    if (!isAcpAgent(this.#context.settings.current.agent)) return
    await this.close()
    if (this.#context.settings.current.agent_state?.acp_session_id === undefined) return
    await this.#saveState({
      acp_session_id: '',
      acp_session_cwd: undefined,
      acp_prompted_message_id: undefined,
    })
  }

  /** Ends the program. */
  async close(): Promise<void> {
    this.#turn = undefined
    await this.#closeSession()
  }

  async #closeSession(): Promise<void> {
    const session = this.#session
    this.#session = undefined
    this.#replay = undefined
    await session?.close()
  }

  /** Undefined when the signal aborted before the prompt was sent. */
  async #begin(
    runtime: AgentRuntime,
    createReply: () => ReplyStream,
    signal: AbortSignal,
  ): Promise<ExternalTurn | undefined> {
    const context = this.#context
    if (this.#session?.endReason !== undefined || this.#hasOtherSecrets()) await this.#closeSession()
    let isNewSession = false
    if (this.#session === undefined) {
      const session = await this.#open(runtime, signal).catch((error: unknown) => {
        if (signal.aborted) return undefined
        throw error
      })
      if (session === undefined) return undefined
      this.#session = session
      isNewSession = !session.isContinued
      if (session.isReplayed) this.#replay = new QuietPeriod(context.deps.clock, replayLimits)
      this.#cost = 0
    }
    const session = this.#session
    await this.#replay?.wait(signal).catch(() => undefined)
    if (signal.aborted) return undefined
    this.#replay = undefined
    const { agent, agent_state } = context.settings.current
    const { blocks, ids } = externalPrompt(context.state, {
      sentId: agent_state?.acp_prompted_message_id,
      isNewSession: isNewSession || agent_state?.acp_prompted_message_id === undefined,
      suffix: agent.agent_context?.system_message_suffix,
      acceptsImages: session.abilities.acceptsImages,
    })
    if (signal.aborted) return undefined
    const turn = new ExternalTurn(
      { context, runtime, session, reply: createReply(), costBefore: this.#cost },
      blocks,
    )
    this.#turn = turn
    const sent = ids.at(-1)
    if (sent !== undefined) await this.#saveState({ acp_prompted_message_id: sent })
    return turn
  }

  /** Not of one whose load was refused, or that the program has opened on its own. */
  #isOfSession({ sessionId }: Readonly<Record<string, unknown>>): boolean {
    return this.#session === undefined || typeof sessionId !== 'string' || sessionId === this.#session.id
  }

  async #open(runtime: AgentRuntime, signal: AbortSignal): Promise<AcpSession> {
    const { id, deps, secrets, settings } = this.#context
    const { agent, agent_state } = settings.current
    if (!isAcpAgent(agent)) throw new Error('the agent is no external one')
    const { AcpSession } = await import('../../acp/session.ts')
    this.#secretsAtStart = settings.current.secrets
    const session = await AcpSession.open(
      {
        agent,
        workspace: runtime.workspace,
        directory: conversationFolder(deps.directory, id),
        secrets,
        servers: runtime.mcpServers,
        mcpOAuth: deps.mcpOAuth,
        findCredential: (name) => deps.findCredential?.(id, name),
        earlier: agent_state,
        handlers: {
          onNotification: (method, params) => {
            if (method !== 'session/update' || !this.#isOfSession(params)) return
            this.#replay?.note()
            this.#turn?.update(readRecord(params.update))
          },
          onRequest: async (method, params) => {
            if (method !== 'session/request_permission')
              throw new RpcError(-32601, `Method not found: ${method}`)
            return (await this.#turn?.permit(params)) ?? { outcome: { outcome: 'cancelled' } }
          },
        },
        warn: (text) => deps.logLine('warn', secrets.redact(text), { conversation: id }),
      },
      signal,
    )
    // It was switched while the program started.
    const { acp_model: model } = settings.current.agent
    if (typeof model === 'string' && model !== agent.acp_model)
      await session.setModel(model, signal).catch(() => undefined)
    const { models, abilities } = session
    await this.#saveState({
      ...(session.isContinued ? {} : { acp_prompted_message_id: undefined }),
      acp_agent_name: abilities.name,
      acp_agent_version: abilities.version,
      acp_session_id: session.id,
      acp_session_cwd: runtime.workspace.directory,
      acp_supports_runtime_model_switch: models !== undefined,
      ...(models?.current === undefined ? {} : { acp_current_model_id: models.current }),
      ...(models === undefined || models.available.length === 0
        ? {}
        : { acp_available_models: [...models.available] }),
    })
    return session
  }

  /** The secrets have changed since the program started, and it can continue with its session. */
  #hasOtherSecrets(): boolean {
    const { abilities } = this.#session ?? {}
    const canGoOn = abilities?.canLoad === true || abilities?.canResume === true
    return canGoOn && this.#secretsAtStart !== this.#context.settings.current.secrets
  }

  async #saveState(changes: Partial<AcpState>): Promise<void> {
    await this.#context.settings.change((now) => ({
      ...now,
      agent_state: { ...now.agent_state, ...changes },
    }))
  }
}

async function switchSession(
  session: AcpSession,
  { agent, model, clock }: { readonly agent: AcpAgent; readonly model: string; readonly clock: Clock },
): Promise<void> {
  const offered = session.models?.available ?? []
  if (offered.length > 0 && !offered.some(({ model_id }) => model_id === model))
    throw new Problem('bad_request', `The external agent does not offer the model ${JSON.stringify(model)}`)
  const limit = clock.timeout(agent.acp_prompt_timeout * 1000)
  try {
    await session.setModel(model, limit)
  } catch (error) {
    if (limit.aborted) {
      const problem = new Problem('timeout', 'The external agent did not answer in time')
      problem.exception = 'TimeoutError'
      throw problem
    }
    if (!(error instanceof RpcError)) throw new Problem('bad_request', 'The external agent has ended')
    throw new Problem('bad_request', 'The external agent refused the model')
  }
}
