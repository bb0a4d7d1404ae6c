import { randomUUID } from 'node:crypto'
import type { Llm, Message, TokenUsage } from '@slipway/protocol'
import type { Secrets } from '../../secrets/secrets.ts'
import { type Facts, factsOf, noFacts } from '../catalogue/prices.ts'
import { withLog } from '../completion-log.ts'
import type { Fault } from '../failures.ts'
import type { Answered, ModelRequest } from '../model.ts'
import type { Asked, Source, Surroundings } from '../model-source.ts'
import { callOptions } from '../request/call-options.ts'
import { openProvider, type Touches } from '../request/open-provider.ts'
import type { SdkModel } from '../request/sdk-types.ts'
import { answerMessage } from '../response/assistant-message.ts'
import { runTurn, type Turn } from '../response/stream-response.ts'
import type { Route } from '../route.ts'

type ReceivedTurn = Extract<Turn, { kind: 'received' }>

/** Ids shorter than this are drawn from so few that they come again (Ollama has a thousand). */
const minUniqueId = 16

/** A model behind a provider's interface. What it needs is loaded and built at the first question. */
export class RemoteModel implements Source {
  readonly #llm: Llm
  readonly #route: Route
  readonly #secrets: Secrets
  readonly #surroundings: Surroundings
  readonly #touches: Touches = new WeakMap()
  #provider: Promise<SdkModel | Fault> | undefined
  #loading: Promise<Facts> | undefined
  #facts: Facts = noFacts

  constructor(llm: Llm, route: Route, secrets: Secrets, surroundings: Surroundings) {
    this.#llm = llm
    this.#route = route
    this.#secrets = secrets
    this.#surroundings = surroundings
  }

  get contextWindow(): number | undefined {
    return this.#llm.max_input_tokens ?? this.#facts.contextWindow
  }

  /** Asks until there is an answer, something was streamed, or the attempts are used up. */
  async ask(request: ModelRequest, signal: AbortSignal): Promise<Asked> {
    const { fetch, sleep } = this.#surroundings
    this.#provider ??= openProvider({ llm: this.#llm, route: this.#route, fetch, touches: this.#touches })
    const model = await this.#provider
    if ('code' in model) return { kind: 'fault', fault: model, hasBegun: false }
    let hadEmpty = false
    for (let attempt = 0; ; attempt += 1) {
      const asked = await this.#attempt({ model, request, signal, hadEmpty })
      if (asked.kind !== 'fault') return asked
      const { fault, hasBegun } = asked
      if (!fault.isRetryable || hasBegun || attempt >= this.#llm.num_retries) return asked
      hadEmpty ||= fault.code === 'LLMNoResponseError'
      await sleep(waitMs(this.#llm, fault, attempt), signal)
      if (signal.aborted) return { kind: 'aborted' }
    }
  }

  async #attempt(options: {
    readonly model: SdkModel
    readonly request: ModelRequest
    readonly signal: AbortSignal
    readonly hadEmpty: boolean
  }): Promise<Asked> {
    const { model, request, signal, hadEmpty } = options
    const { now } = this.#surroundings
    const started = now()
    const call = callOptions(this.#llm, this.#route, request)
    // The same question at a temperature of 0 has the same empty answer.
    if (hadEmpty && call.temperature === 0) call.temperature = 1
    const turn = runTurn(model, call, {
      signal,
      idleMs: this.#llm.timeout ? this.#llm.timeout * 1000 : undefined,
      touches: this.#touches,
      onDelta: request.onDelta,
    })
    // The price list is read while the answer is on its way.
    this.#loading ??= factsOf(this.#llm, this.#route).catch(() => noFacts)
    const done = await turn
    if (done.kind !== 'received') return done
    this.#facts = await this.#loading
    return { kind: 'answer', answered: this.#answered(done, request, now() - started) }
  }

  #answered({ received, stop }: ReceivedTurn, request: ModelRequest, latencyMs: number): Answered {
    const responseId = uniqueId(received.responseId)
    const message = answerMessage(received, this.#route, usedIds(request.messages))
    const usage = this.#usage(received, responseId)
    const cost = this.#cost(received, usage)
    const { promptTokenIds: prompt, tokenIds: response } = received
    const hasIds = prompt.length > 0 || response.length > 0
    const answered: Answered = {
      kind: 'answer',
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
    const nowMs = this.#surroundings.now()
    return withLog(answered, { llm: this.#llm, request, nowMs, secrets: this.#secrets })
  }

  #usage({ finish }: ReceivedTurn['received'], responseId: string): TokenUsage {
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
  #cost({ finish }: ReceivedTurn['received'], usage: TokenUsage): number {
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
    return this.#facts.cost(tokens, new Date(this.#surroundings.now())) ?? 0
  }
}

/** Milliseconds before the next attempt: what the provider asked for, else twice as long each time, within the bounds. */
function waitMs(llm: Llm, { retryAfterMs }: Fault, attempt: number): number {
  const most = llm.retry_max_wait * 1000
  if (retryAfterMs !== undefined) return Math.min(retryAfterMs, most)
  return Math.min(most, Math.max(llm.retry_min_wait, llm.retry_multiplier * 2 ** attempt) * 1000)
}

function uniqueId(id: string | undefined): string {
  if (id === undefined || id === '') return `resp-${randomUUID()}`
  return id.length >= minUniqueId ? id : `${id}-${randomUUID().slice(0, 8)}`
}

function usedIds(messages: readonly Message[]): ReadonlySet<string> {
  return new Set(messages.flatMap(({ tool_calls }) => (tool_calls ?? []).map(({ id }) => id)))
}
