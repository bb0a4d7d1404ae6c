import type { ImageContent } from '@slipway/protocol'
import { decodePercent } from '@slipway/shared/url'
import type { SdkMessage } from './sdk-types.ts'

export type UserPart = Extract<SdkMessage, { role: 'user' }>['content'][number]
type FilePart = Extract<UserPart, { type: 'file' }>

const omittedImage = '[An image was left out: this model does not take images.]'
const unreadable = '[An image was left out: its address cannot be read.]'
const mediaTypeByExtension: Readonly<Record<string, string>> = {
  png: 'image/png',
  gif: 'image/gif',
  webp: 'image/webp',
  svg: 'image/svg+xml',
  bmp: 'image/bmp',
}

export interface ImageSupport {
  readonly hasVision: boolean
  /** False: only as data (Bedrock). */
  readonly acceptsUrls: boolean
}

/** The images of a content as parts; a text replaces an image that cannot be shown. */
export function imageParts(content: ImageContent, support: ImageSupport): UserPart[] {
  return content.image_urls.map((url) => {
    if (!support.hasVision) return { type: 'text', text: omittedImage }
    if (url.startsWith('data:')) return dataPart(url) ?? { type: 'text', text: unreadable }
    if (!URL.canParse(url)) return { type: 'text', text: unreadable }
    if (support.acceptsUrls) return urlPart(new URL(url))
    return {
      type: 'text',
      text: `[The image at ${url} was left out: this provider takes images only as data.]`,
    }
  })
}

function urlPart(url: URL): FilePart {
  const suffix = /\.(\w+)$/.exec(url.pathname)?.[1]?.toLowerCase() ?? ''
  return { type: 'file', mediaType: mediaTypeByExtension[suffix] ?? 'image/jpeg', data: { type: 'url', url } }
}

function dataPart(url: string): FilePart | undefined {
  const comma = url.indexOf(',')
  if (comma < 0) return undefined
  const [mediaType = '', ...marks] = url.slice('data:'.length, comma).split(';')
  if (!mediaType.startsWith('image/')) return undefined
  const body = url.slice(comma + 1)
  const data = marks.includes('base64') ? body : toBase64(decodePercent(body))
  return data === undefined ? undefined : { type: 'file', mediaType, data: { type: 'data', data } }
}

function toBase64(text: string | undefined): string | undefined {
  return text && Buffer.from(text).toString('base64')
}
