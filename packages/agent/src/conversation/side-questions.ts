import { Problem } from '@slipway/protocol'
import type { ConversationParts } from './conversation-parts.ts'
import { textMessage } from './events/event-drafts.ts'
import { replyText } from './view/content-blocks.ts'
import { messageLimits } from './view/message-limits.ts'

const instruction =
  'Answer the following question about this conversation briefly and in words only, without calling a tool:'

/** A Problem `unavailable` when the model gives no answer. */
export async function askSideQuestion(
  { context, runtimes }: ConversationParts,
  question: string,
  signal: AbortSignal,
): Promise<string> {
  const { secrets, closing } = context
  const { model, modelTools } = await runtimes.open()
  const messages = [
    ...context.state.view.messages(messageLimits(model)),
    textMessage('user', `${instruction}\n\n${secrets.redact(question)}`),
  ]
  const result = await model.generate(
    { messages, tools: modelTools, toolChoice: 'none' },
    AbortSignal.any([signal, closing.signal]),
  )
  if (result.kind !== 'reply') {
    const detail = result.kind === 'failure' ? `${result.code}: ${result.detail}` : 'It was interrupted.'
    throw new Problem('unavailable', `The model gave no answer. ${secrets.redact(detail)}`)
  }
  await context.recordUsage(result, 'ask-agent-llm')
  return secrets.redact(replyText(result))
}
