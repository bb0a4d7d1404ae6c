import { type Conversation, finalResponse } from '@slipway/agent'
import { type GatewayUsage, Problem, type SendMessageRequest } from '@slipway/protocol'
import { raceAbort, Signal } from '@slipway/shared/async'
import type { Clock } from '@slipway/shared/time'
import type { EventLog, Storage } from '@slipway/storage'
import type { RunAdmission } from '../../core/conversations/run-admission.ts'
import { countTokens, itemText, type OutputItem, readTurn, usageBetween } from './response-log.ts'

export interface TurnResult {
  readonly text: string
  /** The calls that the client has to answer. */
  readonly calls: readonly OutputItem[]
  readonly stop: 'stop' | 'length' | 'tool_calls'
  /** Tokens of this turn, not of the conversation. */
  readonly usage: GatewayUsage
}

interface GatewayTurnOptions {
  readonly storage: Pick<Storage, 'log'>
  readonly message: SendMessageRequest['content']
  /** The answer ends before the first of these texts. */
  readonly stop: readonly string[]
  /** Only the answer is streamed: what is said on the way is no part of it. */
  readonly isWhole: boolean
  readonly timeoutMs: number
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Of the run that the message starts. */
  readonly admission: RunAdmission
  /** Called when the caller stops waiting. */
  readonly onEnd: () => void
}

/** One message to a conversation and the text of its run. The run continues when the caller stops waiting. */
export class GatewayTurn {
  readonly #conversation: Conversation
  readonly #options: GatewayTurnOptions
  readonly #wakeUp = new Signal()
  readonly #unsubscribe: () => void
  #pendingText: string[] = []
  /** Streamed text of one model response, and the log position at its start. */
  #segment = ''
  #segmentStart = 0
  /** Some text was streamed before. */
  #hasText = false
  #isNewSegment = true
  /** Text of a broken stream that the caller has: the next one repeats it or differs from it. */
  #sentText = ''
  readonly #sending = Promise.withResolvers<void>()

  constructor(conversation: Conversation, options: GatewayTurnOptions) {
    this.#conversation = conversation
    this.#options = options
    this.#unsubscribe = conversation.transientUpdates.subscribe((update, position) => {
      // Usage is updated after the events of a response; a title updates it too.
      if (update.kind === 'stats' && !update.isAside && position > this.#segmentStart)
        this.#isNewSegment = true
      if (options.isWhole) return
      if (update.kind === 'reset') this.#resetSegment()
      if (update.kind === 'delta' && update.content !== undefined) this.#appendText(update.content, position)
    })
  }

  /**
   * Sends the message and waits for the end of the run; call it or `stream` once. Problems: `timeout`,
   * `run_failed` (error or stuck), `conflict` (paused or waiting for a confirmation). Rejects with the reason
   * of the signal.
   */
  async complete(): Promise<TurnResult> {
    try {
      return await this.#run()
    } finally {
      this.#unsubscribe()
      this.#options.onEnd()
    }
  }

  /** Settles when the message is stored, or is not. */
  get sent(): Promise<void> {
    return this.#sending.promise
  }

  get conversation(): Conversation {
    return this.#conversation
  }

  async #run(): Promise<TurnResult> {
    const { storage, message, timeoutMs, clock, signal, admission } = this.#options
    const before = countTokens(this.#conversation.stats)
    const after = this.#conversation.state.position
    const absent = { sender: undefined, extended_content: undefined }
    const request = { role: 'user', content: message, run: true, ...absent } as const
    const sending = this.#conversation.send(request, undefined, admission.take())
    this.#sending.resolve(sending)
    await sending
    const timeout = clock.timeout(timeoutMs)
    await raceAbort(this.#conversation.waitUntilIdle(), AbortSignal.any([signal, timeout])).catch(
      (error: unknown) => {
        if (error !== timeout.reason) throw error
        const seconds = Math.round(timeoutMs / 1000)
        throw new Problem('timeout', `The run has not ended after ${seconds} seconds. It continues.`)
      },
    )
    const { id, state, settings } = this.#conversation
    const usage = () => usageBetween(before, countTokens(this.#conversation.stats))
    const { items, error } = await readTurn(storage, id, { after })
    const texts = items.map(itemText).filter((text) => text !== undefined)
    const isCut = settings.door?.cuts_replies === true && error?.code === 'MaxOutputTokensReached'
    if (state.status === 'error' && isCut)
      return { text: this.#cut(texts.at(-1) ?? ''), calls: [], stop: 'length', usage: usage() }
    if (state.status !== 'finished') throw await unfinishedProblem(storage.log, id, state.status)
    const calls = items.filter(({ type }) => type === 'function_call')
    if (calls.length > 0) return { text: texts.at(-1) ?? '', calls, stop: 'tool_calls', usage: usage() }
    const text = this.#cut(await finalResponse(storage.log, id, signal))
    return { text, calls, stop: 'stop', usage: usage() }
  }

  #cut(text: string): string {
    const ends = this.#options.stop.map((stop) => text.indexOf(stop)).filter((at) => at >= 0)
    return ends.length === 0 ? text : text.slice(0, Math.min(...ends))
  }

  /** The same as a stream of text, with `undefined` after `heartbeatMs` without any. */
  async *stream(heartbeatMs: number): AsyncGenerator<string | undefined, TurnResult> {
    let outcome: PromiseSettledResult<TurnResult> | undefined
    void Promise.allSettled([this.complete()]).then(([settled]) => {
      outcome = settled
      this.#wakeUp.notify()
    })
    let version = 0
    for (;;) {
      const isNotified = await this.#wakeUp.waitFor(version, heartbeatMs, this.#options.clock)
      version = this.#wakeUp.version
      const text = this.#pendingText.join('')
      this.#pendingText = []
      if (text !== '') yield text
      else if (!isNotified) yield undefined
      if (outcome === undefined || this.#pendingText.length > 0) continue
      if (outcome.status === 'rejected') throw outcome.reason
      const remaining = this.#remainingText(outcome.value.text)
      if (remaining !== '') yield remaining
      return outcome.value
    }
  }

  #appendText(content: string, position: number): void {
    if (this.#isNewSegment) {
      if (this.#hasText) this.#pendingText.push('\n\n')
      this.#segment = ''
      this.#sentText = ''
      this.#segmentStart = position
    }
    this.#isNewSegment = false
    this.#hasText = true
    this.#segment += content
    this.#pendingText.push(this.#unsentText(content))
    this.#wakeUp.notify()
  }

  #resetSegment(): void {
    if (this.#isNewSegment) return
    if (this.#segment.length > this.#sentText.length) this.#sentText = this.#segment
    this.#segment = ''
  }

  /** What a delta adds to the text that the caller has. */
  #unsentText(content: string): string {
    const sent = this.#sentText
    if (sent === '') return content
    if (sent.startsWith(this.#segment)) return ''
    this.#sentText = ''
    return this.#segment.startsWith(sent) ? this.#segment.slice(sent.length) : `\n\n${this.#segment}`
  }

  /** The part of the final answer that was not streamed: the message of a `finish` call is not. */
  #remainingText(answer: string): string {
    if (answer === '') return ''
    const sent = this.#sentText === '' ? this.#segment : this.#sentText
    if (answer.startsWith(sent)) return answer.slice(sent.length)
    return this.#hasText ? `\n\n${answer}` : answer
  }
}

async function unfinishedProblem(log: EventLog, id: string, status: string): Promise<Problem> {
  if (status === 'error') return new Problem('run_failed', await readRunFailure(log, id))
  if (status === 'stuck') return new Problem('run_failed', 'The agent is stuck: it repeats itself.')
  if (status === 'paused') return new Problem('conflict', 'The run was paused.')
  if (status === 'waiting_for_confirmation')
    return new Problem('conflict', 'Agent run ended with status: waiting_for_confirmation')
  if (status === 'deleting') return new Problem('not_found', `Conversation not found: ${id}`)
  return new Problem('conflict', 'The message was not answered.')
}

/** The error event of the conversation as text. */
async function readRunFailure(log: EventLog, id: string): Promise<string> {
  const query = { kind: 'ConversationErrorEvent', limit: 1, sort_order: 'TIMESTAMP_DESC' } as const
  const [item] = (await log.search(id, query)).items
  const { code, detail }: { code?: unknown; detail?: unknown } = JSON.parse(item?.bytes.toString() ?? '{}')
  return typeof detail === 'string'
    ? `The run ended in an error. ${typeof code === 'string' ? `${code}: ` : ''}${detail}`
    : 'The run ended in an error.'
}
