/**
 * Questions that MCP servers ask the user in the middle of a call.
 *
 * Problem: the call runs, and its server waits for words of the user, who may use any client, old ones too.
 *
 * Idea: a question is an action that waits for confirmation, beside the call that asks, so every client shows
 * it and can answer. Accepting it gives the defaults of its form, a message gives values, rejecting declines
 * it, and the call with it, as any rejection does. The step of the loop continues while the status is
 * `waiting_for_confirmation`: the call is not begun a second time.
 *
 * Invariants:
 * - One question waits at a time; it is asked only while the run continues and a call is open.
 * - Its answer or end approves no other action: while it is pending, `approvedBelow` stays where it is.
 * - Each question gets an end in the log: a result, a rejection, or an error when no one waits any more.
 * - A conversation that is opened again has no call that could use an answer: `reopenEvents` ends both.
 * - The model sees neither the question nor its result (`isViewEvent`): it has not called anything.
 *
 * If you change this: a run that waits for ever, or a call that is done twice.
 */

import { randomUUID } from 'node:crypto'
import { raceAbort, Semaphore } from '@slipway/shared/async'
import { firstChars } from '@slipway/shared/text'
import type { Clock } from '@slipway/shared/time'
import type { EventDraft } from '@slipway/storage'
import type { Secrets } from '../../secrets/secrets.ts'
import {
  type QuestionAnswer,
  type QuestionField,
  type QuestionValue,
  questionTool,
  type ServerQuestion,
} from '../../tools/core/server-question.ts'
import { textBlock } from '../../tools/core/tool.ts'
import { agentErrorEvent, observationEvent, questionAction, statusUpdate } from '../events/event-drafts.ts'
import type { ConversationState, PendingAction } from '../state/state.ts'
import { readAnswer } from './question-answer.ts'

/** A question that no one answers is cancelled after this. */
const limitMs = 3_600_000

interface WaitingQuestion {
  readonly id: string
  readonly question: ServerQuestion
  readonly answer: PromiseWithResolvers<QuestionAnswer>
  /** It is in the log, or about to be. */
  isAsked: boolean
  /** What a message of the user has given. */
  content: Record<string, QuestionValue> | undefined
}

interface QuestionContext {
  readonly secrets: Secrets
  readonly clock: Clock
  /** Aborted when the conversation closes. */
  readonly closing: AbortSignal
  appendPatiently(decide: (now: ConversationState) => readonly EventDraft[]): Promise<void>
}

/** The open question of a conversation. */
export class ServerQuestions {
  readonly #context: QuestionContext
  readonly #turn = new Semaphore(1)
  #waiting: WaitingQuestion | undefined

  constructor(context: QuestionContext) {
    this.#context = context
  }

  /** Asks the user; `cancel` when the run has ended meanwhile, or no one answers. Never rejects. */
  async ask(question: ServerQuestion, signal: AbortSignal): Promise<QuestionAnswer> {
    const { clock, closing } = this.#context
    const stop = AbortSignal.any([signal, closing, clock.timeout(limitMs)])
    try {
      const release = await this.#turn.acquire(stop)
      try {
        return await this.#askNow(question, stop)
      } finally {
        await this.#end()
        release()
      }
    } catch {
      return { action: 'cancel' }
    }
  }

  async #askNow(question: ServerQuestion, stop: AbortSignal): Promise<QuestionAnswer> {
    const { appendPatiently, secrets } = this.#context
    const event = questionEvent(secrets.redactJson(question))
    const answer = Promise.withResolvers<QuestionAnswer>()
    const waiting: WaitingQuestion = { id: event.id, question, answer, isAsked: false, content: undefined }
    // An answer may come before the append resolves.
    this.#waiting = waiting
    await appendPatiently((now) => {
      waiting.isAsked = now.status === 'running' && now.openActions().length > 0 && !stop.aborted
      return waiting.isAsked ? [event, statusUpdate('waiting_for_confirmation')] : []
    })
    if (!waiting.isAsked) return { action: 'cancel' }
    return await raceAbort(answer.promise, stop)
  }

  /**
   * Reads a message as the answer to the question that waits; undefined when it is none. The result adopts
   * the answer, once the message is stored.
   */
  readMessage(now: ConversationState, text: string): (() => void) | undefined {
    const waiting = this.#waiting
    if (now.status !== 'waiting_for_confirmation' || waiting === undefined || !now.pending.has(waiting.id))
      return undefined
    const content = readAnswer(waiting.question.fields ?? {}, text)
    if (content === undefined) return undefined
    return () => {
      waiting.content = content
    }
  }

  /** Passes on what the user has decided. */
  async settle(): Promise<void> {
    const waiting = this.#waiting
    if (waiting === undefined) return
    const { id, question, content = defaultAnswer(question.fields ?? {}) } = waiting
    let answer: QuestionAnswer | undefined
    await this.#context.appendPatiently((now) => {
      if (!waiting.isAsked) return []
      const action = now.pending.get(id)
      if (action === undefined) {
        answer = { action: 'decline' }
        return []
      }
      if (now.status !== 'running') return []
      answer = content === undefined ? { action: 'decline' } : { action: 'accept', content }
      const said = content === undefined ? missingText(question.fields ?? {}) : 'Answered by the user.'
      return [resultEvent(action, said)]
    })
    if (answer === undefined) return
    this.#waiting = undefined
    waiting.answer.resolve(answer)
  }

  /** The call no longer waits for an answer. */
  async #end(): Promise<void> {
    const waiting = this.#waiting
    const { closing, appendPatiently } = this.#context
    this.#waiting = undefined
    if (waiting === undefined || closing.aborted) return
    await appendPatiently((now) => {
      const action = now.pending.get(waiting.id)
      if (action === undefined) return []
      const hasLaterCall = now.openActions().some(({ position }) => position > action.position)
      const isContinued = now.status === 'waiting_for_confirmation' && !hasLaterCall
      const error = agentErrorEvent(action, 'The server no longer waits for an answer to this.')
      return [...(isContinued ? [statusUpdate('running')] : []), error]
    }).catch(() => undefined)
  }
}

/** Whether an open action is a question of a server. */
export function isServerQuestion({ tool_name }: Pick<PendingAction, 'tool_name'>): boolean {
  return tool_name === questionTool
}

function questionEvent({
  server,
  message,
  fields,
  address,
}: ServerQuestion): EventDraft & { readonly id: string } {
  const id = randomUUID()
  const about = address === undefined ? {} : { open_this_address_yourself: address }
  const answers = Object.entries(fields ?? {}).map(([name, field]) => [name, describeField(field)])
  const form = answers.length === 0 ? {} : { answer_with_a_message: Object.fromEntries(answers) }
  const data = { question_of_mcp_server: server, message, ...about, ...form }
  const asks = `The MCP server ${server} asks: ${message}`
  const summary = firstChars(asks.replace(/\s+/g, ' '), 200)
  return questionAction({ id, tool: questionTool, call: `question-${id}`, data, risk: 'UNKNOWN', summary })
}

/** One line of the form, as the user reads it. */
function describeField(field: QuestionField): string {
  const { type, title, description, choices, isRequired } = field
  const words = [title, description, choices === undefined ? type : `one of ${choices.join(', ')}`]
  const given = field.default === undefined ? '' : `; ${JSON.stringify(field.default)} unless given`
  return `${words.filter((word) => word !== undefined).join('; ')}${isRequired ? '' : '; may be left out'}${given}`
}

/** What accepting alone answers; undefined when a field needs a value. */
function defaultAnswer(
  fields: Readonly<Record<string, QuestionField>>,
): Record<string, QuestionValue> | undefined {
  const content: Record<string, QuestionValue> = {}
  for (const [name, field] of Object.entries(fields)) {
    if (field.default !== undefined) content[name] = field.default as QuestionValue
    // Accepting says yes.
    else if (field.isRequired && field.type === 'boolean') content[name] = true
    else if (field.isRequired) return undefined
  }
  return content
}

function missingText(fields: Readonly<Record<string, QuestionField>>): string {
  const missing = Object.entries(fields).filter(
    ([, { isRequired, default: given }]) => isRequired && given === undefined,
  )
  const names = missing.map(([name]) => name).join(', ')
  return `Declined: accepting alone gives no value for ${names}. Answer with a message, one line for each: name: value`
}

function resultEvent(action: PendingAction, text: string): EventDraft {
  const observation = { tool_name: questionTool, content: [textBlock(text)], is_error: false }
  return observationEvent(action, { ...observation, kind: 'MCPToolObservation' } as Parameters<
    typeof observationEvent
  >[1])
}
