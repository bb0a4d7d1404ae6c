import { randomUUID } from 'node:crypto'
import type { Llm, Message } from '@slipway/protocol'
import { wellFormed } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import { fitToolName } from '../capabilities/fit-names.ts'
import { loadModelFacts, type ModelFacts, noModelFacts } from '../catalogue/prices.ts'
import { addKey } from '../credentials.ts'
import { type ProviderFailure, redactDetail } from '../failures.ts'
import type { ModelReply, ModelRequest } from '../model.ts'
import {
  type ModelSource,
  type SourceOptions,
  type SourceResult,
  sleepUntilAborted,
} from '../model-source.ts'
import { type LeftOut, LeftOutInMemory } from '../refusals/left-out.ts'
import { type AcceptedRequest, isRefusalOfTools, RefusedRequest } from '../refusals/refused-request.ts'
import { callOptions, needsFittedKeys, requestCapabilities } from '../request/call-options.ts'
import { fitRequestImages } from '../request/fit-images.ts'
import { withOwnKeys } from '../request/fit-schema.ts'
import { openProvider } from '../request/open-provider.ts'
import type { SdkModel } from '../request/sdk-types.ts'
import type { ResponseAccumulator } from '../response/accumulator.ts'
import { assistantMessage } from '../response/assistant-message.ts'
import { isPause } from '../response/stop-reasons.ts'
import { type StreamResult, streamResponse } from '../response/stream-response.ts'
import { learnedModelName, type ModelRoute, serverOf } from '../route.ts'
import type { CallUse } from '../spending-guard.ts'
import { parseStrayCalls } from '../text-calls/parse.ts'
import { withCalls } from '../text-calls/text-call-source.ts'
import { countTokens, countToolTokens, textTokens } from '../tokens.ts'
import { buildReply, type ReplyTokens } from './build-reply.ts'
import { explainFailure, firstPartLimit } from './own-server.ts'
import { askServerFacts, type ServerFacts } from './server-window.ts'
import { estimateCall, mayBeCharged, settingsPrice, toMicros } from './spending.ts'

type AttemptRequest = ModelRequest & { readonly hadEmpty: boolean; readonly refused: RefusedRequest }
type CompletedStream = Extract<StreamResult, { kind: 'response' }>

/** Shorter ids repeat (Ollama draws from a thousand). */
const minUniqueId = 16
const defaultStallSeconds = 120
/** Of a refusal, beside each of its omissions. */
const maxReason = 500
const aborted = { kind: 'aborted' } as const
const noUse: CallUse = { inputTokens: 0, outputTokens: 0, cost: 0 }
const noTokens: ReplyTokens = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0 }

/** Behind a request whose reply had a call that the provider could not read. */
const malformedHint: Message = {
  role: 'user',
  content: [
    {
      type: 'text',
      text: 'Your last function call could not be read. Make it again, with arguments as plain JSON by its schema.',
      cache_prompt: false,
    },
  ],
  thinking_blocks: [],
}

/** A model behind a provider's interface. Loads the provider's library at the first request. */
export class RemoteModelSource implements ModelSource {
  readonly #options: SourceOptions & { readonly route: ModelRoute }
  #provider: Promise<SdkModel | ProviderFailure> | undefined
  #key: string | undefined
  #factsLoading: Promise<ModelFacts> | undefined
  #facts: ModelFacts = noModelFacts
  readonly #name: string
  readonly #leftOut: LeftOut
  #accepted: AcceptedRequest | undefined
  #asking: Promise<ServerFacts> | undefined
  #asked: ServerFacts = {}
  #isAskedAgain = false

  constructor(options: SourceOptions & { readonly route: ModelRoute }) {
    this.#options = options
    this.#name = learnedModelName(options.llm)
    this.#leftOut = options.leftOut ?? new LeftOutInMemory()
    this.#key = options.llm.api_key
  }

  get contextWindow(): number | undefined {
    return this.#options.llm.max_input_tokens ?? this.#asked.window?.tokens ?? this.#facts.contextWindow
  }

  get dropsTools(): boolean {
    return this.#asked.dropsTools || this.#leftOut.of(this.#name).some(({ kind }) => kind === 'tools')
  }

  /** Asks a server of the user's own about its model, once, and again when the model has been loaded. */
  async prepare(): Promise<void> {
    if (this.#asked.window?.isLoaded === false && this.#accepted !== undefined && !this.#isAskedAgain) {
      this.#isAskedAgain = true
      this.#asking = undefined
    }
    this.#asking ??= askServerFacts(this.#options)
    this.#asked = await this.#asking
  }

  /** A request whose key is rejected is sent once more where there is a new key. */
  async generate(request: ModelRequest, signal: AbortSignal): Promise<SourceResult> {
    const key = this.#key
    const result = await this.#generate(request, signal)
    const isRejected = result.kind === 'failure' && result.failure.status === 401
    return isRejected && (await this.#renewKey(key, signal)) ? await this.#generate(request, signal) : result
  }

  /** Whether there is another key than the rejected one, also from a concurrent request. */
  async #renewKey(rejected: string | undefined, signal: AbortSignal): Promise<boolean> {
    if (this.#key !== rejected) return true
    const { llm, route, secrets, environment } = this.#options
    const baseUrl = llm.base_url ?? route.baseUrl
    if (baseUrl === undefined || llm.auth_type === 'subscription') return false
    const key = await environment.refreshKey?.(baseUrl, signal)
    if (key === undefined || key === rejected) return false
    addKey(secrets, key)
    this.#key = key
    this.#provider = openProvider({ ...llm, api_key: key }, route, environment.fetch)
    return true
  }

  /** Retries until there is a reply or the attempts are used up; also after a stream that broke. */
  async #generate(request: ModelRequest, signal: AbortSignal): Promise<SourceResult> {
    const { llm, secrets, route, environment } = this.#options
    this.#provider ??= openProvider(llm, route, environment.fetch)
    const model = await this.#provider
    if ('code' in model) return { kind: 'failure', failure: model }
    let hadEmpty = false
    let { messages } = request
    const refused = new RefusedRequest(this.#leftOut.of(this.#name), this.#accepted)
    for (let attempt = 0; ; ) {
      const result = await this.#attempt(model, { ...request, messages, hadEmpty, refused }, signal)
      if (result.kind === 'aborted') return result
      if (result.kind === 'accepted') {
        refused.accept()
        continue
      }
      if (result.kind === 'reply') this.#accepted = refused.accepted
      else if (request.tools.length > 0 && isRefusalOfTools(result.failure)) {
        const reason = this.#reasonOf(result.failure.detail)
        this.#leftOut.add(this.#name, [{ kind: 'tools', name: '', reason }])
        return result
      }
      // One with its own limit is a title or a trial of settings: its refusal is the answer.
      else if (request.maxOutputTokens === undefined && refused.refuse(result.failure)) continue
      const { hasTried } = refused
      if (hasTried) this.#learn(refused, result)
      if (result.kind === 'reply') return result
      const { failure } = result
      if (hasTried && !failure.isRetryable) return { kind: 'failure', failure: withNextStep(failure) }
      if (!failure.isRetryable || attempt >= llm.num_retries) return result
      hadEmpty ||= failure.code === 'LLMNoResponseError' || failure.isMalformed === true
      if (failure.isMalformed) messages = [...request.messages, malformedHint]
      const wait = waitMs(llm, failure, attempt)
      const { code, detail, status } = failure
      request.onRetry?.({
        ...{ code, detail: redactDetail(detail, secrets), status, host: serverOf({ baseUrl: llm.base_url }) },
        ...{ waitMs: wait, attempt: attempt + 1, attempts: llm.num_retries },
      })
      attempt += 1
      await sleepUntilAborted(environment.clock, wait, signal)
      if (signal.aborted) return { kind: 'aborted' }
    }
  }

  /** Remembers what the server takes this request without. */
  #learn(refused: RefusedRequest, result: SourceResult): void {
    if (result.kind === 'failure') refused.giveUp()
    const reason = this.#reasonOf(refused.reason)
    this.#leftOut.add(
      this.#name,
      refused.learned.map((one) => ({ ...one, reason })),
    )
  }

  #reasonOf(detail: string): string {
    return firstChars(redactDetail(detail, this.#options.secrets), maxReason)
  }

  /** One request, if a budget allows it. */
  async #attempt(
    model: SdkModel,
    request: AttemptRequest,
    signal: AbortSignal,
  ): Promise<SourceResult | { readonly kind: 'accepted' }> {
    const { spending, clock } = this.#options.environment
    if (spending === undefined) return await this.#send(model, request, signal)
    this.#facts = await this.#loadFacts()
    const estimate = estimateCall(this.#options, this.#facts, request, new Date(clock.now()))
    const reservation = await spending.reserve(estimate, signal)
    if (reservation === undefined) return await this.#send(model, request, signal)
    if ('refusal' in reservation) {
      const { code, refusal: detail } = reservation
      return signal.aborted ? aborted : { kind: 'failure', failure: { code, detail, isRetryable: false } }
    }
    const { maxOutputTokens } = reservation
    const isLess = maxOutputTokens < estimate.maxOutputTokens
    let use: CallUse = signal.aborted ? noUse : { ...estimate, outputTokens: 0, cost: estimate.inputCost }
    const onUse = (used: CallUse) => {
      use = used
    }
    try {
      if (signal.aborted) return aborted
      return await this.#send(model, isLess ? { ...request, maxOutputTokens } : request, signal, onUse)
    } finally {
      await reservation.settle(use)
    }
  }

  #loadFacts(): Promise<ModelFacts> {
    const { llm, route } = this.#options
    this.#factsLoading ??= loadModelFacts(llm, route).catch(() => noModelFacts)
    return this.#factsLoading
  }

  async #send(
    model: SdkModel,
    request: AttemptRequest,
    signal: AbortSignal,
    onUse?: (use: CallUse) => void,
  ): Promise<SourceResult | { readonly kind: 'accepted' }> {
    const { llm, route, environment, cacheKey } = this.#options
    const started = environment.clock.now()
    const messages = await fitRequestImages(request.messages, requestCapabilities(llm, route))
    const call = wellFormed(callOptions(llm, route, { ...request, messages, cacheKey }))
    // The same request at temperature 0 would have the same reply.
    if (request.hadEmpty && call.temperature === 0) call.temperature = 1
    const { clock } = environment
    const { onDelta, refused } = request
    const { edit, isProbe } = refused
    const hasLooseThoughts = route.api === 'compatible'
    const options = { clock, onDelta, edit, isProbe, hasLooseThoughts, ...timeLimits(this.#options) }
    const turn = streamResponse(model, call, options, signal)
    // The price list loads during the request.
    const loading = this.#loadFacts()
    const done = await turn
    if (done.kind === 'aborted') {
      onUse?.(
        this.#useOf(tokenCounts(done.response) ?? estimateTokens(request, done.response), done.response),
      )
      return aborted
    }
    this.#facts = await loading
    const latencyMs = environment.clock.now() - started
    const tokens = tokenCounts(done.response)
    if (done.kind === 'response') {
      onUse?.(this.#useOf(tokens ?? estimateTokens(request, done.response), done.response))
      const reply = this.#toReply({ ...done, tokens: tokens ?? noTokens }, request, latencyMs)
      return { kind: 'reply', reply: withStrayCalls(reply, request, route) }
    }
    const { response } = done
    // An empty reply was paid for too.
    if (response.hasBegun || tokens !== undefined) {
      const estimate = tokens ?? estimateTokens(request, response)
      onUse?.(this.#useOf(estimate, response))
      request.onReset?.(this.#toReply({ response, stop: 'stop', tokens: estimate }, request, latencyMs))
    } else if (done.kind === 'failure' && !mayBeCharged(done.failure)) onUse?.(noUse)
    if (done.kind === 'accepted') return done
    return { kind: 'failure', failure: await this.#explain(done.failure, response.hasBegun) }
  }

  async #explain(failure: ProviderFailure, hasBegun: boolean): Promise<ProviderFailure> {
    return await explainFailure(failure, { ...this.#options, hasBegun })
  }

  #useOf(tokens: ReplyTokens, { finish }: ResponseAccumulator): CallUse {
    const { llm, environment } = this.#options
    const own = finish?.usage.raw?.cost
    const at = new Date(environment.clock.now())
    const reported = typeof own === 'number' ? own : this.#facts.cost(tokens, at)
    const cost = settingsPrice(llm, tokens) ?? reported
    const { input: inputTokens, output: outputTokens } = tokens
    return { inputTokens, outputTokens, cost: cost === undefined ? undefined : toMicros(cost) }
  }

  #toReply(
    { response, stop, tokens }: Omit<CompletedStream, 'kind'> & { readonly tokens: ReplyTokens },
    request: ModelRequest,
    latencyMs: number,
  ): ModelReply {
    const { llm, secrets, route, environment } = this.#options
    const { finish, promptTokenIds: prompt, tokenIds } = response
    const { raw } = finish?.usage ?? {}
    const names = new Map(request.tools.map(({ name }) => [fitToolName(name), name]))
    const received = assistantMessage(response, route, usedCallIds(request.messages), names)
    const message = needsFittedKeys(route) ? withOwnArguments(received, request.tools) : received
    const nowMs = environment.clock.now()
    const hasIds = prompt.length > 0 || tokenIds.length > 0
    return buildReply({
      llm,
      secrets,
      request,
      responseId: uniqueId(response.responseId),
      message,
      tokens,
      contextWindow: this.contextWindow,
      // The provider's own cost, else by the price list.
      cost: typeof raw?.cost === 'number' ? raw.cost : (this.#facts.cost(tokens, new Date(nowMs)) ?? 0),
      latencyMs,
      nowMs,
      stop,
      ...(isPause(finish?.finishReason.raw) && { isPaused: true }),
      tokenIds: hasIds ? { prompt, response: tokenIds } : undefined,
    })
  }
}

/** With the tools' own names of properties. */
function withOwnArguments(message: Message, tools: ModelRequest['tools']): Message {
  return {
    ...message,
    ...(message.tool_calls && {
      tool_calls: message.tool_calls.map((call) => {
        const tool = tools.find(({ name }) => name === call.name)
        return tool === undefined
          ? call
          : { ...call, arguments: withOwnKeys(call.arguments, tool.parameters) }
      }),
    }),
  }
}

/** The provider's counts; undefined when the stream ended before them. */
function tokenCounts({ finish }: ResponseAccumulator): ReplyTokens | undefined {
  const { inputTokens, outputTokens } = finish?.usage ?? {}
  if (inputTokens?.total === undefined || !(inputTokens.total > 0)) return undefined
  return {
    input: inputTokens.total,
    output: outputTokens?.total ?? 0,
    cacheRead: inputTokens.cacheRead ?? 0,
    cacheWrite: inputTokens.cacheWrite ?? 0,
    reasoning: outputTokens?.reasoning ?? 0,
  }
}

function estimateTokens({ messages, tools }: ModelRequest, response: ResponseAccumulator): ReplyTokens {
  const input = countTokens(messages) + countToolTokens(tools)
  return { ...noTokens, input, output: Math.ceil(textTokens(response.receivedText)) }
}

/** Milliseconds without data: before the first part of a reply, and in the middle of one. */
function timeLimits(options: { readonly llm: Llm; readonly route: ModelRoute }) {
  const { timeout, stream_stall_timeout: stall = defaultStallSeconds } = options.llm
  const idleMs = firstPartLimit(options)
  const ownMs = timeout ? timeout * 1000 : undefined
  const stallMs = stall === 0 ? ownMs : Math.min(stall * 1000, ownMs ?? Number.POSITIVE_INFINITY)
  return { idleMs, stallMs }
}

/** Milliseconds before the next attempt: as the provider asks, else bounded exponential backoff. */
function waitMs(llm: Llm, { retryAfterMs }: ProviderFailure, attempt: number): number {
  const most = llm.retry_max_wait * 1000
  if (retryAfterMs !== undefined) return Math.min(retryAfterMs, most)
  return Math.min(most, Math.max(llm.retry_min_wait, llm.retry_multiplier * 2 ** attempt) * 1000)
}

/** Servers without the parser of their model leave its calls in the text. */
function withStrayCalls(
  reply: ModelReply,
  { tools, toolChoice }: ModelRequest,
  route: ModelRoute,
): ModelReply {
  const hasCalls = (reply.message.tool_calls ?? []).length > 0
  if (route.api !== 'compatible' || hasCalls || tools.length === 0 || toolChoice === 'none') return reply
  return withCalls(reply, (text) => parseStrayCalls(text, tools))
}

function withNextStep(failure: ProviderFailure): ProviderFailure {
  const next =
    'The server refuses the request also without what could be left out: go back to an earlier message, or use another model'
  return { ...failure, detail: `${failure.detail} (${next}.)` }
}

function uniqueId(id: string | undefined): string {
  if (id === undefined || id === '') return `resp-${randomUUID()}`
  return id.length >= minUniqueId ? id : `${id}-${randomUUID().slice(0, 8)}`
}

function usedCallIds(messages: readonly Message[]): ReadonlySet<string> {
  return new Set(messages.flatMap(({ tool_calls }) => (tool_calls ?? []).map(({ id }) => id)))
}
