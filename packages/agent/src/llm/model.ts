import type { Llm, Message, TokenUsage } from '@slipway/protocol'
import type { Clock } from '@slipway/shared/time'
import type { LeftOut } from './refusals/left-out.ts'
import type { SpendingGuard } from './spending-guard.ts'

/** A tool as a model sees it. */
export interface ModelTool {
  readonly name: string
  readonly description: string
  /** JSON Schema of type object. */
  readonly parameters: Record<string, unknown>
}

export interface ModelRequest {
  /** Sent as they are: reasoning goes back exactly as received. `cache_prompt` marks a block to cache. */
  readonly messages: readonly Message[]
  readonly tools: readonly ModelTool[]
  /** `none`: the reply must be a text. The tools are sent because the history names them. */
  readonly toolChoice?: 'none'
  /**
   * The messages but the last are those of an earlier request. Where another choice of tools loses what is
   * cached of them, the choice is not sent: then the reply may have calls.
   */
  readonly keepsCache?: boolean
  /** Deltas of the reply; they may be lost. */
  readonly onDelta?: (delta: ModelDelta) => void
  /** The stream broke: the deltas so far are void. A retry or a fallback begins a new reply. */
  readonly onReset?: (attempt: BrokenAttempt) => void
  /** An attempt failed, and the next one follows after a while. */
  readonly onRetry?: (retry: ModelRetry) => void
  /** Lowers the limit of the settings. */
  readonly maxOutputTokens?: number
}

/** A failed attempt that is repeated. */
export interface ModelRetry {
  readonly code: ModelFailureCode
  /** Without the model's secrets. */
  readonly detail: string
  /** The HTTP status of the answer, if there was one. */
  readonly status?: number | undefined
  /** Host and port of the address of the model, if it has one of its own. */
  readonly host?: string | undefined
  readonly waitMs: number
  /** The number of the retry, from 1, and how many there are at most. */
  readonly attempt: number
  readonly attempts: number
}

export interface ModelDelta {
  readonly content?: string
  readonly reasoning_content?: string
}

/**
 * Codes of ConversationErrorEvent that come from a model (wire 3.5); `BudgetExceeded` is ours: a budget of
 * the control plane does not allow the request.
 */
export const modelFailureCodes = [
  'LLMAuthenticationError',
  'LLMRateLimitError',
  'BudgetExceeded',
  'LLMTimeoutError',
  'LLMServiceUnavailableError',
  'LLMBadRequestError',
  'LLMContextWindowExceedError',
  'LLMNoResponseError',
  'LLMMalformedConversationHistoryError',
  'LLMContentPolicyViolationError',
  'LLMError',
] as const

export type ModelFailureCode = (typeof modelFailureCodes)[number]

/** What an attempt used whose stream broke. Estimated tokens where the provider had not sent them yet. */
export type BrokenAttempt = Pick<ModelReply, 'responseId' | 'usage' | 'cost' | 'latencyMs' | 'model'>

export interface ModelReply {
  readonly kind: 'reply'
  /** The provider's id of the response, or a generated one. */
  readonly responseId: string
  /** Role `assistant`. The `arguments` of its calls are exactly as received, also when they do not parse. */
  readonly message: Message
  readonly usage: TokenUsage
  /** Dollars; 0 when no price is known. */
  readonly cost: number
  readonly latencyMs: number
  /** The model that replied, possibly a fallback. */
  readonly model: string
  readonly usageId: string
  /** `refusal`: the provider's content policy. `length`: cut at the output limit. */
  readonly stop: 'stop' | 'tool_calls' | 'length' | 'refusal'
  /** Of `length`: the provider paused the reply on its own, no limit cut it. */
  readonly isPaused?: boolean
  /** If the provider sent them. */
  readonly tokenIds?: { readonly prompt: readonly number[]; readonly response: readonly number[] } | undefined
  /** Request and response as JSON text without secrets, if completion logging is on. */
  readonly completionLog?: { readonly filename: string; readonly data: string }
  /** Attempts before this reply whose stream broke. */
  readonly brokenAttempts?: readonly BrokenAttempt[]
}

export interface ModelFailure {
  readonly kind: 'failure'
  readonly code: ModelFailureCode
  /** The provider's message without secrets, with a hint if there is one. */
  readonly detail: string
  /** The HTTP status of the answer, if there was one. */
  readonly status?: number
  readonly brokenAttempts?: readonly BrokenAttempt[]
}

/** `aborted`: the signal aborted. */
export type ModelResult = ModelReply | ModelFailure | { readonly kind: 'aborted' }

/** The most tokens of a prompt that a server was found to take. */
export interface LearnedWindow {
  readonly tokens: number
  /** The server named the number; otherwise it is less than what was refused. */
  readonly isNamed: boolean
}

export interface Model {
  readonly llm: Llm
  /** Never rejects; includes retries and fallbacks. */
  generate(request: ModelRequest, signal: AbortSignal): Promise<ModelResult>
  /** The most tokens of a prompt, if known. */
  readonly contextWindow: number | undefined
  /** The server leaves tools out of what the model sees, so they and calls are texts. */
  readonly dropsTools?: boolean
  /** Asks the server for both where it is one of the user's own. Never rejects. */
  prepare?(): Promise<void>
  /** What refusals of its server have taught, set by the user of the model. */
  learnedWindow?: LearnedWindow | undefined
  /** A cheap estimate, never much too low. */
  countTokens(messages: readonly Message[]): number
}

/** The outside world, replaceable in tests. */
export interface ModelEnvironment {
  readonly fetch: typeof fetch
  readonly clock: Clock
  /**
   * The present key of a base URL whose provider has rejected the configured one, or undefined when
   * there is none. Never rejects. The key is used in memory and never stored.
   */
  readonly refreshKey?: ((baseUrl: string, signal: AbortSignal) => Promise<string | undefined>) | undefined
  /** Allows each request to a provider. */
  readonly spending?: SpendingGuard | undefined
}

/** Finds the settings that a fallback names. */
export type FindProfile = (name: string) => Promise<Llm | undefined>

/** Opens a model by its settings. */
export type OpenModel = (
  llm: Llm,
  options?: Partial<ModelEnvironment> & {
    readonly findProfile?: FindProfile | undefined
    /** Common to the requests of one conversation: providers route them to the same prompt cache. */
    readonly cacheKey?: string
    /** Remembers what servers refuse; else the model does while it is open. */
    readonly leftOut?: LeftOut
  },
) => Model
