import { type RunSlot, runLimitProblem } from '@slipway/agent'
import type { Semaphore } from '@slipway/shared/async'

/**
 * What a request that may start a run holds from before its first effect on, so that a refused one leaves
 * nothing and an admitted one runs. Its slot is free again at the end, unless a conversation has taken it.
 */
export class RunAdmission implements Disposable {
  #slot: RunSlot | undefined

  private constructor(slot: RunSlot) {
    this.#slot = slot
  }

  /**
   * A Problem `too_many` when no slot is free, also for a request that keeps none; `slots` is undefined where
   * runs wait.
   */
  static admit(isRun: boolean, slots: Semaphore | undefined): RunAdmission {
    if (slots === undefined) return new RunAdmission('none')
    const slot = slots.tryAcquire()
    if (slot === undefined) throw runLimitProblem()
    if (!isRun) slot()
    return new RunAdmission(isRun ? slot : 'none')
  }

  /** The slot, once; whoever takes it releases it. */
  take(): RunSlot | undefined {
    const slot = this.#slot
    this.#slot = undefined
    return slot
  }

  [Symbol.dispose](): void {
    const slot = this.take()
    if (typeof slot === 'function') slot()
  }
}
