import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { gunzipIfNeeded } from './source-file.ts'

async function read(...chunks: readonly Buffer[]): Promise<string> {
  async function* source() {
    yield* chunks
  }
  let text = ''
  for await (const chunk of gunzipIfNeeded(source())) text += chunk
  return text
}

const [one, other] = [gzipSync('one\n'), gzipSync('other\n')]

test('plain bytes stay, and all members of a gzip file are read, however it is cut', async () => {
  expect(await read()).toBe('')
  expect(await read(Buffer.from('o'), Buffer.from('ne\n'))).toBe('one\n')
  expect(await read(one, other)).toBe('one\nother\n')
  expect(await read(Buffer.concat([one, other]))).toBe('one\nother\n')
  expect(await read(...[...one].map((byte) => Buffer.from([byte])))).toBe('one\n')
})

// Other programs read on behind the NUL.
test.each([
  ['a NUL', Buffer.from([0])],
  ['a NUL and another member', Buffer.concat([Buffer.from([0]), other])],
  ['a text', Buffer.from('text')],
])('%s behind a gzip file is refused, at once or later', async (_, rest) => {
  await expect(read(Buffer.concat([one, rest]))).rejects.toThrow()
  await expect(read(one, rest)).rejects.toThrow()
  await expect(read(one, ...[...rest].map((byte) => Buffer.from([byte])))).rejects.toThrow()
})
