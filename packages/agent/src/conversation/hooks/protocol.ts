import type { HookConfig, HookEvent } from '@slipway/protocol'
import { parseJsonObject } from '@slipway/shared/json'
import { ellipsize } from '../../skills/skill.ts'
import type { ProcessResult } from '../../workspace/workspace.ts'

const maxText = 10_000

export type HookDefinition = HookConfig['stop'][number]['hooks'][number]

/** The event that hooks see. Members that do not apply are null in their input. */
export interface HookPayload {
  readonly tool_name?: string | undefined
  readonly tool_input?: unknown
  readonly tool_response?: unknown
  readonly message?: string | undefined
  /** Ids of the events in question; hooks do not see them. */
  readonly action_id?: string | undefined
  readonly message_id?: string | undefined
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
}

export interface HookResult {
  readonly isBlocked: boolean
  readonly reason: string | undefined
  readonly additionalContext: string | undefined
  readonly shouldStop: boolean
  /** Why the hook failed; a failed hook changes nothing, unless `on_error` blocks. */
  readonly failure: string | undefined
  readonly durationMs?: number
  /** Exit code and output, if it got that far. */
  readonly end?: { readonly exitCode: number; readonly stdout: string; readonly stderr: string }
}

/** The names of the events in the input of hooks. */
export const hookEventNames: Readonly<Record<HookEvent, string>> = {
  pre_tool_use: 'PreToolUse',
  post_tool_use: 'PostToolUse',
  user_prompt_submit: 'UserPromptSubmit',
  session_start: 'SessionStart',
  session_end: 'SessionEnd',
  stop: 'Stop',
}

const emptyResult: HookResult = {
  isBlocked: false,
  reason: undefined,
  additionalContext: undefined,
  shouldStop: false,
  failure: undefined,
}

/** The result of a failed hook; it blocks nothing. */
export function failedResult(failure: string): HookResult {
  return { ...emptyResult, failure: ellipsize(failure, maxText) }
}

/** Exit code 0 allows (unless the output denies), 2 blocks; any other code and a time-out are failures. */
export function resultFromExit(
  exit: Omit<ProcessResult, 'stderr'> & { readonly stderr: string },
  timeoutSeconds: number,
): HookResult {
  const stderr = exit.stderr.trim()
  if (exit.isTimedOut) return failedResult(`took longer than ${timeoutSeconds} s`)
  if (exit.exitCode === 0) return resultFromOutput(exit.stdout.toString('utf8'))
  const end = exit.exitCode === null ? 'was killed' : `ended with exit code ${exit.exitCode}`
  if (exit.exitCode !== 2) return failedResult(stderr === '' ? end : `${end}: ${stderr}`)
  const result = resultFromOutput(exit.stdout.toString('utf8'))
  return {
    ...result,
    isBlocked: true,
    reason: result.reason ?? (stderr === '' ? undefined : ellipsize(stderr, maxText)),
  }
}

/** The decision in a model's reply to a prompt hook, or a failure. */
export function resultFromDecision(reply: string): HookResult {
  const parsed = parseJsonObject(reply.slice(reply.indexOf('{'), reply.lastIndexOf('}') + 1))
  if (parsed?.decision !== 'allow' && parsed?.decision !== 'deny')
    return failedResult('the model gave no decision in the form that was asked for')
  return { ...emptyResult, isBlocked: parsed.decision === 'deny', reason: trimmedText(parsed.reason) }
}

/** The output may be a JSON object with more details. */
function resultFromOutput(stdout: string): HookResult {
  const parsed = parseJsonObject(stdout)
  if (parsed === undefined) return emptyResult
  return {
    ...emptyResult,
    // `block` is what hooks written for other agents return; ignoring it would allow what they mean to stop.
    isBlocked: parsed.decision === 'deny' || parsed.decision === 'block',
    reason: trimmedText(parsed.reason),
    additionalContext: trimmedText(parsed.additionalContext),
    shouldStop: parsed.continue === false,
  }
}

function trimmedText(value: unknown): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? ellipsize(value.trim(), maxText) : undefined
}

/** Whether a matcher (`*`, empty, a name or a regular expression) selects a tool; undefined when invalid. */
export function matchesTool(matcher: string, tool: string): boolean | undefined {
  if (matcher === '' || matcher === '*') return true
  if (!/[\\^$.*+?()[\]{}|]/.test(matcher)) return matcher === tool
  try {
    return new RegExp(`^(?:${matcher})$`).test(tool)
  } catch {
    return undefined
  }
}
