import { type Conversation, combinedMetrics, finalResponse, unlessAborted } from '@slipway/agent'
import { Problem, type SendMessageRequest } from '@slipway/protocol'
import type { EventLog } from '@slipway/storage'
import { Bell } from '../streams/event-frames.ts'

export interface TurnUsage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
}

export interface TurnAnswer {
  readonly text: string
  readonly usage: TurnUsage
}

interface TurnOptions {
  readonly log: EventLog
  readonly message: SendMessageRequest['content']
  readonly timeoutMs: number
  readonly signal: AbortSignal
  /** Called when nobody waits for the answer any more. */
  readonly over: () => void
}

/** One message to a conversation and what its run says until it rests. The run goes on when nobody waits any more. */
export class GatewayTurn {
  readonly #conversation: Conversation
  readonly #options: TurnOptions
  readonly #bell = new Bell()
  readonly #end: () => void
  #said: string[] = []
  /** What was said of one answer of the model, and where the log was when that began. */
  #segment = ''
  #begunAt = 0
  /** Something was said before. */
  #isLater = false
  #isNewSegment = true

  constructor(conversation: Conversation, options: TurnOptions) {
    this.#conversation = conversation
    this.#options = options
    this.#end = conversation.hints.listen((hint, position) => {
      // An answer is counted when its events are written; a title, which is counted too, has none.
      if (hint.kind === 'stats' && position > this.#begunAt) this.#isNewSegment = true
      if (hint.kind === 'delta' && hint.content !== undefined) this.#say(hint.content, position)
    })
  }

  /**
   * Sends the message and waits for the end of the run; to be called once, also by `pieces`. Problems: `timeout`, `run_failed` when it ended in an error or is stuck, and
   * `conflict` when it was paused or waits for a confirmation. Rejects with the reason of the signal.
   */
  async answer(): Promise<TurnAnswer> {
    try {
      return await this.#answer()
    } finally {
      this.#end()
      this.#options.over()
    }
  }

  async #answer(): Promise<TurnAnswer> {
    const { log, message, timeoutMs, signal } = this.#options
    const before = tokensOf(this.#conversation)
    const send = { role: 'user', content: message, run: true } as const
    await this.#conversation.send({ ...send, sender: undefined, extended_content: undefined })
    await within(this.#conversation.settled(), timeoutMs, signal)
    const { id, state } = this.#conversation
    if (state.status !== 'finished') throw await unfinished(log, id, state.status)
    const [prompt, completion] = tokensOf(this.#conversation).map((count, at) => count - (before[at] ?? 0))
    const usage = { prompt_tokens: prompt ?? 0, completion_tokens: completion ?? 0 }
    return {
      text: await finalResponse(log, id, signal),
      usage: { ...usage, total_tokens: usage.prompt_tokens + usage.completion_tokens },
    }
  }

  /** The same in pieces, as the agent says them; `undefined` after `beatMs` without one. The last one ends the answer. */
  async *pieces(beatMs: number): AsyncGenerator<string | undefined, TurnAnswer> {
    let outcome: { answer: TurnAnswer } | { error: unknown } | undefined
    void this.answer()
      .then(
        (answer) => {
          outcome = { answer }
        },
        (error: unknown) => {
          outcome = { error }
        },
      )
      .then(() => this.#bell.ring())
    for (;;) {
      const isRung = await this.#bell.heard(beatMs)
      const said = this.#said.join('')
      this.#said = []
      if (said !== '') yield said
      else if (!isRung) yield undefined
      if (outcome === undefined || this.#said.length > 0) continue
      if ('error' in outcome) throw outcome.error
      const rest = this.#rest(outcome.answer.text)
      if (rest !== '') yield rest
      return outcome.answer
    }
  }

  #say(content: string, position: number): void {
    if (this.#isNewSegment) {
      if (this.#isLater) this.#said.push('\n\n')
      this.#segment = ''
      this.#begunAt = position
    }
    this.#isNewSegment = false
    this.#isLater = true
    this.#segment += content
    this.#said.push(content)
    this.#bell.ring()
  }

  /** What of the answer was not said yet: the message of a `finish` call comes in no pieces. */
  #rest(answer: string): string {
    if (answer.startsWith(this.#segment)) return answer.slice(this.#segment.length)
    return this.#isLater ? `\n\n${answer}` : answer
  }
}

/** Prompt and completion. */
function tokensOf({ stats }: Conversation): number[] {
  const { accumulated_token_usage: usage }: { accumulated_token_usage?: unknown } =
    combinedMetrics(stats) ?? {}
  const { prompt_tokens, completion_tokens }: { prompt_tokens?: unknown; completion_tokens?: unknown } =
    Object(usage)
  return [Number(prompt_tokens ?? 0), Number(completion_tokens ?? 0)]
}

async function within(work: Promise<void>, timeoutMs: number, signal: AbortSignal): Promise<void> {
  const late = new AbortController()
  const seconds = Math.round(timeoutMs / 1000)
  const problem = new Problem('timeout', `The run has not ended after ${seconds} seconds. It goes on.`)
  const timer = setTimeout(() => late.abort(problem), timeoutMs)
  try {
    await unlessAborted(work, AbortSignal.any([signal, late.signal]))
  } finally {
    clearTimeout(timer)
  }
}

async function unfinished(log: EventLog, id: string, status: string): Promise<Problem> {
  if (status === 'error') return new Problem('run_failed', await failureOf(log, id))
  if (status === 'stuck') return new Problem('run_failed', 'The agent is stuck: it repeats itself.')
  if (status === 'paused') return new Problem('conflict', 'The run was paused.')
  if (status === 'waiting_for_confirmation')
    return new Problem('conflict', 'The run waits until somebody confirms an action.')
  if (status === 'deleting') return new Problem('not_found', `Conversation not found: ${id}`)
  return new Problem('conflict', 'The message was not answered.')
}

/** What the conversation itself says of the error. */
async function failureOf(log: EventLog, id: string): Promise<string> {
  const query = { kind: 'ConversationErrorEvent', limit: 1, sort_order: 'TIMESTAMP_DESC' } as const
  const [item] = (await log.search(id, query)).items
  const { code, detail }: { code?: unknown; detail?: unknown } = JSON.parse(item?.bytes.toString() ?? '{}')
  return typeof detail === 'string'
    ? `The run ended in an error. ${code}: ${detail}`
    : 'The run ended in an error.'
}
