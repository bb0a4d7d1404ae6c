import { randomUUID } from 'node:crypto'
import type { Llm, Message } from '@slipway/protocol'
import type { Secrets } from '../../secrets/secrets.ts'
import { loadModelFacts, type ModelFacts, noModelFacts } from '../catalogue/prices.ts'
import type { ProviderFailure } from '../failures.ts'
import type { ModelEnvironment, ModelReply, ModelRequest } from '../model.ts'
import type { ModelSource, SourceResult } from '../model-source.ts'
import { callOptions } from '../request/call-options.ts'
import { type ActivityCallbacks, openProvider } from '../request/open-provider.ts'
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

  /** Retries until there is a reply, a delta was passed on, or the attempts are used up. */
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
    // The same request at temperature 0 would have the same empty reply.
    if (hadEmpty && call.temperature === 0) call.temperature = 1
    const turn = streamResponse(model, call, {
      signal,
      idleMs: this.#llm.timeout ? this.#llm.timeout * 1000 : undefined,
      activity: this.#activity,
      onDelta: request.onDelta,
    })
    // The price list loads during the request.
    this.#factsLoading ??= loadModelFacts(this.#llm, this.#route).catch(() => noModelFacts)
    const done = await turn
    if (done.kind !== 'response') return done
    this.#facts = await this.#factsLoading
    return { kind: 'reply', reply: this.#toReply(done, request, now() - started) }
  }

  #toReply({ response, stop }: CompletedStream, request: ModelRequest, latencyMs: number): ModelReply {
    const { finish, promptTokenIds: prompt, tokenIds } = response
    const { inputTokens, outputTokens, raw } = finish?.usage ?? {}
    const tokens = {
      input: inputTokens?.total ?? 0,
      output: outputTokens?.total ?? 0,
      cacheRead: inputTokens?.cacheRead ?? 0,
      cacheWrite: inputTokens?.cacheWrite ?? 0,
      reasoning: outputTokens?.reasoning ?? 0,
    }
    const nowMs = this.#environment.now()
    const hasIds = prompt.length > 0 || tokenIds.length > 0
    return buildReply({
      llm: this.#llm,
      secrets: this.#secrets,
      request,
      responseId: uniqueId(response.responseId),
      message: assistantMessage(response, this.#route, usedCallIds(request.messages)),
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
