import type { Message, MessageToolCall, SecurityAnalyzer, TextContent } from '@slipway/protocol'
import { parseJsonObject } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import type { EventDraft } from '@slipway/storage'
import type { ModelReply } from '../../llm/model.ts'
import type { ServerPlace } from '../../shell/server-access.ts'
import { asksForOutside, parseToolCall } from '../../tools/calls/parse-call.ts'
import type { Tool } from '../../tools/core/tool.ts'
import { assess } from '../confirm/confirmation.ts'
import { agentErrorEvent, recordEvents, userMessage } from '../events/event-drafts.ts'
import { getMember, replyText } from '../view/content-blocks.ts'

/** What a reply of the model means for the conversation. */
export interface ModelTurn {
  /** `empty` and `refusal` come with a message that asks the model to continue. */
  readonly kind: 'calls' | 'text' | 'empty' | 'refusal'
  readonly events: readonly EventDraft[]
}

const emptyReplyText =
  'Your answer was empty. Continue by calling a tool, or call finish with a message when everything is done.'
const refusedReplyText =
  'The provider refused the last answer by its content policy. Leave that part out and continue with the task in another way.'
const cutReplyText =
  'Your answer was cut off before it said anything: reasoning and calls count too. Think less, and take a smaller step.'
const summaryLength = 120
/** Before the summary of such a call, for the user who confirms it. */
const outsideText = 'OUTSIDE OF THE SANDBOX: '
/** Total length of the commands of one answer that are analyzed; further ones are HIGH. */
const maxAnalyzedChars = 64 * 1024

export interface ModelTurnOptions {
  readonly tools: ReadonlyMap<string, Tool>
  readonly analyzer: SecurityAnalyzer | null | undefined
  /** Commands run in a sandbox unless the user allows otherwise. */
  readonly hasSandbox?: boolean
  /** What commands must not reach. */
  readonly server?: ServerPlace | undefined
  /** Why a call of `finish` is not accepted. */
  readonly finishIssue?: string | undefined
  /** Redacts secrets in texts that are cut afterwards, where they would not be found. */
  readonly redact: (text: string) => string
}

/**
 * How a model's reply becomes events, as one model turn (spec 2.2, 6): completion log and token ids, then a
 * MessageEvent or an ActionEvent for each tool call, and the errors of invalid calls. Calls after a finish
 * are dropped.
 */
export async function eventsFromModelTurn(reply: ModelReply, options: ModelTurnOptions): Promise<ModelTurn> {
  const { message } = reply
  const before = recordEvents(reply, reply.usageId)
  const calls = message.tool_calls ?? []
  if (calls.length > 0)
    return { kind: 'calls', events: [...before, ...(await toolCallEvents(reply, options))] }
  const messageEvent = agentMessageEvent(reply)
  if (reply.stop === 'refusal') {
    return { kind: 'refusal', events: [...before, messageEvent, userMessage('user', refusedReplyText)] }
  }
  const hasText = message.content.some((part) => part.type === 'image' || part.text.trim() !== '')
  if (hasText) return { kind: 'text', events: [...before, messageEvent] }
  const prompt = reply.stop === 'length' ? `${cutReplyText} ${limitText(reply)}` : emptyReplyText
  return { kind: 'empty', events: [...before, messageEvent, userMessage('environment', prompt)] }
}

/** The text of a reply that would end the run: that of a finish call, or the reply's own; else undefined. */
export function finalText({ message, stop }: ModelReply): string | undefined {
  const finish = message.tool_calls?.find(({ name }) => name === 'finish')
  if (finish !== undefined) {
    const args = parseJsonObject(finish.arguments)
    if (args !== undefined && 'output' in args) return JSON.stringify(args.output)
    return typeof args?.message === 'string' ? args.message : ''
  }
  if ((message.tool_calls ?? []).length > 0 || stop === 'refusal') return undefined
  const text = replyText({ message })
  return text.trim() === '' ? undefined : text
}

async function toolCallEvents(reply: ModelReply, options: ModelTurnOptions): Promise<EventDraft[]> {
  const done: EventDraft[] = []
  const errors: EventDraft[] = []
  const { analyzer, server } = options
  let analyzedChars = 0
  const calls = withUniqueIds(reply.message.tool_calls ?? [])
  for (const toolCall of calls) {
    const parsed =
      toolCall === calls.at(-1) && isCut(reply, toolCall)
        ? { kind: 'error' as const, error: cutCallText(reply, toolCall), tool_call: toolCall }
        : parseToolCall(toolCall, options.tools)
    // A list that the same answer changes is another one.
    const hasNewList = done.some(({ action }) => getMember(action, 'kind') === 'TaskTrackerAction')
    const read = withFinishIssue(parsed, hasNewList ? undefined : options.finishIssue)
    const { tool_call } = read
    const isCall = read.kind === 'call'
    analyzedChars += tool_call.arguments.length
    const isOverBudget = analyzedChars > maxAnalyzedChars
    const security_risk = isCall
      ? await assess(analyzer, { ...read, predictedRisk: read.security_risk, isOverBudget, server })
      : 'UNKNOWN'
    done.push({
      kind: 'ActionEvent',
      source: 'agent',
      ...(done.length === 0 ? reasoningMembers(reply.message) : { thought: [], thinking_blocks: [] }),
      action: isCall ? read.action : undefined,
      tool_name: tool_call.name,
      tool_call_id: tool_call.id,
      tool_call,
      llm_response_id: reply.responseId,
      security_risk,
      summary: `${isCall && options.hasSandbox && asksForOutside(read) ? outsideText : ''}${(isCall ? read.summary : undefined) ?? summarizeCall(tool_call, options.redact)}`,
    })
    if (!isCall)
      errors.push(agentErrorEvent({ tool_name: tool_call.name, tool_call_id: tool_call.id }, read.error))
    else if (read.action.kind === 'FinishAction') break
  }
  return [...done, ...errors]
}

function withFinishIssue(read: ReturnType<typeof parseToolCall>, issue: string | undefined) {
  const isRefused = issue !== undefined && read.kind === 'call' && read.action.kind === 'FinishAction'
  return isRefused ? { kind: 'error' as const, error: issue, tool_call: read.tool_call } : read
}

/** A cut call is not repaired: what it lacks could change what it does. */
function isCut({ stop }: ModelReply, { arguments: args }: MessageToolCall): boolean {
  return (stop === 'length' || stop === 'refusal') && parseJsonObject(args) === undefined
}

function cutCallText(reply: ModelReply, { name, arguments: args }: MessageToolCall): string {
  const start = `The arguments of tool '${firstChars(name, 200)}' were cut off after ${args.length} characters; nothing was executed.`
  if (reply.stop === 'refusal')
    return `${start} The provider's content policy ended the answer. Continue in another way.`
  return `${start} ${limitText(reply)} Make the call again in smaller pieces: write a long file in parts, one call for each.`
}

function limitText({ usage: { completion_tokens: tokens } }: ModelReply): string {
  return `The limit of one answer (max_output_tokens) was reached${tokens > 0 ? ` at ${tokens} tokens` : ''}.`
}

/** Members of the whole reply, which its first action carries. */
function reasoningMembers(message: Message) {
  return {
    thought: message.content.filter((part): part is TextContent => part.type === 'text' && part.text !== ''),
    reasoning_content: message.reasoning_content,
    thinking_blocks: message.thinking_blocks,
    responses_reasoning_item: message.responses_reasoning_item,
  }
}

/** Makes call ids unique: some providers repeat ids or send none. */
function withUniqueIds(calls: readonly MessageToolCall[]): MessageToolCall[] {
  const usedIds = new Set<string>()
  return calls.map((call, index) => {
    const id = call.id === '' || usedIds.has(call.id) ? `${call.id || 'call'}-${index + 1}` : call.id
    usedIds.add(id)
    return id === call.id ? call : { ...call, id }
  })
}

function agentMessageEvent(reply: ModelReply): EventDraft {
  return {
    kind: 'MessageEvent',
    source: 'agent',
    llm_message: reply.message,
    llm_response_id: reply.responseId,
    activated_skills: [],
    extended_content: [],
  }
}

function summarizeCall({ name, arguments: args }: MessageToolCall, redact: (text: string) => string): string {
  const line = redact(`${name}: ${args}`).replace(/\s+/g, ' ')
  return line.length <= summaryLength ? line : `${firstChars(line, summaryLength - 3)}...`
}
