import type { Message } from '@slipway/protocol'
import type { Model, ModelReply, ModelRequest, ModelResult } from '../../llm/model.ts'
import { textMessage } from '../events/event-drafts.ts'
import { replyText } from '../view/content-blocks.ts'

const maxContinuations = 4
const continueText =
  'Your answer was cut off at the output limit. Continue it exactly where it ended: repeat nothing, and do not mention the cut.'

/** A result, and the replies of which a reply consists. */
export interface WholeResult {
  readonly result: ModelResult
  /** In order; the last is that of the result. */
  readonly pieces: readonly ModelReply[]
}

/**
 * Asks the model; a text that is cut at the output limit is continued by further requests, a bounded number.
 * The texts become one message, with the reasoning of its first piece and the calls of its last.
 */
export async function generateWhole(
  model: Model,
  request: ModelRequest,
  signal: AbortSignal,
): Promise<WholeResult> {
  const pieces: ModelReply[] = []
  let messages = request.messages
  for (;;) {
    const result = await model.generate({ ...request, messages }, signal)
    if (result.kind !== 'reply') return { result, pieces }
    pieces.push(result)
    const text = replyText(result)
    const hasCalls = (result.message.tool_calls ?? []).length > 0
    if (result.stop !== 'length' || hasCalls || text.trim() === '' || pieces.length > maxContinuations) {
      return { result: { ...result, message: joinMessages(pieces, result.message) }, pieces }
    }
    messages = [...messages, result.message, textMessage('user', continueText)]
  }
}

function joinMessages(pieces: readonly ModelReply[], last: Message): Message {
  const [first] = pieces
  if (first === undefined || pieces.length === 1) return last
  const text = pieces.map((piece) => replyText(piece)).join('')
  const { tool_calls } = last
  return {
    ...first.message,
    content: [{ type: 'text', text, cache_prompt: false }],
    ...(tool_calls ? { tool_calls } : {}),
  }
}
