import { randomBytes } from 'node:crypto'
import { makeZip } from 'client-zip'
import { expect, test } from 'vitest'
import { listZipEntries } from './zip-entries.ts'

async function createZip(files: readonly { name: string; input: Buffer }[]): Promise<Buffer> {
  return Buffer.from(await new Response(makeZip(files)).arrayBuffer())
}

test('the files of a zip are listed with their names and sizes', async () => {
  const files = [
    { name: 'meta.json', input: Buffer.from('{}') },
    { name: 'Ünïcödé.json', input: randomBytes(70_000) },
    { name: 'empty', input: Buffer.alloc(0) },
  ]
  expect(listZipEntries(await createZip(files))).toEqual(
    files.map(({ name, input }) => ({ name, sizeBytes: input.length })),
  )
  expect(listZipEntries(await createZip([]))).toEqual([])
})

test('a file that is not a zip, or a truncated one, is refused', async () => {
  const zip = await createZip([{ name: 'a', input: randomBytes(1_000) }])
  for (const bytes of [Buffer.alloc(0), randomBytes(500).fill(0, 0, 1), zip.subarray(0, -30)])
    expect(() => listZipEntries(bytes)).toThrow(Error)
})
