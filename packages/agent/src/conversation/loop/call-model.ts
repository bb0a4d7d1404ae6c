import { readOutputSchema } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import type { ModelFailure, ModelReply } from '../../llm/model.ts'
import { readFinalAnswer } from '../../tools/core/structured-finish.ts'
import { condenserFor } from '../condense/condense.ts'
import { learnedWindowEvent, learnWindow } from '../condense/learned-window.ts'
import { modelNotice } from '../condense/window-notice.ts'
import { failureEvents, recordEvents, stateUpdate, userMessage } from '../events/event-drafts.ts'
import { modelNoticeKey } from '../state/state.ts'
import { replyText } from '../view/content-blocks.ts'
import { windowOf } from '../view/message-limits.ts'
import { eventsFromModelTurn, finalText, type ModelTurn } from './model-turn.ts'
import { openTasksAtFinish } from './reminders.ts'
import { requiredCallEvents, requiredCallIssue } from './required-call.ts'
import { nextRequest, type StepScope } from './run-progress.ts'
import { runTurns } from './run-turns.ts'
import { StreamedReply } from './streamed-reply.ts'
import { generateWhole, type WholeResult } from './whole-reply.ts'

type Pieces = Pick<WholeResult, 'pieces' | 'isWindowFull'>

interface ReplyFacts {
  readonly positionAtRequest: number
  readonly notice: ReturnType<typeof modelNotice>
  /** Of the first event of the reply. */
  readonly id: string
}

const maxRefusals = 3
/** Why a streamed reply has no event, when nothing else explains it. */
const noEventReason = 'no_durable_event'
const maxMismatches = 4

/** Asks the model once and appends the events of its turn. */
export async function callModel(scope: StepScope, signal: AbortSignal): Promise<void> {
  const { context, runtime, progress } = scope
  progress.steps++
  context.stats.limits.steps++
  const { position: positionAtRequest } = context.state
  const { model } = runtime
  const deltas = new StreamedReply(context, model.llm.stream)
  const request = nextRequest(context.state, runtime)
  const { result, pieces, isWindowFull } = await generateWhole(
    model,
    {
      ...request,
      onDelta: deltas.add,
      onReset: deltas.reset,
      onRetry: ({ detail, ...retry }) =>
        context.publish({ kind: 'retry', ...retry, detail: context.secrets.redact(detail) }),
    },
    signal,
    { isContinued: context.settings.current.door?.cuts_replies !== true },
  )
  deltas.end()
  await runTurns.pass()
  const [first] = pieces
  const isFirst = !progress.sizes.isMeasured(model)
  const notice =
    first && isFirst
      ? modelNotice(model, {
          counted: first.usage.prompt_tokens,
          estimated: progress.sizes.sizeOf(model, request),
          hasTools: request.tools.length > 0,
        })
      : undefined
  if (first?.model === model.llm.model) progress.sizes.record(model, request, first.usage.prompt_tokens)
  try {
    if (result.kind === 'failure') {
      await appendFailure(result, { ...scope, pieces, requestTokens: progress.sizes.sizeOf(model, request) })
      deltas.abort(result.code)
    } else if (result.kind === 'aborted') deltas.abort('cancelled')
    else {
      const reply = { ...scope, positionAtRequest, pieces, isWindowFull, notice, id: deltas.id }
      const isStored = await appendReply(result, reply, signal)
      if (!isStored) deltas.abort(signal.aborted ? 'cancelled' : noEventReason)
    }
  } catch (error) {
    deltas.abort(error instanceof Error ? error.name : noEventReason)
    throw error
  }
}

/** The first event of the reply itself gets the id. False when nothing of the reply was stored. */
async function appendReply(
  reply: ModelReply,
  scope: StepScope & Pieces & ReplyFacts,
  signal: AbortSignal,
): Promise<boolean> {
  const { context, runtime, progress, positionAtRequest, pieces, notice } = scope
  const { settings, secrets, stats, deps } = context
  const redact = (text: string) => secrets.redact(text)
  const { analyzer } = settings
  const { response_schema: schema, door } = settings.current
  const server = runtime.serverPlace
  const turn = await eventsFromModelTurn(reply, {
    tools: runtime.tools,
    analyzer,
    hasSandbox: runtime.workspace.sandbox !== undefined,
    server,
    finishIssue:
      requiredCallIssue(door) ??
      (runtime.tools.has('task_tracker') ? openTasksAtFinish(context.state.view.events) : undefined),
    redact,
  })
  const answer = answerIssue(turn, reply, schema) ?? requiredCallEvents(turn, reply, door)
  const isCut = reply.stop === 'length' && (turn.kind === 'text' || (door?.cuts_replies && hasNoCall(turn)))
  const events = answer === undefined ? turn.events : [...turn.events, ...answer.events]
  const evaluated = await withCriticResult(events, { ...scope, reply }, signal)
  const main = evaluated.findIndex(({ kind }) => kind === 'MessageEvent' || kind === 'ActionEvent')
  const turnEvents = evaluated.map((event, index) => (index === main ? { ...event, id: scope.id } : event))
  for (const piece of pieces) stats.addReply(piece, piece.usageId, deps.clock.now() * 1000)
  progress.overflow = undefined
  progress.mismatches = answer === undefined ? 0 : progress.mismatches + 1
  progress.refusals = turn.kind === 'refusal' ? progress.refusals + 1 : 0
  let isStored = false
  await context.appendWithUsage((now) => {
    // A reply that came after the interruption is dropped; its use is counted.
    isStored = !signal.aborted && main >= 0
    if (signal.aborted) return []
    const lateInputs = now.inputs.filter(({ position }) => position > positionAtRequest)
    return [
      ...pieces.slice(0, -1).flatMap((piece) => recordEvents(piece, piece.usageId)),
      ...(notice === undefined || now.modelNotices?.includes(notice.model)
        ? []
        : [stateUpdate(modelNoticeKey, notice)]),
      ...turnEvents,
      ...lateInputs.map(({ id }) => stateUpdate('last_user_message_id', id)),
      ...(progress.refusals < maxRefusals ? [] : refusalEvents()),
      ...(progress.mismatches < maxMismatches ? [] : mismatchEvents()),
      ...context.usageEvents(),
      ...(isCut ? cutTextEvents(scope.isWindowFull) : []),
    ]
  })
  context.publishUsage()
  return isStored
}

/** Nothing of the turn can be executed. */
function hasNoCall({ events }: ModelTurn): boolean {
  return events.every(({ kind, action }) => kind !== 'ActionEvent' || action === undefined)
}

/** Adds the critic's result to the event that would end the run, or to all. */
async function withCriticResult(
  events: readonly EventDraft[],
  { context, runtime, reply }: StepScope & { readonly reply: ModelReply },
  signal: AbortSignal,
): Promise<readonly EventDraft[]> {
  const { evaluateWithCritic, workspace, settings } = runtime
  const isAll = settings.agent.critic?.mode === 'all_actions'
  const message = finalText(reply)
  if (evaluateWithCritic === undefined || (message === undefined && !isAll)) return events
  const allEvents = [...context.state.view.events, ...events]
  const critic_result = await evaluateWithCritic(
    { events: allEvents, message: message ?? '', workspace },
    signal,
  )
  return events.map((event) => (carriesCriticResult(event, isAll) ? { ...event, critic_result } : event))
}

function carriesCriticResult({ kind, source, action }: EventDraft, isAll: boolean): boolean {
  if (kind === 'MessageEvent') return source === 'agent'
  const isFinish = typeof action === 'object' && Reflect.get(action ?? {}, 'kind') === 'FinishAction'
  return kind === 'ActionEvent' && (isAll || isFinish)
}

/** What follows a final answer that does not fit the schema of the request; undefined for any other reply. */
function answerIssue(
  turn: ModelTurn,
  reply: ModelReply,
  json: Readonly<Record<string, unknown>> | undefined,
): { readonly events: readonly EventDraft[] } | undefined {
  const schema = json && readOutputSchema(json)
  if (schema === undefined || 'issue' in schema) return undefined
  if (turn.kind === 'calls') {
    const isRefused = turn.events.some(
      (event) => event.kind === 'AgentErrorEvent' && event.tool_name === 'finish',
    )
    return isRefused ? { events: [] } : undefined
  }
  if (turn.kind !== 'text' || reply.stop === 'length') return undefined
  const answer = readFinalAnswer(replyText(reply), schema)
  if ('message' in answer) return undefined
  const text = `The answer has to be given by calling \`finish\` with \`output\` in the form of its schema (${answer.issue}).`
  return { events: [userMessage('environment', text)] }
}

function mismatchEvents(): EventDraft[] {
  return failureEvents(
    'OutputSchemaMismatch',
    `The final answer was not what the request asks for, ${maxMismatches} times in a row.`,
  )
}

function cutTextEvents(isWindowFull = false): EventDraft[] {
  if (isWindowFull)
    return failureEvents(
      'LLMContextWindowExceedError',
      'The context window was full before the answer was complete. Ask for less at once, use a model with a larger window, or set max_output_tokens to keep answers short.',
    )
  return failureEvents(
    'MaxOutputTokensReached',
    'The answer is still incomplete after several continuations, each cut off at the output limit. Raise max_output_tokens, or ask for less at once.',
  )
}

function refusalEvents(): EventDraft[] {
  return failureEvents(
    'LLMContentPolicyViolationError',
    'The provider refused to answer several times by its content policy. Change the task, then run again.',
  )
}

const nearLimitShare = 0.85
/** A request of at most this share of the refused one is asked at once. */
const shorterShare = 0.85

async function appendFailure(
  { code, detail, status, brokenAttempts = [] }: ModelFailure,
  {
    context,
    runtime,
    progress,
    pieces,
    requestTokens,
  }: StepScope & Pieces & { readonly requestTokens: number },
): Promise<void> {
  const { stats, deps } = context
  const { model } = runtime
  for (const piece of pieces) stats.addReply(piece, piece.usageId, deps.clock.now() * 1000)
  for (const attempt of brokenAttempts) stats.addAttempt(attempt, model.llm.usage_id, deps.clock.now() * 1000)
  const known = windowOf(model)
  // Some servers refuse what is too long without a word about it.
  const isNearLimit = known !== undefined && requestTokens > known * nearLimitShare
  const isOverWindow = code === 'LLMContextWindowExceedError' || (status === 400 && isNearLimit)
  const learned = isOverWindow ? learnWindow(detail, { requestTokens, known }) : undefined
  if (learned !== undefined) model.learnedWindow = learned
  const isTooLong = isOverWindow || code === 'LLMMalformedConversationHistoryError'
  const hasCondenser = condenserFor(runtime.settings.agent.condenser, model) !== undefined
  if (isTooLong) progress.overflow = detail
  // What was learned may be enough: single messages are shortened to it.
  const isShorter =
    isOverWindow &&
    progress.sizes.sizeOf(model, nextRequest(context.state, runtime)) < requestTokens * shorterShare
  const usage = pieces.length + brokenAttempts.length > 0 ? context.usageEvents() : []
  await context.appendWithUsage((now) => {
    if (now.status !== 'running') return []
    const told = learned === undefined ? usage : [...usage, learnedWindowEvent(model.llm, learned)]
    if (isShorter) return told
    return isTooLong && hasCondenser
      ? [...told, { kind: 'CondensationRequest', source: 'environment' }]
      : [...told, ...failureEvents(code, detail)]
  })
}
