import {
  type Action,
  type ConfirmationPolicy,
  confirmationPolicy,
  type Event,
  type ExecutionStatus,
  executionStatus,
  type GoalState,
  goalState,
  type SecurityAnalyzer,
  type SecurityRisk,
  securityAnalyzer,
} from '@slipway/protocol'
import { type LogEvent, View } from '../view/view.ts'
import { type LeafMove, leafPosition } from './branch.ts'
import { StuckDetector } from './stuck-detector.ts'

/** An action that has no result yet. */
export interface PendingAction {
  /** Of its ActionEvent. */
  readonly id: string
  readonly position: number
  readonly tool_name: string
  readonly tool_call_id: string
  readonly llm_response_id: string
  /** Null when it could not be understood: its error follows in the same append. */
  readonly action: Action | null
  readonly security_risk: SecurityRisk
}

/** What a fold is saved as; it may be thrown away at any time. */
export interface SavedState {
  readonly version: 2
  readonly leafId: string | null
  readonly moves: readonly LeafMove[]
  readonly leftBelow: number
  readonly goal: GoalState | null
  readonly status: ExecutionStatus
  readonly view: readonly string[]
  readonly recent: readonly string[]
  readonly pending: readonly string[]
  readonly positions: readonly number[]
  readonly approvedBelow: number
  readonly isAwaiting: boolean
  readonly isCondensationRequested: boolean
  readonly hasSystemPrompt: boolean
  readonly hasMessage: boolean
  readonly activated: readonly string[]
  readonly blocked: Readonly<Record<string, string>>
  readonly lastUserMessageId: string | null
  readonly inputs: readonly { readonly id: string; readonly position: number }[]
  readonly statusSince: string | null
  readonly policy: ConfirmationPolicy | null
  readonly analyzer: SecurityAnalyzer | null | undefined
}

const maxRecentIds = 64

/**
 * The whole meaning of a log: what the conversation is doing, what has no result yet, whether anything waits for the
 * agent's answer, and what the model sees. A fold: nothing of it depends on anything but the events. Status, policy,
 * analyzer and goal follow the log; all the rest follows the active branch.
 */
export class ConversationState {
  position = 0
  /** The id of the event that the next one follows; undefined when it follows none. */
  leafId: string | undefined
  leafMoves: LeafMove[] = []
  /** The leaf was moved, and what follows the branch is still that of another one (see `Pen`). */
  needsBranchReplay = false
  /** Pending actions at positions below this one were left on another branch: nobody does them any more. */
  abandonedBelow = 0
  goal: GoalState | undefined
  status: ExecutionStatus = 'idle'
  /** When the status became what it is: the event's timestamp. */
  statusSince: string | undefined
  view = new View()
  stuckDetector = new StuckDetector()
  readonly pending = new Map<string, PendingAction>()
  /** Pending actions at positions below this one are approved. */
  approvedBelow = 0
  /** Something waits for the model: a message, a result. */
  isAwaiting = false
  isCondensationRequested = false
  hasSystemPrompt = false
  hasMessage = false
  /** Names of the skills that messages have activated. */
  readonly activatedSkills = new Set<string>()
  /** Messages that a hook has blocked and why, until the next message. */
  readonly blockedMessages = new Map<string, string>()
  lastUserMessageId: string | undefined
  /** Set in mid-conversation; they override what the conversation began with. */
  policy: ConfirmationPolicy | undefined
  analyzer: SecurityAnalyzer | null | undefined
  /** Messages of users since the model has spoken last, in order. */
  inputs: { readonly id: string; readonly position: number }[] = []
  #recentIds: string[] = []

  apply(event: LogEvent, position: number): void {
    this.position = position
    this.leafId = event.id
    if (this.needsBranchReplay) {
      if (event.kind === 'ConversationStateUpdateEvent') this.#applyStateUpdate(event, position)
      return
    }
    this.view.add(event)
    this.stuckDetector.add(event)
    this.#recentIds.push(event.id)
    if (this.#recentIds.length > 2 * maxRecentIds) this.#recentIds = this.#recentIds.slice(-maxRecentIds)
    this.#applyToBranch(event, position)
  }

  /** The position of the event that the next one follows; 0 when it follows none. */
  get leaf(): number {
    return leafPosition(this.position, this.leafMoves)
  }

  /** The fact at `position` has moved the leaf to the event at `target`, whose id is given. */
  moveLeaf(position: number, target: number, id: string | undefined): void {
    const isSameLeaf = !this.needsBranchReplay && target === this.leaf
    this.position = position
    this.leafMoves.push({ position, target })
    this.leafId = id
    this.leaveBranch(position)
    this.needsBranchReplay = !isSameLeaf
  }

  /** What goes on from here is another branch: what nobody has begun is left, and nothing runs. */
  leaveBranch(position: number): void {
    this.status = 'idle'
    this.abandonedBelow = position
  }

  /** Takes over from the fold of the whole log what does not follow the branch. */
  adoptSharedState(fullState: ConversationState): void {
    this.position = fullState.position
    this.leafId = fullState.leafId
    this.leafMoves = fullState.leafMoves
    this.status = fullState.status
    this.statusSince = fullState.statusSince
    this.policy = fullState.policy
    this.analyzer = fullState.analyzer
    this.goal = fullState.goal
  }

  /** Pending actions that are still to be done, in order; the others were left on another branch. */
  openActions(): PendingAction[] {
    return this.pendingActions().filter(({ position }) => position > this.abandonedBelow)
  }

  /** Pending actions that were left on another branch: they are answered before this one goes on. */
  abandonedActions(): PendingAction[] {
    return this.pendingActions().filter(({ position }) => position < this.abandonedBelow)
  }

  /** Pending actions in order. */
  pendingActions(): PendingAction[] {
    return [...this.pending.values()]
  }

  save(): SavedState {
    const pending = this.pendingActions()
    return {
      version: 2,
      leafId: this.leafId ?? null,
      moves: [...this.leafMoves],
      leftBelow: this.abandonedBelow,
      goal: this.goal ?? null,
      status: this.status,
      view: this.view.save(),
      recent: this.#recentIds.slice(-maxRecentIds),
      pending: pending.map(({ id }) => id),
      positions: pending.map(({ position }) => position),
      approvedBelow: this.approvedBelow,
      isAwaiting: this.isAwaiting,
      isCondensationRequested: this.isCondensationRequested,
      hasSystemPrompt: this.hasSystemPrompt,
      hasMessage: this.hasMessage,
      activated: [...this.activatedSkills],
      blocked: Object.fromEntries(this.blockedMessages),
      lastUserMessageId: this.lastUserMessageId ?? null,
      inputs: [...this.inputs],
      statusSince: this.statusSince ?? null,
      policy: this.policy ?? null,
      analyzer: this.analyzer,
    }
  }

  /** The fold as it was saved; `get` answers events by id. Rejects when what it needs is not in the log. */
  static async restore(
    saved: SavedState,
    position: number,
    get: (ids: readonly string[]) => Promise<readonly (LogEvent | undefined)[]>,
  ): Promise<ConversationState> {
    const state = new ConversationState()
    state.view = await View.restore(saved.view, get)
    for (const event of await get(saved.recent)) if (event !== undefined) state.stuckDetector.add(event)
    state.#recentIds = [...saved.recent]
    const actions = await get(saved.pending)
    actions.forEach((event, index) => {
      if (event?.kind !== 'ActionEvent')
        throw new Error('a saved state names an action that is not in the log')
      state.#addPendingAction(event, saved.positions[index] ?? 0)
    })
    state.position = position
    state.leafId = saved.leafId ?? undefined
    state.leafMoves = [...saved.moves]
    state.abandonedBelow = saved.leftBelow
    state.goal = saved.goal ?? undefined
    state.status = saved.status
    state.statusSince = saved.statusSince ?? undefined
    state.approvedBelow = saved.approvedBelow
    state.isAwaiting = saved.isAwaiting
    state.isCondensationRequested = saved.isCondensationRequested
    state.hasSystemPrompt = saved.hasSystemPrompt
    state.hasMessage = saved.hasMessage
    for (const name of saved.activated) state.activatedSkills.add(name)
    for (const [id, reason] of Object.entries(saved.blocked)) state.blockedMessages.set(id, reason)
    state.lastUserMessageId = saved.lastUserMessageId ?? undefined
    state.inputs = [...saved.inputs]
    state.policy = saved.policy ?? undefined
    state.analyzer = saved.analyzer
    return state
  }

  #applyToBranch(event: LogEvent, position: number): void {
    switch (event.kind) {
      case 'SystemPromptEvent':
        this.hasSystemPrompt = true
        return
      case 'MessageEvent':
        this.#message(event, position)
        return
      case 'ActionEvent':
        this.#addPendingAction(event, position)
        return
      case 'ObservationEvent':
        // A finish ends the run, unless somebody has spoken since it was called.
        if (this.pending.delete(event.action_id)) {
          this.#setAwaiting(event.observation?.kind !== 'FinishObservation' || this.inputs.length > 0)
        }
        return
      case 'UserRejectObservation':
        if (this.pending.delete(event.action_id)) this.#setAwaiting(true)
        return
      case 'AgentErrorEvent':
        this.#closeByCallId(event.tool_call_id)
        return
      case 'CondensationRequest':
        this.isCondensationRequested = true
        return
      case 'Condensation':
        this.isCondensationRequested = false
        return
      case 'ConversationStateUpdateEvent':
        this.#applyStateUpdate(event, position)
        return
      default:
        return
    }
  }

  #resetStuckDetector(): void {
    this.stuckDetector = new StuckDetector()
    this.#recentIds = []
  }

  #message(event: Extract<LogEvent, { kind: 'MessageEvent' }>, position: number): void {
    const isInput = event.source !== 'agent' && event.llm_message?.role === 'user'
    this.isAwaiting = isInput
    if (!isInput) {
      this.inputs = []
      return
    }
    this.hasMessage = true
    if (event.source === 'user') {
      this.lastUserMessageId = event.id
      this.inputs.push({ id: event.id, position })
    }
    for (const name of event.activated_skills ?? []) this.activatedSkills.add(name)
    this.blockedMessages.clear()
  }

  #addPendingAction(event: Extract<LogEvent, { kind: 'ActionEvent' }>, position: number): void {
    this.inputs = []
    this.pending.set(event.id, {
      id: event.id,
      position,
      tool_name: event.tool_name,
      tool_call_id: event.tool_call_id,
      llm_response_id: event.llm_response_id,
      // What the log holds was parsed before it was written; members with defaults are all there.
      action: (event.action ?? null) as Action | null,
      security_risk: event.security_risk ?? 'UNKNOWN',
    })
  }

  /** A result is for the model to read, unless a hook has blocked what was said last: that ends the run. */
  #setAwaiting(isAwaiting: boolean): void {
    this.isAwaiting = isAwaiting && this.blockedMessages.size === 0
  }

  /** An AgentErrorEvent names the call only: it answers the first pending action of that id. */
  #closeByCallId(callId: string): void {
    for (const { id, tool_call_id } of this.pending.values()) {
      if (tool_call_id !== callId) continue
      this.pending.delete(id)
      this.#setAwaiting(true)
      return
    }
  }

  #applyStateUpdate(
    { key, value, timestamp }: Extract<Event, { kind: 'ConversationStateUpdateEvent' }>,
    position: number,
  ): void {
    if (key === 'execution_status') {
      const status = executionStatus.safeParse(value)
      if (!status.success) return
      if (this.status === 'waiting_for_confirmation' && status.data === 'running')
        this.approvedBelow = position
      // Whoever runs it again wants it to try again.
      if (this.status === 'stuck' && status.data === 'running') this.#resetStuckDetector()
      this.status = status.data
      this.statusSince = timestamp
    } else if (key === 'goal') {
      this.goal = goalState.safeParse(value).data ?? this.goal
    } else if (key === 'last_user_message_id' && typeof value === 'string') {
      this.#setAwaiting(true)
      this.inputs.push({ id: value, position })
    } else if (key === 'blocked_messages' && typeof value === 'object' && value !== null) {
      for (const [id, reason] of Object.entries(value)) this.blockedMessages.set(id, String(reason))
      this.inputs = this.inputs.filter(({ id }) => !this.blockedMessages.has(id))
      this.isAwaiting = false
    } else if (key === 'confirmation_policy') {
      this.policy = confirmationPolicy.safeParse(value).data ?? this.policy
    } else if (key === 'security_analyzer') {
      // The log leaves out a member that is null.
      const isCleared = value === null || value === undefined
      this.analyzer = isCleared ? null : (securityAnalyzer.safeParse(value).data ?? this.analyzer)
    }
  }
}
