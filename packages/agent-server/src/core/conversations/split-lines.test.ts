import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LineTooLongError, splitLines } from './split-lines.ts'

async function* chunksOf(bytes: Buffer, cuts: readonly number[]): AsyncGenerator<Buffer> {
  let start = 0
  for (const cut of [...cuts, bytes.length].sort((a, b) => a - b)) {
    yield bytes.subarray(start, cut)
    start = cut
  }
}

async function collectLines(bytes: Buffer, cuts: readonly number[] = [], maxBytes = 1000) {
  const found: [number, string][] = []
  for await (const batch of splitLines(chunksOf(bytes, cuts), maxBytes)) {
    for (const line of batch) found.push([line.number, line.bytes.toString()])
  }
  return found
}

test('lines are the same wherever the chunks are cut', async () => {
  const text = fc
    .array(fc.constantFrom('a', 'é', '\n', '\r', ' ', '😀'), { maxLength: 40 })
    .map((parts) => parts.join(''))
  await fc.assert(
    fc.asyncProperty(text, fc.array(fc.nat(100)), async (text, cuts) => {
      const bytes = Buffer.from(text)
      const expected = text
        .split('\n')
        .map((line, index): [number, string] => [index + 1, line])
        .filter(([, line]) => /[^\r\t ]/.test(line))
      expect(
        await collectLines(
          bytes,
          cuts.map((cut) => Math.min(cut, bytes.length)),
        ),
      ).toEqual(expected)
    }),
  )
})

test('a line over the limit is refused with its number, also before its end has come', async () => {
  await expect(collectLines(Buffer.from('ab\nabcdef\n'), [], 5)).rejects.toEqual(new LineTooLongError(2))
  await expect(collectLines(Buffer.from('ab\nabcdef'), [4, 6], 5)).rejects.toEqual(new LineTooLongError(2))
})
