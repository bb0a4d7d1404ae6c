import type { ImageContent, TextContent } from '@slipway/protocol'
import type { shrinkImage } from '../../images/fit-images.ts'
import { toImageContent } from '../../images/image-content.ts'
import { textBlock } from '../core/tool.ts'

/** Pictures of one call. */
export const maxPictures = 5
/** Of all together: an event has at most 1 MiB, and base64 turns three bytes into four. */
const maxPictureBytes = 512 * 1024

type Shrunk = Awaited<ReturnType<typeof shrinkImage>>

interface FoundPicture {
  /** Stands before the picture. */
  readonly title: string
  shrink(maxBytes: number): Promise<Shrunk>
  /** Stands in its place. */
  failureText(failure: string): string
}

/** The pictures of a document with their titles, one shrunk after the other. */
export async function pictureBlocks(found: readonly FoundPicture[]): Promise<(TextContent | ImageContent)[]> {
  const maxBytes = Math.floor(maxPictureBytes / Math.max(1, found.length))
  const blocks: (TextContent | ImageContent)[] = []
  for (const { title, shrink, failureText } of found) {
    const result = await shrink(maxBytes)
    if (result.kind === 'failure') blocks.push(textBlock(failureText(result.failure)))
    else blocks.push(textBlock(title), toImageContent(result.type, result.bytes))
  }
  return blocks
}
