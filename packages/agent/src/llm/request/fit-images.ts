import type { ImageContent, Message } from '@slipway/protocol'
import { normalizeImage } from '../../images/fit-images.ts'
import type { ModelCapabilities } from '../capabilities/capabilities.ts'

type Looked = WeakMap<ImageContent, Promise<readonly Picture[]>>

/** Of images that were looked at: an event keeps its content, so each image is decoded once. */
const known: Looked = new WeakMap()
/** Those that became PNG or JPEG. */
const knownPlain: Looked = new WeakMap()

/** `text` stands for an image that no provider would take. */
type Picture = { readonly url: string } | { readonly text: string }

/** In total, as base64: providers take requests of 20 to 32 MB. */
const maxChars = 16 * 1024 * 1024
const tooOld = { text: '[An older image was left out: a request to this model has no room for it.]' }

interface ImageCapabilities extends Pick<ModelCapabilities, 'images' | 'maxImages'> {
  readonly hasPlainImages?: boolean
}

/**
 * Messages whose images a server takes: each as `normalizeImage` makes it, and no more than `maxImages`. One
 * that it would refuse, or that is too old, becomes a text that says so; otherwise it would fail this and
 * each later request. Addresses on the network stay as they are.
 */
export async function fitRequestImages(
  messages: readonly Message[],
  { images, maxImages, hasPlainImages = false }: ImageCapabilities,
): Promise<readonly Message[]> {
  if (images === 'none' || !messages.some(({ content }) => content.some(({ type }) => type === 'image')))
    return messages
  const all = messages.flatMap(({ content }) =>
    content.flatMap((part) => (part.type === 'image' ? [look(part, hasPlainImages)] : [])),
  )
  let omitted = omittedCount((await Promise.all(all)).flat(), maxImages)
  const fitted: Message[] = []
  for (const message of messages) {
    const content: Message['content'] = []
    for (const part of message.content) {
      if (part.type === 'text') {
        content.push(part)
        continue
      }
      const pictures = (await look(part, hasPlainImages)).map((picture) => (omitted-- > 0 ? tooOld : picture))
      content.push(...toParts(part, pictures))
    }
    fitted.push({ ...message, content })
  }
  return fitted
}

/** The number of old ones that have no room, in steps of a quarter: most requests begin as the one before. */
function omittedCount(pictures: readonly Picture[], max: number): number {
  let chars = 0
  const kept = pictures.toReversed().findIndex((picture, index) => {
    chars += 'url' in picture ? picture.url.length : 0
    return index >= max || chars > maxChars
  })
  const step = Math.ceil(max / 4)
  return kept < 0 ? 0 : Math.ceil((pictures.length - kept) / step) * step
}

function look(part: ImageContent, isPlain: boolean): Promise<readonly Picture[]> {
  const looked = isPlain ? knownPlain : known
  const found = looked.get(part) ?? Promise.all(part.image_urls.map((url) => toPicture(url, isPlain)))
  looked.set(part, found)
  return found
}

async function toPicture(url: string, isPlain: boolean): Promise<Picture> {
  if (!url.startsWith('data:')) return { url }
  const fitted = await normalizeImage(url, isPlain)
  if (fitted.kind !== 'failure') return { url: fitted.url }
  return { text: `[An image was left out. ${fitted.failure}.]` }
}

/** The part itself when nothing changed; the last of several has the cache mark. */
function toParts(part: ImageContent, pictures: readonly Picture[]): Message['content'] {
  const isSame = pictures.every((picture, at) => 'url' in picture && picture.url === part.image_urls[at])
  if (isSame) return [part]
  return pictures.map((picture, at) => {
    const cache_prompt = part.cache_prompt && at === pictures.length - 1
    if ('text' in picture) return { type: 'text', text: picture.text, cache_prompt }
    return { type: 'image', image_urls: [picture.url], cache_prompt }
  })
}
