import { randomUUID } from 'node:crypto'
import type { Llm, Message } from '@slipway/protocol'
import { loadModelFacts, type ModelFacts, noModelFacts } from '../catalogue/prices.ts'
import type { ProviderFailure } from '../failures.ts'
import type { ModelReply, ModelRequest } from '../model.ts'
import type { ModelSource, SourceOptions, SourceResult } from '../model-source.ts'
import { callOptions } from '../request/call-options.ts'
import { openProvider } from '../request/open-provider.ts'
import type { SdkModel } from '../request/sdk-types.ts'
import { assistantMessage } from '../response/assistant-message.ts'
import { type StreamResult, streamResponse } from '../response/stream-response.ts'
import type { ModelRoute } from '../route.ts'
import { buildReply } from './build-reply.ts'

type CompletedStream = Extract<StreamResult, { kind: 'response' }>

/** Shorter ids repeat (Ollama draws from a thousand). */
const minUniqueId = 16

/** A model behind a provider's interface. Loads the provider's library at the first request. */
export class RemoteModelSource implements ModelSource {
  readonly #options: SourceOptions & { readonly route: ModelRoute }
  #provider: Promise<SdkModel | ProviderFailure> | undefined
  #factsLoading: Promise<ModelFacts> | undefined
  #facts: ModelFacts = noModelFacts

  constructor(options: SourceOptions & { readonly route: ModelRoute }) {
    this.#options = options
  }

  get contextWindow(): number | undefined {
    return this.#options.llm.max_input_tokens ?? this.#facts.contextWindow
  }

  /** Retries until there is a reply, a delta was passed on, or the attempts are used up. */
  async generate(request: ModelRequest, signal: AbortSignal): Promise<SourceResult> {
    const { llm, route, environment } = this.#options
    this.#provider ??= openProvider(llm, route, environment.fetch)
    const model = await this.#provider
    if ('code' in model) return { kind: 'failure', failure: model, hasBegun: false }
    let hadEmpty = false
    for (let attempt = 0; ; attempt += 1) {
      const result = await this.#attempt(model, { ...request, hadEmpty }, signal)
      if (result.kind !== 'failure') return result
      const { failure, hasBegun } = result
      if (!failure.isRetryable || hasBegun || attempt >= llm.num_retries) return result
      hadEmpty ||= failure.code === 'LLMNoResponseError'
      await environment.sleep(waitMs(llm, failure, attempt), signal)
      if (signal.aborted) return { kind: 'aborted' }
    }
  }

  async #attempt(
    model: SdkModel,
    request: ModelRequest & { readonly hadEmpty: boolean },
    signal: AbortSignal,
  ): Promise<SourceResult> {
    const { llm, route, environment } = this.#options
    const started = environment.now()
    const call = callOptions(llm, route, request)
    // The same request at temperature 0 would have the same empty reply.
    if (request.hadEmpty && call.temperature === 0) call.temperature = 1
    const idleMs = llm.timeout ? llm.timeout * 1000 : undefined
    const turn = streamResponse(model, call, { ...request, idleMs }, signal)
    // The price list loads during the request.
    this.#factsLoading ??= loadModelFacts(llm, route).catch(() => noModelFacts)
    const done = await turn
    if (done.kind !== 'response') return done
    this.#facts = await this.#factsLoading
    return { kind: 'reply', reply: this.#toReply(done, request, environment.now() - started) }
  }

  #toReply({ response, stop }: CompletedStream, request: ModelRequest, latencyMs: number): ModelReply {
    const { llm, secrets, route, environment } = this.#options
    const { finish, promptTokenIds: prompt, tokenIds } = response
    const { inputTokens, outputTokens, raw } = finish?.usage ?? {}
    const tokens = {
      input: inputTokens?.total ?? 0,
      output: outputTokens?.total ?? 0,
      cacheRead: inputTokens?.cacheRead ?? 0,
      cacheWrite: inputTokens?.cacheWrite ?? 0,
      reasoning: outputTokens?.reasoning ?? 0,
    }
    const nowMs = environment.now()
    const hasIds = prompt.length > 0 || tokenIds.length > 0
    return buildReply({
      llm,
      secrets,
      request,
      responseId: uniqueId(response.responseId),
      message: assistantMessage(response, route, usedCallIds(request.messages)),
      tokens,
      contextWindow: this.contextWindow,
      // The provider's own cost, else by the price list.
      cost: typeof raw?.cost === 'number' ? raw.cost : (this.#facts.cost(tokens, new Date(nowMs)) ?? 0),
      latencyMs,
      nowMs,
      stop,
      ...(hasIds ? { tokenIds: { prompt, response: tokenIds } } : {}),
    })
  }
}

/** Milliseconds before the next attempt: as the provider asks, else bounded exponential backoff. */
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
