import type { LimitName, LimitScope } from '@slipway/protocol'

export type Amounts = Readonly<Record<LimitName, number>>

interface SavedLimitUsage {
  readonly steps: number
  readonly seconds: number
  readonly runPosition: number
  readonly runStart: Amounts
  readonly warned: readonly string[]
}

const none: Amounts = { cost: 0, tokens: 0, steps: 0, seconds: 0 }

/**
 * What limits count: the steps and the time of a conversation, and where they and its use stood when its run
 * began.
 */
export class LimitUsage {
  steps: number
  seconds: number
  #runPosition: number
  #runStart: Amounts
  #warned: readonly string[]

  constructor(saved: Partial<SavedLimitUsage> = {}) {
    this.steps = saved.steps ?? 0
    this.seconds = saved.seconds ?? 0
    this.#runPosition = saved.runPosition ?? 0
    this.#runStart = saved.runStart ?? none
    this.#warned = saved.warned ?? []
  }

  /** The run that began at this position counts from here, unless it does so already. */
  enterRun(position: number, totals: Pick<Amounts, 'cost' | 'tokens'>): void {
    if (position === this.#runPosition) return
    this.#runPosition = position
    this.#runStart = this.used('conversation', totals)
    this.#warned = this.#warned.filter((key) => !key.startsWith('run'))
  }

  used(scope: LimitScope, { cost, tokens }: Pick<Amounts, 'cost' | 'tokens'>): Amounts {
    const start = scope === 'run' ? this.#runStart : none
    return {
      cost: cost - start.cost,
      tokens: tokens - start.tokens,
      steps: this.steps - start.steps,
      seconds: this.seconds - start.seconds,
    }
  }

  hasWarned(key: string): boolean {
    return this.#warned.includes(key)
  }

  addWarning(key: string): void {
    this.#warned = [...this.#warned, key].slice(-16)
  }

  toJSON(): SavedLimitUsage {
    const { steps, seconds } = this
    return { steps, seconds, runPosition: this.#runPosition, runStart: this.#runStart, warned: this.#warned }
  }
}
