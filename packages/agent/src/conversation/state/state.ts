import {
  type Action,
  type ConfirmationPolicy,
  confirmationPolicy,
  type Event,
  type ExecutionStatus,
  executionStatus,
  type GoalState,
  goalState,
  type RepositoryConsentState,
  repositoryConsentState,
  type SecurityAnalyzer,
  type SecurityRisk,
  securityAnalyzer,
} from '@slipway/protocol'
import { asRecord } from '@slipway/shared/json'
import type { LearnedWindow } from '../../llm/model.ts'
import { addOmission, type Omission } from '../../llm/refusals/omissions.ts'
import { asksForOutside } from '../../tools/calls/parse-call.ts'
import { questionTool } from '../../tools/core/server-question.ts'
import { type LogEvent, View } from '../view/view.ts'
import { type LeafMove, leafPosition } from './branch.ts'
import { StuckDetector } from './stuck-detector.ts'

export interface PendingAction {
  /** Of its ActionEvent. */
  readonly id: string
  readonly position: number
  readonly tool_name: string
  readonly tool_call_id: string
  /** The call as the model made it; a part of the digest of an answer. */
  readonly tool_call?: unknown
  readonly llm_response_id: string
  /** Null when the call is invalid: its error follows in the same append. */
  readonly action: Action | null
  readonly security_risk: SecurityRisk
  /** It asks to run outside of the sandbox for commands. */
  readonly asksForOutside?: true
}

/** A call that an external agent has begun and not ended. */
interface ExternalCall {
  readonly tool_call_id: string
  readonly title: string
  readonly tool_kind?: string | undefined
}

/** The statuses with which a call of an external agent ends. */
export const endedCallStatuses: ReadonlySet<unknown> = new Set(['completed', 'failed'])

/** Members of a state that are saved as they are. */
const plainMembers = [
  ...(['status', 'approvedBelow', 'isAwaiting', 'isCondensationRequested'] as const),
  ...(['hasSystemPrompt', 'hasMessage', 'inputs', 'analyzer'] as const),
] as const
/** Members of a state that are saved as null when undefined. */
const optionalMembers = [
  ...(['leafId', 'goal', 'statusSince', 'lastUserMessageId', 'policy', 'repositoryConsent'] as const),
  ...(['runPosition', 'recoveries', 'externalCalls', 'learnedWindows', 'leftOut', 'modelNotices'] as const),
  ...(['awayServers', 'isPlanning'] as const),
] as const

type PlainMembers = Pick<ConversationState, (typeof plainMembers)[number]>
type OptionalMembers = {
  readonly [K in (typeof optionalMembers)[number]]: NonNullable<ConversationState[K]> | null
}

/** A saved state. It may be deleted at any time: the log has all of it. */
export interface SavedState extends PlainMembers, OptionalMembers {
  readonly version: 2
  readonly moves: readonly LeafMove[]
  readonly leftBelow: number
  readonly view: readonly string[]
  readonly recent: readonly string[]
  readonly pending: readonly string[]
  readonly positions: readonly number[]
  readonly activated: readonly string[]
  /** Absent in states of earlier versions. */
  readonly invoked?: readonly string[]
  readonly blocked: Readonly<Record<string, string>>
}

/** Members that follow the whole log and not the active branch. */
const sharedMembers = [
  ...(['position', 'leafId', 'leafMoves', 'status'] as const),
  ...(['statusSince', 'policy', 'analyzer', 'goal', 'repositoryConsent', 'runPosition'] as const),
  ...(['recoveries', 'learnedWindows', 'leftOut', 'modelNotices', 'awayServers'] as const),
  ...(['isPlanning'] as const),
] as const

const maxRecentIds = 64

/** Key of the state update that tells people what is wrong with a model: `{ model, text }`. */
export const modelNoticeKey = 'model_notice'

/** Key of the state update that tells how many tokens a model takes: `{ model, tokens, is_named }`. */
export const learnedWindowKey = 'learned_window'

/**
 * Key of the state update that tells what requests to a model go without: an omission with `model`, `text`.
 */
export const leftOutKey = 'left_out'

/**
 * Key of the state update that tells whether an MCP server is connected: `{ server, is_connected, detail }`.
 */
export const mcpServerKey = 'mcp_server'

/** Key of the state update that begins and ends plan mode: a boolean. */
export const planModeKey = 'plan_mode'

/** Key of the state update that counts how often a run was continued after its server had died. */
export const runRecoveryKey = 'run_recovery'

/**
 * The fold of a log; it depends on the events alone. Status, policy, analyzer and goal follow the whole log;
 * the rest follows the active branch.
 */
export class ConversationState {
  position = 0
  /** The id of the event that the next one follows; undefined when it follows none. */
  leafId: string | undefined
  leafMoves: LeafMove[] = []
  /** The leaf was moved, and the members that follow the branch are those of another one. */
  needsBranchReplay = false
  /** Pending actions at positions below this one were left on another branch and are not executed. */
  abandonedBelow = 0
  goal: GoalState | undefined
  status: ExecutionStatus = 'idle'
  /** Where the last run began. It continues after a pause and after a confirmation. */
  runPosition: number | undefined
  /** How often the last run was continued after its server had died. */
  recoveries: number | undefined
  /** Names of the models about which people were told. */
  modelNotices: readonly string[] | undefined
  /** By `learnedModelName`. */
  learnedWindows: Readonly<Record<string, LearnedWindow>> | undefined
  /** By `learnedModelName`. */
  leftOut: Readonly<Record<string, readonly Omission[]>> | undefined
  /** Names of the MCP servers that were reported to the model as away. */
  awayServers: readonly string[] | undefined
  /** Calls of an external agent without an end; undefined when there is none. */
  externalCalls: readonly ExternalCall[] | undefined
  /** When the status became what it is: the event's timestamp. */
  statusSince: string | undefined
  view = new View()
  stuckDetector = new StuckDetector()
  readonly pending = new Map<string, PendingAction>()
  /** Pending actions at positions below this one are approved. */
  approvedBelow = 0
  /** A message or a result waits for the model. */
  isAwaiting = false
  isCondensationRequested = false
  hasSystemPrompt = false
  hasMessage = false
  /** Names of the skills that messages have activated. */
  readonly activatedSkills = new Set<string>()
  /** Names of the skills that the model has called. */
  readonly invokedSkills = new Set<string>()
  /** Messages that a hook has blocked, with reasons, until the next message. */
  readonly blockedMessages = new Map<string, string>()
  lastUserMessageId: string | undefined
  /** Set during the conversation; they override the settings. */
  policy: ConfirmationPolicy | undefined
  analyzer: SecurityAnalyzer | null | undefined
  /** In plan mode; undefined while the log says nothing. */
  isPlanning: boolean | undefined
  /** The last decision that the log tells about what the repository brings. */
  repositoryConsent: RepositoryConsentState | undefined
  /** User messages since the last turn of the model, in order. */
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

  /** The update at `position` moves the leaf to the event at `target`, which has this id. */
  moveLeaf(position: number, target: number, id: string | undefined): void {
    const isSameLeaf = !this.needsBranchReplay && target === this.leaf
    this.position = position
    this.leafMoves.push({ position, target })
    this.leafId = id
    this.leaveBranch(position)
    this.needsBranchReplay = !isSameLeaf
  }

  /** Another branch begins: pending actions are abandoned, and nothing runs. */
  leaveBranch(position: number): void {
    this.status = 'idle'
    this.abandonedBelow = position
  }

  /** Copies the members that follow the whole log and not the branch. */
  adoptSharedState(fullState: ConversationState): void {
    Object.assign(this, pick(fullState, sharedMembers))
  }

  /** Pending actions of this branch, in order. */
  openActions(): PendingAction[] {
    return this.pendingActions().filter(({ position }) => position > this.abandonedBelow)
  }

  /** Pending actions that were left on another branch; they get an error before this branch continues. */
  abandonedActions(): PendingAction[] {
    return this.pendingActions().filter(({ position }) => position < this.abandonedBelow)
  }

  pendingActions(): PendingAction[] {
    return [...this.pending.values()]
  }

  save(): SavedState {
    const pending = this.pendingActions()
    const optional = optionalMembers.map((name) => [name, this[name] ?? null])
    return {
      version: 2,
      ...(pick(this, plainMembers) as PlainMembers),
      ...(Object.fromEntries(optional) as OptionalMembers),
      moves: [...this.leafMoves],
      leftBelow: this.abandonedBelow,
      view: this.view.save(),
      recent: this.#recentIds.slice(-maxRecentIds),
      pending: pending.map(({ id }) => id),
      positions: pending.map(({ position }) => position),
      activated: [...this.activatedSkills],
      invoked: [...this.invokedSkills],
      blocked: Object.fromEntries(this.blockedMessages),
      inputs: [...this.inputs],
    }
  }

  /** Restores a saved state; `get` returns events by id. Rejects when the log lacks one of them. */
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
    Object.assign(state, pick(saved, plainMembers))
    Object.assign(state, Object.fromEntries(optionalMembers.map((name) => [name, saved[name] ?? undefined])))
    state.position = position
    state.leafMoves = [...saved.moves]
    state.abandonedBelow = saved.leftBelow
    state.inputs = [...saved.inputs]
    for (const name of saved.activated) state.activatedSkills.add(name)
    for (const name of saved.invoked ?? []) state.invokedSkills.add(name)
    for (const [id, reason] of Object.entries(saved.blocked)) state.blockedMessages.set(id, reason)
    return state
  }

  #applyToBranch(event: LogEvent, position: number): void {
    const { kind } = event
    if (String(kind) === 'ACPToolCallEvent') this.#addExternalCall(event)
    else if (kind === 'SystemPromptEvent') this.hasSystemPrompt = true
    else if (kind === 'MessageEvent') this.#message(event, position)
    else if (kind === 'ActionEvent') this.#addPendingAction(event, position)
    else if (kind === 'AgentErrorEvent') this.#closeByCallId(event.tool_call_id)
    else if (kind === 'ConversationStateUpdateEvent') this.#applyStateUpdate(event, position)
    else if (kind === 'CondensationRequest') this.isCondensationRequested = true
    else if (kind === 'Condensation') this.isCondensationRequested = false
    else if (kind === 'ObservationEvent' || kind === 'UserRejectObservation') {
      if (kind === 'ObservationEvent') this.#addInvokedSkill(event.observation)
      if (!this.pending.delete(event.action_id)) return
      // A finish ends the run, unless a message came after its call.
      const isFinish = kind === 'ObservationEvent' && event.observation?.kind === 'FinishObservation'
      this.#setAwaiting(!isFinish || this.inputs.length > 0)
    }
  }

  /** The kind is not among the closed ones. */
  #addExternalCall(event: object): void {
    const { tool_call_id, title, tool_kind, status }: Readonly<Record<string, unknown>> = { ...event }
    if (typeof tool_call_id !== 'string') return
    const others = (this.externalCalls ?? []).filter((call) => call.tool_call_id !== tool_call_id)
    const call = {
      tool_call_id,
      title: String(title ?? ''),
      ...(typeof tool_kind === 'string' ? { tool_kind } : {}),
    }
    const open = endedCallStatuses.has(status) ? others : [...others, call]
    this.externalCalls = open.length === 0 ? undefined : open
  }

  #addInvokedSkill(observation: unknown): void {
    const { kind, is_error, skill_name }: Readonly<Record<string, unknown>> = Object(observation)
    const isInvoked = kind === 'InvokeSkillObservation' && is_error !== true
    if (isInvoked && typeof skill_name === 'string') this.invokedSkills.add(skill_name)
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
      tool_call: event.tool_call,
      llm_response_id: event.llm_response_id,
      // It was parsed before it was written, so members with defaults are there.
      action: (event.action ?? null) as Action | null,
      security_risk: event.security_risk ?? 'UNKNOWN',
      ...(asksForOutside(event) ? { asksForOutside: true } : {}),
    })
  }

  /** A result waits for the model, unless a hook has blocked the last message: that ends the run. */
  #setAwaiting(isAwaiting: boolean): void {
    this.isAwaiting = isAwaiting && this.blockedMessages.size === 0
  }

  /** An AgentErrorEvent names the call only: it closes the first pending action of that call id. */
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
      // The answer to a question of a server approves nothing else.
      const isQuestionAnswered = this.pendingActions().some(({ tool_name }) => tool_name === questionTool)
      if (this.status === 'waiting_for_confirmation' && status.data === 'running' && !isQuestionAnswered)
        this.approvedBelow = position
      // Running it again is a request to try again.
      if (this.status === 'stuck' && status.data === 'running') {
        this.stuckDetector = new StuckDetector()
        this.#recentIds = []
      }
      const isPartOfRun = this.status === 'paused' || this.status === 'waiting_for_confirmation'
      if (status.data === 'running' && this.status !== 'running' && !isPartOfRun) {
        this.runPosition = position
        this.recoveries = undefined
      }
      this.status = status.data
      this.statusSince = timestamp
    } else if (key === modelNoticeKey) {
      this.modelNotices = [...(this.modelNotices ?? []), String(asRecord(value).model)]
    } else if (key === learnedWindowKey) {
      const { model, tokens, is_named } = asRecord(value)
      if (typeof model === 'string' && typeof tokens === 'number')
        this.learnedWindows = { ...this.learnedWindows, [model]: { tokens, isNamed: is_named === true } }
    } else if (key === mcpServerKey) {
      const { server, is_connected } = asRecord(value)
      const others = (this.awayServers ?? []).filter((name) => name !== server)
      this.awayServers = is_connected === true ? others : [...others, String(server)]
    } else if (key === leftOutKey) {
      this.leftOut = addOmission(this.leftOut, asRecord(value))
    } else if (key === runRecoveryKey && typeof value === 'number') {
      this.recoveries = value
    } else if (key === 'goal') {
      this.goal = goalState.safeParse(value).data ?? this.goal
    } else if (key === 'last_user_message_id' && typeof value === 'string') {
      this.#setAwaiting(true)
      // The update after a message names one that waits already.
      if (this.inputs.findLast(({ id }) => id === value) === undefined)
        this.inputs.push({ id: value, position })
    } else if (key === 'blocked_messages' && typeof value === 'object' && value !== null) {
      for (const [id, reason] of Object.entries(value)) this.blockedMessages.set(id, String(reason))
      this.inputs = this.inputs.filter(({ id }) => !this.blockedMessages.has(id))
      this.isAwaiting = false
    } else if (key === 'repository_consent') {
      this.repositoryConsent = repositoryConsentState.safeParse(value).data ?? this.repositoryConsent
    } else if (key === planModeKey && typeof value === 'boolean') {
      this.isPlanning = value
    } else if (key === 'confirmation_policy') {
      this.policy = confirmationPolicy.safeParse(value).data ?? this.policy
    } else if (key === 'security_analyzer') {
      // The log omits members that are null.
      const isCleared = value === null || value === undefined
      this.analyzer = isCleared ? null : (securityAnalyzer.safeParse(value).data ?? this.analyzer)
    }
  }
}

/** Whether a run waits for consent to what the repository brings, and for nothing else. */
export function isAwaitingConsent(state: ConversationState): boolean {
  const { status, repositoryConsent } = state
  const isPending = status === 'waiting_for_confirmation' && repositoryConsent?.decision === 'pending'
  return isPending && state.openActions().length === 0
}

function pick<T extends object>(from: T, names: readonly (keyof T)[]): Partial<T> {
  return Object.fromEntries(names.map((name) => [name, from[name]])) as Partial<T> // the members of T
}
