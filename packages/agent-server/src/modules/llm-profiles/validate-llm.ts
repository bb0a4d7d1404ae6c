import { llmSecrets, loadOpenModel, type ModelFailureCode, type OpenModel } from '@slipway/agent'
import type { Llm, Message } from '@slipway/protocol'
import { redactText } from '@slipway/shared/redaction'

/** For both requests together: the user waits for the answer. */
const limitMs = 20_000
const minTokens = 1
/** Some providers refuse (400) a limit too low for a reasoning model: the retry uses this one. */
const retryTokens = 1024
/** These say nothing against the settings. */
const transientFailures: readonly ModelFailureCode[] = ['LLMRateLimitError', 'LLMTimeoutError']
/** A used-up account is no matter of waiting. */
const paymentRequired = 402

interface ValidateOptions {
  readonly openModel?: OpenModel
  readonly limitMs?: number
  readonly isSignedIn?: boolean
  /** Models that `fallback_strategy` names; their keys are redacted too. */
  readonly fallbacks?: readonly Llm[]
}

/**
 * Whether a model answers: one short request, no retries, no fallbacks. A limit of rate, a timeout and
 * silence do not make settings invalid, and `error` says why there was no answer. The result has no secret of
 * the settings, also when the provider echoes one. Never rejects.
 */
export async function validateLlm(model: Llm, signal: AbortSignal, options: ValidateOptions = {}) {
  if (model.auth_type === 'subscription' && !options.isSignedIn) return signedOut
  const createModel = options.openModel ?? (await loadOpenModel())
  const { limitMs: ms = limitMs, fallbacks = [] } = options
  const limit = AbortSignal.any([signal, AbortSignal.timeout(ms)])
  const client = createModel({
    ...model,
    num_retries: 0,
    log_completions: false,
    fallback_strategy: undefined,
  })
  const request = async (maxOutputTokens: number) =>
    await client.generate({ messages: probe, tools: [], maxOutputTokens }, limit)
  const first = await request(minTokens)
  const isRefused = first.kind === 'failure' && first.code === 'LLMBadRequestError'
  const result = isRefused ? await request(retryTokens) : first
  if (result.kind === 'aborted') return { valid: true, error: signal.aborted ? null : silence(ms) }
  if (result.kind !== 'failure') return { valid: true, error: null }
  const { code, detail, status } = result
  const message = redactText(llmSecrets(model, ...fallbacks).redact(detail))
  const valid = transientFailures.includes(code) && status !== paymentRequired
  return { valid, error: { type: code, message } }
}

function silence(ms: number) {
  return { type: 'LLMTimeoutError', message: `The model did not answer within ${ms / 1000} seconds.` }
}

/** The model needs a subscription. */
const signedOut = {
  valid: false,
  error: { type: 'ValueError', message: 'OpenAI subscription login is required' },
}

const toMessage = (role: 'system' | 'user', text: string): Message => ({
  role,
  content: [{ type: 'text', text, cache_prompt: false }],
  thinking_blocks: [],
})
const probe = [toMessage('system', 'Reply with one token.'), toMessage('user', 'ping')]
