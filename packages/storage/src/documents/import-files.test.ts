import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Secret } from '@slipway/shared/redaction'
import { expect, test } from 'vitest'
import { Cipher } from '../crypto/cipher.ts'
import { openStorage } from '../sqlite/storage.ts'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import type { DocumentStore } from './document-store.ts'
import { importDocumentFiles } from './import-files.ts'

const open = (directory: string, key = 'the key') => Cipher.open({ directory, secretKey: new Secret(key) })
using keys = temporaryDirectory()
const cipher = await open(keys.path)
const sealed = cipher.seal('{}')

function writeFiles(directory: string): void {
  mkdirSync(join(directory, 'profiles'))
  writeFileSync(join(directory, 'settings.sealed'), `${sealed.toString('base64')}\n`)
  writeFileSync(join(directory, 'profiles/one.json'), '{"one":1}\n')
  writeFileSync(join(directory, 'other.json'), '{}')
}

async function readSettings({ documents }: { readonly documents: DocumentStore }) {
  return cipher.open((await documents.get('', 'settings.sealed')) ?? Buffer.alloc(0))
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
    import: (isShared = false) => importDocumentFiles({ directory, documents, cipher, isShared, log }),
    [Symbol.asyncDispose]: () => storage[Symbol.asyncDispose](),
  }
}

test('files of earlier versions are documents afterwards, and keep their bytes under another name', async () => {
  using directory = temporaryDirectory()
  writeFiles(directory.path)
  for (const _ of ['first start', 'second start']) {
    await using opened = await openDirectory(directory.path)
    await opened.import()
    expect(await readSettings(opened)).toBe('{}')
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
  await opened.documents.update('', 'settings.sealed', () => cipher.seal('{}'))
  await opened.import()
  expect(opened.warnings).toEqual([])
  expect(readdirSync(directory.path)).toContain('settings.sealed.imported')
})

test('a document of the storage wins over a file, which never comes back', async () => {
  using directory = temporaryDirectory()
  const file = join(directory.path, 'settings.sealed')
  await using opened = await openDirectory(directory.path)
  for (const ending of ['not-imported', 'not-imported-2']) {
    writeFileSync(file, `${sealed.toString('base64')}\n`)
    await opened.documents.update('', 'settings.sealed', () => Buffer.from('of another server'))
    await opened.import()
    expect(String(await opened.documents.get('', 'settings.sealed'))).toBe('of another server')
    expect(opened.warnings.splice(0)).toEqual([
      [
        'a file of an earlier version is not read: the storage has the document already',
        {
          file: `${file}.${ending}`,
          next: expect.stringContaining(`slipway documents put settings.sealed ${file}.${ending}`),
        },
      ],
    ])
    expect(readFileSync(`${file}.${ending}`, 'utf8')).toBe(`${sealed.toString('base64')}\n`)
    await opened.documents.update('', 'settings.sealed', () => undefined)
    await opened.import()
    expect(await opened.documents.list('')).toEqual([])
  }
})

test('a file of the same content takes the first free name, and none is overwritten', async () => {
  using directory = temporaryDirectory()
  writeFiles(directory.path)
  writeFileSync(join(directory.path, 'settings.sealed.imported'), 'of before')
  await using opened = await openDirectory(directory.path)
  await opened.import()
  expect(readFileSync(join(directory.path, 'settings.sealed.imported'), 'utf8')).toBe('of before')
  expect(readdirSync(directory.path)).toContain('settings.sealed.imported-2')
})

test('for servers on one database a file is sealed again with the first key, or stays', async () => {
  using directory = temporaryDirectory()
  const local = await Cipher.open({ directory: directory.path, secretKey: undefined })
  const cipher = await open(directory.path)
  const text = (key: Cipher) =>
    JSON.stringify({ llm: { api_key: { $sealed: key.seal('"sk"').toString('base64') } } })
  const foreign = (await open(keys.path, 'of another server')).seal('{}').toString('base64')
  mkdirSync(join(directory.path, 'profiles'))
  const write = () => {
    writeFileSync(join(directory.path, 'settings.sealed'), local.seal('{}').toString('base64'))
    writeFileSync(join(directory.path, 'profiles/one.json'), text(local))
    writeFileSync(join(directory.path, 'profiles/two.json'), text(local))
  }
  write()
  writeFileSync(join(directory.path, 'secrets.sealed'), foreign)
  await using opened = await openDirectory(directory.path)
  const { documents, warnings } = opened
  await documents.update('', 'profiles/two.json', () => Buffer.from(text(cipher)))
  const options = { directory: directory.path, documents, cipher, isShared: true }
  const log = (level: string, ...words: readonly unknown[]) => {
    if (level === 'warn') warnings.push(words)
  }
  for (const _ of ['first start', 'after a restore of the files']) {
    await importDocumentFiles({ ...options, log })
    const others = await open(keys.path)
    expect(others.open((await documents.get('', 'settings.sealed')) ?? Buffer.alloc(0))).toBe('{}')
    const profile = JSON.parse(String(await documents.get('', 'profiles/one.json')))
    expect(others.open(Buffer.from(profile.llm.api_key.$sealed, 'base64'))).toBe('"sk"')
    expect(readdirSync(join(directory.path, 'profiles'))).not.toContain('two.json.not-imported')
    expect(warnings.splice(0)).toEqual([
      [
        expect.stringContaining('another key'),
        expect.objectContaining({ file: join(directory.path, 'secrets.sealed') }),
      ],
    ])
    write()
  }
  expect(await documents.get('', 'secrets.sealed')).toBeUndefined()
  expect(readFileSync(join(directory.path, 'secrets.sealed'), 'utf8')).toBe(foreign)
})

test('what is no file among profiles, or cannot be read, is left out', async () => {
  using directory = temporaryDirectory()
  writeFiles(directory.path)
  mkdirSync(join(directory.path, 'profiles/folder.json'))
  symlinkSync('loop.json', join(directory.path, 'profiles/loop.json'))
  await using opened = await openDirectory(directory.path)
  await opened.import()
  expect(await opened.documents.list('')).toHaveLength(2)
  expect(opened.warnings).toEqual([
    [
      'a profile of an earlier version is left out',
      { error: expect.stringContaining('loop.json cannot be used') },
    ],
  ])
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
