import { type ImageContent, isAutomaticRejection, type Message } from '@slipway/protocol'
import { firstChars } from '@slipway/shared/text'
import { textBlock } from '../../tools/core/tool.ts'
import { truncateMiddle } from '../../tools/core/truncate.ts'
import type { LogEventOf, ResultEvent } from './log-event.ts'

export type ContentBlock = Message['content'][number]

export function replyText({ message }: { readonly message: Message }, separator = ''): string {
  return message.content.map((part) => (part.type === 'text' ? part.text : '')).join(separator)
}

/**
 * The blocks of a content of any shape in the log, without cache marks. Texts are cut to `max` characters;
 * blank ones are dropped, because models refuse them.
 */
export function toBlocks(content: unknown, max: number): ContentBlock[] {
  if (typeof content === 'string') return toBlocks([content], max)
  if (!Array.isArray(content)) return []
  return content.flatMap((part: unknown): ContentBlock[] => {
    const text = typeof part === 'string' ? part : getMember(part, 'text')
    if (typeof text === 'string') return text.trim() === '' ? [] : [textBlock(shorten(text, max))]
    const urls = getMember(part, 'image_urls')
    if (!Array.isArray(urls)) return []
    const image_urls = urls.filter((url): url is string => typeof url === 'string' && url !== '')
    return image_urls.length === 0 ? [] : [{ cache_prompt: false, type: 'image', image_urls }]
  })
}

/** The content of the tool message for a result; never empty. */
export function resultBlocks(result: ResultEvent, max: number): ContentBlock[] {
  if (result.kind === 'AgentErrorEvent')
    return nonEmpty(toBlocks([result.error], max), 'The call failed without an error text.')
  if (result.kind === 'ObservationEvent')
    return nonEmpty(observationBlocks(result, max), 'The tool gave no output.')
  const { rejection_reason: reason = 'User rejected the action', rejection_source } = result
  const asked = rejection_source === 'hook' ? 'a hook' : 'the user'
  const who = isAutomaticRejection(reason) ? 'the server' : asked
  return toBlocks([`The action was rejected by ${who}: ${reason}`], max)
}

function observationBlocks({ observation }: LogEventOf<'ObservationEvent'>, max: number): ContentBlock[] {
  const blocks = [
    ...withTerminalFrame(observation, observationContent(observation, max), max),
    ...screenshotBlocks(observation),
  ]
  if (getMember(observation, 'is_error') !== true) return blocks
  return [textBlock('[An error occurred during execution.]'), ...blocks]
}

/** Observations of other writers may lack a content: then the model sees their other members. */
function observationContent(observation: unknown, max: number): ContentBlock[] {
  const content = getMember(observation, 'content')
  if (content !== undefined && content !== null) return toBlocks(content, max)
  if (typeof observation !== 'object' || observation === null) return toBlocks(observation, max)
  const { kind, is_error, content: none, ...rest } = observation as Record<string, unknown>
  return Object.keys(rest).length === 0 ? [] : toBlocks([JSON.stringify(rest)], max)
}

/** Adds the terminal's prefix and suffix (exit code, hints), unless the output has them. */
function withTerminalFrame(observation: unknown, blocks: ContentBlock[], max: number): ContentBlock[] {
  const metadata = getMember(observation, 'metadata')
  const output = blocks.map((block) => (block.type === 'text' ? block.text : '')).join('\n')
  const frame = (name: string) => {
    const text = getMember(metadata, name)
    return typeof text === 'string' && !output.includes(text.trim()) ? toBlocks([text], max) : []
  }
  return [...frame('prefix'), ...blocks, ...frame('suffix')]
}

function screenshotBlocks(observation: unknown): ImageContent[] {
  const data = getMember(observation, 'screenshot_data')
  if (typeof data !== 'string' || data === '') return []
  const url = data.startsWith('data:') ? data : `data:${imageMediaType(data)};base64,${data}`
  return [{ cache_prompt: false, type: 'image', image_urls: [url] }]
}

/** By the first characters of the base64 text. */
function imageMediaType(base64: string): string {
  if (base64.startsWith('/9j/')) return 'image/jpeg'
  if (base64.startsWith('UklGR')) return 'image/webp'
  return base64.startsWith('R0lGOD') ? 'image/gif' : 'image/png'
}

function nonEmpty(blocks: ContentBlock[], text: string): ContentBlock[] {
  return blocks.length === 0 ? [textBlock(text)] : blocks
}

/** Room for the note about the omitted characters. */
const noteChars = 60

/**
 * A text of at most `max` characters: beginning and end of a longer one, with a note between them if it fits.
 * Splits no character.
 */
export function shorten(text: string, max: number): string {
  if (text.length <= max) return text
  if (max < 2 * noteChars) return firstChars(text, max)
  return truncateMiddle(text, max, ({ chars }) => `[... ${chars} characters left out ...]`)
}

export function getMember(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
