import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Secret } from '@slipway/shared/redaction'
import { Cipher } from '@slipway/storage'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { JsonFile } from './json-file.ts'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-kept-'))
})
afterEach(async () => await rm(directory, { recursive: true }))

const openNumbers = (cipher?: Cipher) =>
  new JsonFile<readonly number[]>({
    path: join(directory, 'inner', 'numbers.json'),
    empty: [],
    parse: (value) => {
      if (!Array.isArray(value)) throw new Error('it is no list')
      return value
    },
    ...(cipher === undefined ? {} : { cipher }),
  })
const openCipher = (secret: string) => Cipher.open({ directory, secretKey: new Secret(secret) })

test('what is changed is there for the next one who opens the file', async () => {
  expect(await openNumbers().read()).toEqual([])
  await openNumbers().update(() => [1, 2])
  expect(await openNumbers().read()).toEqual([1, 2])
})

test('changes happen one after another, and one that fails leaves the value as it was', async () => {
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

test('a sealed file shows nothing, and with another key it is refused and stays as it is', async () => {
  await openNumbers(await openCipher('the first secret key')).update(() => [424242])
  const path = join(directory, 'inner', 'numbers.json')
  const text = await readFile(path, 'utf8')
  expect(text).not.toContain('424242')
  const other = openNumbers(await openCipher('quite another secret'))
  await expect(other.read()).rejects.toMatchObject({ code: 'conflict' })
  await expect(other.update(() => [1])).rejects.toMatchObject({ code: 'conflict' })
  expect(await readFile(path, 'utf8')).toBe(text)
})

test('a damaged file is refused, and read again once it is mended', async () => {
  const file = openNumbers()
  await file.update(() => [7])
  const path = join(directory, 'inner', 'numbers.json')
  await writeFile(path, '{"broken"')
  const reader = openNumbers()
  await expect(reader.read()).rejects.toMatchObject({ code: 'conflict' })
  await writeFile(path, '[8]')
  expect(await reader.read()).toEqual([8])
})
