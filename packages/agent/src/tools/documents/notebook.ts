import type { ImageContent, TextContent } from '@slipway/protocol'
import { asRecord, isRecord, parseJsonObject } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import { detectImageType, shrinkImage } from '../../images/fit-images.ts'
import { maxPictures, pictureBlocks } from './picture-blocks.ts'

/** Characters of one output. */
const maxOutput = 4_000
// biome-ignore lint/suspicious/noControlCharactersInRegex: colours of tracebacks
const colours = /\x1b\[[0-9;]*m/g

interface NotebookView {
  readonly text: string
  readonly pictures: readonly (TextContent | ImageContent)[]
}

/** The cells of a Jupyter notebook with their outputs; undefined when the text is none. */
export async function readNotebook(text: string): Promise<NotebookView | undefined> {
  const { cells } = parseJsonObject(text) ?? {}
  if (!Array.isArray(cells)) return undefined
  const found: { readonly cell: number; readonly data: string }[] = []
  const parts = cells.map((value, index) => {
    const { cell_type, source, outputs, execution_count } = asRecord(value)
    const run = typeof execution_count === 'number' ? `, run ${execution_count}` : ''
    const kind = typeof cell_type === 'string' ? `: ${cell_type}` : ''
    const lines = [`--- Cell ${index + 1}${kind}${run} ---`, joined(source)]
    for (const output of Array.isArray(outputs) ? outputs : []) {
      const data = asRecord(asRecord(output).data)
      const picture = joined(data['image/png'] ?? data['image/jpeg'])
      if (picture !== '') found.push({ cell: index + 1, data: picture })
      const shown = outputText(asRecord(output))
      if (shown !== '') lines.push('[output]', shown)
      if (picture !== '')
        lines.push(`[a picture${found.length > maxPictures ? ' that is not shown' : ', below'}]`)
    }
    return lines.join('\n')
  })
  const pictures = found.slice(0, maxPictures).map(({ cell, data }) => ({
    title: `Output of cell ${cell}:`,
    shrink: (maxBytes: number) => shrinkData(data, maxBytes),
    failureText: () => `A picture of cell ${cell} cannot be shown.`,
  }))
  return { text: parts.join('\n'), pictures: await pictureBlocks(pictures) }
}

function outputText({ text, data, ename, evalue, traceback }: Readonly<Record<string, unknown>>): string {
  const error = joined(traceback, '\n') || [ename, evalue].filter((one) => typeof one === 'string').join(': ')
  const plain = isRecord(data) ? joined(data['text/markdown'] ?? data['text/plain']) : joined(text)
  const shown = (ename === undefined ? plain : error).replaceAll(colours, '').trimEnd()
  return shown.length <= maxOutput
    ? shown
    : `${firstChars(shown, maxOutput)}\n[${shown.length - maxOutput} characters are left out]`
}

async function shrinkData(data: string, maxBytes: number) {
  const bytes = Buffer.from(data, 'base64')
  const type = detectImageType(bytes)
  return type !== undefined && bytes.length <= maxBytes
    ? ({ kind: 'image', type, bytes } as const)
    : await shrinkImage(bytes, maxBytes)
}

/** Texts of notebooks are one text or a list of lines. */
function joined(value: unknown, between = ''): string {
  if (typeof value === 'string') return value
  return Array.isArray(value) ? value.filter((line) => typeof line === 'string').join(between) : ''
}
