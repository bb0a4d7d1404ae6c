import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openStorage } from '../sqlite/storage.ts'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { importDocumentFiles } from './import-files.ts'

const sealed = Buffer.from('sealed bytes')

function writeFiles(directory: string): void {
  mkdirSync(join(directory, 'profiles'))
  writeFileSync(join(directory, 'settings.sealed'), `${sealed.toString('base64')}\n`)
  writeFileSync(join(directory, 'profiles/one.json'), '{"one":1}\n')
  writeFileSync(join(directory, 'other.json'), '{}')
}

async function openDirectory(directory: string) {
  const storage = await openStorage({ directory })
  const warnings: unknown[] = []
  const { documents } = storage
  const log = (level: string, message: string, fields?: unknown) => {
    if (level === 'warn') warnings.push([message, fields])
  }
  return {
    ...{ documents, warnings },
    import: () => importDocumentFiles({ directory, documents, log }),
    [Symbol.asyncDispose]: () => storage[Symbol.asyncDispose](),
  }
}

test('files of earlier versions are documents afterwards, and keep their bytes under another name', async () => {
  using directory = temporaryDirectory()
  writeFiles(directory.path)
  for (const _ of ['first start', 'second start']) {
    await using opened = await openDirectory(directory.path)
    await opened.import()
    expect(await opened.documents.get('', 'settings.sealed')).toEqual(sealed)
    expect(String(await opened.documents.get('', 'profiles/one.json'))).toBe('{"one":1}\n')
    expect(await opened.documents.list('')).toHaveLength(2)
    expect(readFileSync(join(directory.path, 'settings.sealed.imported'), 'utf8')).toBe(
      `${sealed.toString('base64')}\n`,
    )
    expect(readdirSync(join(directory.path, 'profiles'))).toEqual(['one.json.imported'])
  }
})

test('an import that ended between the document and the name of its file continues', async () => {
  using directory = temporaryDirectory()
  writeFiles(directory.path)
  await using opened = await openDirectory(directory.path)
  await opened.documents.update('', 'settings.sealed', () => sealed)
  await opened.import()
  expect(opened.warnings).toEqual([])
  expect(readdirSync(directory.path)).toContain('settings.sealed.imported')
})

test('a document of the storage wins over a file, which stays, with the next step', async () => {
  using directory = temporaryDirectory()
  writeFiles(directory.path)
  await using opened = await openDirectory(directory.path)
  await opened.documents.update('', 'settings.sealed', () => Buffer.from('of another server'))
  await opened.import()
  expect(String(await opened.documents.get('', 'settings.sealed'))).toBe('of another server')
  const file = join(directory.path, 'settings.sealed')
  expect(opened.warnings).toEqual([
    [
      'a file is not read, because the storage has the document already',
      { file, next: expect.stringContaining('slipway documents put settings.sealed') },
    ],
  ])
  expect(readFileSync(file, 'utf8')).toBe(`${sealed.toString('base64')}\n`)
})

test('something else in the place of a file is refused with its path, and nothing of it changes', async () => {
  using directory = temporaryDirectory()
  mkdirSync(join(directory.path, 'settings.sealed'))
  await using opened = await openDirectory(directory.path)
  await expect(opened.import()).rejects.toThrow(
    /settings\.sealed cannot be used: something else is in the place/,
  )
  expect(await opened.documents.list('')).toEqual([])
})
