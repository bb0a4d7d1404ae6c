import type { HookConfig, HookEvent } from '@slipway/protocol'
import { cut } from '../../skills/skill.ts'
import type { Exit } from '../../workspace/workspace.ts'

const maxText = 10_000

export type HookDefinition = HookConfig['stop'][number]['hooks'][number]

/** What happened, for the hooks. Members that do not apply are null for them. */
export interface HookPayload {
  readonly tool_name?: string | undefined
  readonly tool_input?: unknown
  readonly tool_response?: unknown
  readonly message?: string | undefined
  /** Ids of the events that it is about; hooks are not told. */
  readonly action_id?: string | undefined
  readonly message_id?: string | undefined
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
}

/** What one hook said. */
export interface HookAnswer {
  readonly isBlocked: boolean
  readonly reason: string | undefined
  readonly additionalContext: string | undefined
  readonly shouldStop: boolean
  /** Why it counts as if it had said nothing. */
  readonly failure: string | undefined
  /** How it ended and what it wrote, where it came so far. */
  readonly end?: { readonly exitCode: number; readonly stdout: string; readonly stderr: string }
}

/** The names that hooks know the events by. */
export const eventNames: Readonly<Record<HookEvent, string>> = {
  pre_tool_use: 'PreToolUse',
  post_tool_use: 'PostToolUse',
  user_prompt_submit: 'UserPromptSubmit',
  session_start: 'SessionStart',
  session_end: 'SessionEnd',
  stop: 'Stop',
}

const nothing: HookAnswer = {
  isBlocked: false,
  reason: undefined,
  additionalContext: undefined,
  shouldStop: false,
  failure: undefined,
}

/** The answer of a hook that failed: it blocks nothing. */
export function failed(failure: string): HookAnswer {
  return { ...nothing, failure: cut(failure, maxText) }
}

/**
 * What the end of a command means: 0 allows (unless its output denies), 2 blocks, anything else is a failure, and so is a
 * time-out.
 */
export function readExit(exit: Exit, timeoutSeconds: number): HookAnswer {
  const stderr = exit.stderr.toString('utf8').trim()
  if (exit.isTimedOut) return failed(`took longer than ${timeoutSeconds} s`)
  if (exit.exitCode === 0) return readOutput(exit.stdout.toString('utf8'))
  const end = exit.exitCode === null ? 'was killed' : `ended with exit code ${exit.exitCode}`
  if (exit.exitCode !== 2) return failed(stderr === '' ? end : `${end}: ${stderr}`)
  const said = readOutput(exit.stdout.toString('utf8'))
  return {
    ...said,
    isBlocked: true,
    reason: said.reason ?? (stderr === '' ? undefined : cut(stderr, maxText)),
  }
}

/** What a model said about a prompt hook: a decision, or a failure. */
export function readDecision(answer: string): HookAnswer {
  const said = parseObject(answer.slice(answer.indexOf('{'), answer.lastIndexOf('}') + 1))
  if (said?.decision !== 'allow' && said?.decision !== 'deny')
    return failed('the model gave no decision in the form that was asked for')
  return { ...nothing, isBlocked: said.decision === 'deny', reason: textOf(said.reason) }
}

/** The output of a command may be JSON that says more. What is no JSON object says nothing. */
function readOutput(stdout: string): HookAnswer {
  const said = parseObject(stdout)
  if (said === undefined) return nothing
  return {
    // `block` is what hooks written for other agents say; to overlook it would let through what they mean to stop.
    isBlocked: said.decision === 'deny' || said.decision === 'block',
    reason: textOf(said.reason),
    additionalContext: textOf(said.additionalContext),
    shouldStop: said.continue === false,
    failure: undefined,
  }
}

function parseObject(json: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(json)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : undefined
  } catch {
    return undefined
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? cut(value.trim(), maxText) : undefined
}

/**
 * Whether a matcher is about a tool: `*` and an empty one about all, a text with characters of a regular expression about
 * the names that it matches from end to end, any other text about that name. Undefined: it is no regular expression.
 */
export function matchesTool(matcher: string, tool: string): boolean | undefined {
  if (matcher === '' || matcher === '*') return true
  if (!/[\\^$.*+?()[\]{}|]/.test(matcher)) return matcher === tool
  try {
    return new RegExp(`^(?:${matcher})$`).test(tool)
  } catch {
    return undefined
  }
}
