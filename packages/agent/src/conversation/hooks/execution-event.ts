import type { HookEvent } from '@slipway/protocol'
import { firstChars, lastChars } from '@slipway/shared/text'
import type { EventDraft } from '@slipway/storage'
import { ellipsize } from '../../skills/skill.ts'
import { stateUpdate } from '../events/event-drafts.ts'
import { type HookDefinition, type HookPayload, type HookResult, hookEventNames } from './protocol.ts'

/** Most characters of a hook's output, and of its input as JSON. */
const maxCharacters = 50_000

export interface HookCall {
  readonly event: HookEvent
  readonly payload: HookPayload
  readonly hook: HookDefinition
}

/** The input and result of a hook as an event of newer clients (wire 3.3). Longer outputs are cut. */
export function hookExecutionEvent(
  { event, payload, hook }: HookCall,
  hookInput: object,
  result: HookResult,
): EventDraft {
  const { isBlocked, reason, additionalContext, failure, end } = result
  return {
    kind: 'HookExecutionEvent',
    source: 'hook',
    hook_event_type: hookEventNames[event],
    hook_command: firstChars(hook.type === 'command' ? hook.command : (hook.prompt ?? ''), maxCharacters),
    tool_name: payload.tool_name,
    success: failure === undefined,
    blocked: isBlocked,
    exit_code: end?.exitCode ?? -1,
    stdout: firstChars(end?.stdout ?? '', maxCharacters),
    stderr: firstChars(end?.stderr ?? '', maxCharacters),
    reason,
    additional_context: additionalContext,
    error: failure,
    action_id: payload.action_id,
    message_id: payload.message_id,
    hook_input: JSON.stringify(hookInput).length > maxCharacters ? undefined : hookInput,
  }
}

/** Most characters of a hook's command in a state update. */
const maxCommandCharacters = 200
/** Most characters of its reason or error. */
const maxDetailCharacters = 1_000
/** Most characters of the end of a failed hook's error output in a state update. */
const maxStderrCharacters = 2_000

/** The execution of a hook as a state update of the key `hook_execution`, for clients of every version. */
export function hookExecutionUpdate({ event, payload, hook }: HookCall, result: HookResult): EventDraft {
  const command = hook.type === 'command' ? hook.command : (hook.prompt ?? '')
  return stateUpdate('hook_execution', {
    event: hookEventNames[event],
    name: hook.name ?? null,
    type: hook.type,
    command: firstChars(command, maxCommandCharacters),
    tool_name: payload.tool_name ?? null,
    exit_code: result.end?.exitCode ?? null,
    duration_ms: result.durationMs ?? null,
    success: result.failure === undefined,
    blocked: result.isBlocked,
    ...(result.failure === undefined || result.end === undefined
      ? {}
      : { stderr: lastChars(result.end.stderr, maxStderrCharacters) }),
    reason: detail(result.reason),
    error: detail(result.failure),
  })
}

function detail(text: string | undefined): string | null {
  return text === undefined ? null : ellipsize(text, maxDetailCharacters)
}
