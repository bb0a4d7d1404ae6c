import type { Observation } from '@slipway/protocol'
import { fitImages } from '../../images/fit-images.ts'
import { type ToolContext, text } from '../core/tool.ts'
import { truncate } from '../core/truncate.ts'

type Content = Extract<Observation, { kind: 'MCPToolObservation' }>['content']
type Block = Content[number]

/** Characters of all texts of one result. */
const maxChars = 50_000
const maxBlocks = 100
/** Characters of base64 of all images of one result. */
const maxImageChars = 8_000_000
/** And of what is left of them, made smaller, in one event. */
const maxEventChars = 700_000
const imageType = /^image\/(png|jpeg|gif|webp)$/

/**
 * What a tool of an MCP server answered, as the content of an observation: texts and images; what is neither is told in
 * words. Secrets are taken out, and what is too long is saved in the directory of the conversation and cut.
 */
export async function resultContent(result: unknown, tool: string, context: ToolContext): Promise<Content> {
  const blocks = blocksOf(result).slice(0, maxBlocks).map(blockOf)
  await context.secrets.resolve()
  const masked = (await fitted(withinLimit(blocks))).map((block) =>
    block.type === 'text' ? text(context.secrets.mask(block.text)) : block,
  )
  const first = text(`[Tool '${tool}' executed.]`)
  const texts = masked.flatMap((block) => (block.type === 'text' ? [block.text] : []))
  if (texts.reduce((sum, { length }) => sum + length, 0) <= maxChars) return [first, ...masked]
  const { directory } = context
  const cut = await truncate(texts.join('\n'), { directory, tool, maxChars })
  return [first, text(cut.text), ...masked.filter(({ type }) => type === 'image')]
}

function blocksOf(result: unknown): readonly unknown[] {
  const { content, structuredContent } = members(result)
  if (Array.isArray(content) && content.length > 0) return content
  if (structuredContent !== undefined) return [{ type: 'text', text: JSON.stringify(structuredContent) }]
  return Array.isArray(content) ? [] : [{ type: 'text', text: JSON.stringify(result) }]
}

function blockOf(block: unknown): Block {
  const { type, data, mimeType, resource, uri, name, ...rest } = members(block)
  if (type === 'text' && typeof rest.text === 'string') return text(rest.text)
  if (type === 'image') return picture(data, mimeType) ?? text(`[An image of type ${said(mimeType)}]`)
  if (type === 'resource') return resourceBlock(members(resource))
  if (type === 'resource_link') return text(`[Resource ${said(name)}: ${said(uri)}]`)
  return text(`[Content of type ${said(type)}${mimeType === undefined ? '' : `, ${said(mimeType)}`}]`)
}

function resourceBlock({ uri, mimeType, blob, ...rest }: Record<string, unknown>): Block {
  if (typeof rest.text === 'string') return text(`[Resource ${said(uri)}]\n${rest.text}`)
  return picture(blob, mimeType) ?? text(`[Resource ${said(uri)} of type ${said(mimeType)}]`)
}

function picture(data: unknown, mimeType: unknown): Block | undefined {
  if (typeof data !== 'string' || typeof mimeType !== 'string' || !imageType.test(mimeType)) return undefined
  if (data.length > maxImageChars)
    return text(`[An image of ${data.length} characters was left out: too large]`)
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(data)) return undefined
  return { cache_prompt: false, type: 'image', image_urls: [`data:${mimeType};base64,${data}`] }
}

function withinLimit(blocks: readonly Block[]): Block[] {
  let room = maxImageChars
  return blocks.map((block) => {
    if (block.type === 'text') return block
    room -= block.image_urls.reduce((sum, url) => sum + url.length, 0)
    return room < 0 ? text('[An image was left out: the result has too many]') : block
  })
}

/** With images that an event has room for. */
async function fitted(blocks: readonly Block[]): Promise<Block[]> {
  const urls = blocks.flatMap((block) => (block.type === 'image' ? block.image_urls : []))
  const images = (await fitImages(urls, maxEventChars)).values()
  return blocks.map((block) => {
    if (block.type === 'text') return block
    const one = images.next().value
    if (one?.kind === 'fault') return text(`[An image was left out: ${one.fault}]`)
    return one === undefined ? block : { ...block, image_urls: [one.url] }
  })
}

function members(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}

function said(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, 500) : 'unknown'
}
