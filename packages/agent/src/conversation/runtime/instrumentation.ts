import type { TokenUsage } from '@slipway/protocol'
import type { Model, ModelResult } from '../../llm/model.ts'

/** What a monitor may know of a conversation's work: no text, no id, no user data. */
export type MonitoredWork =
  | { readonly kind: 'run' }
  /** `model` as in the settings: `provider/name`. */
  | { readonly kind: 'model'; readonly model: string }
  /** The kind of its definition: one of a closed set. */
  | { readonly kind: 'tool'; readonly tool: string }
  | { readonly kind: 'condensation' }

export interface WorkOutcome {
  /** One of a closed set: a status, a failure code, `ok`, `error`, `aborted`. */
  readonly outcome: string
  readonly isFailure: boolean
  /** Of a model's reply. */
  readonly modelUsage?: { readonly usage: TokenUsage; readonly cost: number } | undefined
}

export type RunMonitor = (work: MonitoredWork) => {
  /** Runs the work; monitored work that begins inside belongs to it. */
  within<T>(work: () => T): T
  end(end: WorkOutcome): void
}

/** Does work under a monitor, if there is one; returns and throws what the work does. */
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

/** A model whose calls the monitor sees. */
export function instrumentModel(model: Model, monitor: RunMonitor | undefined): Model {
  if (monitor === undefined) return model
  const work = { kind: 'model', model: model.llm.model } as const
  return {
    llm: model.llm,
    get contextWindow() {
      return model.contextWindow
    },
    get dropsTools() {
      return model.dropsTools ?? false
    },
    prepare: async () => await model.prepare?.(),
    countTokens: (messages) => model.countTokens(messages),
    generate: (request, signal) =>
      instrument(monitor, work, () => model.generate(request, signal), modelCallOutcome),
  }
}

function modelCallOutcome(result: ModelResult): WorkOutcome {
  if (result.kind === 'reply') return { outcome: 'ok', isFailure: false, modelUsage: result }
  if (result.kind === 'aborted') return { outcome: 'aborted', isFailure: false }
  return { outcome: result.code, isFailure: true }
}
