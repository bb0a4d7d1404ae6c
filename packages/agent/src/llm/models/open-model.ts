import { type Llm, llm as llmSchema, type Message } from '@slipway/protocol'
import type { Secrets } from '../../secrets/secrets.ts'
import { secretsOf } from '../credentials.ts'
import { type Fault, faultOf, shown } from '../failures.ts'
import type { Answer, Failed, Model, ModelRequest, OpenModel } from '../model.ts'
import { type Asked, type Source, type Surroundings, sleep } from '../model-source.ts'
import { routeOf } from '../route.ts'
import { countTokens } from '../tokens.ts'
import { RemoteModel } from './remote-model.ts'
import { ScriptedModel } from './scripted-model.ts'

type Profile = (name: string) => Promise<Llm | undefined>

/**
 * Opens a model. Nothing is loaded and nobody is asked before the first question; settings that lead nowhere are a failure
 * of each question. `contextWindow` is known from the start when the settings name it, else from the first answer on.
 */
export const openModel: OpenModel = (llm, options = {}) => {
  const surroundings = {
    fetch: options.fetch ?? fetch,
    now: options.now ?? Date.now,
    sleep: options.sleep ?? sleep,
  }
  return new OpenedModel(llm, surroundings, options.profile)
}

class OpenedModel implements Model {
  readonly llm: Llm
  readonly #secrets: Secrets
  readonly #source: Source | Fault
  readonly #surroundings: Surroundings
  readonly #profile: Profile | undefined
  readonly #fallbacks = new Map<number, OpenedModel>()

  constructor(llm: Llm, surroundings: Surroundings, profile: Profile | undefined) {
    this.llm = llm
    this.#secrets = secretsOf(llm)
    this.#surroundings = surroundings
    this.#profile = profile
    this.#source = open(llm, this.#secrets, surroundings)
  }

  get contextWindow(): number | undefined {
    return 'code' in this.#source ? this.llm.max_input_tokens : this.#source.contextWindow
  }

  countTokens(messages: readonly Message[]): number {
    return countTokens(messages)
  }

  async respond(request: ModelRequest, signal: AbortSignal): Promise<Answer> {
    const asked = await this.#ask(request, signal)
    if (asked.kind === 'answer') return asked.answered
    if (asked.kind === 'aborted') return asked
    const failure = this.#failure(asked.fault)
    if (asked.hasBegun || !mayFallBack(asked.fault)) return failure
    return await this.#fallBack({ request, signal, failure })
  }

  /** Never rejects: what we did wrong ourselves is a failure of the model too, as far as a conversation is concerned. */
  async #ask(request: ModelRequest, signal: AbortSignal): Promise<Asked> {
    if (signal.aborted) return { kind: 'aborted' }
    if ('code' in this.#source) return { kind: 'fault', fault: this.#source, hasBegun: false }
    try {
      return await this.#source.ask(request, signal)
    } catch (error) {
      return signal.aborted ? { kind: 'aborted' } : { kind: 'fault', fault: faultOf(error), hasBegun: false }
    }
  }

  #failure({ code, detail }: Fault): Failed {
    return { kind: 'failure', code, detail: shown(detail, this.#secrets) }
  }

  /** The other models in order, until one answers or has begun to. The failure is that of the first model. */
  async #fallBack(options: {
    readonly request: ModelRequest
    readonly signal: AbortSignal
    readonly failure: Failed
  }): Promise<Answer> {
    const { request, signal, failure } = options
    const names = this.llm.fallback_strategy?.fallback_llms ?? []
    const others: string[] = []
    for (const [index, name] of names.entries()) {
      const model = await this.#fallback(index, name)
      if (model === undefined) {
        others.push(`${typeof name === 'string' ? name : 'a fallback'} is not there`)
        continue
      }
      const asked = await model.#ask(request, signal)
      if (asked.kind === 'answer') return asked.answered
      if (asked.kind === 'aborted') return asked
      const failed = model.#failure(asked.fault)
      if (asked.hasBegun) return failed
      others.push(`${model.llm.model}: ${failed.code}`)
    }
    if (others.length === 0) return failure
    const detail = shown(`${failure.detail} (Fallbacks: ${others.join('; ')}.)`, this.#secrets)
    return { ...failure, detail }
  }

  /** Opened once; a profile that is not there is looked for again at the next failure. */
  async #fallback(index: number, name: string | Record<string, unknown>): Promise<OpenedModel | undefined> {
    const known = this.#fallbacks.get(index)
    if (known !== undefined) return known
    const settings = await this.#settings(name)
    if (settings === undefined) return undefined
    const model = new OpenedModel(settings, this.#surroundings, undefined)
    this.#fallbacks.set(index, model)
    return model
  }

  async #settings(name: string | Record<string, unknown>): Promise<Llm | undefined> {
    if (typeof name !== 'string') return llmSchema.safeParse(name).data
    try {
      return await this.#profile?.(name)
    } catch {
      return undefined
    }
  }
}

function open(llm: Llm, secrets: Secrets, surroundings: Surroundings): Source | Fault {
  if (llm.model.startsWith('scripted/')) return new ScriptedModel(llm, secrets, surroundings)
  const route = routeOf(llm)
  if ('fault' in route) return { code: 'LLMBadRequestError', detail: route.fault, isRetryable: false }
  return new RemoteModel(llm, route, secrets, surroundings)
}

/** Another model may do better when this one is not there, is too busy or lets us not in; not when the question is wrong. */
function mayFallBack({ code, isRetryable }: Fault): boolean {
  return isRetryable || code === 'LLMAuthenticationError' || code === 'LLMRateLimitError'
}
