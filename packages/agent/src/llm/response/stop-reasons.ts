import type { ModelReply } from '../model.ts'

/**
 * What a stop reason means. `window`: the context window is full, the conversation is too long. `broken`: the
 * reply is unusable and is asked again. Any other: of a whole reply.
 */
type StopMeaning = ModelReply['stop'] | 'window' | 'broken'

/** The providers' own words, in lower case (docs/agent.md has the table). */
const meanings: ReadonlyMap<string, StopMeaning> = new Map([
  ...words('length', [
    'length',
    'max_tokens',
    'max_output_tokens',
    'model_length',
    'pause_turn',
    'continuation',
  ]),
  ...words('window', ['model_context_window_exceeded']),
  ...words('refusal', ['content_filter', 'content_filtered', 'refusal', 'guardrail_intervened', 'safety']),
  ...words('refusal', ['recitation', 'blocklist', 'prohibited_content', 'spii', 'image_safety', 'language']),
  ...words('broken', ['error', 'abort', 'cancelled', 'failed', 'other', 'insufficient_system_resource']),
  ...words('broken', ['malformed_function_call', 'malformed_model_output', 'malformed_tool_use']),
  ...words('broken', ['unexpected_tool_call', 'too_many_tool_calls', 'missing_thought_signature']),
])

/** A reply that is cut by nothing: the provider lets it continue in another request. */
export function isPause(raw: string | undefined): boolean {
  return raw !== undefined && ['pause_turn', 'continuation'].includes(raw.toLowerCase())
}

/** Words of servers that are not in the table and end a reply: `eos_token`, `end_turn`, `completed`. */
const endWords = /stop|end|eos|complete|done|finish|tool|function/

function words(meaning: StopMeaning, names: readonly string[]) {
  return names.map((name) => [name, meaning] as const)
}

/**
 * The meaning of a stop reason: by the provider's word, then by what the library made of it. Undefined: there
 * is
 * none, the stream ended early. A word that no one knows is `broken`, never the end of a reply.
 */
export function stopMeaning(
  reason: { readonly unified: string; readonly raw: string | undefined } | undefined,
  hasCalls: boolean,
): StopMeaning | undefined {
  if (reason === undefined) return undefined
  const raw = reason.raw?.toLowerCase()
  const known = raw === undefined ? undefined : meanings.get(raw)
  if (known !== undefined) return known
  if (reason.unified === 'length') return 'length'
  if (reason.unified === 'content-filter') return 'refusal'
  const isEnd = ['stop', 'tool-calls'].includes(reason.unified) || (raw !== undefined && endWords.test(raw))
  if (isEnd) return hasCalls ? 'tool_calls' : 'stop'
  return raw === undefined ? undefined : 'broken'
}
