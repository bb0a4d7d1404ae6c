import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Problem } from '@slipway/protocol/client'
import { makeZip } from 'client-zip'
import { afterAll, expect, test } from 'vitest'
import { type EventFiles, isZip, openEventArchive, openEventFolder } from './event-files.ts'

const directory = await mkdtemp(join(tmpdir(), 'slipway-event-files-'))
afterAll(async () => await rm(directory, { recursive: true, force: true }))

const id = '7f3c1de252a44b1e9a540c2f6a3b9d10'
let count = 0

async function archive(files: Readonly<Record<string, string>>): Promise<string> {
  const path = join(directory, `${count++}.zip`)
  const entries = Object.entries(files).map(([name, input]) => ({ name, input }))
  await writeFile(path, await new Response(makeZip(entries)).bytes())
  return path
}

async function folder(files: Readonly<Record<string, string>>): Promise<string> {
  const path = join(directory, `folder-${count++}`)
  await mkdir(join(path, 'events'), { recursive: true })
  for (const [name, text] of Object.entries(files)) await writeFile(join(path, name), text)
  return path
}

async function read({ meta, chunks, close }: EventFiles) {
  let text = ''
  for await (const chunk of chunks) text += chunk
  close()
  return { meta, lines: text.trimEnd().split('\n') }
}

const files = {
  'events/event-00010-c.json': '{"kind":"C"}',
  'base_state.json': JSON.stringify({ id, execution_status: 'finished' }),
  'events/event-00000-a.json': ' {"kind" : "A"}\r',
  'events/event-00002-b.json': '{\n  "kind": "B"\n}\n',
}
const lines = [' {"kind" : "A"}\r', '{   "kind": "B" }', '{"kind":"C"}']

test('a folder is read in the order of its numbers, byte for byte where an event is one line', async () => {
  const path = await folder(files)
  const whole = { meta: { conversation_id: id }, lines }
  expect(await read(await openEventFolder(path))).toEqual(whole)
  expect(await read(await openEventFolder(join(path, 'events')))).toEqual(whole)
})

test('an archive is read likewise, with the title of its meta.json', async () => {
  const inFolder = Object.fromEntries(Object.entries(files).map(([name, text]) => [`${id}/${name}`, text]))
  const meta = JSON.stringify({ id: 'x', title: 'T', tags: { a: 'b' }, other: 1 })
  const path = await archive({ ...inFolder, [`${id}/meta.json`]: meta, 'other.txt': '' })
  expect([await isZip(path), await isZip(import.meta.filename)]).toEqual([true, false])
  expect(await read(await openEventArchive(path))).toEqual({
    meta: { conversation_id: id, title: 'T', tags: { a: 'b' } },
    lines,
  })
  const download = await archive({
    'event_000001_b.json': '{"kind":"B"}',
    'event_000000_a.json': '{"kind":"A"}',
  })
  expect((await read(await openEventArchive(download))).lines).toEqual(['{"kind":"A"}', '{"kind":"B"}'])
})

test.each([
  ['without events', { 'a/readme.txt': 'x' }, 'no events/event'],
  ['of several conversations', { 'a/events/event-1-a.json': '', 'b/events/event-2-a.json': '' }, 'several'],
  ['with a number twice', { 'events/event-1-a.json': '{}', 'events/event-01-b.json': '{}' }, 'number 01'],
  ['with a path that leaves it', { '../events/event-1-a.json': '{}' }, 'invalid relative path'],
])('an archive %s is refused', async (_, entries, reason) => {
  await expect(openEventArchive(await archive(entries))).rejects.toThrow(reason)
})

test('a damaged archive, an event that is too long, and a bomb are refused', async () => {
  const path = join(directory, 'damaged.zip')
  await writeFile(path, 'PK\u0003\u0004 and nothing else')
  await expect(openEventArchive(path)).rejects.toThrow('Cannot read')
  const bomb = await archive({ 'events/event-1-a.json': `"${' '.repeat(64 * 1024 * 1024)}"` })
  await expect(read(await openEventArchive(bomb))).rejects.toThrow('longer than an event')
})

test('a conversation without events is its other files', async () => {
  const path = await archive({ [`${id}/base_state.json`]: '{}', [`${id}/meta.json`]: JSON.stringify({ id }) })
  expect(await read(await openEventArchive(path))).toEqual({ meta: { conversation_id: id }, lines: [''] })
})

test('a link in a folder is not followed', async () => {
  const path = await folder({ 'events/event-0-a.json': '{}' })
  await symlink('/etc/hostname', join(path, 'events/event-1-b.json'))
  expect((await read(await openEventFolder(path))).lines).toEqual(['{}'])
})

test('an entry that cannot be read is the fault of the archive', async () => {
  const name = `${id}/base_state.json`
  const path = await archive({ [name]: '{}' })
  const bytes = await readFile(path)
  // Its compression, in the entry of the directory: bzip2.
  bytes.writeUInt16LE(12, bytes.indexOf('PK\u0001\u0002') + 10)
  await writeFile(path, bytes)
  await expect(openEventArchive(path)).rejects.toThrow(Problem)
  await expect(openEventArchive(path)).rejects.toThrow(`Cannot read ${name}: `)
})
