/**
 * One turn of an external agent: a prompt, and what its program says and asks until the answer.
 *
 * Problem: the program runs its own loop. It streams text, begins and ends calls of its own tools, and asks
 * for permission in the middle of one. The conversation stores that as events, and its user may pause, answer
 * or close at any time. The program cannot be asked for anything again later.
 *
 * Idea: the turn collects updates in memory and stores two events for each call, one when it begins and one
 * with its end, and one message when the turn is over. A request for permission is a pending action, so it is
 * shown and answered like others. The turn outlives the run that waits for that answer: `ExternalAgent` keeps
 * it, and the next step continues with it.
 *
 * Invariants:
 * - A call that the log has open gets an end on each way out: `stop` and `store` append `#endedCalls`.
 * - The events of updates are written one after another (`#writes`), and `stop` and `store` wait for them.
 * - Updates after the end are dropped (`#isOver`), and each request for permission is answered: `#end` and
 *   `stop` cancel those that wait.
 * - A stop while a request waits ends the turn, since no step is there to be aborted (`stopWaitingTurn` of
 *   `ExternalAgent`); a request that comes during a stop is cancelled (`#isStopping`).
 * - A permission is asked for in the write that finds the run continuing (`permit`), and given only where the
 *   log has the approval: status `running` and a position below `approvedBelow` (`settlePermissions`).
 * - What the program says is redacted before it is stored: `masked`, and the texts in `store`.
 * - Messages that came during the turn are marked as unanswered (`#lateInputs`): its prompt had none of them.
 * - Time in which the program waits for the user is not counted as silence (`#watch`).
 *
 * If you change this: a call that looks open for ever, or one that was allowed without the user.
 *
 * Decision pages: docs/decisions/0044-external-agents.md, docs/decisions/0008-messages-in-flight.md
 */

import type { TokenUsage } from '@slipway/protocol'
import { acpUsageId } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import type { Clock } from '@slipway/shared/time'
import type { EventDraft } from '@slipway/storage'
import { AcpError, rpcFailure } from '../../acp/failure.ts'
import { ProgramEndedError } from '../../acp/rpc.ts'
import type { AcpSession } from '../../acp/session.ts'
import {
  type PermissionRequest,
  permissionAnswer,
  readCount,
  readPermission,
  readRecord,
  readText,
  readUsage,
} from '../../acp/session-messages.ts'
import { agentErrorEvent, observationEvent, stateUpdate, statusUpdate } from '../events/event-drafts.ts'
import type { AgentRuntime } from '../runtime/agent-runtime.ts'
import type { ConversationContext } from '../runtime/conversation-context.ts'
import type { ConversationState } from '../state/state.ts'
import { decidePermission, permissionEvent } from './permission.ts'
import { ExternalToolCalls } from './tool-calls.ts'

/** A turn that does not end after it was cancelled is ended with its program. */
const cancelMs = 5_000
/** The same while its conversation is closed. */
const closeMs = 1_000
const checkMs = 1_000
const maxTextChars = 2_000_000
const notWaitedForText = 'The external agent no longer waits for an answer to this.'

/** Where the text of a turn is shown while it comes in. */
export interface ReplyStream {
  readonly id: string
  add(delta: { readonly content?: string; readonly reasoning_content?: string }): void
  end(): void
  abort(reason: string): void
}

interface ExternalTurnOptions {
  readonly context: ConversationContext
  readonly runtime: AgentRuntime
  readonly session: AcpSession
  readonly reply: ReplyStream
  /** What the session has cost before, in dollars, by its own account. */
  readonly costBefore: number
}

interface WaitingPermission {
  readonly actionId: string
  readonly request: PermissionRequest
  readonly answer: PromiseWithResolvers<object>
}

type Json = Readonly<Record<string, unknown>>

/** One prompt to an external agent, until its answer. */
export class ExternalTurn {
  readonly #options: ExternalTurnOptions
  readonly #calls = new ExternalToolCalls()
  readonly #startPosition: number
  readonly #clock: Clock
  readonly #started: number
  readonly #ended = Promise.withResolvers<void>()
  #asked = Promise.withResolvers<void>()
  #waiting: WaitingPermission[] = []
  #text = ''
  #thought = ''
  #hasCallSinceText = false
  #contextWindow = 0
  #lastActivity: number
  /** What its updates write, in order. */
  #writes: Promise<unknown> = Promise.resolve()
  #result: Json | undefined
  #failure: unknown
  #isOver = false
  #isStopping = false
  /** What the session has cost until now, by its own account. */
  cost: number

  constructor(options: ExternalTurnOptions, blocks: readonly object[]) {
    this.#options = options
    this.#clock = options.context.deps.clock
    this.#started = this.#clock.monotonic()
    this.#lastActivity = this.#started
    this.#startPosition = options.context.state.position
    this.cost = options.costBefore
    options.session.prompt(blocks).then(
      (result) => this.#end(result),
      (error: unknown) => this.#end(undefined, error),
    )
    this.#watch().catch(() => undefined)
  }

  /** A notification of the program: `session/update`. */
  update(update: Json): void {
    this.#lastActivity = this.#clock.monotonic()
    if (this.#isOver) return
    const kind = update.sessionUpdate
    if (kind === 'agent_message_chunk') this.#addText(readText(readRecord(update.content).text) ?? '')
    else if (kind === 'agent_thought_chunk') this.#addThought(readText(readRecord(update.content).text) ?? '')
    else if (kind === 'tool_call' || kind === 'tool_call_update') this.#mergeCall(update)
    else if (kind === 'usage_update') {
      this.#contextWindow = readCount(update.size)
      if (isRecord(update.cost)) this.cost = readCount(update.cost.amount)
    }
  }

  /** Answers a request of the program for permission, by the policy or by the user. */
  async permit(params: Json): Promise<object> {
    this.#lastActivity = this.#clock.monotonic()
    const { context, runtime } = this.#options
    const request = readPermission(params)
    this.#mergeCall(request.toolCall)
    const { settings, secrets } = context
    const { decision, risk } = await decidePermission(request, {
      policy: settings.policy,
      analyzer: settings.analyzer,
      rules: runtime.commandRules,
      server: runtime.serverPlace,
    })
    if (decision === 'deny') return permissionAnswer(request, false)
    if (decision === 'allow')
      return isGoingOn(context.state) ? permissionAnswer(request, true) : cancelledAnswer
    const event = permissionEvent(request, { risk, redact: (text) => secrets.redact(text) })
    let isAsked = false
    await context.appendPatiently((now) => {
      isAsked = !this.#isOver && isGoingOn(now)
      if (!isAsked) return []
      const status = now.status === 'running' ? [statusUpdate('waiting_for_confirmation')] : []
      return [event, ...this.#lateInputs(), ...status]
    })
    if (!isAsked || this.#isStopping) return cancelledAnswer
    const answer = Promise.withResolvers<object>()
    this.#waiting.push({ actionId: event.id, request, answer })
    this.#asked.resolve()
    return await answer.promise
  }

  /** Passes on what the user has decided about the requests that wait. */
  async settlePermissions(): Promise<void> {
    const { context } = this.#options
    for (const waiting of [...this.#waiting]) {
      const { actionId, request, answer } = waiting
      let isAllowed: boolean | undefined
      await context.appendPatiently((now) => {
        const action = now.pending.get(actionId)
        if (action === undefined) {
          isAllowed = false
          return []
        }
        if (now.status !== 'running' || action.position >= now.approvedBelow) return []
        isAllowed = true
        const text = { cache_prompt: false, type: 'text' as const, text: 'Allowed once by the user.' }
        const observation = {
          tool_name: action.tool_name,
          content: [text],
          is_error: false,
          kind: 'MCPToolObservation',
        }
        return [observationEvent(action, observation as Parameters<typeof observationEvent>[1])]
      })
      if (isAllowed === undefined) continue
      this.#waiting = this.#waiting.filter((other) => other !== waiting)
      this.#lastActivity = this.#clock.monotonic()
      answer.resolve(permissionAnswer(request, isAllowed))
    }
    if (this.#waiting.length === 0) this.#asked = Promise.withResolvers<void>()
  }

  /** `waiting`: for the user. `stopped`: the signal aborted. */
  async wait(signal: AbortSignal): Promise<'ended' | 'waiting' | 'stopped'> {
    if (this.#isOver) return 'ended'
    if (signal.aborted) return 'stopped'
    const aborted = Promise.withResolvers<'stopped'>()
    const onAbort = () => aborted.resolve('stopped')
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      const outcome = await Promise.race([
        this.#ended.promise.then(() => 'ended' as const),
        this.#asked.promise.then(() => 'waiting' as const),
        aborted.promise,
      ])
      return outcome === 'waiting' && signal.aborted ? 'stopped' : outcome
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** Cancels the turn and stores the ends of its calls. False: the program did not stop in time. */
  async stop(): Promise<boolean> {
    const { context, session, reply } = this.#options
    this.#isStopping = true
    this.#cancelPermissions()
    await session.cancel()
    const late = this.#clock
      .sleep(context.closing.signal.aborted ? closeMs : cancelMs, { ref: false })
      .then(() => false)
    const isStopped = await Promise.race([this.#ended.promise.then(() => true), late])
    this.#isOver = true
    reply.abort('cancelled')
    await this.#writes
    if (!context.closing.signal.aborted)
      await context.appendPatiently(() => this.#endedCalls('failed')).catch(() => undefined)
    return isStopped && this.#failure === undefined
  }

  /** Stores the answer; rejects with AcpError when there is none. */
  async store(): Promise<void> {
    const { context, reply, session } = this.#options
    await this.#writes
    const result = this.#result
    if (result === undefined || result.stopReason === 'cancelled') {
      reply.abort('no_durable_event')
      await context.appendPatiently((now) => [
        ...this.#endedCalls('failed'),
        ...this.#unansweredEvents(now.pending),
      ])
      throw this.#turnFailure(session)
    }
    reply.end()
    const { secrets, stats, deps } = context
    const usage = this.#attempt(result)
    if (usage !== undefined) stats.addAttempt(usage, acpUsageId, deps.clock.now() * 1000)
    const text = secrets.redact(this.#text.trim() === '' ? emptyText(result.stopReason) : this.#text)
    const message = {
      role: 'assistant',
      content: [{ cache_prompt: false, type: 'text', text }],
      ...(this.#thought === '' ? {} : { reasoning_content: secrets.redact(this.#thought) }),
      thinking_blocks: [],
    }
    await context.appendWithUsage((now) => [
      ...this.#endedCalls('completed'),
      ...this.#unansweredEvents(now.pending),
      {
        id: reply.id,
        kind: 'MessageEvent',
        source: 'agent',
        llm_message: message,
        llm_response_id: reply.id,
        activated_skills: [],
        extended_content: [],
      },
      ...this.#lateInputs(),
      ...context.usageEvents(),
    ])
    context.publishUsage()
  }

  #end(result: Json | undefined, failure?: unknown): void {
    this.#isOver = true
    this.#result = result
    this.#failure = failure
    this.#cancelPermissions()
    this.#ended.resolve()
  }

  #cancelPermissions(): void {
    for (const { answer } of this.#waiting) answer.resolve(cancelledAnswer)
    this.#waiting = []
  }

  /** Ends the turn when the program sends nothing for too long and waits for no answer. */
  async #watch(): Promise<void> {
    const { context, session } = this.#options
    const { agent } = context.settings.current
    const limitMs = Number(agent.acp_prompt_timeout ?? 1800) * 1000
    while (!this.#isOver) {
      await Promise.race([
        this.#clock.sleep(Math.min(checkMs, limitMs / 4), { ref: false }),
        this.#ended.promise,
      ])
      if (this.#waiting.length > 0) this.#lastActivity = this.#clock.monotonic()
      if (this.#isOver || this.#clock.monotonic() - this.#lastActivity < limitMs) continue
      const text = `The external agent has sent nothing for ${limitMs / 1000} s (acp_prompt_timeout).`
      this.#end(undefined, new AcpError('ACPPromptError', text))
      await session.close()
    }
  }

  #addText(text: string): void {
    if (text === '' || this.#text.length > maxTextChars) return
    // What comes after calls is another paragraph.
    const separator =
      this.#hasCallSinceText && this.#text !== '' && !this.#text.endsWith('\n\n') ? '\n\n' : ''
    this.#hasCallSinceText = false
    this.#text += separator + text
    this.#options.reply.add({ content: separator + text })
  }

  #addThought(text: string): void {
    if (text === '' || this.#thought.length > maxTextChars) return
    this.#thought += text
    this.#options.reply.add({ reasoning_content: text })
  }

  #mergeCall(update: Json): void {
    const { context } = this.#options
    const { secrets } = context
    const draft = this.#calls.merge(update)
    if (draft === undefined) return
    this.#hasCallSinceText = true
    const masked = Object.fromEntries(
      Object.entries(draft).map(([name, value]) => [
        name,
        /^(title|raw_input|raw_output|content)$/.test(name) && value !== undefined
          ? secrets.redactJson(value)
          : value,
      ]),
    ) as EventDraft // the members are the same
    const write = () =>
      context.appendPatiently((now) => {
        const isOpen = now.externalCalls?.some((call) => call.tool_call_id === draft.tool_call_id) === true
        return isOpen || isGoingOn(now) ? [masked] : []
      })
    this.#writes = this.#writes.then(write).catch(() => undefined)
  }

  /** Ends of the calls that the log has open. */
  #endedCalls(status: 'completed' | 'failed'): EventDraft[] {
    const { secrets, state } = this.#options.context
    const open = new Set(state.externalCalls?.map((call) => call.tool_call_id))
    const drafts = this.#calls.end(status).filter((draft) => open.has(String(draft.tool_call_id)))
    return drafts.map((draft) => secrets.redactJson(draft) as EventDraft) // the members are the same
  }

  #unansweredEvents(pending: ConversationContext['state']['pending']): EventDraft[] {
    return [...pending.values()].map((call) => agentErrorEvent(call, notWaitedForText))
  }

  #lateInputs(): EventDraft[] {
    const { inputs } = this.#options.context.state
    return inputs
      .filter(({ position }) => position > this.#startPosition)
      .map(({ id }) => stateUpdate('last_user_message_id', id))
  }

  #attempt(result: Json) {
    const { context, session, reply, costBefore } = this.#options
    const usage = readUsage(result)
    const cost = Math.max(0, this.cost - costBefore)
    const model = session.models?.current ?? context.settings.current.agent.llm.model
    const tokens: TokenUsage = {
      model,
      prompt_tokens: usage?.input ?? 0,
      completion_tokens: usage?.output ?? 0,
      cache_read_tokens: usage?.cacheRead ?? 0,
      cache_write_tokens: usage?.cacheWrite ?? 0,
      reasoning_tokens: usage?.thought ?? 0,
      context_window: this.#contextWindow,
      per_turn_token: (usage?.input ?? 0) + (usage?.output ?? 0),
      response_id: reply.id,
    }
    if (usage === undefined && cost === 0) return undefined
    return {
      responseId: reply.id,
      usage: tokens,
      cost,
      latencyMs: this.#clock.monotonic() - this.#started,
      model,
    }
  }

  #turnFailure(session: AcpSession): AcpError {
    if (this.#failure instanceof ProgramEndedError)
      return new AcpError(
        'ACPPromptError',
        `The external agent ended during its turn: ${this.#failure.message}`,
      )
    if (this.#failure !== undefined) return rpcFailure(this.#failure, 'ACPPromptError')
    const reason =
      session.endReason === undefined ? 'The external agent cancelled its turn.' : session.endReason
    return new AcpError('ACPPromptError', reason)
  }
}

const cancelledAnswer = { outcome: { outcome: 'cancelled' } }

function isGoingOn({ status }: ConversationState): boolean {
  return status === 'running' || status === 'waiting_for_confirmation'
}

function emptyText(stopReason: unknown): string {
  if (stopReason === 'refusal') return '(The external agent refused to answer.)'
  return '(The external agent gave no answer.)'
}
