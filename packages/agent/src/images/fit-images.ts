import { Mutex } from '@slipway/shared/async'

/** Formats that models accept. */
export type ImageType = 'png' | 'jpeg' | 'gif' | 'webp'

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
 * Shrinks an image to at most `maxBytes`: as JPEG, or as WebP with an alpha channel; of an animation the
 * first picture. Never rejects.
 */
export async function shrinkImage(bytes: Buffer, maxBytes: number): Promise<ShrinkResult> {
  return await shrinkMutex.runExclusive(() => shrink(bytes, maxBytes))
}

async function shrink(bytes: Buffer, maxBytes: number): Promise<ShrinkResult> {
  if (detectImageType(bytes) === undefined)
    return { kind: 'failure', failure: 'The image is not PNG, JPEG, GIF or WebP' }
  try {
    const { default: sharp } = await import('sharp')
    sharp.cache(false)
    sharp.concurrency(1)
    const open = () => sharp(bytes, { limitInputPixels: maxPixels, failOn: 'error', sequentialRead: true })
    const { hasAlpha } = await open().metadata()
    for (let edge = longestEdge; edge >= shortestEdge; ) {
      const fit = { width: edge, height: edge, fit: 'inside', withoutEnlargement: true } as const
      const scaled = open().rotate().resize(fit).timeout({ seconds: timeoutSeconds })
      const encoded = await (hasAlpha ? scaled.webp({ quality }) : scaled.jpeg({ quality })).toBuffer({
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

async function shrinkUrl(url: string, maxChars: number): Promise<FitResult> {
  const comma = url.indexOf(',')
  const isBase64 = comma > 0 && /;\s*base64\s*$/i.test(url.slice(0, comma))
  if (!isBase64) return { kind: 'failure', failure: 'The image is no data URL in base64' }
  const original = Buffer.from(url.slice(comma + 1), 'base64')
  const headChars = 'data:image/webp;base64,'.length
  const shrunk = await shrinkImage(original, Math.floor((maxChars - headChars) / 4) * 3)
  if (shrunk.kind === 'failure') return shrunk
  const { type, bytes } = shrunk
  return { kind: 'shrunk', url: `data:image/${type};base64,${bytes.toString('base64')}`, original }
}
