import type { Model, ModelReply, ModelRequest, ModelResult } from '../../llm/model.ts'
import { joinMessages } from '../../llm/response/join-messages.ts'
import { textMessage } from '../events/event-drafts.ts'
import { replyText } from '../view/content-blocks.ts'

const maxContinuations = 4
const continueText =
  'Your answer was cut off at the output limit. Continue it exactly where it ended: repeat nothing, and do not mention the cut.'
/** Nothing cut it: what a server's own tool does continues. */
const pausedText = 'Continue.'

/** A result, and the replies of which a reply consists. */
export interface WholeResult {
  readonly result: ModelResult
  /** In order; the last is that of the result. */
  readonly pieces: readonly ModelReply[]
  /** The text fills the window, so it cannot be continued. */
  readonly isWindowFull?: boolean | undefined
}

/**
 * Asks the model; a text that is cut at the output limit is continued by further requests, a bounded number.
 * The answers become one message (`joinMessages`).
 */
export async function generateWhole(
  model: Model,
  request: ModelRequest,
  signal: AbortSignal,
  { isContinued = true }: { readonly isContinued?: boolean } = {},
): Promise<WholeResult> {
  const pieces: ModelReply[] = []
  let messages = request.messages
  for (;;) {
    const result = await model.generate({ ...request, messages }, signal)
    const written = pieces.at(-1)
    if (result.kind === 'failure' && result.code === 'LLMContextWindowExceedError' && written !== undefined)
      return { ...whole(pieces, written), isWindowFull: true }
    if (result.kind !== 'reply') return { result, pieces }
    pieces.push(result)
    const text = replyText(result)
    const hasCalls = (result.message.tool_calls ?? []).length > 0
    if (result.isPaused !== true && !isContinued) return whole(pieces, result)
    if (result.stop !== 'length' || hasCalls || text.trim() === '' || pieces.length > maxContinuations)
      return whole(pieces, result)
    messages = [...messages, result.message, textMessage('user', result.isPaused ? pausedText : continueText)]
  }
}

function whole(pieces: readonly ModelReply[], last: ModelReply): WholeResult {
  const message = joinMessages(pieces.map((piece) => piece.message)) ?? last.message
  return { result: { ...last, message }, pieces }
}
