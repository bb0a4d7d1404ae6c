import { randomUUID } from 'node:crypto'
import type { Message } from '@slipway/protocol'
import type { ModelDelta, ModelReply, ModelRequest } from '../model.ts'
import type { ModelSource, SourceResult } from '../model-source.ts'
import { toTextMessages } from './format.ts'
import { callStart, parseTextCalls } from './parse.ts'

/**
 * A model without its own tool calls: tools and calls are texts of its requests and replies. So it is by the
 * settings, or because its server leaves tools out or refuses
 * them.
 */
export class TextCallSource implements ModelSource {
  readonly #source: ModelSource
  readonly #isSet: boolean

  constructor(source: ModelSource, isSet: boolean) {
    this.#source = source
    this.#isSet = isSet
  }

  get contextWindow(): number | undefined {
    return this.#source.contextWindow
  }

  get dropsTools(): boolean {
    return !this.#isSet && this.#source.dropsTools === true
  }

  async prepare(): Promise<void> {
    await this.#source.prepare?.()
  }

  async generate(request: ModelRequest, signal: AbortSignal): Promise<SourceResult> {
    const { tools } = request
    const isNative = !this.#isSet && !this.dropsTools
    if (tools.length > 0 && !isNative) return await this.#generateText(request, signal)
    const result = await this.#source.generate(request, signal)
    // The server has refused them.
    const isRefused = result.kind === 'failure' && tools.length > 0 && this.dropsTools
    return isRefused ? await this.#generateText(request, signal) : result
  }

  async #generateText(request: ModelRequest, signal: AbortSignal): Promise<SourceResult> {
    const { tools, toolChoice: _, onDelta, onReset, ...rest } = request
    const deltas = visibleDeltas(onDelta)
    const result = await this.#source.generate(
      {
        ...rest,
        messages: toTextMessages(request.messages, tools),
        tools: [],
        onDelta: deltas.add,
        onReset: (attempt) => {
          deltas.reset()
          onReset?.(attempt)
        },
      },
      signal,
    )
    deltas.end()
    if (result.kind !== 'reply' || request.toolChoice === 'none') return result
    return { ...result, reply: withCalls(result.reply, (text) => parseTextCalls(text, tools)) }
  }
}

/** A reply whose text has calls, with them as calls. */
export function withCalls(
  reply: ModelReply,
  parse: (text: string) => ReturnType<typeof parseTextCalls>,
): ModelReply {
  const { message } = reply
  const source = message.content.map((part) => (part.type === 'text' ? part.text : '')).join('')
  const { text, calls } = parse(source)
  if (calls.length === 0) return reply
  const content: Message['content'] = text === '' ? [] : [{ type: 'text', text, cache_prompt: false }]
  const tool_calls = calls.map((call) => ({
    id: `call_${randomUUID()}`,
    ...call,
    origin: 'completion' as const,
  }))
  // A cut reply stays one: its last call is then not executed.
  const stop = reply.stop === 'stop' ? 'tool_calls' : reply.stop
  return { ...reply, message: { ...message, content, tool_calls }, stop }
}

/** Deltas without calls; holds back what could be the beginning of one. */
function visibleDeltas(onDelta: ModelRequest['onDelta']) {
  let held = ''
  let isCalling = false
  const send = (content: string) => {
    if (content !== '') onDelta?.({ content })
  }
  return {
    add({ content, reasoning_content }: ModelDelta): void {
      if (reasoning_content !== undefined) onDelta?.({ reasoning_content })
      if (content === undefined || isCalling) return
      held += content
      const start = callStart.exec(held)
      isCalling = start !== null
      const open = /<[^>]*$/.exec(held)
      const end = start?.index ?? open?.index ?? held.length
      send(held.slice(0, end))
      held = isCalling ? '' : held.slice(end)
    },
    reset(): void {
      held = ''
      isCalling = false
    },
    end(): void {
      send(held)
      held = ''
    },
  }
}
