import type { Message, MessageToolCall, SecurityAnalyzer, SecurityRisk, TextContent } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import type { Answered } from '../../llm/model.ts'
import { readCall } from '../../tools/calls/parse-call.ts'
import type { Tool } from '../../tools/core/tool.ts'
import { assess } from '../confirm/confirmation.ts'
import { agentError, userMessage } from '../events/event-drafts.ts'

/** What a model's answer comes to. */
export interface Thought {
  /** `calls`: there is something to do; `text`: it answered; `empty`, `refusal`: it has been asked again. */
  readonly kind: 'calls' | 'text' | 'empty' | 'refusal'
  readonly events: readonly EventDraft[]
}

const emptyAnswer =
  'Your answer was empty. Go on by calling a tool, or call finish with a message when everything is done.'
const refusedAnswer =
  'The provider refused the last answer by its content policy. Leave that part out and go on with the task in another way.'
const summaryLength = 120

/** How an answer is to be read. */
export interface Reading {
  readonly tools: ReadonlyMap<string, Tool>
  readonly analyzer: SecurityAnalyzer | null | undefined
  /** Hides secrets: in what is cut afterwards they would not be found. */
  readonly mask: (text: string) => string
}

/**
 * The events of an answer (spec 2.2, 6): logs and token ids, then one ActionEvent for each tool call with the common
 * `llm_response_id`, errors of calls that cannot be done behind them; or a MessageEvent. Calls after a finish are dropped.
 */
export async function thoughtOf(answer: Answered, reading: Reading): Promise<Thought> {
  const { message } = answer
  const before = [...logEvents(answer), ...tokenEvents(answer)]
  const calls = message.tool_calls ?? []
  if (calls.length > 0) return { kind: 'calls', events: [...before, ...(await actions(answer, reading))] }
  const said = agentMessage(answer)
  if (answer.stop === 'refusal') {
    return { kind: 'refusal', events: [...before, said, userMessage('user', refusedAnswer)] }
  }
  const hasText = message.content.some((part) => part.type === 'image' || part.text.trim() !== '')
  if (hasText) return { kind: 'text', events: [...before, said] }
  return { kind: 'empty', events: [...before, said, userMessage('environment', emptyAnswer)] }
}

/** The text that an answer would finish with: of a finish call, or its own; undefined when it goes on. */
export function closingText({ message, stop }: Answered): string | undefined {
  const finish = message.tool_calls?.find(({ name }) => name === 'finish')
  if (finish !== undefined) {
    const text: unknown = safeJson(finish.arguments)
    return typeof text === 'object' && text !== null && 'message' in text ? String(text.message) : ''
  }
  if ((message.tool_calls ?? []).length > 0 || stop === 'refusal') return undefined
  const text = texts(message).join('')
  return text.trim() === '' ? undefined : text
}

function safeJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

async function actions(answer: Answered, reading: Reading): Promise<EventDraft[]> {
  const done: EventDraft[] = []
  const errors: EventDraft[] = []
  for (const toolCall of distinct(answer.message.tool_calls ?? [])) {
    const read = readCall(toolCall, reading.tools)
    const { tool_call } = read
    const isCall = read.kind === 'call'
    const security_risk: SecurityRisk = isCall
      ? await assess(reading.analyzer, {
          tool: read.tool,
          action: read.action,
          predicted: read.security_risk,
        })
      : 'UNKNOWN'
    done.push({
      kind: 'ActionEvent',
      source: 'agent',
      ...(done.length === 0 ? firstOnly(answer.message) : { thought: [], thinking_blocks: [] }),
      action: isCall ? read.action : undefined,
      tool_name: tool_call.name,
      tool_call_id: tool_call.id,
      tool_call,
      llm_response_id: answer.responseId,
      security_risk,
      summary: (isCall ? read.summary : undefined) ?? briefly(tool_call, reading.mask),
    })
    if (!isCall)
      errors.push(agentError({ tool_name: tool_call.name, tool_call_id: tool_call.id }, read.error))
    else if (read.action.kind === 'FinishAction') break
  }
  return [...done, ...errors]
}

/** What belongs to the whole answer stands on its first action. */
function firstOnly(message: Message) {
  return {
    thought: message.content.filter((part): part is TextContent => part.type === 'text' && part.text !== ''),
    reasoning_content: message.reasoning_content,
    thinking_blocks: message.thinking_blocks,
    responses_reasoning_item: message.responses_reasoning_item,
  }
}

/** Calls with ids of their own: providers that repeat an id, or give none, cannot be answered otherwise. */
function distinct(calls: readonly MessageToolCall[]): MessageToolCall[] {
  const seen = new Set<string>()
  return calls.map((call, index) => {
    const id = call.id === '' || seen.has(call.id) ? `${call.id || 'call'}-${index + 1}` : call.id
    seen.add(id)
    return id === call.id ? call : { ...call, id }
  })
}

function agentMessage(answer: Answered): EventDraft {
  return {
    kind: 'MessageEvent',
    source: 'agent',
    llm_message: answer.message,
    llm_response_id: answer.responseId,
    activated_skills: [],
    extended_content: [],
  }
}

function logEvents({ log, model, usageId }: Answered): EventDraft[] {
  if (log === undefined) return []
  return [
    {
      kind: 'LLMCompletionLogEvent',
      source: 'environment',
      filename: log.filename,
      log_data: log.data,
      model_name: model,
      usage_id: usageId,
    },
  ]
}

function tokenEvents({ tokenIds }: Answered): EventDraft[] {
  if (tokenIds === undefined) return []
  const { prompt, response } = tokenIds
  return [{ kind: 'TokenEvent', source: 'agent', prompt_token_ids: prompt, response_token_ids: response }]
}

function briefly({ name, arguments: args }: MessageToolCall, mask: (text: string) => string): string {
  const line = mask(`${name}: ${args}`).replace(/\s+/g, ' ')
  return line.length <= summaryLength ? line : `${line.slice(0, summaryLength - 3)}...`
}

function texts(message: Message): string[] {
  return message.content.flatMap((part) => (part.type === 'text' ? [part.text] : []))
}
