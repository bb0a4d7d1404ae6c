import { type Llm, llm as llmSchema, type Message } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import type { Secrets } from '../../secrets/secrets.ts'
import { llmSecrets } from '../credentials.ts'
import { classifyFailure, type ProviderFailure, redactDetail } from '../failures.ts'
import type {
  BrokenAttempt,
  FindProfile,
  Model,
  ModelEnvironment,
  ModelFailure,
  ModelRequest,
  ModelResult,
  OpenModel,
} from '../model.ts'
import type { ModelSource, SourceOptions, SourceResult } from '../model-source.ts'
import type { LeftOut } from '../refusals/left-out.ts'
import { loopbackFetch } from '../request/loopback-fetch.ts'
import { resolveRoute } from '../route.ts'
import { TextCallSource } from '../text-calls/text-call-source.ts'
import { countTokens } from '../tokens.ts'
import { RemoteModelSource } from './remote-model.ts'
import { ScriptedModelSource } from './scripted-model.ts'

/** The name of a profile, or the settings of a model. */
type FallbackName = string | Record<string, unknown>

/**
 * Opens a model. Loads and sends nothing before the first request; invalid settings make each request fail.
 * `contextWindow` is known from the settings, or after the first reply.
 */
export const openModel: OpenModel = (llm, options = {}) => {
  const environment = {
    fetch: options.fetch ?? loopbackFetch,
    clock: options.clock ?? systemClock,
    refreshKey: options.refreshKey,
    spending: options.spending,
  }
  const { findProfile, cacheKey, leftOut } = options
  return new FallbackModel(llm, { environment, findProfile, cacheKey, leftOut })
}

interface FallbackModelOptions {
  readonly environment: ModelEnvironment
  readonly findProfile: FindProfile | undefined
  readonly cacheKey: string | undefined
  readonly leftOut: LeftOut | undefined
}

class FallbackModel implements Model {
  readonly llm: Llm
  readonly #secrets: Secrets
  readonly #source: ModelSource | ProviderFailure
  readonly #options: FallbackModelOptions
  readonly #fallbacks = new Map<number, FallbackModel>()

  constructor(llm: Llm, options: FallbackModelOptions) {
    this.llm = llm
    this.#secrets = llmSecrets(llm)
    this.#options = options
    this.#source = open({ llm, secrets: this.#secrets, ...options })
  }

  get contextWindow(): number | undefined {
    return 'code' in this.#source ? this.llm.max_input_tokens : this.#source.contextWindow
  }

  get dropsTools(): boolean {
    return !('code' in this.#source) && this.#source.dropsTools === true
  }

  async prepare(): Promise<void> {
    if (!('code' in this.#source)) await this.#source.prepare?.()
  }

  countTokens(messages: readonly Message[]): number {
    return countTokens(messages)
  }

  async generate(request: ModelRequest, signal: AbortSignal): Promise<ModelResult> {
    const brokenAttempts: BrokenAttempt[] = []
    const onReset = (attempt: BrokenAttempt) => {
      brokenAttempts.push(attempt)
      request.onReset?.(attempt)
    }
    const result = await this.#generate({ ...request, onReset }, signal)
    return result.kind === 'aborted' || brokenAttempts.length === 0 ? result : { ...result, brokenAttempts }
  }

  async #generate(request: ModelRequest, signal: AbortSignal): Promise<ModelResult> {
    const result = await this.#generateOnce(request, signal)
    if (result.kind === 'reply') return result.reply
    if (result.kind === 'aborted') return result
    const failure = this.#publicFailure(result.failure)
    if (!canFallBack(result.failure)) return failure
    return await this.#fallBack(failure, request, signal)
  }

  /** Never rejects: internal errors are failures of the model too. */
  async #generateOnce(request: ModelRequest, signal: AbortSignal): Promise<SourceResult> {
    if (signal.aborted) return { kind: 'aborted' }
    if ('code' in this.#source) return { kind: 'failure', failure: this.#source }
    try {
      return await this.#source.generate(request, signal)
    } catch (error) {
      return signal.aborted ? { kind: 'aborted' } : { kind: 'failure', failure: classifyFailure(error) }
    }
  }

  #publicFailure({ code, detail, status }: ProviderFailure): ModelFailure {
    const failure = { kind: 'failure', code, detail: redactDetail(detail, this.#secrets) } as const
    return status === undefined ? failure : { ...failure, status }
  }

  /** Tries the fallbacks until one replies; else the first model's failure. */
  async #fallBack(failure: ModelFailure, request: ModelRequest, signal: AbortSignal): Promise<ModelResult> {
    const names = this.llm.fallback_strategy?.fallback_llms ?? []
    const others: string[] = []
    for (const [index, name] of names.entries()) {
      const model = await this.#openFallback(index, name)
      if (model === undefined) {
        others.push(`${typeof name === 'string' ? name : 'a fallback'} is missing`)
        continue
      }
      await model.prepare()
      const result = await model.#generateOnce(request, signal)
      if (result.kind === 'reply') return result.reply
      if (result.kind === 'aborted') return result
      const failed = model.#publicFailure(result.failure)
      others.push(`${model.llm.model}: ${failed.code}`)
    }
    if (others.length === 0) return failure
    const detail = redactDetail(`${failure.detail} (Fallbacks: ${others.join('; ')}.)`, this.#secrets)
    return { ...failure, detail }
  }

  /** Opened once; a missing profile is looked up again at the next failure. */
  async #openFallback(index: number, name: FallbackName): Promise<FallbackModel | undefined> {
    const known = this.#fallbacks.get(index)
    if (known !== undefined) return known
    const settings = await this.#resolveFallback(name)
    if (settings === undefined) return undefined
    const model = new FallbackModel(settings, { ...this.#options, findProfile: undefined })
    this.#fallbacks.set(index, model)
    return model
  }

  async #resolveFallback(name: FallbackName): Promise<Llm | undefined> {
    if (typeof name !== 'string') return llmSchema.safeParse(name).data
    try {
      return await this.#options.findProfile?.(name)
    } catch {
      return undefined
    }
  }
}

function open(options: SourceOptions): ModelSource | ProviderFailure {
  const { llm } = options
  if (llm.model.startsWith('scripted/')) return new ScriptedModelSource(options)
  const route = resolveRoute(llm)
  if ('issue' in route) return { code: 'LLMBadRequestError', detail: route.issue, isRetryable: false }
  const source = new RemoteModelSource({ ...options, route })
  return new TextCallSource(source, llm.native_tool_calling === false)
}

/** Another model may succeed when this one is missing, busy or refuses access; not an invalid request. */
function canFallBack({ code, isRetryable }: ProviderFailure): boolean {
  const others = [
    'LLMAuthenticationError',
    'LLMRateLimitError',
    'LLMServiceUnavailableError',
    // It may be cheaper.
    'BudgetExceeded',
  ]
  return isRetryable || others.includes(code)
}
