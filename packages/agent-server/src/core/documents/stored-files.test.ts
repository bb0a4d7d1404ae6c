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
import { Problem } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { Cipher } from '@slipway/storage'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { openStoredFiles, otherSources, type StoredFile } from '../../testing/stored-files.ts'

const packages = join(import.meta.dirname, '../../../..')

/** What every file of state goes through. */
const storePattern =
  /\b(?:openJsonFile(?:<[^(]*>)?|new (?:FileDocumentStore|JsonDocument)(?:<[^(]*>)?|writeFileAtomic|findPrivateFile|readPrivateFile)\(/

test('every module that keeps a file is in the list of stored files', async () => {
  using directory = temporaryDirectory()
  const listed = new Set((await openStoredFiles(directory.path)).map(({ source }) => source))
  const found = ['agent-server', 'sandbox-server', 'storage'].flatMap((name) =>
    readdirSync(join(packages, name, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.ts') && !/(?:\.test|\.contract|testing\/.*)\.ts$/.test(path))
      .map((path) => `${name}/src/${path}`),
  )
  const sources = found.filter((path) => storePattern.test(readFileSync(join(packages, path), 'utf8')))
  expect(sources.toSorted()).toEqual([...listed, ...Object.keys(otherSources)].toSorted())
})

test('a file that is not what its store has written is refused with its name and the next step, and stays', async () => {
  using directory = temporaryDirectory()
  const files = await openStoredFiles(directory.path)
  for (const file of files) await file.fill()
  const at = ({ path }: StoredFile) => join(directory.path, path)
  const cipher = await Cipher.open({
    directory: directory.path,
    secretKey: new Secret('a key for the stored files'),
  })
  for (const file of files) {
    const path = at(file)
    const bytes = readFileSync(path)
    const before = await file.read()
    const newer = { schema_version: 99, value: before }
    const texts: Record<string, string | Buffer> = {
      empty: '',
      cut: bytes.subarray(0, bytes.length / 2),
      foreign: Buffer.from([0xff, 0, 0x7b]),
      'of another form': '"text"',
      newer: isSealed(file) ? cipher.seal(JSON.stringify(newer)).toString('base64') : JSON.stringify(newer),
    }
    // A sealed file could be a session key by chance, and a session key has the form of a secret key.
    for (const other of files)
      if (
        other !== file &&
        !isAlike(file, other) &&
        !(file.path === 'session.key' && isSealed(other)) &&
        !(file.path === 'secret.key' && other.path === 'session.key')
      )
        texts[`exchanged with ${other.path}`] = readFileSync(at(other))
    for (const [damage, text] of Object.entries(texts)) {
      writeFileSync(path, text)
      await expectRefusal(file, damage)
      expect(readFileSync(path), `${file.path} ${damage}`).toEqual(Buffer.from(text))
    }
    rmSync(path)
    mkdirSync(path)
    await expectRefusal(file, 'a directory')
    expect(lstatSync(path).isDirectory()).toBe(true)
    renameSync(path, `${path}.away`)
    if (!path.endsWith('session.key') && !path.endsWith('console.sessions')) {
      symlinkSync(basename(path), path)
      await expectRefusal(file, 'a link to itself')
      rmSync(path)
    }
    writeFileSync(path, bytes, { mode: 0o600 })
    expect(await file.read(), file.path).toEqual(before)
  }
})

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
