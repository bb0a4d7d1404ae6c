import { createHash } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { truncateMiddle, truncateOutput } from './truncate.ts'

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-truncate-'))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

const truncateOptions = (maxChars: number) => ({ directory, tool: 'grep', maxChars })

test('a text within the limit stays and nothing is saved', async () => {
  expect(await truncateOutput('abc', truncateOptions(3))).toEqual({ text: 'abc' })
})

test('a longer text is saved whole, and the notice names the file and the first line that is missing', async () => {
  const text = Array.from({ length: 1000 }, (_, at) => `line ${at + 1}`).join('\n')
  const cut = await truncateOutput(text, truncateOptions(1000))
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 8)
  expect(cut.savedTo).toBe(join(directory, 'outputs', `grep_output_${hash}.txt`))
  expect(await readFile(cut.savedTo ?? '', 'utf8')).toBe(text)
  const [head = '', notice = '', tail = ''] = cut.text.split(/^(\[.*\])$/m)
  expect(text.startsWith(head)).toBe(true)
  expect(text.endsWith(tail.slice(1))).toBe(true)
  const shown = head.trimEnd().split('\n').length
  expect(notice).toContain(cut.savedTo)
  expect(notice).toMatch(new RegExp(`line ${shown + 1}\\.\\]$`))
})

test('cut text ends and begins with whole lines where lines are short', async () => {
  const { text } = await truncateOutput('0123456789\n'.repeat(500), truncateOptions(800))
  for (const line of text.trim().split('\n')) expect(line).toMatch(/^(0123456789|\[.*\])$/)
})

test('a name that is no file name does not lead elsewhere', async () => {
  const { savedTo } = await truncateOutput('x'.repeat(2000), {
    ...truncateOptions(1000),
    tool: '../../etc/x',
  })
  expect(savedTo).toMatch(/^.*\/outputs\/[\w-]+_output_[0-9a-f]{8}\.txt$/)
})

test('where nothing can be saved the text is cut all the same', async () => {
  const file = join(directory, 'a file')
  await writeFile(file, '')
  const cut = await truncateOutput('x'.repeat(2000), { ...truncateOptions(1000), directory: file })
  expect(cut.savedTo).toBeUndefined()
  expect(cut.text.length).toBeLessThanOrEqual(1000)
  expect(cut.text).toMatch(/characters left out, from line 1\.\]/)
})

test('head and tail remain, the length is bounded, and no surrogate pair is split', () => {
  const texts = fc.array(fc.constantFrom('a', '\n', '😀', 'ä', '\r\n', 'line'), {
    minLength: 1,
    maxLength: 3000,
  })
  fc.assert(
    fc.property(texts, fc.integer({ min: 60, max: 2000 }), (parts, maxChars) => {
      const text = parts.join('')
      const notice = ({ firstLine, chars }: { firstLine: number; chars: number }) =>
        `<<${firstLine} ${chars}>>`
      const cut = truncateMiddle(text, maxChars, notice)
      if (text.length <= maxChars) {
        expect(cut).toBe(text)
        return
      }
      expect(cut.length).toBeLessThanOrEqual(maxChars)
      expect(cut.isWellFormed()).toBe(true)
      const [, firstLine, missing, tail = ''] = /<<(\d+) (\d+)>>\n?([\s\S]*)$/.exec(cut) ?? []
      const head = text.slice(0, text.length - Number(missing) - tail.length)
      expect(cut.startsWith(head)).toBe(true)
      expect(text.endsWith(tail)).toBe(true)
      expect(Math.min(head.length, tail.length)).toBeGreaterThan(maxChars / 4 - 25)
      expect(head.split('\n').length).toBe(Number(firstLine))
    }),
    { numRuns: 300 },
  )
})
