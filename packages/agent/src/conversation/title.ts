import type { Message } from '@slipway/protocol'
import type { Model, ModelReply } from '../llm/model.ts'
import { textMessage } from './events/event-drafts.ts'

const promptLength = 1000
const instruction =
  'Give the conversation that begins with the following message a title. Answer with the title alone: a few words in the language of the message, without quotes, of at most'

/**
 * A title of at most `maxLength` characters for a conversation that begins with `text`. When the model gives none, or is
 * undefined, the message itself is the title, cut.
 */
export async function generateTitle(
  text: string,
  options: { readonly model: Model | undefined; readonly maxLength?: number },
  signal: AbortSignal,
): Promise<{ readonly title: string; readonly answer?: ModelReply }> {
  const { model, maxLength = 50 } = options
  const answer = await model?.generate(
    {
      messages: [
        textMessage('system', `${instruction} ${maxLength} characters.`),
        textMessage('user', text.slice(0, promptLength)),
      ],
      tools: [],
      maxOutputTokens: 200,
    },
    signal,
  )
  const answerText = answer?.kind === 'answer' ? titleText(answer.message) : ''
  const title = truncateTitle(answerText === '' ? text : answerText, maxLength)
  return answer?.kind === 'answer' ? { title, answer } : { title }
}

function titleText(message: Message): string {
  const text = message.content.map((part) => (part.type === 'text' ? part.text : '')).join(' ')
  return text
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/^["'`]+|["'`]+$/g, '')
}

function truncateTitle(text: string, maxLength: number): string {
  const line = [...text.replace(/\s+/g, ' ').trim()]
  if (line.length <= maxLength) return line.join('')
  return maxLength <= 3 ? line.slice(0, maxLength).join('') : `${line.slice(0, maxLength - 3).join('')}...`
}
