import { wellFormed } from '@slipway/shared/json'
import { encodeEvent } from '../../packages/agent/src/llm/refusals/testing/refusing-server.ts'
import { sign } from '../../packages/agent/src/llm/testing/validators/signed.ts'
import type { Reply, ReplyPart } from './reply.ts'

/** The interfaces of the providers, by the path of their requests. */
export type Wire = 'chat' | 'responses' | 'anthropic' | 'gemini' | 'bedrock'

/** What a server counts; odd values are faults. */
export interface Counts {
  readonly input: unknown
  readonly output: unknown
}

export function wireOf(path: string): Wire {
  if (path.includes('/chat/completions')) return 'chat'
  if (path.includes('/responses')) return 'responses'
  if (path.includes('/messages')) return 'anthropic'
  return path.includes(':streamGenerateContent') ? 'gemini' : 'bedrock'
}

export function contentType(wire: Wire): string {
  return wire === 'bedrock' ? 'application/vnd.amazon.eventstream' : 'text/event-stream'
}

/** The frames of a reply; `id` is unique. */
export function framesOf(wire: Wire, reply: Reply, options: { id: string; counts: Counts }): Buffer[] {
  const parts = reply.parts.filter(({ kind }) => kind !== 'hidden' || wire === 'anthropic')
  const made = makers[wire]({ ...reply, parts }, options)
  return made
}

type Maker = (reply: Reply, options: { readonly id: string; readonly counts: Counts }) => Buffer[]

const event = (data: object): Buffer => {
  const type: unknown = Reflect.get(data, 'type')
  const name = typeof type === 'string' ? `event: ${type}\n` : ''
  return Buffer.from(`${name}data: ${JSON.stringify(data)}\n\n`)
}
const hasCalls = ({ parts }: Reply) => parts.some(({ kind }) => kind === 'call')
const halves = (text: string): string[] => {
  const middle = Math.ceil(text.length / 2)
  // Half a character would be another fault.
  const at = /[\ud800-\udbff]/.test(text[middle - 1] ?? '') ? middle + 1 : middle
  return [text.slice(0, at), text.slice(at)].filter((half) => half !== '')
}

/** The order of parts and the place of one, which Claude's signatures say. */
function signClaude(parts: readonly ReplyPart[], at: number, text: string): string {
  const letters = { thought: 'r', text: 't', call: 'c', hidden: '' }
  const order = parts.map(({ kind }) => letters[kind]).join('')
  const index = parts.slice(0, at).filter(({ kind }) => kind !== 'hidden').length
  return sign('claude', wellFormed(text), order, index)
}

const makers: Readonly<Record<Wire, Maker>> = {
  chat: (reply, { id, counts }) => {
    const chunk = (delta: object, finish_reason: string | null = null) =>
      event({ id: `chatcmpl-${id}`, created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason }] })
    const ends = {
      stop: hasCalls(reply) ? 'tool_calls' : 'stop',
      length: 'length',
      refusal: 'content_filter',
    }
    let calls = 0
    const deltas = reply.parts.flatMap((part): object[] => {
      if (part.kind === 'thought')
        return halves(part.text).map((reasoning_content) => ({ reasoning_content }))
      if (part.kind === 'text') return halves(part.text).map((content) => ({ content }))
      if (part.kind === 'hidden') return []
      const index = calls++
      const first = { index, id: callId(id, index), type: 'function' }
      return [
        { tool_calls: [{ ...first, function: { name: part.name, arguments: '' } }] },
        ...halves(part.input).map((text) => ({ tool_calls: [{ index, function: { arguments: text } }] })),
      ]
    })
    const { input: prompt_tokens, output: completion_tokens } = counts
    return [
      chunk({ role: 'assistant', content: '' }),
      ...deltas.map((delta) => chunk(delta)),
      chunk({}, ends[reply.end]),
      event({ id: `chatcmpl-${id}`, choices: [], usage: { prompt_tokens, completion_tokens } }),
      Buffer.from('data: [DONE]\n\n'),
    ]
  },
  responses: (reply, { id, counts }) => {
    const response = { id: `resp_${id}`, created_at: 1, model: 'm', output: [], usage: null }
    const items = reply.parts.flatMap((part, output_index) => responsesItem(part, { id, output_index }))
    const usage = { input_tokens: counts.input, output_tokens: counts.output }
    const reasons = { length: 'max_output_tokens', refusal: 'content_filter', stop: '' }
    const end =
      reply.end === 'stop'
        ? { type: 'response.completed', response: { ...response, usage } }
        : {
            type: 'response.incomplete',
            response: { ...response, usage, incomplete_details: { reason: reasons[reply.end] } },
          }
    return [{ type: 'response.created', response }, ...items, end].map(event)
  },
  anthropic: (reply, { id, counts }) => {
    const { parts } = reply
    const usage = { input_tokens: counts.input, output_tokens: counts.output }
    const message = { id: `msg_${id}`, type: 'message', role: 'assistant', model: 'm', content: [], usage }
    const blocks = parts.flatMap((part, index) => anthropicBlock(part, { id, index, parts }))
    const ends = { stop: hasCalls(reply) ? 'tool_use' : 'end_turn', length: 'max_tokens', refusal: 'refusal' }
    return [
      { type: 'message_start', message },
      { type: 'ping' },
      ...blocks,
      { type: 'message_delta', delta: { stop_reason: ends[reply.end], stop_sequence: null }, usage },
      { type: 'message_stop' },
    ].map(event)
  },
  gemini: (reply, { counts }) => {
    let isFirstCall = true
    const parts = reply.parts.flatMap((part): object[] => {
      if (part.kind === 'thought') return [{ thought: true, text: part.text }]
      if (part.kind === 'text') return [{ text: part.text }]
      if (part.kind === 'hidden') return []
      const args = parsed(part.input)
      const signed = isFirstCall ? { thoughtSignature: sign('gemini', JSON.stringify(args)) } : {}
      isFirstCall = false
      return [{ functionCall: { name: part.name, args }, ...signed }]
    })
    const ends = { stop: 'STOP', length: 'MAX_TOKENS', refusal: 'SAFETY' }
    const usageMetadata = { promptTokenCount: counts.input, candidatesTokenCount: counts.output }
    const candidate = (own: readonly object[], more: object = {}) => ({
      candidates: [{ content: { role: 'model', parts: own }, index: 0, ...more }],
    })
    return [
      ...parts.map((part) => event(candidate([part]))),
      event({ ...candidate([], { finishReason: ends[reply.end] }), usageMetadata }),
    ]
  },
  bedrock: (reply, { id, counts }) => {
    const ends = {
      stop: hasCalls(reply) ? 'tool_use' : 'end_turn',
      length: 'max_tokens',
      refusal: 'content_filtered',
    }
    const { parts } = reply
    const blocks = parts.flatMap((part, contentBlockIndex): [string, object][] => {
      const delta = (value: object): [string, object] => [
        'contentBlockDelta',
        { contentBlockIndex, delta: value },
      ]
      const stop: [string, object] = ['contentBlockStop', { contentBlockIndex }]
      if (part.kind === 'text') return [...halves(part.text).map((text) => delta({ text })), stop]
      if (part.kind === 'hidden') return []
      if (part.kind === 'thought') {
        const signature = signClaude(parts, contentBlockIndex, part.text)
        const texts = halves(part.text).map((text) => delta({ reasoningContent: { text } }))
        return [...texts, delta({ reasoningContent: { signature } }), stop]
      }
      const toolUse = { toolUseId: callId(id, contentBlockIndex), name: part.name }
      const inputs = halves(part.input).map((input) => delta({ toolUse: { input } }))
      return [['contentBlockStart', { contentBlockIndex, start: { toolUse } }], ...inputs, stop]
    })
    const usage = { inputTokens: counts.input, outputTokens: counts.output, totalTokens: 100 }
    const all: readonly [string, object][] = [
      ['messageStart', { role: 'assistant' }],
      ...blocks,
      ['messageStop', { stopReason: ends[reply.end] }],
      ['metadata', { usage, metrics: { latencyMs: 5 } }],
    ]
    return all.map(encodeEvent)
  },
}

/** Mistral takes exactly nine letters and digits. */
function callId(id: string, index: number): string {
  return `${id.slice(-8).padStart(8, '0')}${index.toString(36)}`
}

/** Providers send arguments as an object. */
function parsed(input: string): unknown {
  try {
    return JSON.parse(input)
  } catch {
    return {}
  }
}

function anthropicBlock(
  part: ReplyPart,
  { id, index, parts }: { readonly id: string; readonly index: number; readonly parts: readonly ReplyPart[] },
): object[] {
  const start = (content_block: object) => ({ type: 'content_block_start', index, content_block })
  const delta = (value: object) => ({ type: 'content_block_delta', index, delta: value })
  const stop = { type: 'content_block_stop', index }
  if (part.kind === 'hidden') {
    const data = signClaude(parts, index, '')
    return [start({ type: 'redacted_thinking', data }), stop]
  }
  if (part.kind === 'thought') {
    const signature = signClaude(parts, index, part.text)
    const texts = halves(part.text).map((thinking) => delta({ type: 'thinking_delta', thinking }))
    const empty = { type: 'thinking', thinking: '', signature: '' }
    return [start(empty), ...texts, delta({ type: 'signature_delta', signature }), stop]
  }
  if (part.kind === 'text') {
    const texts = halves(part.text).map((text) => delta({ type: 'text_delta', text }))
    return [start({ type: 'text', text: '' }), ...texts, stop]
  }
  const block = { type: 'tool_use', id: `toolu_${callId(id, index)}`, name: part.name, input: {} }
  const inputs = halves(part.input).map((text) => delta({ type: 'input_json_delta', partial_json: text }))
  return [start(block), ...inputs, stop]
}

function responsesItem(
  part: ReplyPart,
  { id, output_index }: { readonly id: string; readonly output_index: number },
): object[] {
  const item_id = `item_${id}_${output_index}`
  const added = (item: object) => ({ type: 'response.output_item.added', output_index, item })
  const done = (item: object) => ({ type: 'response.output_item.done', output_index, item })
  if (part.kind === 'hidden') return []
  if (part.kind === 'thought') {
    const item = { type: 'reasoning', id: item_id, encrypted_content: sign('openai', part.text) }
    const at = { item_id, output_index, summary_index: 0 }
    return [
      added({ ...item, summary: [] }),
      { type: 'response.reasoning_summary_part.added', ...at },
      { type: 'response.reasoning_summary_text.delta', ...at, delta: part.text },
      { type: 'response.reasoning_summary_part.done', ...at },
      done({ ...item, summary: [{ type: 'summary_text', text: part.text }] }),
    ]
  }
  if (part.kind === 'text') {
    const item = { type: 'message', id: item_id, role: 'assistant', content: [] }
    const texts = halves(part.text).map((delta) => ({
      type: 'response.output_text.delta',
      ...{ item_id, output_index, content_index: 0, delta },
    }))
    return [added(item), ...texts, done(item)]
  }
  const own = { type: 'function_call', id: item_id, call_id: `call_${callId(id, output_index)}` }
  const inputs = halves(part.input).map((delta) => ({
    type: 'response.function_call_arguments.delta',
    ...{ item_id, output_index, delta },
  }))
  const item = { ...own, name: part.name, arguments: part.input, status: 'completed' }
  return [added({ ...item, arguments: '', status: 'in_progress' }), ...inputs, done(item)]
}
