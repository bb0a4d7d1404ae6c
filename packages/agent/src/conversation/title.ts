import type { Model, ModelReply } from '../llm/model.ts'
import { textMessage } from './events/event-drafts.ts'
import { replyText } from './view/content-blocks.ts'

const promptLength = 1000
const instruction =
  'Give the conversation that begins with the following message a title. Answer with the title alone: a few words in the language of the message, without quotes, of at most'

/** A title for a conversation that begins with `text`: the model's, else the truncated text. */
export async function generateTitle(
  text: string,
  options: { readonly model: Model | undefined; readonly maxLength?: number },
  signal: AbortSignal,
): Promise<{ readonly title: string; readonly reply?: ModelReply }> {
  const { model, maxLength = 50 } = options
  const messages = [
    textMessage('system', `${instruction} ${maxLength} characters.`),
    textMessage('user', text.slice(0, promptLength)),
  ]
  const result = await model?.generate({ messages, tools: [], maxOutputTokens: 200 }, signal)
  if (result?.kind !== 'reply') return { title: truncateTitle(text, maxLength) }
  const own = replyText(result, ' ')
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/^["'`]+|["'`]+$/g, '')
  return { title: truncateTitle(own === '' ? text : own, maxLength), reply: result }
}

function truncateTitle(text: string, maxLength: number): string {
  const line = [...text.replace(/\s+/g, ' ').trim()]
  if (line.length <= maxLength) return line.join('')
  return maxLength <= 3 ? line.slice(0, maxLength).join('') : `${line.slice(0, maxLength - 3).join('')}...`
}
