import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { documentStoreContract } from './document-store.contract.ts'
import { FileDocumentStore } from './file-document-store.ts'

documentStoreContract(async () => {
  const directory = temporaryDirectory()
  const open = () => new FileDocumentStore({ directory: directory.path, encoding: 'base64' })
  return {
    documents: open(),
    reopen: async () => open(),
    [Symbol.asyncDispose]: async () => directory[Symbol.dispose](),
  }
})

test('a document of the owner "" is a private file of its name, with base64 or plain text', async () => {
  using place = temporaryDirectory()
  const directory = join(place.path, 'a', 'b')
  const sealed = new FileDocumentStore({ directory, encoding: 'base64' })
  expect(await sealed.list('')).toEqual([])
  await sealed.update('', 'x.sealed', () => Buffer.from('bytes'))
  await new FileDocumentStore({ directory, encoding: 'utf8' }).update('', 'y.json', () => Buffer.from('"ü"'))
  expect(readFileSync(join(directory, 'x.sealed'), 'utf8')).toBe('Ynl0ZXM=\n')
  expect(readFileSync(join(directory, 'y.json'), 'utf8')).toBe('"ü"')
  expect(statSync(join(directory, 'x.sealed')).mode & 0o777).toBe(0o600)
  expect(statSync(directory).mode & 0o777).toBe(0o700)
  expect([...(await sealed.list(''))].sort()).toEqual(['x.sealed', 'y.json'])
})

test('an unchanged document is the same Buffer, and a failed write leaves it', async () => {
  using place = temporaryDirectory()
  const store = new FileDocumentStore({ directory: place.path, encoding: 'base64' })
  await store.update('', 'd', () => Buffer.from('1'))
  const bytes = await store.get('', 'd')
  mkdirSync(join(place.path, '.d.draft'))
  await expect(store.update('', 'd', () => Buffer.from('2'))).rejects.toThrow()
  expect(await store.get('', 'd')).toBe(bytes)
})

test('what is no file is a problem, and neither listed nor waited for', async () => {
  using place = temporaryDirectory()
  const store = new FileDocumentStore({ directory: place.path, encoding: 'utf8' })
  mkdirSync(join(place.path, 'd.json'))
  execFileSync('mkfifo', [join(place.path, 'p.json')])
  await expect(store.get('', 'd.json')).rejects.toMatchObject({ code: 'unavailable', retryAfterSeconds: 2 })
  await expect(store.update('', 'd.json', () => Buffer.from('1'))).rejects.toMatchObject({
    code: 'unavailable',
  })
  expect(await store.get('', 'p.json')).toEqual(Buffer.alloc(0))
  await store.update('', 'x.json', () => Buffer.from('1'))
  symlinkSync('x.json', join(place.path, 'y.json'))
  expect([...(await store.list(''))].sort()).toEqual(['x.json', 'y.json'])
  await store.update('', 'p.json', () => Buffer.from('2'))
  expect(await store.list('')).toContain('p.json')
})
