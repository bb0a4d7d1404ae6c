import { UsageStats } from '@slipway/agent'
import { type GatewayUsage, type ResponsesRequest, responseId } from '@slipway/protocol'
import type { GatewayRequest } from './request.ts'
import { countTokens, type ResponseView, usageBetween } from './response-log.ts'

/** What the resource of a response repeats of its request; the document wants all of it. */
export function responseMembers(body: ResponsesRequest, { options }: GatewayRequest) {
  const { clientTools = [] } = options
  const hasTools = clientTools.length > 0
  const { format } = body.text ?? {}
  return {
    model: body.model,
    previous_response_id: body.previous_response_id ?? null,
    instructions: body.instructions ?? null,
    metadata: body.metadata ?? {},
    tools: clientTools.map(({ name, description, parameters }) => ({
      ...{ type: 'function', name, description, parameters },
      strict: (body.tools?.find((tool) => tool.name === name)?.strict as boolean | undefined) ?? null, // shown as it came
    })),
    tool_choice: body.tool_choice ?? (hasTools ? 'auto' : 'none'),
    parallel_tool_calls: hasTools,
    text: { format: format ? { description: null, strict: false, ...format } : { type: 'text' } },
    ...{ temperature: body.temperature ?? 1, top_p: body.top_p ?? 1, top_logprobs: 0 },
    ...{ presence_penalty: 0, frequency_penalty: 0, truncation: body.truncation ?? 'auto' },
    reasoning: { effort: body.reasoning?.effort ?? null, summary: null },
    ...{ max_output_tokens: body.max_output_tokens ?? null, max_tool_calls: null },
    ...{ store: body.store ?? true, background: body.background ?? false, service_tier: 'default' },
    ...{ user: body.user ?? null, safety_identifier: body.safety_identifier ?? null },
    prompt_cache_key: body.prompt_cache_key ?? null,
  }
}

export function responseResource(view: ResponseView) {
  const { facts, start, end, items } = view
  const { status, reason } = statusOf(view)
  const isFailed = status === 'failed'
  const error = view.error ?? { code: 'stuck', message: 'The agent is stuck: it repeats itself.' }
  return {
    ...{ id: responseId(view.conversation, view.event), object: 'response', created_at: seconds(start) },
    ...{ status, completed_at: status === 'completed' && end ? seconds(end) : null },
    incomplete_details: reason === undefined ? null : { reason },
    error: isFailed ? error : null,
    ...facts.members,
    output: items,
    usage: usageOf(view),
  }
}

/** The same at its beginning, when the log has nothing of it yet. */
export function beginningResource(view: ResponseView) {
  return {
    ...responseResource(view),
    status: 'in_progress',
    incomplete_details: null,
    output: [],
    usage: null,
  }
}

function statusOf(view: ResponseView): { readonly status: string; readonly reason?: string } {
  const { status, error, isCancelled, isOver, isLast, record } = view
  if (isCancelled) return { status: 'cancelled' }
  if (status === 'finished') return { status: 'completed' }
  if (error?.code === 'MaxOutputTokensReached') return { status: 'incomplete', reason: 'max_output_tokens' }
  if (isOver) return { status: 'failed' }
  if (isLast && record.status === 'running') return { status: 'in_progress' }
  return { status: 'incomplete', reason: status === 'open' ? 'interrupted' : status }
}

export function isInProgress(view: ResponseView): boolean {
  return statusOf(view).status === 'in_progress'
}

/** Null while it is not known: the run continues, or the log came from elsewhere. */
function usageOf({ facts, isOver, isLast, usedByNext, record }: ResponseView) {
  const now = isLast && record.stats !== null ? countTokens(new UsageStats(record.stats)) : undefined
  const used = usedByNext ?? now
  return isOver && used !== undefined ? toResponseUsage(usageBetween(facts.used, used)) : null
}

function toResponseUsage(usage: GatewayUsage) {
  return {
    input_tokens: usage.prompt_tokens,
    output_tokens: usage.completion_tokens,
    total_tokens: usage.total_tokens,
    input_tokens_details: usage.prompt_tokens_details,
    output_tokens_details: usage.completion_tokens_details,
  }
}

function seconds({ instant }: ResponseView['start']): number {
  return Math.floor(instant / 1_000_000)
}
