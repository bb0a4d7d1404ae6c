import type { Message, TokenUsage } from '@slipway/protocol'
import type { Model, ModelRequest, ModelResult } from '../../llm/model.ts'

/** What a conversation does, as far as it may be told to whoever counts: no text, no id, nothing of a user. */
export type MonitoredWork =
  | { readonly kind: 'run' }
  /** `model` as the settings have it: `provider/name`. */
  | { readonly kind: 'model'; readonly model: string }
  /** The kind of its definition: one of a closed set. */
  | { readonly kind: 'tool'; readonly tool: string }
  | { readonly kind: 'condensation' }

export interface WorkOutcome {
  /** A word of a closed set: a status, the code of a failure, `ok`, `error`, `aborted`. */
  readonly outcome: string
  readonly isFailure: boolean
  /** Of a model that answered. */
  readonly modelUsage?: { readonly usage: TokenUsage; readonly cost: number } | undefined
}

/** Told when work begins; the answer goes round the work and is told of its end. */
export type RunMonitor = (work: MonitoredWork) => {
  /** What is begun inside of it belongs to it. */
  within<T>(work: () => T): T
  end(end: WorkOutcome): void
}

/** Does work in sight of a watch, if there is one. What it answers or throws passes as it is. */
export async function instrument<T>(
  monitor: RunMonitor | undefined,
  work: MonitoredWork,
  run: () => Promise<T>,
  endOf: (result: T) => WorkOutcome,
): Promise<T> {
  if (monitor === undefined) return await run()
  const span = monitor(work)
  try {
    const result = await span.within(run)
    span.end(endOf(result))
    return result
  } catch (error) {
    span.end({ outcome: 'error', isFailure: true })
    throw error
  }
}

/** A model whose calls are seen. */
export function instrumentModel(model: Model, monitor: RunMonitor | undefined): Model {
  return monitor === undefined ? model : new InstrumentedModel(model, monitor)
}

class InstrumentedModel implements Model {
  readonly #model: Model
  readonly #monitor: RunMonitor

  constructor(model: Model, watch: RunMonitor) {
    this.#model = model
    this.#monitor = watch
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

  generate(request: ModelRequest, signal: AbortSignal): Promise<ModelResult> {
    const work = { kind: 'model', model: this.llm.model } as const
    return instrument(this.#monitor, work, () => this.#model.generate(request, signal), modelCallOutcome)
  }
}

function modelCallOutcome(answer: ModelResult): WorkOutcome {
  if (answer.kind === 'answer') return { outcome: 'ok', isFailure: false, modelUsage: answer }
  if (answer.kind === 'aborted') return { outcome: 'aborted', isFailure: false }
  return { outcome: answer.code, isFailure: true }
}
