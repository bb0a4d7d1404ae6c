import { setTimeout as sleep } from 'node:timers/promises'
import type { EventDraft } from '@slipway/storage'
import type { Tool } from '../../tools/core/tool.ts'
import { agentErrorEvent, observationEvent, rejectionEvent, statusUpdate } from '../events/event-drafts.ts'
import type { ConversationWriter } from '../events/writer.ts'
import type { AgentRuntime } from '../runtime/agent-runtime.ts'
import { instrument } from '../runtime/instrumentation.ts'
import type { PendingAction } from '../state/state.ts'

/** A tool that is told to stop and does not is left behind after this. */
const graceMs = 5_000

/**
 * Does the pending actions, at most `limit` at a time, those that touch the same thing one after another. Results are written in
 * the order of the calls, each as soon as those before it are there, and only for calls that still have none. No further
 * action is begun once the run has been stopped.
 */
export async function executePendingActions(
  options: { readonly pen: ConversationWriter; readonly equipment: AgentRuntime; readonly limit: number },
  signal: AbortSignal,
): Promise<void> {
  const { pen: writer, equipment: runtime, limit } = options
  const pending = writer.state.openActions()
  const results: (ActionResult | undefined)[] = pending.map(() => undefined)
  const running = new Set<{ readonly keys: readonly string[]; readonly over: Promise<void> }>()
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
    const keys = resourceKeys(runtime.tools.get(call.tool_name), call)
    const mustWait = () =>
      running.size >= limit || [...running].some((other) => other.keys.some((key) => keys.includes(key)))
    while (mustWait()) await Promise.race([...running].map(({ over }) => over))
    if (signal.aborted || writer.state.status !== 'running') break
    const over = executeAction(runtime, call, signal).then(async (result) => {
      running.delete(task)
      if (signal.aborted) return
      results[index] = result
      await flush()
    })
    const task = { keys, over }
    running.add(task)
    started.push(over)
    over.catch(() => undefined)
  }
  // Also of those that run no more: their results may still be on the way to the log.
  await Promise.all(started)
}

function resourceKeys(tool: Tool | undefined, { action }: PendingAction): readonly string[] {
  return tool === undefined || action === null ? [] : tool.resources(action)
}

interface ActionResult {
  readonly draft: EventDraft
  /** What the hooks have done, for those who are told. */
  readonly hookEvents?: readonly EventDraft[]
  /** A hook said that the run should end. */
  readonly mustStop?: boolean
}

/** One action with its hooks. Whatever happens, there is a result. */
async function executeAction(
  runtime: AgentRuntime,
  call: PendingAction,
  signal: AbortSignal,
): Promise<ActionResult> {
  const tool = runtime.tools.get(call.tool_name)
  if (tool === undefined || call.action === null) {
    const names = [...runtime.tools.keys()].join(', ')
    return { draft: agentErrorEvent(call, `Tool '${call.tool_name}' is not available. Available: ${names}`) }
  }
  const hookEvents: EventDraft[] = []
  try {
    const { kind: _, ...tool_input } = call.action
    const about = { tool_name: call.tool_name, tool_input, action_id: call.id }
    const before = await runtime.runHooks('pre_tool_use', about, signal)
    hookEvents.push(...before.events)
    if (before.isBlocked || before.shouldStop) {
      const draft = rejectionEvent(call, before.reason ?? 'A hook blocked the action', 'hook')
      return { draft, hookEvents, mustStop: before.shouldStop }
    }
    const observation = await runTool(runtime, { tool, action: call.action }, signal)
    const after = await runtime.runHooks('post_tool_use', { ...about, tool_response: observation }, signal)
    hookEvents.push(...after.events)
    const content = [...observation.content, ...runtime.rulesForAction(call.action)]
    return {
      draft: observationEvent(call, { ...observation, content }),
      hookEvents,
      mustStop: after.shouldStop,
    }
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error)
    return { draft: agentErrorEvent(call, `Error executing tool '${call.tool_name}': ${text}`), hookEvents }
  }
}

async function runTool(
  { monitor }: AgentRuntime,
  { tool, action }: { readonly tool: Tool; readonly action: NonNullable<PendingAction['action']> },
  signal: AbortSignal,
) {
  const work = () => withAbortGrace(tool.run(action, signal), signal)
  if (monitor === undefined) return await work()
  return await instrument(
    monitor,
    { kind: 'tool', tool: tool.definition.kind },
    work,
    ({ is_error: isFailure }) => ({ outcome: isFailure ? 'error' : 'ok', isFailure }),
  )
}

async function withAbortGrace<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const done = new AbortController()
  const timedOut = new Promise<never>((_, reject) => {
    const startGracePeriod = () => {
      sleep(graceMs, undefined, { signal: done.signal }).then(
        () => reject(new Error('the tool did not stop in time')),
        () => undefined,
      )
    }
    if (signal.aborted) startGracePeriod()
    else signal.addEventListener('abort', startGracePeriod, { once: true, signal: done.signal })
  })
  work.catch(() => undefined)
  try {
    return await Promise.race([work, timedOut])
  } finally {
    done.abort('over')
  }
}
