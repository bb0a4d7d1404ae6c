import type { Omission } from './omissions.ts'

/** What requests to a model go without, and why. */
export interface LearnedOmission extends Omission {
  /** The refusal, without secrets. */
  readonly reason: string
  /** Begins the text of what is left out, by which its event is found; undefined for what has no event. */
  readonly sample?: string | undefined
}

/** Remembers what servers refused, by the name of the model with its server. */
export interface LeftOut {
  of(model: string): readonly Omission[]
  add(model: string, omissions: readonly LearnedOmission[]): void
}

/** Of one process alone. */
export class LeftOutInMemory implements LeftOut {
  readonly #known = new Map<string, readonly LearnedOmission[]>()

  of(model: string): readonly LearnedOmission[] {
    return this.#known.get(model) ?? []
  }

  add(model: string, omissions: readonly LearnedOmission[]): void {
    this.#known.set(model, [...this.of(model), ...omissions])
  }
}
