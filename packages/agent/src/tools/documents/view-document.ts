import { extname } from 'node:path'
import type { ImageContent, TextContent } from '@slipway/protocol'
import { ToolError } from '../core/tool-failure.ts'
import { readNotebook } from './notebook.ts'
import { isPdf, readPdf } from './read-pdf.ts'

interface DocumentView {
  readonly text: string
  readonly pictures: readonly (TextContent | ImageContent)[]
}

/**
 * A PDF or a notebook as text and pictures; undefined for other files, and for a range of a notebook: that is
 * lines of its JSON. `range`: first and last page. Rejects with ToolError.
 */
export async function viewDocument(
  path: string,
  bytes: Buffer,
  { range, signal }: { readonly range: readonly number[] | undefined; readonly signal: AbortSignal },
): Promise<DocumentView | undefined> {
  if (isPdf(path, bytes)) {
    const [first = 1, last = -1, ...extra] = range ?? []
    if (extra.length > 0)
      throw new ToolError('The range of a PDF is two numbers: the first and the last page.')
    const { text, pictures, shown, total } = await readPdf(path, bytes, [first, last], signal)
    return { text: `${path}, pages ${shown[0]} to ${shown[1]} of ${total}:\n${text}`, pictures }
  }
  if (range !== undefined || extname(path).toLowerCase() !== '.ipynb') return undefined
  const notebook = await readNotebook(bytes.toString())
  if (notebook === undefined) return undefined
  const heading = `${path}, a notebook. Its file is JSON: edits apply to that, and a range shows lines of it.`
  return { ...notebook, text: `${heading}\n${notebook.text}` }
}
