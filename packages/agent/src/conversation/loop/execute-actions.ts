import { type CommandRule, isAutomaticRejection } from '@slipway/protocol'
import { raceAbort } from '@slipway/shared/async'
import { errorText } from '@slipway/shared/text'
import type { Clock } from '@slipway/shared/time'
import type { EventDraft } from '@slipway/storage'
import { asksToReplaceAll, findAwaitedText, onlyReads } from '../../tools/calls/parse-call.ts'
import type { Tool } from '../../tools/core/tool.ts'
import type { RuleDecisions } from '../confirm/confirmation.ts'
import { planRefusal } from '../confirm/plan-mode.ts'
import { agentErrorEvent, observationEvent, rejectionEvent, statusUpdate } from '../events/event-drafts.ts'
import type { ConversationWriter } from '../events/writer.ts'
import type { AgentRuntime } from '../runtime/agent-runtime.ts'
import { instrument, type RunMonitor } from '../runtime/instrumentation.ts'
import type { PendingAction } from '../state/state.ts'

/**
 * Most calls of one kind at the same time, whatever the agent's limit is. A call of any other kind, which may
 * change something, shares its time with others only as far as that limit, so it keeps its place among them.
 */
const sharedLimits = { read: 8, task: 4 } as const
type SharedKind = keyof typeof sharedLimits

/** A tool that does not stop is abandoned this long after the signal aborts. */
const graceMs = 5_000

interface ExecuteActionsOptions {
  readonly writer: ConversationWriter
  readonly runtime: AgentRuntime
  /** Commands run in a sandbox, except those that ask for the outside and were confirmed. */
  readonly hasSandbox?: boolean
  /** Denied actions are not executed. */
  readonly rules?: RuleDecisions
  /** Actions that may change something are not executed. */
  readonly isPlanning?: () => boolean
  /** Most actions at the same time; of those that only read, and of tasks, `sharedLimits` may run. */
  readonly limit: number
  readonly monitor?: RunMonitor | undefined
  readonly clock: Clock
}

/**
 * Executes the pending actions; actions on the same resource run one after another. Results are appended in
 * the order of the calls, as early as possible. No action starts after the run has been stopped.
 */
export async function executePendingActions(
  options: ExecuteActionsOptions,
  signal: AbortSignal,
): Promise<void> {
  const { writer, runtime, limit } = options
  const pending = writer.state.openActions()
  const results: (ActionResult | undefined)[] = pending.map(() => undefined)
  const running = new Set<RunningAction>()
  const started: Promise<void>[] = []
  let flushed = 0
  const flush = async () => {
    const start = flushed
    while (flushed < results.length && results[flushed] !== undefined) flushed++
    const ready = pending
      .slice(start, flushed)
      .map((call, index) => ({ call, result: results[start + index] }))
    if (ready.length === 0) return
    const mustStop = ready.some(({ result }) => result?.mustStop)
    await writer.write(
      (now) => {
        const drafts = ready.flatMap(({ call, result }) =>
          now.pending.has(call.id) && result ? [...(result.hookEvents ?? []), result.draft] : [],
        )
        return { events: mustStop && now.status === 'running' ? [...drafts, statusUpdate('paused')] : drafts }
      },
      { isPatient: true },
    )
  }
  for (const [index, call] of pending.entries()) {
    const tool = runtime.tools.get(call.tool_name)
    const [keys, kind] = [resourceKeys(tool, call), sharedKind(tool, call)]
    while (mustWait({ keys, kind }, [...running], limit))
      await Promise.race([...running].map(({ over }) => over))
    if (signal.aborted || writer.state.status !== 'running') break
    const over = executeAction(options, call, signal).then(async (result) => {
      running.delete(task)
      if (signal.aborted) return
      results[index] = result
      await flush()
    })
    const task = { keys, kind, over }
    running.add(task)
    started.push(over)
    over.catch(() => undefined)
  }
  // Results of actions that have ended may still be on the way to the log.
  await Promise.all(started)
}

interface RunningAction {
  readonly keys: readonly string[]
  readonly kind: SharedKind | undefined
  readonly over: Promise<void>
}

function mustWait(
  { keys, kind }: Omit<RunningAction, 'over'>,
  running: readonly RunningAction[],
  limit: number,
): boolean {
  if (running.some((other) => other.keys.some((key) => keys.includes(key)))) return true
  if (running.length < limit) return false
  const isShared = kind !== undefined && running.every((other) => other.kind === kind)
  return !isShared || running.length >= sharedLimits[kind]
}

function sharedKind(tool: Tool | undefined, { action }: PendingAction): SharedKind | undefined {
  if (tool === undefined || action === null) return undefined
  if (tool.definition.action_type === 'TaskAction') return 'task'
  return onlyReads(tool, action) ? 'read' : undefined
}

function resourceKeys(tool: Tool | undefined, { action }: PendingAction): readonly string[] {
  return tool === undefined || action === null ? [] : tool.resources(action)
}

interface ActionResult {
  readonly draft: EventDraft
  readonly hookEvents?: readonly EventDraft[]
  /** A hook ends the run. */
  readonly mustStop?: boolean
}

/** Executes one action and its hooks. Every failure is a result. */
async function executeAction(
  { runtime, rules, isPlanning, monitor, hasSandbox, clock }: ExecuteActionsOptions,
  call: PendingAction,
  signal: AbortSignal,
): Promise<ActionResult> {
  const tool = runtime.tools.get(call.tool_name)
  const { action } = call
  if (tool === undefined || action === null) {
    const names = [...runtime.tools.keys()].join(', ')
    return { draft: agentErrorEvent(call, `Tool '${call.tool_name}' is not available. Available: ${names}`) }
  }
  const refusal = isPlanning?.() === true ? await planRefusal(tool, action) : undefined
  if (refusal !== undefined) return { draft: agentErrorEvent(call, refusal) }
  const rule = rules?.get(call.id)
  if (rule?.decision === 'deny') return { draft: agentErrorEvent(call, deniedText(rule)) }
  const options = {
    isOutside: hasSandbox === true && call.asksForOutside === true,
    replacesAll: asksToReplaceAll(call),
    awaitedText: findAwaitedText(call),
  }
  const hookEvents: EventDraft[] = []
  try {
    const { kind: _, ...members } = action
    const tool_input = options.replacesAll ? { ...members, replace_all: true } : members
    const about = { tool_name: call.tool_name, tool_input, action_id: call.id }
    const before = await runtime.hooks.run('pre_tool_use', about, signal)
    hookEvents.push(...before.events)
    if (before.isBlocked || before.shouldStop) {
      const { reason = 'A hook blocked the action' } = before
      const draft = rejectionEvent(call, reason, isAutomaticRejection(reason) ? 'user' : 'hook')
      return { draft, hookEvents, mustStop: before.shouldStop }
    }
    const observation = await instrument(
      monitor,
      { kind: 'tool', tool: tool.definition.kind },
      () => withAbortGrace(tool.run(action, signal, options), clock, signal),
      ({ is_error: isFailure }) => ({ outcome: isFailure ? 'error' : 'ok', isFailure }),
    )
    const after = await runtime.hooks.run('post_tool_use', { ...about, tool_response: observation }, signal)
    hookEvents.push(...after.events)
    const content = [...observation.content, ...(await runtime.rules.forAction(action))]
    return {
      draft: observationEvent(call, { ...observation, content }),
      hookEvents,
      mustStop: after.shouldStop,
    }
  } catch (error) {
    const text = errorText(error)
    return { draft: agentErrorEvent(call, `Error executing tool '${call.tool_name}': ${text}`), hookEvents }
  }
}

function deniedText({ pattern }: CommandRule): string {
  return `Nothing was executed: a rule denies commands like \`${pattern}\`. Do not try to get the same effect in another way. Continue without it, or ask the user.`
}

/** Rejects when the work outlives the signal's abort by the grace period. */
async function withAbortGrace<T>(work: Promise<T>, clock: Clock, signal: AbortSignal): Promise<T> {
  return await raceAbort(work, signal).catch(async (error: unknown) => {
    if (!signal.aborted) throw error
    const late = clock.sleep(graceMs, { ref: false }).then(() => {
      throw new Error('the tool did not stop in time')
    })
    return await Promise.race([work, late])
  })
}
