import { randomUUID } from 'node:crypto'
import type { Llm, Message, TokenUsage } from '@slipway/protocol'
import type { Secrets } from '../../secrets/secrets.ts'
import { loadModelFacts, type ModelFacts, noModelFacts } from '../catalogue/prices.ts'
import { attachCompletionLog } from '../completion-log.ts'
import type { ProviderFailure } from '../failures.ts'
import type { ModelReply, ModelRequest } from '../model.ts'
import type { ModelEnvironment, ModelSource, SourceResult } from '../model-source.ts'
import { callOptions } from '../request/call-options.ts'
import { type ActivityCallbacks, openProvider } from '../request/open-provider.ts'
import type { SdkModel } from '../request/sdk-types.ts'
import { assistantMessage } from '../response/assistant-message.ts'
import { type StreamResult, streamResponse } from '../response/stream-response.ts'
import type { ModelRoute } from '../route.ts'

type CompletedStream = Extract<StreamResult, { kind: 'response' }>

/** Ids shorter than this are drawn from so few that they come again (Ollama has a thousand). */
const minUniqueId = 16

/** A model behind a provider's interface. What it needs is loaded and built at the first question. */
export class RemoteModelSource implements ModelSource {
  readonly #llm: Llm
  readonly #route: ModelRoute
  readonly #secrets: Secrets
  readonly #environment: ModelEnvironment
  readonly #activity: ActivityCallbacks = new WeakMap()
  #provider: Promise<SdkModel | ProviderFailure> | undefined
  #factsLoading: Promise<ModelFacts> | undefined
  #facts: ModelFacts = noModelFacts

  constructor(llm: Llm, route: ModelRoute, secrets: Secrets, environment: ModelEnvironment) {
    this.#llm = llm
    this.#route = route
    this.#secrets = secrets
    this.#environment = environment
  }

  get contextWindow(): number | undefined {
    return this.#llm.max_input_tokens ?? this.#facts.contextWindow
  }

  /** Asks until there is an answer, something was streamed, or the attempts are used up. */
  async generate(request: ModelRequest, signal: AbortSignal): Promise<SourceResult> {
    const { fetch, sleep } = this.#environment
    this.#provider ??= openProvider({ llm: this.#llm, route: this.#route, fetch, activity: this.#activity })
    const model = await this.#provider
    if ('code' in model) return { kind: 'failure', failure: model, hasBegun: false }
    let hadEmpty = false
    for (let attempt = 0; ; attempt += 1) {
      const result = await this.#attempt({ model, request, signal, hadEmpty })
      if (result.kind !== 'failure') return result
      const { failure, hasBegun } = result
      if (!failure.isRetryable || hasBegun || attempt >= this.#llm.num_retries) return result
      hadEmpty ||= failure.code === 'LLMNoResponseError'
      await sleep(waitMs(this.#llm, failure, attempt), signal)
      if (signal.aborted) return { kind: 'aborted' }
    }
  }

  async #attempt(options: {
    readonly model: SdkModel
    readonly request: ModelRequest
    readonly signal: AbortSignal
    readonly hadEmpty: boolean
  }): Promise<SourceResult> {
    const { model, request, signal, hadEmpty } = options
    const { now } = this.#environment
    const started = now()
    const call = callOptions(this.#llm, this.#route, request)
    // The same question at a temperature of 0 has the same empty answer.
    if (hadEmpty && call.temperature === 0) call.temperature = 1
    const turn = streamResponse(model, call, {
      signal,
      idleMs: this.#llm.timeout ? this.#llm.timeout * 1000 : undefined,
      activity: this.#activity,
      onDelta: request.onDelta,
    })
    // The price list is read while the answer is on its way.
    this.#factsLoading ??= loadModelFacts(this.#llm, this.#route).catch(() => noModelFacts)
    const done = await turn
    if (done.kind !== 'response') return done
    this.#facts = await this.#factsLoading
    return { kind: 'reply', reply: this.#toReply(done, request, now() - started) }
  }

  #toReply(
    { response: accumulated, stop }: CompletedStream,
    request: ModelRequest,
    latencyMs: number,
  ): ModelReply {
    const responseId = uniqueId(accumulated.responseId)
    const message = assistantMessage(accumulated, this.#route, usedCallIds(request.messages))
    const usage = this.#usage(accumulated, responseId)
    const cost = this.#cost(accumulated, usage)
    const { promptTokenIds: prompt, tokenIds: response } = accumulated
    const hasIds = prompt.length > 0 || response.length > 0
    const reply: ModelReply = {
      kind: 'reply',
      responseId,
      message,
      usage,
      cost,
      latencyMs,
      model: this.#llm.model,
      usageId: this.#llm.usage_id,
      stop,
      ...(hasIds ? { tokenIds: { prompt, response } } : {}),
    }
    const nowMs = this.#environment.now()
    return attachCompletionLog(reply, { llm: this.#llm, request, nowMs, secrets: this.#secrets })
  }

  #usage({ finish }: CompletedStream['response'], responseId: string): TokenUsage {
    const input = finish?.usage.inputTokens
    const output = finish?.usage.outputTokens
    const prompt_tokens = input?.total ?? 0
    const completion_tokens = output?.total ?? 0
    return {
      model: this.#llm.model,
      prompt_tokens,
      completion_tokens,
      cache_read_tokens: input?.cacheRead ?? 0,
      cache_write_tokens: input?.cacheWrite ?? 0,
      reasoning_tokens: output?.reasoning ?? 0,
      context_window: this.contextWindow ?? 0,
      per_turn_token: prompt_tokens + completion_tokens,
      response_id: responseId,
    }
  }

  /** By the model's own settings, else what the provider says it was, else by the price list. */
  #cost({ finish }: CompletedStream['response'], usage: TokenUsage): number {
    const { input_cost_per_token: input, output_cost_per_token: output } = this.#llm
    if (input !== undefined || output !== undefined) {
      return usage.prompt_tokens * (input ?? 0) + usage.completion_tokens * (output ?? 0)
    }
    const reported = finish?.usage.raw?.cost
    if (typeof reported === 'number') return reported
    const tokens = {
      input: usage.prompt_tokens,
      cacheRead: usage.cache_read_tokens,
      cacheWrite: usage.cache_write_tokens,
      output: usage.completion_tokens,
    }
    return this.#facts.cost(tokens, new Date(this.#environment.now())) ?? 0
  }
}

/** Milliseconds before the next attempt: what the provider asked for, else twice as long each time, within the bounds. */
function waitMs(llm: Llm, { retryAfterMs }: ProviderFailure, attempt: number): number {
  const most = llm.retry_max_wait * 1000
  if (retryAfterMs !== undefined) return Math.min(retryAfterMs, most)
  return Math.min(most, Math.max(llm.retry_min_wait, llm.retry_multiplier * 2 ** attempt) * 1000)
}

function uniqueId(id: string | undefined): string {
  if (id === undefined || id === '') return `resp-${randomUUID()}`
  return id.length >= minUniqueId ? id : `${id}-${randomUUID().slice(0, 8)}`
}

function usedCallIds(messages: readonly Message[]): ReadonlySet<string> {
  return new Set(messages.flatMap(({ tool_calls }) => (tool_calls ?? []).map(({ id }) => id)))
}
