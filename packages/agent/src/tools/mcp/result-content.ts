import type { Observation } from '@slipway/protocol'
import { asRecord } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import { fitImages } from '../../images/fit-images.ts'
import { outputLimits } from '../core/output-limits.ts'
import { type ToolContext, textBlock } from '../core/tool.ts'
import { truncateOutput } from '../core/truncate.ts'

type Content = Extract<Observation, { kind: 'MCPToolObservation' }>['content']
type Block = Content[number]

const maxBlocks = 100
/** Characters of base64 of all images of one result. */
const maxImageChars = 8_000_000
/** Characters of base64 of all images, shrunk, in one event. */
const maxEventImageChars = 700_000
const imageTypePattern = /^image\/(png|jpeg|gif|webp)$/

/**
 * The result of an MCP tool as the content of an observation: texts and images; other content becomes a text.
 * Secrets are redacted; a long text is truncated and saved in the directory of the conversation.
 */
export async function resultContent(result: unknown, tool: string, context: ToolContext): Promise<Content> {
  const blocks = contentBlocks(result).slice(0, maxBlocks).map(toBlock)
  await context.secrets.resolveAll()
  const redacted = (await fitBlockImages(dropExcessImages(blocks))).map((block) =>
    block.type === 'text' ? textBlock(context.secrets.redact(block.text)) : block,
  )
  const header = textBlock(`[Tool '${tool}' executed.]`)
  const texts = redacted.flatMap((block) => (block.type === 'text' ? [block.text] : []))
  if (texts.reduce((sum, { length }) => sum + length, 0) <= outputLimits.mcp) return [header, ...redacted]
  const { directory } = context
  const truncated = await truncateOutput(texts.join('\n'), { directory, tool, maxChars: outputLimits.mcp })
  return [header, textBlock(truncated.text), ...redacted.filter(({ type }) => type === 'image')]
}

function contentBlocks(result: unknown): readonly unknown[] {
  const { content, structuredContent } = asRecord(result)
  if (Array.isArray(content) && content.length > 0) return content
  if (structuredContent !== undefined) return [{ type: 'text', text: JSON.stringify(structuredContent) }]
  return Array.isArray(content) ? [] : [{ type: 'text', text: JSON.stringify(result) }]
}

function toBlock(block: unknown): Block {
  const { type, data, mimeType, resource, uri, name, ...rest } = asRecord(block)
  if (type === 'text' && typeof rest.text === 'string') return textBlock(rest.text)
  if (type === 'image')
    return imageBlock(data, mimeType) ?? textBlock(`[An image of type ${shortText(mimeType)}]`)
  if (type === 'resource') return resourceBlock(asRecord(resource))
  if (type === 'resource_link') return textBlock(`[Resource ${shortText(name)}: ${shortText(uri)}]`)
  const detail = mimeType === undefined ? '' : `, ${shortText(mimeType)}`
  return textBlock(`[Content of type ${shortText(type)}${detail}]`)
}

/** The text of an answer to `prompts/get`: the words of each message, marked where they are a model's. */
export function promptText(answer: unknown): string {
  const { messages } = asRecord(answer)
  const list: unknown[] = Array.isArray(messages) ? messages : []
  return list
    .map((message) => {
      const { role, content } = asRecord(message)
      const block = toBlock(content)
      const text = block.type === 'text' ? block.text : '[An image]'
      return role === 'assistant' ? `You have answered: ${text}` : text
    })
    .join('\n\n')
}

function resourceBlock({ uri, mimeType, blob, text }: Record<string, unknown>): Block {
  const label = `Resource ${shortText(uri)}`
  if (typeof text === 'string') return textBlock(`[${label}]\n${text}`)
  return imageBlock(blob, mimeType) ?? textBlock(`[${label} of type ${shortText(mimeType)}]`)
}

function imageBlock(data: unknown, mimeType: unknown): Block | undefined {
  const isImage = typeof mimeType === 'string' && imageTypePattern.test(mimeType)
  if (typeof data !== 'string' || !isImage) return undefined
  if (data.length > maxImageChars)
    return textBlock(`[An image of ${data.length} characters was left out: too large]`)
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(data)) return undefined
  return { cache_prompt: false, type: 'image', image_urls: [`data:${mimeType};base64,${data}`] }
}

function dropExcessImages(blocks: readonly Block[]): Block[] {
  let budget = maxImageChars
  return blocks.map((block) => {
    if (block.type === 'text') return block
    budget -= block.image_urls.reduce((sum, url) => sum + url.length, 0)
    return budget < 0 ? textBlock('[An image was left out: the result has too many]') : block
  })
}

/** Shrinks images to fit into an event. */
async function fitBlockImages(blocks: readonly Block[]): Promise<Block[]> {
  const urls = blocks.flatMap((block) => (block.type === 'image' ? block.image_urls : []))
  const images = (await fitImages(urls, maxEventImageChars)).values()
  return blocks.map((block) => {
    if (block.type === 'text') return block
    const fit = images.next().value
    if (fit?.kind === 'failure') return textBlock(`[An image was left out: ${fit.failure}]`)
    return fit === undefined ? block : { ...block, image_urls: [fit.url] }
  })
}

function shortText(value: unknown): string {
  return typeof value === 'string' ? firstChars(value, 500) : 'unknown'
}
