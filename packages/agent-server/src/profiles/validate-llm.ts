import { loadOpenModel, type ModelFailureCode, type OpenModel } from '@slipway/agent'
import type { Llm, Message } from '@slipway/protocol'
import { redactText } from '@slipway/shared/redaction'

export interface LlmValidation {
  readonly valid: boolean
  readonly error: { readonly type: string; readonly message: string } | null
}

/** For everything together; whoever saves a profile waits for it. */
const limitMs = 20_000
/** As little as a model can say. */
const minTokens = 1
/**
 * A model that thinks cannot be kept from it, and some providers refuse (400) a limit that leaves no room for the thought. So a
 * question that is refused as wrong is asked once more with this much room.
 */
const retryTokens = 1024
/** The settings lead somewhere, and they may be right: that it is busy now is no reason not to save them. */
const transientFailures: readonly ModelFailureCode[] = ['LLMRateLimitError', 'LLMTimeoutError']

/**
 * Whether a model answers with these settings: one short question, no retries, no fallbacks. Neither the answer nor any log holds a
 * secret of the settings, also when the provider says it back. Never rejects.
 */
export async function validateLlm(
  model: Llm,
  signal: AbortSignal,
  options: { readonly openModel?: OpenModel; readonly limitMs?: number } = {},
): Promise<LlmValidation> {
  const createModel = options.openModel ?? (await loadOpenModel())
  const limit = AbortSignal.any([signal, AbortSignal.timeout(options.limitMs ?? limitMs)])
  const client = createModel({
    ...model,
    num_retries: 0,
    log_completions: false,
    fallback_strategy: undefined,
  })
  const request = async (maxOutputTokens: number) =>
    await client.generate({ messages: [pingMessage], tools: [], maxOutputTokens }, limit)
  const first = await request(minTokens)
  const isRefused = first.kind === 'failure' && first.code === 'LLMBadRequestError'
  const result = isRefused ? await request(retryTokens) : first
  if (result.kind === 'failure' && !transientFailures.includes(result.code))
    return { valid: false, error: { type: result.code, message: redactText(result.detail) } }
  // An answer, something transient, or no time left.
  return { valid: true, error: null }
}

const pingMessage: Message = {
  role: 'user',
  content: [{ type: 'text', text: 'ping', cache_prompt: false }],
  thinking_blocks: [],
}
