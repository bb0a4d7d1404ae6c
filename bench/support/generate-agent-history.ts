import { formatInstant } from '@slipway/protocol'
import type { ReceivedEvent } from '@slipway/storage'
import { firstInstant } from './generate-log.ts'
import { SeededRandom } from './seeded-random.ts'

/** Length of the view at which it is condensed to half. */
export const maxView = 80
/** The system prompt and the first message are never forgotten. */
const protectedCount = 2

/**
 * The log of an agent after a long run, as the agent loop writes it: a system prompt, a message, then calls
 * and results, with a Condensation whenever the view exceeds `maxView` events.
 */
export function* generateAgentHistory(
  count: number,
  { hasCondenser = true }: { readonly hasCondenser?: boolean } = {},
): Generator<ReceivedEvent> {
  const writer = new HistoryGenerator()
  yield writer.systemPrompt()
  yield writer.message()
  while (writer.count < count) {
    if (hasCondenser && writer.mustCondense) yield writer.condensation()
    const action = writer.action()
    yield action
    yield writer.observation(action.id)
  }
}

class HistoryGenerator {
  count = 0
  readonly #random = new SeededRandom(7)
  /** Ids of the view, in order. */
  #view: string[] = []

  get mustCondense(): boolean {
    return this.#view.length + 2 > maxView
  }

  systemPrompt(): ReceivedEvent {
    const system_prompt = { type: 'text', text: 'You think about it, step by step. '.repeat(200) }
    return this.#appendToView({ kind: 'SystemPromptEvent', source: 'agent', system_prompt, tools: [] })
  }

  message(): ReceivedEvent {
    const content = [{ type: 'text', text: 'Think about it until all is clear.' }]
    return this.#appendToView({
      kind: 'MessageEvent',
      source: 'user',
      llm_message: { role: 'user', content },
    })
  }

  action(): ReceivedEvent {
    const n = this.count
    const thought = `Thought ${n}: ${'what was found before leads to the next question. '.repeat(7)}`
    return this.#appendToView({
      kind: 'ActionEvent',
      source: 'agent',
      thought: [],
      action: { kind: 'ThinkAction', thought },
      ...callFields(n),
      tool_call: {
        id: `call-${n}`,
        name: 'think',
        arguments: JSON.stringify({ thought }),
        origin: 'completion',
      },
      llm_response_id: `response-${n}`,
      security_risk: 'UNKNOWN',
      summary: `think: ${n}`,
    })
  }

  /** Of the newest action. */
  observation(action_id: string): ReceivedEvent {
    const content = [{ type: 'text', text: 'Your thought has been logged.' }]
    const observation = { kind: 'ThinkObservation', content, is_error: false }
    const call = callFields(this.count - 1)
    return this.#appendToView({
      kind: 'ObservationEvent',
      source: 'environment',
      ...call,
      observation,
      action_id,
    })
  }

  /** Forgets the older half, except the first events; a call and its result stay together. */
  condensation(): ReceivedEvent {
    const end = this.#view.length - maxView / 2 + protectedCount
    const event = this.#createEvent({
      kind: 'Condensation',
      source: 'environment',
      forgotten_event_ids: this.#view.slice(protectedCount, end),
      summary: 'All of that was thought about, and nothing was found yet.',
      summary_offset: protectedCount,
      llm_response_id: `summary-${this.count}`,
    })
    this.#view.splice(protectedCount, end - protectedCount, `${event.id}-summary`)
    return event
  }

  #appendToView(event: EventFields): ReceivedEvent {
    const written = this.#createEvent(event)
    this.#view.push(written.id)
    return written
  }

  #createEvent(event: EventFields): ReceivedEvent {
    const { kind, source } = event
    const id = this.#random.uuid()
    const instant = firstInstant + 1_000_000 * this.count++
    const bytes = Buffer.from(JSON.stringify({ id, timestamp: formatInstant(instant), ...event }))
    return { bytes, id, instant, kind, source }
  }
}

interface EventFields {
  readonly kind: string
  readonly source: string
  readonly [member: string]: unknown
}

function callFields(n: number) {
  return { tool_name: 'think', tool_call_id: `call-${n}` }
}
