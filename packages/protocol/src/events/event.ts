import * as z from 'zod'
import {
  criticResult,
  message,
  messageToolCall,
  reasoningItemModel,
  securityRisk,
  textContent,
  thinkingBlocks,
} from '../core/message.ts'
import type { ValidationIssue } from '../core/problem.ts'
import { component, dateTimeText } from '../core/schemas.ts'
import { validationIssues } from '../core/validation-issues.ts'
import { action, observation, toolDefinition } from '../tools/registry.ts'
import { eventSources } from './sources.ts'

export const eventSource = z.enum(eventSources)

const commonMembers = {
  id: z.string().optional().meta({ description: 'ULID or UUID; opaque.' }),
  timestamp: dateTimeText.optional(),
}

/** An event: closed, with the common members of spec 2.1. Without a default the source is required. */
function eventSchema<K extends string, S extends z.core.$ZodLooseShape>(kind: K, members: S) {
  return z
    .strictObject({ ...commonMembers, ...members, kind: z.literal(kind) })
    .register(z.globalRegistry, { id: kind })
}

/** The call that an event answers. */
const toolCallMembers = { tool_name: z.string(), tool_call_id: z.string() }
const fromAgent = eventSource.default('agent')
const fromUser = eventSource.default('user')
const fromEnvironment = eventSource.default('environment')
const stringList = z.array(z.string())

export const condensation = eventSchema('Condensation', {
  source: fromEnvironment,
  forgotten_event_ids: stringList.default([]),
  summary: z.string().nullish(),
  summary_offset: z.int().min(0).nullish(),
  llm_response_id: z.string(),
})

export const condensationRequest = eventSchema('CondensationRequest', { source: fromEnvironment })

export const condensationSummaryEvent = eventSchema('CondensationSummaryEvent', {
  source: fromEnvironment,
  summary: z.string(),
})

export const conversationErrorEvent = eventSchema('ConversationErrorEvent', {
  source: eventSource,
  code: z.string(),
  detail: z.string(),
})

export const conversationStateUpdateEvent = eventSchema('ConversationStateUpdateEvent', {
  source: fromEnvironment,
  key: z.string().optional(),
  value: z.unknown().optional(),
})

export const llmCompletionLogEvent = eventSchema('LLMCompletionLogEvent', {
  source: fromEnvironment,
  filename: z.string(),
  log_data: z.string(),
  model_name: z.string().default('unknown'),
  usage_id: z.string().default('default'),
})

export const actionEvent = eventSchema('ActionEvent', {
  source: fromAgent,
  thought: z.array(textContent),
  reasoning_content: z.string().nullish(),
  thinking_blocks: thinkingBlocks.default([]),
  responses_reasoning_item: reasoningItemModel.nullish(),
  action: action.nullish(),
  ...toolCallMembers,
  tool_call: messageToolCall,
  llm_response_id: z.string(),
  security_risk: securityRisk.default('UNKNOWN'),
  critic_result: criticResult.nullish(),
  summary: z.string().nullish(),
})

export const messageEvent = eventSchema('MessageEvent', {
  source: eventSource,
  llm_message: message,
  llm_response_id: z.string().nullish(),
  activated_skills: stringList.default([]),
  extended_content: z.array(textContent).default([]),
  sender: z.string().nullish(),
  critic_result: criticResult.nullish(),
})

export const agentErrorEvent = eventSchema('AgentErrorEvent', {
  source: fromAgent,
  ...toolCallMembers,
  error: z.string(),
})

export const observationEvent = eventSchema('ObservationEvent', {
  source: fromEnvironment,
  ...toolCallMembers,
  observation,
  action_id: z.string(),
})

export const userRejectObservation = eventSchema('UserRejectObservation', {
  source: fromEnvironment,
  ...toolCallMembers,
  action_id: z.string(),
  rejection_reason: z.string().default('User rejected the action'),
  rejection_source: z.enum(['user', 'hook']).default('user'),
})

export const systemPromptEvent = eventSchema('SystemPromptEvent', {
  source: fromAgent,
  system_prompt: textContent,
  tools: z.array(toolDefinition),
  dynamic_context: textContent.nullish(),
})

export const tokenEvent = eventSchema('TokenEvent', {
  source: eventSource,
  prompt_token_ids: z.array(z.int()),
  response_token_ids: z.array(z.int()),
})

export const pauseEvent = eventSchema('PauseEvent', { source: fromUser })

/** The 14 kinds (spec 2.2). */
export const event = z
  .discriminatedUnion('kind', [
    condensation,
    condensationRequest,
    condensationSummaryEvent,
    conversationErrorEvent,
    conversationStateUpdateEvent,
    llmCompletionLogEvent,
    actionEvent,
    messageEvent,
    agentErrorEvent,
    observationEvent,
    userRejectObservation,
    systemPromptEvent,
    tokenEvent,
    pauseEvent,
  ])
  .meta({ id: 'Event' })
/** An event as its reader may see it: what has a default or may be absent is optional. */
export type Event = z.input<typeof event>

/** One page of a search: `next_page_id` is null on the last one. */
export const eventPage = component('EventPage', {
  items: z.array(event),
  next_page_id: z.string().nullish(),
})

/** The issues of a value as an event of spec 2, `loc` from the event's root. */
export function validateEvent(value: unknown): readonly ValidationIssue[] {
  const result = event.safeParse(value)
  return result.success ? [] : validationIssues(result.error, [], value)
}
