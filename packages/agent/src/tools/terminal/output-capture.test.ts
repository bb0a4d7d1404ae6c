import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import * as fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findSafeCut, OutputCapture, type OutputCaptureOptions } from './output-capture.ts'

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'capture-'))
})
afterAll(async () => {
  await rm(directory, { recursive: true })
})

const redact = (text: string) => text.replace(/secret-value|line one\nline two|aaaa/g, '<hidden>')

function openCapture(options: Partial<OutputCaptureOptions> = {}): OutputCapture {
  return new OutputCapture({
    directory,
    maxChars: 30_000,
    maxFileBytes: 1e8,
    redact,
    onBackpressure: () => {},
    ...options,
  })
}

test('a short output is complete, redacted, without a file', async () => {
  const capture = openCapture()
  expect(capture.isEmpty).toBe(true)
  capture.write('a secret-')
  capture.write('value\nb\n')
  expect(capture.isEmpty).toBe(false)
  expect(await capture.end()).toEqual({ text: 'a <hidden>\nb\n', savedTo: undefined })
})

test('the longest output that needs no cut has no cut', async () => {
  const capture = openCapture()
  capture.write('x'.repeat(30_000))
  expect(await capture.end()).toEqual({ text: 'x'.repeat(30_000), savedTo: undefined })
})

test('lines of what is left out that name failures come first, with their numbers, within the limit', async () => {
  const lines = Array.from({ length: 50_000 }, (_, at) => `test_${at} PASSED\n`)
  lines[0] = 'FAILED in_the_head\n'
  lines[20_000] = 'FAILED test_a.py::test_20000 - secret-value\n'
  lines[40_000] = 'FAILED test_a.py::test_40000\n'
  lines[49_999] = 'FAILED in_the_tail\n'
  const capture = openCapture()
  for (const line of lines) capture.write(line)
  const { text, savedTo = '' } = await capture.end()
  expect(text.length).toBeLessThanOrEqual(30_000)
  expect(text).toMatch(
    /^\[Lines of .*:\]\n20001: FAILED test_a\.py::test_20000 - <hidden>\n40001: FAILED test_a\.py::test_40000\n\nFAILED in_the_head\n/,
  )
  expect(text).toMatch(/FAILED in_the_tail\n$/)
  expect((await readFile(savedTo, 'utf8')).split('\n')[40_000]).toBe('FAILED test_a.py::test_40000')
})

test('any number of failures takes a fifth of the text at most', async () => {
  const capture = openCapture()
  for (let at = 0; at < 10_000; at++) capture.write(`FAILED test_${at}\n`)
  const { text } = await capture.end()
  expect(text.length).toBeLessThanOrEqual(30_000)
  expect(text.length).toBeGreaterThan(28_000)
  const [found = ''] = text.split('\n\n')
  expect(found.length).toBeLessThan(6_000)
  expect(found).toContain('FAILED test_')
})

test('a long output has head and tail, and a file with all of it', async () => {
  const lines = Array.from({ length: 50_000 }, (_, at) => `line ${at}\n`)
  const capture = openCapture()
  for (const line of lines) capture.write(line)
  const { text, savedTo = '' } = await capture.end()
  expect(text.length).toBeLessThanOrEqual(30_000)
  expect(text).toMatch(/^line 0\nline 1\n/)
  expect(text).toMatch(/line 49999\n$/)
  expect(basename(savedTo)).toMatch(/^terminal_output_[0-9a-f]{8}\.txt$/)
  expect(await readFile(savedTo, 'utf8')).toBe(lines.join(''))
  const notice =
    /\[(\d+) characters left out\. The whole output is in (.*): read on there from line (\d+)\.\]/.exec(text)
  expect(notice?.[2]).toBe(savedTo)
  // The line that is named is the first that is not whole.
  const line = Number(notice?.[3])
  expect(text.startsWith(lines.slice(0, line - 1).join(''))).toBe(true)
  expect(text.startsWith(lines.slice(0, line).join(''))).toBe(false)
  const shown = text.length - (notice?.[0].length ?? 0)
  expect(lines.join('').length - Number(notice?.[1]) - shown).toBeGreaterThanOrEqual(-2)
})

test('no secret reaches the file or the text, however the output is split', async () => {
  const part = fc.oneof(
    fc.constantFrom('secret-value', 'line one\nline two', 'secret-', 'value', 'aaaaaaa', 'x'.repeat(70_000)),
    fc.string(),
  )
  await fc.assert(
    fc.asyncProperty(
      fc.array(part, { maxLength: 40 }),
      fc.integer({ min: 1, max: 90_000 }),
      async (parts, size) => {
        const whole = parts.join('')
        const capture = openCapture()
        for (let at = 0; at < whole.length; at += size) capture.write(whole.slice(at, at + size))
        const { text, savedTo } = await capture.end()
        const stored = savedTo === undefined ? text : await readFile(savedTo, 'utf8')
        expect(stored === redact(whole).toWellFormed() || stored === redact(whole)).toBe(true)
        expect(text).not.toContain('secret-value')
        if (savedTo !== undefined) await rm(savedTo)
      },
    ),
    { numRuns: 60 },
  )
}, 60_000)

test('a cut is never inside of a secret', () => {
  void fc.assert(
    fc.property(
      fc.array(fc.constantFrom('secret-value', 'aaaa', 'a', 's', 'secret-'), { minLength: 1 }),
      fc.nat(),
      (parts, place) => {
        const text = parts.join('')
        const cut = findSafeCut(text, place % (text.length + 1), redact)
        expect(redact(text.slice(0, cut)) + redact(text.slice(cut))).toBe(redact(text))
      },
    ),
  )
})

test('a file takes no more than its limit; the tail is shown all the same', async () => {
  const capture = openCapture({ maxFileBytes: 300_000 })
  for (let at = 0; at < 100; at++) capture.write('x'.repeat(10_000))
  capture.write('the end')
  const { text, savedTo = '' } = await capture.end()
  expect((await readFile(savedTo)).length).toBe(300_000)
  expect(text).toContain('The beginning of the output (300000 bytes) is in')
  expect(text).toMatch(/the end$/)
})

test('where no file can be written the text says only what is missing', async () => {
  const file = join(directory, 'file')
  await writeFile(file, '')
  const capture = openCapture({ directory: join(file, 'below') })
  capture.write('x'.repeat(400_000))
  const { text, savedTo } = await capture.end()
  expect(savedTo).toBeUndefined()
  expect(text).toMatch(/\n\[\d+ characters left out, from line 1\.\]\n/)
})

test('output that is faster than the disk is held, and let go again', async () => {
  const calls: boolean[] = []
  const capture = openCapture({ onBackpressure: (isFull) => calls.push(isFull) })
  for (let at = 0; at < 100; at++) capture.write('x'.repeat(50_000))
  await capture.end()
  expect(calls).toContain(true)
  expect(calls.at(-1)).toBe(false)
})
