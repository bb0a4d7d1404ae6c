import type { Action } from '@slipway/protocol'
import { isReadingCommand } from '../../shell/reading.ts'
import { onlyReads } from '../../tools/calls/parse-call.ts'
import type { Tool } from '../../tools/core/tool.ts'
import type { PendingAction } from '../state/state.ts'

/**
 * Plan mode: the agent explores and proposes, and changes nothing until the user accepts the plan.
 *
 * Problem: a prompt that asks a model to change nothing is followed most of the time.
 *
 * Idea: the loop refuses a call that may write, before hooks and confirmation. The model reads why as the
 * result of its call. Tools stay in the request, so that the provider's cache of it survives the change.
 *
 * Invariants:
 * - The mode is a state update of the log (`plan_mode`), so it holds after a restart and in a fork.
 * - A call may write unless `reads` or the tool's `readOnlyHint` says that it reads; a tool that is new here
 *   may write. Tools of MCP servers and clients bring their own hint.
 * - It is decided when the call starts, not when its step began: no call writes after plan mode has begun.
 */

type Reads = (action: Readonly<Record<string, unknown>>) => boolean | Promise<boolean>

const always: Reads = () => true

/** By kind of action: calls that only read, besides those of `onlyReads`. */
const reads: Readonly<Record<string, Reads>> = {
  // Input for a program may be anything; an empty one asks for more output.
  TerminalAction: ({ command, is_input }) =>
    is_input === true ? command === '' : typeof command === 'string' && isReadingCommand(command),
  BackgroundTerminalAction: ({ operation, command }) =>
    operation === 'start'
      ? typeof command === 'string' && isReadingCommand(command)
      : operation === 'output' || operation === 'list',
  // The plan alone, and the list of tasks, are its own files.
  PlanningFileEditorAction: always,
  TaskTrackerAction: always,
  WebFetchAction: always,
  // A sub-agent is in plan mode itself.
  TaskAction: always,
  ...Object.fromEntries(
    ['Navigate', 'GoBack', 'Scroll', 'SwitchTab', 'CloseTab'].map((name) => [`Browser${name}Action`, always]),
  ),
}

/** For each message of the user in plan mode. */
export const planModeText =
  'Plan mode is on. Explore and make a plan; change nothing. Calls that may change something are refused until the user accepts the plan. When the plan is ready, present it as your answer and end your turn.'

/** When the user ends plan mode. */
export const acceptedText =
  'Plan mode is off: calls that change something are allowed now. If you have presented a plan, the user accepts it: carry it out.'

const refusedText =
  'Nothing was executed: plan mode is on, and this call may change something. Do not try to get the same effect in another way. Read what you need, then present your plan as the answer; the user accepts it or not.'

/** Why a call is not executed in plan mode; undefined when it only reads. */
export async function planRefusal(tool: Tool, action: Action): Promise<string | undefined> {
  const { kind } = action
  const isReading =
    onlyReads(tool, action) || (Object.hasOwn(reads, kind) && (await reads[kind]?.({ ...action })))
  return isReading === true ? undefined : refusedText
}

/** Ids of the pending actions that plan mode refuses: they need no confirmation. */
export async function refusedInPlanMode(
  pending: readonly PendingAction[],
  tools: ReadonlyMap<string, Tool>,
): Promise<ReadonlySet<string>> {
  const refused = new Set<string>()
  for (const { id, tool_name, action } of pending) {
    const tool = tools.get(tool_name)
    if (tool === undefined || action === null) continue
    if ((await planRefusal(tool, action)) !== undefined) refused.add(id)
  }
  return refused
}
