import { writeFile } from 'node:fs/promises'
import { deflateSync } from 'node:zlib'
import { beforeEach, expect, test } from 'vitest'
import { ReadingThread } from '../core/reading-thread.ts'
import type { Tool } from '../core/tool.ts'
import { openFileEditor } from '../files/file-editor.ts'
import { openReadFile } from '../files/read-file.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { type PdfRequest, type PdfResult, pdfPages } from './pdf-pages.ts'
import { buildPdf, grayPicture } from './testing/build-pdf.ts'

const never = new AbortController().signal
let fixtures: ToolFixtures
let tools: { read: Tool; editor: Tool }
beforeEach(async () => {
  fixtures = await ToolFixtures.open()
  tools = { read: await fixtures.tool(openReadFile), editor: await fixtures.tool(openFileEditor) }
  return () => fixtures[Symbol.asyncDispose]()
})

async function view(name: string, bytes: string | Buffer, view_range?: readonly number[]) {
  const path = fixtures.path(name)
  await writeFile(path, bytes)
  return await fixtures.run(tools.editor, 'FileEditorObservation', { command: 'view', path, view_range })
}
async function read(name: string, bytes: string | Buffer, range: object = {}) {
  const file_path = fixtures.path(name)
  await writeFile(file_path, bytes)
  return await fixtures.run(tools.read, 'ReadFileObservation', { file_path, ...range })
}
const pictures = ({ content }: { readonly content: readonly { readonly type: string }[] }) =>
  content.filter(({ type }) => type === 'image').length

test('a PDF is its text by pages, and the picture of a page without text', async () => {
  const pdf = buildPdf(['The first page', grayPicture(300, 200), 'The third page'])
  const seen = await view('a.pdf', pdf)
  expect(seen.outputText).toMatch(
    /pages 1 to 3 of 3:\n--- Page 1 ---\nThe first page\n--- Page 2 ---\n\[a picture/,
  )
  expect(pictures(seen)).toBe(1)
  const part = await read('b.pdf', pdf, { offset: 2, limit: 1 })
  expect(part.outputText).toMatch(/pages 3 to 3 of 3:\n--- Page 3 ---\nThe third page$/)
})

test('at most 100 pages and five pictures come at once, and the rest is named', async () => {
  const long = await view('long.pdf', buildPdf(Array.from({ length: 130 }, (_, at) => `Page text ${at + 1}`)))
  expect(long.outputText).toContain('Page text 100\n[Pages 101 to 130 are not shown.]')
  expect(long.outputText).not.toContain('Page text 101')
  const scanned = await view('scan.pdf', buildPdf(Array.from({ length: 7 }, () => grayPicture(40, 40))))
  expect(pictures(scanned)).toBe(5)
  expect(scanned.outputText).toContain('[a picture; view from page 6 to see it]')
})

const request = (bytes: Buffer, more: Partial<PdfRequest>): PdfRequest => ({
  ...{
    bytes: new Uint8Array(bytes),
    first: 1,
    count: 5,
    maxChars: 1_000,
    maxPictures: 5,
    maxPixelBytes: 1_000,
  },
  ...more,
})

test('the text of one page, and the pixels of all pictures, have limits', async () => {
  const long = await pdfPages(request(buildPdf(['x'.repeat(80), 'next']), { maxChars: 50 }))
  if ('failure' in long) throw new Error(long.failure)
  expect(long.isCut).toBe(true)
  expect(long.pages).toMatchObject([{ text: expect.stringMatching(/^x{50}\n\[The rest/) }])
  // 600 bytes, 600 more and the third one, of which the first is shown.
  const scanned = await pdfPages(request(buildPdf([1, 2, 3].map(() => grayPicture(20, 10))), {}))
  if ('failure' in scanned) throw new Error(scanned.failure)
  expect(scanned.pages.map(({ picture }) => (picture === 'more' ? picture : picture?.width))).toEqual([
    20,
    'more',
    'more',
  ])
})

test('a notebook is its cells with outputs as text and pictures; a range is lines of its JSON', async () => {
  const png =
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
  const notebook = JSON.stringify(
    {
      cells: [
        { cell_type: 'markdown', source: ['# Title\n', 'Text'] },
        {
          cell_type: 'code',
          execution_count: 3,
          source: 'plot()',
          outputs: [
            { output_type: 'stream', text: ['done\n'] },
            { output_type: 'display_data', data: { 'image/png': png, 'text/plain': '<Figure>' } },
            { output_type: 'error', ename: 'E', evalue: 'bad', traceback: ['\u001b[31mTrace\u001b[0m'] },
          ],
        },
      ],
    },
    null,
    1,
  )
  const seen = await view('a.ipynb', notebook)
  expect(seen.outputText).toContain(
    '--- Cell 1: markdown ---\n# Title\nText\n--- Cell 2: code, run 3 ---\nplot()',
  )
  expect(seen.outputText).toContain('[output]\ndone\n[output]\n<Figure>\n[a picture, below]\n[output]\nTrace')
  expect(pictures(seen)).toBe(1)
  expect((await view('b.ipynb', notebook, [1, 2])).outputText).toContain('1\t{')
  expect((await view('c.ipynb', '{"cells": 1}')).outputText).toContain('{"cells": 1}')
})

test('members that a notebook lacks are left out', async () => {
  const cells = [{ source: 'x' }, { cell_type: 'code', outputs: [{ ename: 'E' }, { ename: 'E', evalue: 1 }] }]
  const { outputText } = await view('d.ipynb', JSON.stringify({ cells }))
  expect(outputText).toContain('--- Cell 1 ---\nx\n--- Cell 2: code ---\n\n[output]\nE\n[output]\nE')
})

test.each([
  ['no PDF but its mark', Buffer.from('%PDF-1.7\nnothing')],
  [
    'a broken table of objects',
    Buffer.from(buildPdf(['x']).toString('latin1').replaceAll(' 0 obj', ' 0 xxx'), 'latin1'),
  ],
  [
    'pages that are their own parents',
    Buffer.from(buildPdf(['x']).toString('latin1').replace('/Kids [', '/Kids [2 0 R '), 'latin1'),
  ],
  ['pages that do not exist', buildPdf(['x'], 10_000)],
] as const)('a hostile PDF ends with a reason or with what can be read: %s', async (_, pdf) => {
  const { outputText } = await view('bad.pdf', pdf)
  expect(outputText).toMatch(/PDF that cannot be shown|--- Page 1 ---/)
})

test('a page whose contents unpack to more than its thread may have ends with a reason, and the next file is read', async () => {
  const thread = new ReadingThread<PdfRequest, PdfResult>({
    name: 'pdf',
    worker: new URL('./pdf-worker.ts', import.meta.url),
    ...{ deadlineMs: 20_000, maxHeapMb: 40, restMs: 60_000 },
  })
  const read = (bytes: Buffer) => thread.read(request(bytes, { count: 1 }), never)
  // Packed twice: 64 MiB in about a kilobyte.
  const bomb = deflateSync(deflateSync(Buffer.alloc(64 * 1024 * 1024, 'q ')))
  const [before = '', after = ''] = buildPdf(['x'])
    .toString('latin1')
    .split(/<< {2}\/Length[\s\S]*?endstream/)
  const contents = `<< /Filter [/FlateDecode /FlateDecode] /Length ${bomb.length} >>\nstream\n${bomb.toString('latin1')}\nendstream`
  await expect(read(Buffer.from(before + contents + after, 'latin1'))).rejects.toThrow('too much memory')
  expect(thread.isRunning).toBe(false)
  expect(await read(buildPdf(['Next page']))).toMatchObject({ pages: [{ text: 'Next page' }] })
})
