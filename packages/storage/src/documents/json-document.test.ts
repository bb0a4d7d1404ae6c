import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Problem } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Cipher } from '../crypto/cipher.ts'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { FileDocumentStore } from './file-document-store.ts'
import { JsonDocument } from './json-document.ts'

let place: ReturnType<typeof temporaryDirectory>
beforeEach(() => {
  place = temporaryDirectory()
})
afterEach(() => place[Symbol.dispose]())

const openNumbers = (cipher?: Cipher) =>
  new JsonDocument<readonly number[]>({
    store: new FileDocumentStore({
      directory: place.path,
      encoding: cipher === undefined ? 'utf8' : 'base64',
    }),
    name: 'numbers.json',
    cipher,
    empty: [],
    parse: (value) => {
      if (!Array.isArray(value)) throw new Error('not a list')
      return value
    },
    unreadable: () => new Problem('conflict', 'damaged'),
  })
const filePath = () => join(place.path, 'numbers.json')
const openCipher = (secret: string) => Cipher.open({ directory: place.path, secretKey: new Secret(secret) })

test('an update survives reopening, and an unchanged value is parsed once', async () => {
  expect(await openNumbers().read()).toEqual([])
  await openNumbers().update(() => [1, 2])
  const document = openNumbers()
  expect(await document.read()).toEqual([1, 2])
  expect(await document.read()).toBe(await document.read())
})

test('updates are serialized, and a failed one changes nothing', async () => {
  const file = openNumbers()
  const failed = file.update(async () => {
    throw new Error('no')
  })
  const added = Array.from({ length: 20 }, (_, i) =>
    file.update(async (before) => {
      await new Promise((resolve) => setTimeout(resolve, i % 3))
      return [...before, i]
    }),
  )
  await expect(failed).rejects.toThrow('no')
  await Promise.all(added)
  expect([...(await openNumbers().read())].sort((a, b) => a - b)).toEqual(
    Array.from({ length: 20 }, (_, i) => i),
  )
})

test('a sealed document is not readable, and another key neither opens nor overwrites it', async () => {
  await openNumbers(await openCipher('the first secret key')).update(() => [424242])
  const path = filePath()
  const text = await readFile(path, 'utf8')
  expect(text).not.toContain('424242')
  const other = openNumbers(await openCipher('quite another secret'))
  await expect(other.read()).rejects.toMatchObject({ code: 'conflict' })
  await expect(other.update(() => [1])).rejects.toMatchObject({ code: 'conflict' })
  expect(await readFile(path, 'utf8')).toBe(text)
})

test('a damaged document is refused, and read once it is repaired', async () => {
  const file = openNumbers()
  await file.update(() => [7])
  const path = filePath()
  await writeFile(path, '{"broken"')
  const reader = openNumbers()
  await expect(reader.read()).rejects.toMatchObject({ code: 'conflict' })
  await writeFile(path, '[8]')
  expect(await reader.read()).toEqual([8])
})

test('owners have separate documents', async () => {
  const numbers = openNumbers()
  await numbers.update(() => [1], 'a')
  expect([await numbers.read('a'), await numbers.read('b'), await numbers.read()]).toEqual([[1], [], []])
})
