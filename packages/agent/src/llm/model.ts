import type { Llm, Message, TokenUsage } from '@slipway/protocol'

/** A tool as a model is told of it. */
export interface ModelTool {
  readonly name: string
  readonly description: string
  /** JSON Schema of type object. */
  readonly parameters: Record<string, unknown>
}

export interface ModelRequest {
  /** Our own messages are the truth: what was thought before goes back exactly as it came. `cache_prompt` marks a block to cache. */
  readonly messages: readonly Message[]
  readonly tools: readonly ModelTool[]
  /** `none`: a question beside the work, to be answered in words; the tools are told because the history names them. */
  readonly toolChoice?: 'none'
  /** Pieces of the answer as they come: hints, they may be lost. After a retry nothing is taken back: retries end with the first piece. */
  readonly onDelta?: (delta: ModelDelta) => void
  /** At most this many tokens of answer, whatever the model's own setting is. */
  readonly maxOutputTokens?: number
}

export interface ModelDelta {
  readonly content?: string
  readonly reasoning_content?: string
}

/** Codes of ConversationErrorEvent that come from a model (wire 3.5). */
export type ModelFailureCode =
  | 'LLMAuthenticationError'
  | 'LLMRateLimitError'
  | 'LLMTimeoutError'
  | 'LLMServiceUnavailableError'
  | 'LLMBadRequestError'
  | 'LLMContextWindowExceedError'
  | 'LLMNoResponseError'
  | 'LLMMalformedConversationHistoryError'
  | 'LLMContentPolicyViolationError'
  | 'LLMError'

export interface ModelReply {
  readonly kind: 'reply'
  /** The provider's id of the response, or one of ours when it gave none. */
  readonly responseId: string
  /**
   * Role `assistant`: `content` (texts), `tool_calls` (`arguments` the JSON text exactly as received, also when it does not
   * parse; `origin` by the interface used), `reasoning_content`, `thinking_blocks` with signatures, `responses_reasoning_item`.
   */
  readonly message: Message
  readonly usage: TokenUsage
  /** Dollars; 0 when no price is known. */
  readonly cost: number
  readonly latencyMs: number
  /** Of the model that answered, which may be a fallback. */
  readonly model: string
  readonly usageId: string
  /** `refusal`: the provider's content policy. `length`: cut at the limit of output. */
  readonly stop: 'stop' | 'tool_calls' | 'length' | 'refusal'
  /** When the provider gave them. */
  readonly tokenIds?: { readonly prompt: readonly number[]; readonly response: readonly number[] }
  /** When completion logging is on: request and response as JSON text, without any secret. */
  readonly completionLog?: { readonly filename: string; readonly data: string }
}

export interface ModelFailure {
  readonly kind: 'failure'
  readonly code: ModelFailureCode
  /** What the provider said, without secrets; what to do about it where that is known. */
  readonly detail: string
}

/** `aborted`: the signal ended it. */
export type ModelResult = ModelReply | ModelFailure | { readonly kind: 'aborted' }

/** A model, ready to be asked. */
export interface Model {
  readonly llm: Llm
  /** Asks once (with retries and fallbacks). Never rejects. */
  generate(request: ModelRequest, signal: AbortSignal): Promise<ModelResult>
  /** Tokens that fit into a prompt, when known. */
  readonly contextWindow: number | undefined
  /** An estimate of the tokens of a text or message; cheap, and never an underestimate by much. */
  countTokens(messages: readonly Message[]): number
}

/** The outside world, replaceable in tests. */
export interface ModelEnvironment {
  readonly fetch: typeof fetch
  readonly now: () => number
  /** Waits between retries: resolves after a time, or when the signal aborts. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
}

/** Opens a model by its settings. `findProfile` finds the settings that a fallback names. */
export type OpenModel = (
  llm: Llm,
  options?: Partial<ModelEnvironment> & { readonly findProfile?: (name: string) => Promise<Llm | undefined> },
) => Model
