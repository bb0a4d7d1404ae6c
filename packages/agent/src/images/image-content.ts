import type { ImageContent } from '@slipway/protocol'

/** An image of a format that models accept as a content of the wire. */
export function toImageContent(type: string, bytes: Buffer): ImageContent {
  const url = `data:image/${type};base64,${bytes.toString('base64')}`
  return { cache_prompt: false, type: 'image', image_urls: [url] }
}
