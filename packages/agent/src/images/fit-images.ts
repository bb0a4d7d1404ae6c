import { Mutex } from '@slipway/shared/async'
import { decodePercent } from '@slipway/shared/url'

/** Formats that models accept. */
type ImageType = 'png' | 'jpeg' | 'gif' | 'webp'

/** Larger than camera images; a decoded pixel has four bytes. */
const maxPixels = 100_000_000
/** Models downscale larger images. */
const longestEdge = 2_000
const shortestEdge = 32
const quality = 80
const timeoutSeconds = 30

/** The format by the first bytes; undefined for formats that models do not accept. */
export function detectImageType(bytes: Buffer): ImageType | undefined {
  const startsWith = (text: string, at = 0) => bytes.toString('latin1', at, at + text.length) === text
  if (startsWith('\x89PNG\r\n\x1a\n')) return 'png'
  if (startsWith('\xff\xd8\xff')) return 'jpeg'
  if (startsWith('GIF87a') || startsWith('GIF89a')) return 'gif'
  return startsWith('RIFF') && startsWith('WEBP', 8) ? 'webp' : undefined
}

type ShrinkResult =
  | { readonly kind: 'image'; readonly type: ImageType; readonly bytes: Buffer }
  /** For people. */
  | { readonly kind: 'failure'; readonly failure: string }

/** One at a time, because a decoded image is large. */
const shrinkMutex = new Mutex()

/**
 * Shrinks an image to at most `maxBytes`: as JPEG, or as WebP with an alpha channel, which becomes white when
 * it `isPlain`; of an animation the first picture. Never rejects.
 */
export async function shrinkImage(bytes: Buffer, maxBytes: number, isPlain = false): Promise<ShrinkResult> {
  return await shrinkMutex.runExclusive(() => shrink(bytes, maxBytes, isPlain))
}

async function shrink(bytes: Buffer, maxBytes: number, isPlain: boolean): Promise<ShrinkResult> {
  if (detectImageType(bytes) === undefined)
    return { kind: 'failure', failure: 'The image is not PNG, JPEG, GIF or WebP' }
  try {
    const open = await imageOpener(bytes)
    const hasAlpha = !isPlain && (await open().metadata()).hasAlpha
    for (let edge = longestEdge; edge >= shortestEdge; ) {
      const fit = { width: edge, height: edge, fit: 'inside', withoutEnlargement: true } as const
      const scaled = open().rotate().resize(fit).timeout({ seconds: timeoutSeconds })
      const opaque = isPlain ? scaled.flatten({ background: 'white' }) : scaled
      const encoded = await (hasAlpha ? scaled.webp({ quality }) : opaque.jpeg({ quality })).toBuffer({
        resolveWithObject: true,
      })
      if (encoded.data.length <= maxBytes)
        return { kind: 'image', type: hasAlpha ? 'webp' : 'jpeg', bytes: encoded.data }
      const factor = Math.min(0.8, 0.95 * Math.sqrt(maxBytes / encoded.data.length))
      edge = Math.floor(Math.max(encoded.info.width, encoded.info.height) * factor)
    }
    return { kind: 'failure', failure: 'The image cannot be made small enough' }
  } catch (error) {
    const exceedsPixelLimit = error instanceof Error && /pixel limit/i.test(error.message)
    return {
      kind: 'failure',
      failure: exceedsPixelLimit ? 'The image has more than 100 million pixels' : 'The image is broken',
    }
  }
}

/** Shrinks pixels, row by row, to an image of at most `maxBytes`. Never rejects. */
export async function shrinkPixels(
  { data, width, height, channels }: PixelImage,
  maxBytes: number,
): Promise<ShrinkResult> {
  try {
    const { default: sharp } = await import('sharp')
    const png = await sharp(data, { raw: { width, height, channels } }).png().toBuffer()
    return await shrinkImage(png, maxBytes, true)
  } catch {
    return { kind: 'failure', failure: 'The image is broken' }
  }
}

interface PixelImage {
  readonly data: Uint8Array
  readonly width: number
  readonly height: number
  readonly channels: 1 | 3 | 4
}

type FitResult =
  | { readonly kind: 'same'; readonly url: string }
  | { readonly kind: 'shrunk'; readonly url: string; readonly original: Buffer }
  | { readonly kind: 'failure'; readonly failure: string }

/** Shrinks the largest of some data URLs to `maxChars` characters in total. Never rejects. */
export async function fitImages(urls: readonly string[], maxChars: number): Promise<FitResult[]> {
  const fitted: FitResult[] = urls.map((url) => ({ kind: 'same', url }))
  if (urls.reduce((sum, { length }) => sum + length, 0) <= maxChars) return fitted
  let remainingChars = maxChars
  let remaining = urls.length
  for (const [index, url] of [...urls.entries()].toSorted(([, a], [, b]) => a.length - b.length)) {
    const share = Math.floor(remainingChars / remaining--)
    const result = url.length <= share ? ({ kind: 'same', url } as const) : await shrinkUrl(url, share)
    fitted[index] = result
    if (result.kind !== 'failure') remainingChars -= result.url.length
  }
  return fitted
}

/** Anthropic's limit of an image, as base64. */
const maxProviderChars = 5 * 1024 * 1024
const headChars = 'data:image/webp;base64,'.length

/**
 * An image as every provider takes it: decodable, named by its bytes and not by its address, with no edge
 * above 2,000 pixels, and below 5 MiB as base64. `url` is a data URL; `isPlain`: as PNG or JPEG. Never
 * rejects.
 */
export async function normalizeImage(url: string, isPlain = false): Promise<FitResult> {
  const original = decodeDataUrl(url)
  if (original === undefined) return { kind: 'failure', failure: 'The image cannot be read' }
  const type = detectImageType(original)
  const maxBytes = bytesInDataUrl(maxProviderChars)
  const isTaken = type !== undefined && (!isPlain || type === 'png' || type === 'jpeg')
  if (isTaken && original.length <= maxBytes) {
    const edge = await shrinkMutex.runExclusive(() => decodedEdge(original))
    if (edge === undefined) return { kind: 'failure', failure: 'The image is broken' }
    if (edge <= longestEdge) {
      const named = toDataUrl(type, original)
      return { kind: 'same', url: named === url ? url : named }
    }
  }
  const shrunk = await shrinkImage(original, maxBytes, isPlain)
  return shrunk.kind === 'failure'
    ? shrunk
    : { kind: 'shrunk', url: toDataUrl(shrunk.type, shrunk.bytes), original }
}

/** Opens an image again and again; each pass reads it from its beginning. */
async function imageOpener(bytes: Buffer) {
  const { default: sharp } = await import('sharp')
  sharp.cache(false)
  sharp.concurrency(1)
  return () => sharp(bytes, { limitInputPixels: maxPixels, failOn: 'error', sequentialRead: true })
}

/** The longest edge of an image that can be decoded to its end; 0 where this machine decodes none. */
async function decodedEdge(bytes: Buffer): Promise<number | undefined> {
  const open = await imageOpener(bytes).catch(() => undefined)
  if (open === undefined) return 0
  try {
    const { width, height } = await open().metadata()
    await open().resize(shortestEdge).timeout({ seconds: timeoutSeconds }).raw().toBuffer()
    return Math.max(width, height)
  } catch {
    return undefined
  }
}

/** Undefined: no data URL. */
function decodeDataUrl(url: string): Buffer | undefined {
  const comma = url.indexOf(',')
  if (comma < 0 || !url.startsWith('data:')) return undefined
  const bytes = base64Bytes(url)
  if (bytes !== undefined) return bytes
  const text = decodePercent(url.slice(comma + 1))
  return text === undefined ? undefined : Buffer.from(text)
}

/** Undefined: its data is no base64. */
function base64Bytes(url: string): Buffer | undefined {
  const comma = url.indexOf(',')
  const isBase64 = comma > 0 && /;\s*base64\s*$/i.test(url.slice(0, comma))
  return isBase64 ? Buffer.from(url.slice(comma + 1), 'base64') : undefined
}

/** The most bytes of an image whose data URL has that many characters. */
function bytesInDataUrl(chars: number): number {
  return Math.floor((chars - headChars) / 4) * 3
}

function toDataUrl(type: ImageType, bytes: Buffer): string {
  return `data:image/${type};base64,${bytes.toString('base64')}`
}

async function shrinkUrl(url: string, maxChars: number): Promise<FitResult> {
  const original = base64Bytes(url)
  if (original === undefined) return { kind: 'failure', failure: 'The image is no data URL in base64' }
  const shrunk = await shrinkImage(original, bytesInDataUrl(maxChars))
  if (shrunk.kind === 'failure') return shrunk
  const { type, bytes } = shrunk
  return { kind: 'shrunk', url: toDataUrl(type, bytes), original }
}
