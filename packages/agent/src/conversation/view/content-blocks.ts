import type { ImageContent, Message, TextContent } from '@slipway/protocol'
import type { LogEventOf, ResultEvent } from './log-event.ts'

export type Block = Message['content'][number]

export function textBlock(text: string): TextContent {
  return { cache_prompt: false, type: 'text', text }
}

/**
 * The blocks of a content, of whatever shape it is in the log, without cache marks. Texts are cut to `max` characters;
 * blank ones are left out, because models refuse them.
 */
export function blocksOf(content: unknown, max: number): Block[] {
  if (typeof content === 'string') return blocksOf([content], max)
  if (!Array.isArray(content)) return []
  return content.flatMap((part: unknown): Block[] => {
    const text = typeof part === 'string' ? part : member(part, 'text')
    if (typeof text === 'string') return text.trim() === '' ? [] : [textBlock(cut(text, max))]
    const urls = member(part, 'image_urls')
    if (!Array.isArray(urls)) return []
    const image_urls = urls.filter((url): url is string => typeof url === 'string' && url !== '')
    return image_urls.length === 0 ? [] : [{ cache_prompt: false, type: 'image', image_urls }]
  })
}

/** What a tool message says of a result; never empty. */
export function resultBlocks(result: ResultEvent, max: number): Block[] {
  switch (result.kind) {
    case 'AgentErrorEvent':
      return nonEmpty(blocksOf([result.error], max), 'The call failed without an error text.')
    case 'UserRejectObservation': {
      const { rejection_reason: reason = 'User rejected the action', rejection_source } = result
      const who = rejection_source === 'hook' ? 'a hook' : 'the user'
      return blocksOf([`The action was rejected by ${who}: ${reason}`], max)
    }
    case 'ObservationEvent':
      return nonEmpty(observationBlocks(result, max), 'The tool gave no output.')
  }
}

function observationBlocks({ observation }: LogEventOf<'ObservationEvent'>, max: number): Block[] {
  const blocks = [...framed(observation, contentBlocks(observation, max), max), ...screenshot(observation)]
  if (member(observation, 'is_error') !== true) return blocks
  return [textBlock('[An error occurred during execution.]'), ...blocks]
}

/** Observations of other writers may have no content at all: then the model reads all the rest. */
function contentBlocks(observation: unknown, max: number): Block[] {
  const content = member(observation, 'content')
  if (content !== undefined && content !== null) return blocksOf(content, max)
  if (typeof observation !== 'object' || observation === null) return blocksOf(observation, max)
  const { kind, is_error, content: none, ...rest } = observation as Record<string, unknown>
  return Object.keys(rest).length === 0 ? [] : blocksOf([JSON.stringify(rest)], max)
}

/** What a terminal says before and after the output (its exit code, how to go on), unless the output says it already. */
function framed(observation: unknown, blocks: Block[], max: number): Block[] {
  const metadata = member(observation, 'metadata')
  const output = blocks.map((block) => (block.type === 'text' ? block.text : '')).join('\n')
  const frame = (name: string) => {
    const text = member(metadata, name)
    return typeof text === 'string' && !output.includes(text.trim()) ? blocksOf([text], max) : []
  }
  return [...frame('prefix'), ...blocks, ...frame('suffix')]
}

function screenshot(observation: unknown): ImageContent[] {
  const data = member(observation, 'screenshot_data')
  if (typeof data !== 'string' || data === '') return []
  const url = data.startsWith('data:') ? data : `data:${mediaType(data)};base64,${data}`
  return [{ cache_prompt: false, type: 'image', image_urls: [url] }]
}

/** Told by how the base64 text begins. */
function mediaType(base64: string): string {
  if (base64.startsWith('/9j/')) return 'image/jpeg'
  if (base64.startsWith('UklGR')) return 'image/webp'
  return base64.startsWith('R0lGOD') ? 'image/gif' : 'image/png'
}

function nonEmpty(blocks: Block[], text: string): Block[] {
  return blocks.length === 0 ? [textBlock(text)] : blocks
}

/** Room for the note of what is left out. */
const noteChars = 60

/**
 * A text of at most `max` characters: of a longer one the beginning and the end, with a note between them of how much is
 * left out (no note where there is no room for one). No character is split.
 */
export function cut(text: string, max: number): string {
  if (text.length <= max) return text
  if (max < 2 * noteChars) return text.slice(0, wholeUpTo(text, max))
  const half = Math.floor((max - noteChars) / 2)
  const head = wholeUpTo(text, half)
  const from = text.length - half
  const tail = isLowSurrogate(text, from) ? from + 1 : from
  return `${text.slice(0, head)}\n[... ${tail - head} characters left out ...]\n${text.slice(tail)}`
}

function wholeUpTo(text: string, end: number): number {
  return isLowSurrogate(text, end) ? Math.max(0, end - 1) : end
}

function isLowSurrogate(text: string, index: number): boolean {
  return (text.charCodeAt(index) & 0xfc00) === 0xdc00
}

export function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
