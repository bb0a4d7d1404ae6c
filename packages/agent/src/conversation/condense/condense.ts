import type { Condenser, GoalState, SummarizingCondenser } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import type { Model, ModelReply, ModelRequest } from '../../llm/model.ts'
import { textMessage } from '../events/event-drafts.ts'
import { replyText } from '../view/content-blocks.ts'
import { isUserMessage } from '../view/log-event.ts'
import { defaultMessageLimits, messageLimits, replyReserve, windowOf } from '../view/message-limits.ts'
import { Projection } from '../view/projection.ts'
import type { View, ViewEvent } from '../view/view.ts'
import { groupUnits } from '../view/view-units.ts'
import { carryOver } from './carry.ts'
import { type CondensePlan, planMiddle, planReset } from './plan.ts'
import { buildSummaryRequest, summaryRequest } from './transcript.ts'

/** The first summarizing condenser; undefined when the history is never condensed. */
export function findSummarizingCondenser(condenser: Condenser | undefined): SummarizingCondenser | undefined {
  const all = condenser?.kind === 'PipelineCondenser' ? condenser.condensers : [condenser]
  return all.find((one) => one?.kind === 'LLMSummarizingCondenser')
}

/** Condenses by the model's window alone. */
const defaultCondenser: SummarizingCondenser = {
  kind: 'LLMSummarizingCondenser',
  llm: undefined,
  max_size: Number.POSITIVE_INFINITY,
  max_tokens: undefined,
  keep_first: 2,
  minimum_progress: 0.1,
  hard_context_reset_max_retries: 5,
  hard_context_reset_context_scaling: 0.8,
}

/**
 * The condenser of an agent; without one, that of the model's window when it is known. Once a model has
 * refused what was too large, every conversation with it is condensed.
 */
export function condenserFor(
  condenser: Condenser | undefined,
  model: Model,
): SummarizingCondenser | undefined {
  const found = findSummarizingCondenser(condenser)
  if (found !== undefined) return found
  const isKnown = condenser === undefined && windowOf(model) !== undefined
  return isKnown || model.learnedWindow !== undefined ? defaultCondenser : undefined
}

/**
 * Share of a model's window for a request; the rest is for what one step adds, and errors of the estimate.
 */
const requestWindowShare = 0.9

/**
 * Most tokens of a request to a model; undefined: no known limit. Without `max_input_tokens` the window has
 * the reply too.
 */
export function tokenLimit(condenser: SummarizingCondenser, reader: Model): number | undefined {
  const window = windowOf(reader)
  const most = window && Math.floor(window * requestWindowShare - replyReserve(reader, window))
  const limits = [condenser.max_tokens, most]
  const known = limits.filter((limit) => limit !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}

/**
 * Whether to condense the view before the next request to `model`. `hard`: the request is impossible
 * otherwise.
 */
export function condenseNeed(options: {
  readonly view: View
  readonly condenser: SummarizingCondenser
  readonly model: Model
  readonly isRequested: boolean
  /** Tokens of the request; default: an estimate of the view. */
  readonly requestTokens?: number
}): 'no' | 'soft' | 'hard' {
  const { view, condenser, model, isRequested } = options
  if (isRequested) return 'hard'
  const limit = tokenLimit(condenser, model)
  if (limit !== undefined && (options.requestTokens ?? countViewTokens(view, model)) > limit) return 'hard'
  return view.size > condenser.max_size ? 'soft' : 'no'
}

function countViewTokens(view: View, model: Model): number {
  return model.countTokens(view.messages(messageLimits(model)))
}

type CondenseResult =
  | { readonly kind: 'condensation'; readonly draft: EventDraft; readonly replies: readonly ModelReply[] }
  | {
      readonly kind: 'failure'
      readonly code: string
      readonly detail: string
      readonly replies: readonly ModelReply[]
    }
  | { readonly kind: 'aborted' }

export interface CondenseOptions {
  readonly view: View
  readonly condenser: SummarizingCondenser
  readonly model: Model
  /** The model that reads the view; default: the one that summarises. */
  readonly reader?: Model
  readonly isHard: boolean
  /** The provider's tokens for each that we estimate; default 1. */
  readonly scale?: number
  /**
   * The request of the next step when the model that reads the view also summarises it: the summary is asked
   * for at its end, where the provider's cache has the rest. Undefined: by its own request.
   */
  readonly request?: Pick<ModelRequest, 'messages' | 'tools'> | undefined
  /** Tokens of the tools, which every request has beside the view. */
  readonly toolTokens?: number
  /** It is carried over into the summary. */
  readonly goal?: GoalState | undefined
}

/** Most characters of a summary, which every later request contains. */
const maxSummaryChars = 20_000
/** Share of the summariser's window for the request. */
const requestShare = 0.75
const defaultContextWindow = 100_000

/**
 * Makes the Condensation of a view, which the view may outgrow meanwhile. Summarises a middle block of whole
 * units; when that is no progress and `isHard`, all but the first events and the user's latest message. It
 * never forgets a system prompt, the latest user message, or calls without a result. Failures:
 * `NothingToForget` (soft only; try again with more events), `LLMContextWindowExceedError` when nothing
 * helps, or the model's.
 */
export async function condense(options: CondenseOptions, signal: AbortSignal): Promise<CondenseResult> {
  const { view, isHard } = options
  const events = [...view.events]
  const plan = planCondensation(events, options)
  if (plan === undefined) return isHard ? cannotShrink(options) : nothingToForget
  return signal.aborted ? { kind: 'aborted' } : await summarize(plan, events, { options, signal })
}

function planCondensation(events: readonly ViewEvent[], options: CondenseOptions): CondensePlan | undefined {
  const { view, condenser, model, isHard, reader = model, scale = 1 } = options
  const { max_size, keep_first, minimum_progress } = condenser
  const projection = new Projection(messageLimits(reader))
  const target = {
    keepFirst: keep_first,
    maxEvents: Math.floor((isHard ? Math.min(events.length, max_size) : max_size) / 2),
    maxTokens: isHard
      ? halfOf(
          (tokenLimit(condenser, reader) ?? Number.POSITIVE_INFINITY) / scale,
          countViewTokens(view, reader),
        )
      : undefined,
    // A summary replaces one event.
    minForgotten: Math.max(2, Math.ceil(minimum_progress * events.length)),
  }
  const plan = planMiddle(events, target, (unit) => reader.countTokens(projection.messagesOf(unit)))
  return plan ?? (isHard ? planReset(events, keep_first) : undefined)
}

/** Half of the limit or of the present size: a provider may count more tokens than we do. */
function halfOf(limit: number, present: number): number {
  return Math.floor(Math.min(limit, present) / 2)
}

async function summarize(
  plan: CondensePlan,
  events: readonly ViewEvent[],
  { options, signal }: { readonly options: CondenseOptions; readonly signal: AbortSignal },
): Promise<CondenseResult> {
  const { model, condenser } = options
  const { hard_context_reset_max_retries: retries, hard_context_reset_context_scaling: scaling } = condenser
  const window = windowOf(model) ?? defaultContextWindow
  const latest = events.findLast(isUserMessage)
  const isBehind = latest !== undefined && events.indexOf(latest) >= plan.offset
  const summaryInput = { forgotten: plan.forgotten, latestUserMessage: isBehind ? latest : undefined }
  const replies: ModelReply[] = []
  const finish = (reply: ModelReply) => condenseResult(plan, [...replies, reply], events, options)
  if (options.request !== undefined) {
    const result = await summarizeInPlace(options.request, model, signal)
    if (result.kind === 'aborted') return result
    if (result.kind === 'reply' && isSummary(result)) return finish(result)
    if (result.kind === 'reply') replies.push(result)
    else if (result.code !== 'LLMContextWindowExceedError')
      return condenseFailure(result.code, `${summaryFailed} ${result.detail}`)
  }
  for (let attempt = 0; ; attempt++) {
    const budget = Math.floor((window * requestShare * scaling ** attempt) / Math.max(1, options.scale ?? 1))
    const messages = buildSummaryRequest(summaryInput, budget, (some) => model.countTokens(some))
    const result = await model.generate({ messages, tools: [] }, signal)
    if (result.kind === 'reply') return finish(result)
    if (result.kind === 'aborted') return result
    const isTooLong = result.code === 'LLMContextWindowExceedError'
    if (!isTooLong || attempt === retries)
      return condenseFailure(result.code, `${summaryFailed} ${result.detail}`, replies)
  }
}

/** Instead of one, a model may continue with calls. */
function isSummary(reply: ModelReply): boolean {
  const hasCalls = (reply.message.tool_calls ?? []).length > 0
  return reply.stop === 'refusal' || (!hasCalls && replyText(reply).trim() !== '')
}

/** Tokens of the message that asks for the summary, and of the summary. */
const inPlaceTokens = 3_000

/** Whether a request of that many tokens leaves room to ask for a summary at its end. */
export function fitsInPlace(requestTokens: number, model: Model): boolean {
  const window = windowOf(model)
  return window === undefined || requestTokens + Math.min(inPlaceTokens, window / 20) <= window
}

async function summarizeInPlace(
  { messages, tools }: NonNullable<CondenseOptions['request']>,
  model: Model,
  signal: AbortSignal,
) {
  const asked = [...messages, textMessage('user', summaryRequest)]
  return await model.generate({ messages: asked, tools, toolChoice: 'none', keepsCache: true }, signal)
}

const summaryFailed = 'The conversation could not be condensed, because asking for a summary failed:'

function condenseResult(
  plan: CondensePlan,
  replies: readonly ModelReply[],
  events: readonly ViewEvent[],
  { model, goal }: CondenseOptions,
): CondenseResult {
  const reply = replies.at(-1)
  const text = reply === undefined ? '' : replyText(reply).trim()
  if (reply === undefined || text === '') {
    const why = reply?.stop === 'refusal' ? 'the model refused.' : 'the model answered without a text.'
    return condenseFailure('LLMNoResponseError', `${summaryFailed} ${why}`, replies)
  }
  const { forgotten } = plan
  const remaining = events.filter((event) => !forgotten.includes(event))
  const summary = carryOver(text, { forgotten, remaining, goal }, maxSummaryChars)
  const tooLong = 'The summary is no shorter than what it sums up.'
  if (!isSmaller(plan, summary, model))
    return condenseFailure('LLMContextWindowExceedError', tooLong, replies)
  const draft = {
    kind: 'Condensation',
    source: 'environment',
    forgotten_event_ids: plan.forgotten.map(({ id }) => id),
    summary,
    summary_offset: plan.offset,
    llm_response_id: reply.responseId,
  }
  return { kind: 'condensation', draft, replies }
}

/** Replacing one event by one summary is progress only when the summary is shorter. */
function isSmaller({ forgotten }: CondensePlan, summary: string, model: Model): boolean {
  if (forgotten.length > 1) return true
  const projection = new Projection({ ...defaultMessageLimits, chars: Number.POSITIVE_INFINITY })
  const [event] = forgotten
  if (event === undefined) return false
  const after: ViewEvent = { id: '', source: 'environment', summary, kind: 'CondensationSummaryEvent' }
  const [before = 0, now = 0] = [[event], [after]].map((some) =>
    model.countTokens(groupUnits(some).flatMap((unit) => projection.messagesOf(unit))),
  )
  return now < before
}

const nothingToForget = condenseFailure(
  'NothingToForget',
  'Nothing can be forgotten yet without losing what was said last.',
)

function cannotShrink({
  view,
  condenser,
  model,
  reader = model,
  toolTokens = 0,
}: CondenseOptions): CondenseResult {
  const limit = tokenLimit(condenser, reader)
  const bound = limit === undefined ? 'no limit is known' : `the limit is ${limit}`
  const viewTokens = countViewTokens(view, reader)
  const tools = toolTokens === 0 ? '' : `, and about ${toolTokens} of the tools`
  return condenseFailure(
    'LLMContextWindowExceedError',
    `The conversation cannot be made shorter: what is left (about ${viewTokens} tokens in ${view.size} events${tools}; ${bound}) is the system prompt, the first messages and the latest message. Use a model with a larger window, raise the condenser's max_tokens, send a shorter message, or give the agent fewer tools. A server of your own may have to load the model with a larger window (llama.cpp: \`--ctx-size\`, Ollama: OLLAMA_CONTEXT_LENGTH).`,
  )
}

function condenseFailure(code: string, detail: string, replies: readonly ModelReply[] = []): CondenseResult {
  return { kind: 'failure', code, detail, replies }
}
