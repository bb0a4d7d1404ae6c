import { setTimeout as sleep } from 'node:timers/promises'
import type { EventDraft } from '@slipway/storage'
import type { Tool } from '../../tools/core/tool.ts'
import { agentError, observationOf, rejection, statusUpdate } from '../events/event-drafts.ts'
import type { Pen } from '../events/writer.ts'
import type { Equipment } from '../runtime/agent-runtime.ts'
import { watched } from '../runtime/instrumentation.ts'
import type { Pending } from '../state/state.ts'

/** A tool that is told to stop and does not is left behind after this. */
const graceMs = 5_000

/**
 * Does the pending actions, at most `limit` at a time, those that touch the same thing one after another. Results are written in
 * the order of the calls, each as soon as those before it are there, and only for calls that still have none. No further
 * action is begun once the run has been stopped.
 */
export async function act(
  options: { readonly pen: Pen; readonly equipment: Equipment; readonly limit: number },
  signal: AbortSignal,
): Promise<void> {
  const { pen, equipment, limit } = options
  const pending = pen.state.wanted()
  const results: (Result | undefined)[] = pending.map(() => undefined)
  const running = new Set<{ readonly keys: readonly string[]; readonly over: Promise<void> }>()
  const begun: Promise<void>[] = []
  let flushed = 0
  const flush = async () => {
    const start = flushed
    while (flushed < results.length && results[flushed] !== undefined) flushed++
    const ready = pending
      .slice(start, flushed)
      .map((call, index) => ({ call, result: results[start + index] }))
    if (ready.length === 0) return
    const mustStop = ready.some(({ result }) => result?.mustStop)
    await pen.write(
      (now) => {
        const drafts = ready.flatMap(({ call, result }) =>
          now.pending.has(call.id) && result ? [...(result.hooks ?? []), result.draft] : [],
        )
        return { events: mustStop && now.status === 'running' ? [...drafts, statusUpdate('paused')] : drafts }
      },
      { isPatient: true },
    )
  }
  for (const [index, call] of pending.entries()) {
    const keys = keysOf(equipment.tools.get(call.tool_name), call)
    const mustWait = () =>
      running.size >= limit || [...running].some((other) => other.keys.some((key) => keys.includes(key)))
    while (mustWait()) await Promise.race([...running].map(({ over }) => over))
    if (signal.aborted || pen.state.status !== 'running') break
    const over = once(equipment, call, signal).then(async (result) => {
      running.delete(task)
      if (signal.aborted) return
      results[index] = result
      await flush()
    })
    const task = { keys, over }
    running.add(task)
    begun.push(over)
    over.catch(() => undefined)
  }
  // Also of those that run no more: their results may still be on the way to the log.
  await Promise.all(begun)
}

function keysOf(tool: Tool | undefined, { action }: Pending): readonly string[] {
  return tool === undefined || action === null ? [] : tool.resources(action)
}

interface Result {
  readonly draft: EventDraft
  /** What the hooks have done, for those who are told. */
  readonly hooks?: readonly EventDraft[]
  /** A hook said that the run should end. */
  readonly mustStop?: boolean
}

/** One action with its hooks. Whatever happens, there is a result. */
async function once(equipment: Equipment, call: Pending, signal: AbortSignal): Promise<Result> {
  const tool = equipment.tools.get(call.tool_name)
  if (tool === undefined || call.action === null) {
    const names = [...equipment.tools.keys()].join(', ')
    return { draft: agentError(call, `Tool '${call.tool_name}' is not available. Available: ${names}`) }
  }
  const hooks: EventDraft[] = []
  try {
    const { kind: _, ...tool_input } = call.action
    const about = { tool_name: call.tool_name, tool_input, action_id: call.id }
    const before = await equipment.hook('pre_tool_use', about, signal)
    hooks.push(...before.events)
    if (before.isBlocked || before.shouldStop) {
      const draft = rejection(call, before.reason ?? 'A hook blocked the action', 'hook')
      return { draft, hooks, mustStop: before.shouldStop }
    }
    const observation = await run(equipment, { tool, action: call.action }, signal)
    const after = await equipment.hook('post_tool_use', { ...about, tool_response: observation }, signal)
    hooks.push(...after.events)
    const content = [...observation.content, ...equipment.rulesFor(call.action)]
    return { draft: observationOf(call, { ...observation, content }), hooks, mustStop: after.shouldStop }
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error)
    return { draft: agentError(call, `Error executing tool '${call.tool_name}': ${text}`), hooks }
  }
}

async function run(
  { watch }: Equipment,
  { tool, action }: { readonly tool: Tool; readonly action: NonNullable<Pending['action']> },
  signal: AbortSignal,
) {
  const work = () => withGrace(tool.run(action, signal), signal)
  if (watch === undefined) return await work()
  return await watched(
    watch,
    { kind: 'tool', tool: tool.definition.kind },
    work,
    ({ is_error: isFailure }) => ({ outcome: isFailure ? 'error' : 'ok', isFailure }),
  )
}

async function withGrace<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const done = new AbortController()
  const left = new Promise<never>((_, reject) => {
    const leave = () => {
      sleep(graceMs, undefined, { signal: done.signal }).then(
        () => reject(new Error('the tool did not stop in time')),
        () => undefined,
      )
    }
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true, signal: done.signal })
  })
  work.catch(() => undefined)
  try {
    return await Promise.race([work, left])
  } finally {
    done.abort('over')
  }
}
