import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, extname, join } from 'node:path'
import { must, Problem } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { Cipher, openStorage } from '@slipway/storage'
import { expect, test } from 'vitest'
import { fileDocuments } from '../../testing/file-documents.ts'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { openStoredFiles, otherSources, type StoredFile } from '../../testing/stored-files.ts'

const packages = join(import.meta.dirname, '../../../..')

/** What every file of state goes through. */
const storePattern =
  /\b(?:open(?:JsonFile|Document)(?:<[^(]*>)?|unreadableDocument|new (?:FileDocumentStore|JsonDocument)(?:<[^(]*>)?|writeFileAtomic|findPrivateFile|readPrivateFile)\(/

test('every module that keeps a file or a document is in the list of them', async () => {
  using directory = temporaryDirectory()
  const files = await openStoredFiles(directory.path, fileDocuments(directory.path))
  const listed = new Set(files.map(({ source }) => source))
  const found = ['agent-server', 'sandbox-server', 'storage'].flatMap((name) =>
    readdirSync(join(packages, name, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.ts') && !/(?:\.test|\.contract|testing\/.*)\.ts$/.test(path))
      .map((path) => `${name}/src/${path}`),
  )
  const sources = found.filter((path) => storePattern.test(readFileSync(join(packages, path), 'utf8')))
  expect(sources.toSorted()).toEqual([...listed, ...Object.keys(otherSources)].toSorted())
})

test('what is not what its store has written is refused with its name and the next step, and stays', async () => {
  using directory = temporaryDirectory()
  await using storage = await openStorage({ directory: directory.path })
  const { documents } = storage
  const files = await openStoredFiles(directory.path, documents)
  for (const file of files) await file.fill()
  const at = ({ path }: StoredFile) => join(directory.path, path)
  const readBytes = async (file: StoredFile) =>
    file.isDocument === true ? await documents.get('', file.path) : readFileSync(at(file))
  const writeBytes = async (file: StoredFile, bytes: Buffer) => {
    if (file.isDocument === true) await documents.update('', file.path, () => bytes)
    else writeFileSync(at(file), bytes, { mode: 0o600 })
  }
  const cipher = await Cipher.open({
    directory: directory.path,
    secretKey: new Secret('a key for the stored files'),
  })
  for (const file of files) {
    const bytes = must(await readBytes(file), file.path)
    const before = await file.read()
    const encode = (text: string) => (isSealed(file) ? cipher.seal(text) : Buffer.from(text))
    const damages: Record<string, Buffer> = {
      empty: Buffer.alloc(0),
      cut: bytes.subarray(0, bytes.length / 2),
      foreign: Buffer.from([0xff, 0, 0x7b]),
      'of another form': encode('"text"'),
      newer: encode(JSON.stringify({ schema_version: 99, value: before })),
    }
    for (const other of files)
      if (
        other !== file &&
        !isAlike(file, other) &&
        !(file.path === 'secret.key' && other.path === 'session.key')
      )
        damages[`exchanged with ${other.path}`] = must(await readBytes(other), other.path)
    for (const [damage, damaged] of Object.entries(damages)) {
      await writeBytes(file, damaged)
      await expectRefusal(file, damage)
      expect(await readBytes(file), `${file.path} ${damage}`).toEqual(damaged)
    }
    if (file.isDocument !== true) await expectNoFile(file, at(file))
    await writeBytes(file, bytes)
    expect(await file.read(), file.path).toEqual(before)
  }
})

/** Something else in the place of a file is refused too. */
async function expectNoFile(file: StoredFile, path: string): Promise<void> {
  rmSync(path)
  mkdirSync(path)
  await expectRefusal(file, 'a directory')
  expect(lstatSync(path).isDirectory()).toBe(true)
  renameSync(path, `${path}.away`)
  if (path.endsWith('session.key') || path.endsWith('console.sessions')) return
  symlinkSync(basename(path), path)
  await expectRefusal(file, 'a link to itself')
  rmSync(path)
}

function isAlike(one: StoredFile, other: StoredFile): boolean {
  return one.kind !== undefined && one.kind === other.kind
}

function isSealed({ path }: StoredFile): boolean {
  return extname(path) === '.sealed'
}

async function expectRefusal({ path, read, write = read }: StoredFile, damage: string): Promise<void> {
  for (const use of [read, write]) {
    const error: unknown = await use().then(
      (value) => expect.fail(`${path} ${damage}: it is read as ${JSON.stringify(value)}`),
      (error) => error,
    )
    const { message } = error as Error
    expect(message, `${path} ${damage}`).toContain(basename(path))
    expect(message, `${path} ${damage}`).toMatch(/restore (?:it|the file) from a backup/i)
    if (error instanceof Problem)
      expect(['conflict', 'bad_request', 'unavailable'], `${path} ${damage}`).toContain(error.code)
    else expect(path).toMatch(/\.key$/)
  }
}
