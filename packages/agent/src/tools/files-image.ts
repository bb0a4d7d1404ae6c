import { extname } from 'node:path'
import type { ImageContent } from '@slipway/protocol'
import { Refused } from './files-access.ts'

const extensions: ReadonlySet<string> = new Set(['.png', '.jpg', '.jpeg', '.gif', '.webp', '.bmp'])

/** An event has room for 1 MiB, and base64 makes four bytes of three. */
const maxBytes = 512 * 1024

/**
 * The image of a file that is named as one; undefined when its bytes are none, so that no model is sent what it cannot
 * read. Rejects with Refused for an image that is too large for an event, or of a format that models do not take.
 */
export function imageOf(path: string, bytes: Buffer): ImageContent | undefined {
  if (!extensions.has(extname(path).toLowerCase())) return undefined
  const type = typeOf(bytes)
  if (type === undefined) return undefined
  if (type === 'bmp')
    throw new Refused(`${path} is a BMP image, which models do not take. Convert it to PNG, then view that.`)
  if (bytes.length > maxBytes)
    throw new Refused(
      `${path} is an image of ${bytes.length} bytes; up to ${maxBytes} can be shown. Make a smaller copy (fewer pixels, or JPEG), then view that.`,
    )
  const url = `data:image/${type};base64,${bytes.toString('base64')}`
  return { cache_prompt: false, type: 'image', image_urls: [url] }
}

/** By the first bytes, whatever the name says. */
function typeOf(bytes: Buffer): 'png' | 'jpeg' | 'gif' | 'webp' | 'bmp' | undefined {
  const begins = (text: string, at = 0) => bytes.toString('latin1', at, at + text.length) === text
  if (begins('\x89PNG\r\n\x1a\n')) return 'png'
  if (begins('\xff\xd8\xff')) return 'jpeg'
  if (begins('GIF87a') || begins('GIF89a')) return 'gif'
  if (begins('RIFF') && begins('WEBP', 8)) return 'webp'
  return begins('BM') && bytes.includes(0) ? 'bmp' : undefined
}
