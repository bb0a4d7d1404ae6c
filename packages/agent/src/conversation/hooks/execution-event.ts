import type { HookEvent } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
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
    hook_command: (hook.type === 'command' ? hook.command : (hook.prompt ?? '')).slice(0, maxCharacters),
    tool_name: payload.tool_name,
    success: failure === undefined,
    blocked: isBlocked,
    exit_code: end?.exitCode ?? -1,
    stdout: (end?.stdout ?? '').slice(0, maxCharacters),
    stderr: (end?.stderr ?? '').slice(0, maxCharacters),
    reason,
    additional_context: additionalContext,
    error: failure,
    action_id: payload.action_id,
    message_id: payload.message_id,
    hook_input: JSON.stringify(hookInput).length > maxCharacters ? undefined : hookInput,
  }
}
