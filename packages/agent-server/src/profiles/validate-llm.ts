import { type FailureCode, models, type OpenModel } from '@slipway/agent'
import { type Llm, type Message, redactText } from '@slipway/protocol'

export interface Validation {
  readonly valid: boolean
  readonly error: { readonly type: string; readonly message: string } | null
}

/** For everything together; whoever saves a profile waits for it. */
const limitMs = 20_000
/** As little as a model can say. */
const leastTokens = 1
/**
 * A model that thinks cannot be kept from it, and some providers refuse (400) a limit that leaves no room for the thought. So a
 * question that is refused as wrong is asked once more with this much room.
 */
const roomyTokens = 1024
/** The settings lead somewhere, and they may be right: that it is busy now is no reason not to save them. */
const transient: readonly FailureCode[] = ['LLMRateLimitError', 'LLMTimeoutError']

/**
 * Whether a model answers with these settings: one short question, no retries, no fallbacks. Neither the answer nor any log holds a
 * secret of the settings, also when the provider says it back. Never rejects.
 */
export async function validate(
  model: Llm,
  signal: AbortSignal,
  options: { readonly openModel?: OpenModel; readonly limitMs?: number } = {},
): Promise<Validation> {
  const open = options.openModel ?? (await models())
  const limit = AbortSignal.any([signal, AbortSignal.timeout(options.limitMs ?? limitMs)])
  const asked = open({ ...model, num_retries: 0, log_completions: false, fallback_strategy: undefined })
  const ask = async (maxOutputTokens: number) =>
    await asked.respond({ messages: [question], tools: [], maxOutputTokens }, limit)
  const first = await ask(leastTokens)
  const isRefused = first.kind === 'failure' && first.code === 'LLMBadRequestError'
  const answer = isRefused ? await ask(roomyTokens) : first
  if (answer.kind === 'failure' && !transient.includes(answer.code))
    return { valid: false, error: { type: answer.code, message: redactText(answer.detail) } }
  // An answer, something transient, or no time left.
  return { valid: true, error: null }
}

const question: Message = {
  role: 'user',
  content: [{ type: 'text', text: 'ping', cache_prompt: false }],
  thinking_blocks: [],
}
