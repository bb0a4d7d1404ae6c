import type { ImageContent, TextContent } from '@slipway/protocol'
import { Mutex } from '@slipway/shared/async'
import { shrinkPixels } from '../../images/fit-images.ts'
import { ReadingLimitError, ReadingThread } from '../core/reading-thread.ts'
import { ToolError } from '../core/tool-failure.ts'
import type { PdfPage, PdfRequest, PdfResult } from './pdf-pages.ts'
import { maxPictures, pictureBlocks } from './picture-blocks.ts'

/** Pages of one call. */
const maxPages = 100
/** Of the text of one call. */
const maxChars = 400_000
/** A picture of the most pixels that are shown, with an alpha channel. */
const maxPixelBytes = 100 * 1024 * 1024

const thread = new ReadingThread<PdfRequest, PdfResult>({
  name: 'pdf',
  worker: new URL('./pdf-worker.ts', import.meta.url),
  deadlineMs: 20_000,
  maxHeapMb: 512,
  restMs: 60_000,
})

/** One at a time: the pixels of a file are in the memory of the server until they are shrunk. */
const turn = new Mutex()

interface PdfView {
  readonly text: string
  readonly pictures: readonly (TextContent | ImageContent)[]
  /** First and last page. */
  readonly shown: readonly [number, number]
  readonly total: number
}

/** Whether a file is a PDF; with that extension, its mark may come a little later. */
export function isPdf(path: string, bytes: Buffer): boolean {
  const mark = bytes.subarray(0, 1024).indexOf('%PDF-')
  return mark === 0 || (mark > 0 && /\.pdf$/i.test(path))
}

/**
 * Pages of a PDF: their text, and the pictures of pages without text. `range`: first and last page, -1 for
 * the end. Rejects with ToolError.
 */
export async function readPdf(
  path: string,
  bytes: Buffer,
  range: readonly [number, number],
  signal: AbortSignal,
): Promise<PdfView> {
  const [first, end] = range
  const count = Math.min(maxPages, end === -1 ? maxPages : end - first + 1)
  if (first < 1 || count < 1) throw new ToolError(`${path} has pages from 1: ${first} to ${end} is no range.`)
  const request = { bytes: new Uint8Array(bytes), first, count, maxChars, maxPictures, maxPixelBytes }
  const result = await turn.runExclusive(() => readPages(request, signal))
  if ('failure' in result)
    throw new ToolError(
      `${path} is a PDF that cannot be shown: ${result.failure}. Try a command such as pdftotext.`,
    )
  const { pages, pictures, total } = result
  const last = first + pages.length - 1
  if (pages.length === 0) throw new ToolError(`${path} has ${total} pages, and none from page ${first}.`)
  const rest =
    last < total && (end === -1 || last < end) ? `\n[Pages ${last + 1} to ${total} are not shown.]` : ''
  const text = pages.map((page) => `--- Page ${page.number} ---\n${describe(page)}`).join('\n')
  return { text: text + rest, pictures, shown: [first, last], total }
}

async function readPages(request: PdfRequest, signal: AbortSignal) {
  const result = await thread.read(request, signal).catch((error: unknown) => {
    if (error instanceof ReadingLimitError) return { failure: error.message }
    throw error
  })
  return 'failure' in result ? result : { ...result, pictures: await pictureBlocks(picturesOf(result.pages)) }
}

function describe({ number, text, picture }: PdfPage): string {
  if (text !== '') return text
  if (picture === undefined) return '[no text]'
  return picture === 'more' ? `[a picture; view from page ${number} to see it]` : '[a picture, below]'
}

function picturesOf(pages: readonly PdfPage[]) {
  return pages.flatMap(({ number, picture }) =>
    picture === undefined || picture === 'more'
      ? []
      : [
          {
            title: `Page ${number}:`,
            shrink: (maxBytes: number) => shrinkPixels(picture, maxBytes),
            failureText: (failure: string) => `Page ${number} cannot be shown: ${failure}.`,
          },
        ],
  )
}
