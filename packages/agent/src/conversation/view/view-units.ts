import { isResult, type LogEventOf, type ResultEvent, type ViewEvent } from './log-event.ts'

type ActionEvent = LogEventOf<'ActionEvent'>

export interface CallWithResult {
  readonly action: ActionEvent
  result?: ResultEvent
}

/** Events that can only be shown or forgotten together. `first` and `last` are indexes into the view. */
export type ViewUnit = Batch | Single

/** The calls of one turn, in order, with their results wherever they stand. */
export interface Batch {
  readonly kind: 'batch'
  readonly calls: CallWithResult[]
  readonly first: number
  last: number
}

/** Any other event, including a result without its call. */
export interface Single {
  readonly kind: 'single'
  readonly event: Exclude<ViewEvent, ActionEvent>
  readonly first: number
  readonly last: number
}

/**
 * The units of a view in the order of their first events. A result belongs to the action that it names,
 * otherwise to the newest earlier batch with an open call of its call id: providers reuse ids. A second
 * result of a call is its own unit.
 */
export function groupUnits(events: readonly ViewEvent[]): ViewUnit[] {
  const units: ViewUnit[] = []
  const calls = new CallIndex()
  let batch: Batch | undefined
  events.forEach((event, index) => {
    if (event.kind === 'ActionEvent') {
      if (batch === undefined || !belongsToBatch(event, batch)) {
        batch = { kind: 'batch', calls: [], first: index, last: index }
        units.push(batch)
      }
      batch.last = index
      calls.add(event, batch)
      return
    }
    if (isResult(event) && calls.attachResult(event, index)) return
    // A reply without calls ends the batch before it, whatever ids follow.
    if (event.kind === 'MessageEvent' && event.source === 'agent') batch = undefined
    units.push({ kind: 'single', event, first: index, last: index })
  })
  return units
}

interface Slot {
  readonly batch: Batch
  readonly call: CallWithResult
}

class CallIndex {
  readonly #byAction = new Map<string, Slot>()
  readonly #byCall = new Map<string, Slot[]>()

  add(action: ActionEvent, batch: Batch): void {
    const slot = { batch, call: { action } }
    batch.calls.push(slot.call)
    this.#byAction.set(action.id, slot)
    const same = this.#byCall.get(action.tool_call_id)
    if (same === undefined) this.#byCall.set(action.tool_call_id, [slot])
    else same.push(slot)
  }

  /** False when the result has no call. */
  attachResult(result: ResultEvent, index: number): boolean {
    const named = result.kind === 'AgentErrorEvent' ? undefined : this.#byAction.get(result.action_id)
    const slot = named ?? this.#openSlot(result.tool_call_id)
    if (slot === undefined || slot.call.result !== undefined) return false
    slot.call.result = result
    slot.batch.last = Math.max(slot.batch.last, index)
    return true
  }

  #openSlot(callId: string): Slot | undefined {
    const open = this.#byCall.get(callId)?.filter(({ call }) => call.result === undefined) ?? []
    const newest = open.at(-1)?.batch
    if (open.length > 0) this.#byCall.set(callId, open)
    return open.find(({ batch }) => batch === newest)
  }
}

/**
 * Only the first action of a turn carries a thought, so an action with a thought after results begins another
 * turn, even under the same response id (some writers reuse it).
 */
function belongsToBatch(action: ActionEvent, batch: Batch): boolean {
  if (batch.calls[0]?.action.llm_response_id !== action.llm_response_id) return false
  return batch.calls.every(({ result }) => result === undefined) || !hasThought(action)
}

function hasThought(action: ActionEvent): boolean {
  const { thought, reasoning_content, thinking_blocks, responses_reasoning_item } = action
  return (
    (Array.isArray(thought) && thought.some((block) => block?.text?.trim())) ||
    Boolean(reasoning_content) ||
    (thinking_blocks ?? []).length > 0 ||
    Boolean(responses_reasoning_item)
  )
}
