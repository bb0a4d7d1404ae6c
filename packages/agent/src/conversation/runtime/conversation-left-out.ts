import type { EventDraft } from '@slipway/storage'
import type { LearnedOmission, LeftOut } from '../../llm/refusals/left-out.ts'
import type { Omission, OmissionKind } from '../../llm/refusals/omissions.ts'
import { stateUpdate } from '../events/event-drafts.ts'
import { type ConversationState, leftOutKey } from '../state/state.ts'

const what: Readonly<Record<OmissionKind, string>> = {
  parameter: 'a parameter of the request',
  member: 'a member of its messages',
  schema: 'a part of the schema of a tool',
  tool: 'a tool',
  tools: 'the list of tools, which the prompt describes instead,',
  block: 'a part of a message',
  message: 'the content of a message',
  call: 'a call of a tool with its result',
  pictures: 'all images',
  older: 'everything before the last message of the user',
}
const unnamed: ReadonlySet<OmissionKind> = new Set([
  ...(['block', 'message', 'pictures', 'older', 'tools'] as const),
])

/**
 * What servers refused in requests of one conversation. The log has it, so that no later run, restart or fork
 * sends it again; until it is written it is kept here.
 */
export class ConversationLeftOut implements LeftOut {
  readonly #state: () => ConversationState
  #unwritten: { readonly model: string; readonly omission: LearnedOmission }[] = []

  constructor(state: () => ConversationState) {
    this.#state = state
  }

  of(model: string): readonly Omission[] {
    const unwritten = this.#unwritten.filter((one) => one.model === model).map(({ omission }) => omission)
    return [...(this.#state().leftOut?.[model] ?? []), ...unwritten]
  }

  add(model: string, omissions: readonly LearnedOmission[]): void {
    this.#unwritten = [...this.#unwritten, ...omissions.map((omission) => ({ model, omission }))]
  }

  /** An event for each thing that the log does not tell yet. */
  drafts(now: ConversationState): readonly EventDraft[] {
    this.#unwritten = this.#unwritten.filter(
      ({ model, omission }) => !now.leftOut?.[model]?.some((one) => isSame(one, omission)),
    )
    return this.#unwritten.map(({ model, omission }) =>
      stateUpdate(leftOutKey, toValue(model, omission, now)),
    )
  }
}

function isSame(a: Omission, b: Omission): boolean {
  return a.kind === b.kind && a.name === b.name && a.value === b.value
}

function toValue(model: string, { sample, reason, ...omission }: LearnedOmission, now: ConversationState) {
  const { kind, name, value } = omission
  const event_id = sample && now.view.events.findLast((event) => JSON.stringify(event).includes(sample))?.id
  const named = unnamed.has(kind) ? '' : ` (${name})`
  const unit = kind === 'message' || kind === 'block' ? ' characters' : ''
  const how = value === undefined ? 'left out of' : `limited to ${value}${unit} in`
  const where = event_id ? ` The original is in the event ${event_id}.` : ''
  const text = `Its server refused it, so ${what[kind]}${named} is ${how} requests to ${model}.${where}`
  return { model, ...omission, reason, ...(event_id && { event_id }), text }
}
