import { Problem } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { JsonArraySplitter } from './json-array-splitter.ts'

const blank = fc.stringMatching(/^[ \t\r\n]{0,3}$/)

/** An array with white space anywhere around its elements. */
const written = fc.array(fc.tuple(blank, fc.json(), blank)).chain((elements) =>
  fc.tuple(blank, blank, blank).map(([before, inside, after]) => ({
    texts: elements.map(([, text]) => text),
    whole: `${before}[${elements.length === 0 ? inside : elements.map((parts) => parts.join('')).join(',')}]${after}`,
  })),
)

function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const chunks: Buffer[] = []
  let from = 0
  for (let turn = 0; from < bytes.length; turn++) {
    const size = sizes.length === 0 ? bytes.length : Number(sizes[turn % sizes.length])
    chunks.push(bytes.subarray(from, from + size))
    from += size
  }
  return chunks
}

function splitChunks(chunks: readonly Buffer[]): string[] {
  const elements = new JsonArraySplitter()
  const found = chunks.flatMap((chunk) => elements.push(chunk))
  elements.end()
  return found.map((bytes) => bytes.toString())
}

test('elements are the original bytes, for any array and any chunks', () => {
  fc.assert(
    fc.property(written, fc.array(fc.integer({ min: 1, max: 20 })), ({ texts, whole }, sizes) => {
      expect(splitChunks(cut(Buffer.from(whole), sizes))).toEqual(texts)
    }),
  )
})

test('for a text that is not a JSON array the splitter fails, or an element is not JSON', () => {
  const pieces = fc.array(
    fc.constantFrom('[', ']', '{', '}', ',', ':', '"', '\\', '1', 'a', ' ', '"a"', '{}', '[]', 'é'),
  )
  fc.assert(
    fc.property(pieces, (parts) => {
      const text = parts.join('')
      const isArray = Array.isArray(parsed(text))
      let isTaken = true
      try {
        isTaken = splitChunks([Buffer.from(text)]).every((element) => parsed(element) !== undefined)
      } catch (error) {
        expect(error).toBeInstanceOf(Problem)
        isTaken = false
      }
      expect(isTaken).toBe(isArray)
    }),
    { numRuns: 3000 },
  )
})

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

test('the bytes of an incomplete element are counted', () => {
  const elements = new JsonArraySplitter()
  elements.push(Buffer.from('[{"a":'))
  expect(elements.pendingBytes).toBe(5)
  elements.push(Buffer.from('1},'))
  expect(elements.pendingBytes).toBe(0)
  expect(() => elements.end()).toThrow(Problem)
})
