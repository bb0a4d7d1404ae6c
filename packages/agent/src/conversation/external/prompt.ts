import { firstChars, lastChars } from '@slipway/shared/text'
import type { ConversationState } from '../state/state.ts'
import type { LogEventOf, ViewEvent } from '../view/log-event.ts'

const goOnText = 'Your last turn was interrupted before its end. Continue with it.'
const maxHistoryChars = 20_000

interface ExternalPrompt {
  readonly blocks: readonly object[]
  /** The messages that it contains. */
  readonly ids: readonly string[]
}

/**
 * What an external agent is sent next: the messages since its last answer that it has not been sent. A new
 * session also gets the texts of the conversation before, and `suffix`.
 */
export function externalPrompt(
  { view }: ConversationState,
  options: {
    /** The last message that the session was sent. */
    readonly sentId: string | undefined
    readonly isNewSession: boolean
    readonly suffix: string | undefined
    readonly acceptsImages: boolean
  },
): ExternalPrompt {
  const { events } = view
  const { sentId, isNewSession, suffix, acceptsImages } = options
  const last = events.findLastIndex((event) => isAnswer(event))
  const waiting = events.slice(last + 1).filter(isInput)
  const sent = waiting.findIndex(({ id }) => id === sentId)
  const messages = isNewSession ? waiting : waiting.slice(sent + 1)
  const history = isNewSession ? historyText(events.slice(0, last + 1)) : ''
  const blocks = [
    ...(history === '' ? [] : [textBlock(history)]),
    ...(messages.length === 0
      ? [textBlock(goOnText)]
      : messages.flatMap((one) => messageBlocks(one, acceptsImages))),
    ...(isNewSession && suffix !== undefined && suffix.trim() !== '' ? [textBlock(suffix)] : []),
  ]
  return { blocks, ids: messages.map(({ id }) => id) }
}

type MessageEvent = LogEventOf<'MessageEvent'>

function isAnswer(event: ViewEvent): boolean {
  return event.kind === 'MessageEvent' && event.source === 'agent'
}

function isInput(event: ViewEvent): event is MessageEvent {
  return event.kind === 'MessageEvent' && event.source !== 'agent' && event.llm_message?.role === 'user'
}

function messageBlocks(
  { llm_message, extended_content = [] }: MessageEvent,
  acceptsImages: boolean,
): object[] {
  return [...(llm_message?.content ?? []), ...extended_content].flatMap((part): object[] => {
    if ('text' in part) return part.text.trim() === '' ? [] : [textBlock(part.text)]
    return part.image_urls.map((url) => (acceptsImages ? imageBlock(url) : textBlock(noImageText)))
  })
}

const noImageText = '[The user has sent an image here, which you cannot see.]'

function imageBlock(url: string): object {
  const [, mimeType, data] = /^data:([^;,]+);base64,(.*)$/s.exec(url) ?? []
  return mimeType === undefined || data === undefined
    ? textBlock(`[An image: ${firstChars(url, 2_000)}]`)
    : { type: 'image', mimeType, data }
}

/** The texts of user and agent, the newest. */
function historyText(events: readonly ViewEvent[]): string {
  const lines = events.flatMap((event) => {
    if (event.kind !== 'MessageEvent' || !(isInput(event) || isAnswer(event))) return []
    const text = (event.llm_message?.content ?? [])
      .flatMap((part) => ('text' in part ? [part.text] : []))
      .join('\n')
    return text.trim() === '' ? [] : [`${event.source === 'agent' ? 'You' : 'User'}: ${text}`]
  })
  if (lines.length === 0) return ''
  const text = lines.join('\n\n')
  const newest = text.length <= maxHistoryChars ? text : `...${lastChars(text, maxHistoryChars)}`
  return `The conversation so far, of which you know nothing else:\n\n${newest}\n\nIt continues:`
}

function textBlock(text: string): object {
  return { type: 'text', text }
}
