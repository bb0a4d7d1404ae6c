import { firstChars } from '@slipway/shared/text'
import type { EventDraft } from '@slipway/storage'
import { readList, readText } from '../../acp/session-messages.ts'
import { endedCallStatuses } from '../state/state.ts'

const maxTextChars = 30_000
const maxJsonChars = 200_000

interface Call {
  readonly title: string
  readonly kind: string | undefined
  readonly status: string
  readonly rawInput: unknown
  readonly rawOutput: unknown
  readonly content: unknown
}

/**
 * The calls of one turn of an external agent. Each becomes two events: one when it begins and one with its
 * end; what comes in between is only merged.
 */
export class ExternalToolCalls {
  readonly #calls = new Map<string, Call>()

  /** The event of an update, if there is one. */
  merge(update: Readonly<Record<string, unknown>>): EventDraft | undefined {
    const id = readText(update.toolCallId)
    if (id === undefined) return undefined
    const known = this.#calls.get(id)
    if (known !== undefined && endedCallStatuses.has(known.status)) return undefined
    const call: Call = {
      title: readText(update.title) ?? known?.title ?? 'A call',
      kind: readText(update.kind) ?? known?.kind,
      status: readText(update.status) ?? known?.status ?? 'pending',
      rawInput: update.rawInput ?? known?.rawInput,
      rawOutput: update.rawOutput ?? known?.rawOutput,
      content: update.content ?? known?.content,
    }
    this.#calls.set(id, call)
    return known === undefined || endedCallStatuses.has(call.status) ? callEvent(id, call) : undefined
  }

  /** The calls that have not ended, ended. */
  end(status: 'completed' | 'failed'): EventDraft[] {
    const open = [...this.#calls].filter(([, call]) => !endedCallStatuses.has(call.status))
    return open.map(([id, call]) => {
      const ended = { ...call, status }
      this.#calls.set(id, ended)
      return callEvent(id, ended)
    })
  }
}

function callEvent(id: string, { title, kind, status, rawInput, rawOutput, content }: Call): EventDraft {
  const blocks = readList(content).map(shortenBlock)
  return {
    kind: 'ACPToolCallEvent',
    source: 'agent',
    tool_call_id: id,
    title: firstChars(title, 2_000),
    status,
    tool_kind: kind,
    raw_input: bounded(rawInput),
    raw_output: bounded(rawOutput),
    content: blocks.length === 0 ? undefined : bounded(blocks, [{ type: 'content', content: leftOutBlock }]),
    is_error: status === 'failed',
  }
}

const leftOutBlock = { type: 'text', text: '[Left out: it is too large.]' }

function shortenBlock(block: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { content } = block
  const isText = typeof content === 'object' && content !== null && 'text' in content
  return isText && typeof content.text === 'string'
    ? { ...block, content: { ...content, text: shorten(content.text) } }
    : block
}

function bounded(value: unknown, otherwise: unknown = leftOutBlock.text): unknown {
  if (typeof value === 'string') return shorten(value)
  const length = value === undefined ? 0 : JSON.stringify(value).length
  return length > maxJsonChars ? otherwise : value
}

function shorten(text: string): string {
  if (text.length <= maxTextChars) return text
  const half = maxTextChars / 2
  return `${text.slice(0, half)}\n[${text.length - maxTextChars} characters are left out]\n${text.slice(-half)}`
}
