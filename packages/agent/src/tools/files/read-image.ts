import { extname } from 'node:path'
import type { ImageContent } from '@slipway/protocol'
import { detectImageType, shrinkImage } from '../../images/fit-images.ts'
import { toImageContent } from '../../images/image-content.ts'
import { ToolError } from '../core/tool-failure.ts'

const imageExtensions: ReadonlySet<string> = new Set(['.png', '.jpg', '.jpeg', '.gif', '.webp', '.bmp'])

/** An event has at most 1 MiB, and base64 turns three bytes into four. */
const maxBytes = 512 * 1024

/**
 * The image of a file with an image extension, shrunk when it is too large for an event (`isShrunk`);
 * undefined when its content is not an image. Rejects with ToolError when it cannot be shrunk or models do
 * not accept its format.
 */
export async function readImage(
  path: string,
  bytes: Buffer,
): Promise<{ readonly image: ImageContent; readonly isShrunk: boolean } | undefined> {
  if (!imageExtensions.has(extname(path).toLowerCase())) return undefined
  if (bytes.toString('latin1', 0, 2) === 'BM' && bytes.includes(0))
    throw new ToolError(
      `${path} is a BMP image, which models do not take. Convert it to PNG, then view that.`,
    )
  const type = detectImageType(bytes)
  if (type === undefined) return undefined
  if (bytes.length <= maxBytes) return { image: toImageContent(type, bytes), isShrunk: false }
  const result = await shrinkImage(bytes, maxBytes)
  if (result.kind === 'failure') throw new ToolError(`${path} cannot be shown: ${result.failure}.`)
  return { image: toImageContent(result.type, result.bytes), isShrunk: true }
}
