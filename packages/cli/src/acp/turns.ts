import { RequestError, type StopReason } from '@agentclientprotocol/sdk/unstable'
import { asObject, asString, type JsonObject } from '../output/action-text.ts'
import { contentTexts } from './tool-calls.ts'

/** A prompt of this editor that is not answered yet. */
export interface Turn {
  readonly texts: string
  readonly done: PromiseWithResolvers<StopReason>
  /** Its message is in the log. */
  isStored: boolean
  /** A run that has its message has begun. */
  isRunning: boolean
  isCancelled: boolean
}

/**
 * The prompts of an editor and the runs that answer them.
 *
 * Problem: a prompt is one request, answered when its turn is over. A conversation has a log, in which the
 * message of the prompt, the begin of a run and its end are events, and other screens write between them.
 *
 * Idea: a turn is over when the first run that began, or continued, after its message has ended. A message
 * that arrives while a run continues is answered by that run: two prompts at once end together.
 *
 * Invariants: a turn ends once, by the log, by its failure, or by a cancellation, which needs no server.
 */
export class Turns {
  readonly #open = new Set<Turn>()
  /** Their run has failed; the next event says why. */
  #failed: readonly Turn[] = []

  get isEmpty(): boolean {
    return this.#open.size === 0
  }

  begin(texts: readonly string[]): Turn {
    const done = Promise.withResolvers<StopReason>()
    // A turn that fails while its message is being sent is awaited later.
    done.promise.catch(() => {})
    const turn = { texts: texts.join('\n'), done, isStored: false, isRunning: false, isCancelled: false }
    this.#open.add(turn)
    return turn
  }

  end(turn: Turn): void {
    this.#open.delete(turn)
  }

  /** Whether a message is that of a turn, which the editor shows already. */
  claim({ source, llm_message }: JsonObject, status: string): boolean {
    if (source !== 'user') return false
    const texts = contentTexts(asObject(llm_message).content).join('\n')
    const turn = [...this.#open].find((one) => !one.isStored && one.texts === texts)
    if (turn === undefined) return false
    turn.isStored = true
    turn.isRunning = status === 'running'
    return true
  }

  /** Ends the turns whose run has failed; false when there is none, so that the reason is shown otherwise. */
  endFailed({ code, detail }: JsonObject): boolean {
    const failed = this.#failed.filter((turn) => this.#open.has(turn))
    this.#failed = []
    for (const { done } of failed)
      if (code === 'MaxIterationsReached') done.resolve('max_turn_requests')
      else done.reject(new RequestError(-32603, `${asString(code)}: ${asString(detail)}`))
    return failed.length > 0
  }

  /** `isContinued`: the run that ends now is continued at once. */
  onStatus(status: string, isContinued: boolean): void {
    if (status === 'waiting_for_confirmation') return
    for (const turn of this.#open) {
      if (status === 'running') turn.isRunning ||= turn.isStored
      else if (turn.isRunning && !isContinued) this.#finish(turn, status)
    }
  }

  cancel(): void {
    for (const turn of this.#open) turn.isCancelled = true
  }

  /** What is cancelled ends now, whatever the server does. */
  endCancelled(): void {
    for (const turn of this.#open) if (turn.isCancelled) turn.done.resolve('cancelled')
  }

  fail(error: RequestError): void {
    for (const { isCancelled, done } of this.#open)
      isCancelled ? done.resolve('cancelled') : done.reject(error)
  }

  /** Resolves when none is open any more. */
  async settled(): Promise<void> {
    await Promise.allSettled([...this.#open].map(({ done }) => done.promise))
  }

  #finish(turn: Turn, status: string): void {
    const { isCancelled, done } = turn
    if (isCancelled || status === 'paused') done.resolve('cancelled')
    else if (status !== 'error') done.resolve('end_turn')
    else {
      this.#failed = [...this.#failed, turn]
      // A log of another version may not say why.
      setTimeout(() => done.reject(new RequestError(-32603, unknownFailure)), failureMs).unref()
    }
  }
}

/** The status and the reason of a failure are written together. */
const failureMs = 2_000
const unknownFailure = 'The run failed. The log of the conversation has more.'
