import fc from 'fast-check'
import { expect, test } from 'vitest'
import { splitJsonArray } from './json-array-splitter.ts'

async function* chunked(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  let at = 0
  for (let turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1
    yield bytes.subarray(at, at + size)
    at += size
  }
}

async function parseChunked(text: string, sizes: readonly number[]): Promise<unknown[]> {
  const found: unknown[] = []
  for await (const item of splitJsonArray(chunked(Buffer.from(text), sizes))) found.push(JSON.parse(item))
  return found
}

test('however an array is cut into pieces, its members come out whole and in order', async () => {
  const member = fc.oneof(
    fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue()),
    fc.array(fc.jsonValue()),
  )
  const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 })
  await fc.assert(
    fc.asyncProperty(fc.array(member), sizes, fc.constantFrom(undefined, 2), async (members, cuts, space) => {
      const text = JSON.stringify(members, null, space)
      expect(await parseChunked(text, cuts)).toEqual(JSON.parse(text))
    }),
  )
})

test('braces and quotes in texts are no ends', async () => {
  const members = [{ a: '}]{["\\"' }, { 'b}"': ['\\', '\\"'] }]
  expect(
    await parseChunked(`[\n${members.map((member) => JSON.stringify(member)).join(',\n')}\n]\n`, [1]),
  ).toEqual(members)
})

test('a member is there as soon as its last byte is', async () => {
  const pieces = (async function* () {
    yield Buffer.from('[\n{"a":1}')
    throw new Error('cut')
  })()
  const found = splitJsonArray(pieces)
  expect((await found.next()).value).toBe('{"a":1}')
  await expect(found.next()).rejects.toThrow('cut')
})

test('an array that is cut off gives what was whole', async () => {
  expect(await parseChunked('[{"a":1},{"b":', [3])).toEqual([{ a: 1 }])
  expect(await parseChunked('', [1])).toEqual([])
})
