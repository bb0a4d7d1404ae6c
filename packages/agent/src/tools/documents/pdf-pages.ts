import { firstChars } from '@slipway/shared/text'
import { extractImages, getDocumentProxy } from 'unpdf'

export interface PdfRequest {
  readonly bytes: Uint8Array
  /** From 1. */
  readonly first: number
  readonly count: number
  readonly maxChars: number
  readonly maxPictures: number
  /** Of all pictures as they are answered, unpacked; the first is answered whatever it has. */
  readonly maxPixelBytes: number
}

/** Pixels of a page without text, row by row. */
export interface RawPicture {
  readonly data: Uint8Array
  readonly width: number
  readonly height: number
  readonly channels: 1 | 3 | 4
}

export interface PdfPage {
  readonly number: number
  readonly text: string
  /** `more`: it has one, and there are enough. */
  readonly picture?: RawPicture | 'more'
}

export type PdfResult =
  | { readonly total: number; readonly pages: readonly PdfPage[]; readonly isCut: boolean }
  | { readonly failure: string }

/** A photographed page of 600 dots per inch has more: it is not shown. */
const maxPixels = 25_000_000

/** Pages of a PDF. Slow or out of memory for some files: call it on its thread. */
export async function pdfPages(request: PdfRequest): Promise<PdfResult> {
  const { bytes, first, count, maxChars, maxPictures, maxPixelBytes } = request
  try {
    const document = await getDocumentProxy(bytes, {
      verbosity: 0,
      maxImageSize: maxPixels,
      useSystemFonts: false,
    })
    const total = document.numPages
    const pages: PdfPage[] = []
    let [chars, pictures, pixelBytes] = [0, 0, 0]
    const last = Math.min(total, first + count - 1)
    for (let number = first; number <= last && chars < maxChars; number++) {
      const page = await document.getPage(number)
      const whole = pageText((await page.getTextContent()).items)
      const isLong = whole.length > maxChars - chars
      const text = isLong
        ? `${firstChars(whole, maxChars - chars)}\n[The rest of the page is left out.]`
        : whole
      chars += text.length
      const isFull = pictures >= maxPictures || pixelBytes >= maxPixelBytes
      const found = text !== '' ? undefined : isFull ? 'more' : await largestPicture(document, number)
      if (found !== undefined && found !== 'more') pixelBytes += found.data.length
      const picture = pictures > 0 && pixelBytes > maxPixelBytes ? found && 'more' : found
      if (picture !== undefined) pictures++
      pages.push({ number, text, ...(picture && { picture }) })
      page.cleanup()
    }
    return { total, pages, isCut: first + pages.length - 1 < last }
  } catch (error) {
    return { failure: failureOf(error) }
  }
}

function pageText(items: readonly object[]): string {
  const parts = items.map((item) => {
    const { str = '', hasEOL = false }: { readonly str?: string; readonly hasEOL?: boolean } = item
    return hasEOL ? `${str}\n` : str
  })
  return parts.join('').replaceAll('\0', '').trim()
}

type PdfDocument = Awaited<ReturnType<typeof getDocumentProxy>>

async function largestPicture(document: PdfDocument, page: number): Promise<RawPicture | undefined> {
  const found = await extractImages(document, page)
  const [largest] = found.toSorted((a, b) => b.width * b.height - a.width * a.height)
  if (largest === undefined) return undefined
  const { data, width, height, channels } = largest
  return { data: new Uint8Array(data.buffer, data.byteOffset, data.byteLength), width, height, channels }
}

function failureOf(error: unknown): string {
  const { name, message } = error instanceof Error ? error : { name: '', message: String(error) }
  return name === 'PasswordException' ? 'it is encrypted' : `it is damaged (${firstChars(message, 200)})`
}
