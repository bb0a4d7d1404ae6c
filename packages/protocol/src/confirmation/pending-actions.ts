/** Of stored events, whose members may be anything. */
interface CallEvent {
  readonly kind?: unknown
  readonly id?: unknown
  readonly action_id?: unknown
  readonly tool_call_id?: unknown
}

/**
 * The actions without a result, in the order of the log: what waits when a conversation waits. Events close
 * them as they do on the server.
 */
export class PendingActions<E extends CallEvent = CallEvent> {
  readonly #byId = new Map<string, E>()

  /** The events of a log in their order, from any one on. */
  apply(event: E): void {
    const { kind, id, action_id, tool_call_id } = event
    if (kind === 'ActionEvent') this.#byId.set(String(id), event)
    else if (kind === 'AgentErrorEvent') this.#closeByCall(tool_call_id)
    else if (kind === 'ObservationEvent' || kind === 'UserRejectObservation')
      this.#byId.delete(String(action_id))
  }

  list(): E[] {
    return [...this.#byId.values()]
  }

  clear(): void {
    this.#byId.clear()
  }

  /** An error names the call only: it closes the first action of that call. */
  #closeByCall(callId: unknown): void {
    for (const [id, event] of this.#byId) {
      if (event.tool_call_id !== callId) continue
      this.#byId.delete(id)
      return
    }
  }
}
