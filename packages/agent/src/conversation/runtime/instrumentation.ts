import type { Message, TokenUsage } from '@slipway/protocol'
import type { Answer, Model, ModelRequest } from '../../llm/model.ts'

/** What a conversation does, as far as it may be told to whoever counts: no text, no id, nothing of a user. */
export type Work =
  | { readonly kind: 'run' }
  /** `model` as the settings have it: `provider/name`. */
  | { readonly kind: 'model'; readonly model: string }
  /** The kind of its definition: one of a closed set. */
  | { readonly kind: 'tool'; readonly tool: string }
  | { readonly kind: 'condensation' }

export interface WorkEnd {
  /** A word of a closed set: a status, the code of a failure, `ok`, `error`, `aborted`. */
  readonly outcome: string
  readonly isFailure: boolean
  /** Of a model that answered. */
  readonly used?: { readonly usage: TokenUsage; readonly cost: number } | undefined
}

/** Told when work begins; the answer goes round the work and is told of its end. */
export type Watch = (work: Work) => {
  /** What is begun inside of it belongs to it. */
  within<T>(work: () => T): T
  end(end: WorkEnd): void
}

/** Does work in sight of a watch, if there is one. What it answers or throws passes as it is. */
export async function watched<T>(
  watch: Watch | undefined,
  work: Work,
  run: () => Promise<T>,
  endOf: (result: T) => WorkEnd,
): Promise<T> {
  if (watch === undefined) return await run()
  const watching = watch(work)
  try {
    const result = await watching.within(run)
    watching.end(endOf(result))
    return result
  } catch (error) {
    watching.end({ outcome: 'error', isFailure: true })
    throw error
  }
}

/** A model whose calls are seen. */
export function watchedModel(model: Model, watch: Watch | undefined): Model {
  return watch === undefined ? model : new WatchedModel(model, watch)
}

class WatchedModel implements Model {
  readonly #model: Model
  readonly #watch: Watch

  constructor(model: Model, watch: Watch) {
    this.#model = model
    this.#watch = watch
  }

  get llm() {
    return this.#model.llm
  }

  get contextWindow(): number | undefined {
    return this.#model.contextWindow
  }

  countTokens(messages: readonly Message[]): number {
    return this.#model.countTokens(messages)
  }

  respond(request: ModelRequest, signal: AbortSignal): Promise<Answer> {
    const work = { kind: 'model', model: this.llm.model } as const
    return watched(this.#watch, work, () => this.#model.respond(request, signal), endOfCall)
  }
}

function endOfCall(answer: Answer): WorkEnd {
  if (answer.kind === 'answer') return { outcome: 'ok', isFailure: false, used: answer }
  if (answer.kind === 'aborted') return { outcome: 'aborted', isFailure: false }
  return { outcome: answer.code, isFailure: true }
}
