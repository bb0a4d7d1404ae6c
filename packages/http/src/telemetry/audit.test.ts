import { mkdir, mkdtemp, readFile, rename, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type AuditEntry, AuditFile } from './audit.ts'

const entry: AuditEntry = { audit: true, method: 'POST', route: '/x', status: 200, request_id: 'r1' }

async function temporaryDirectory() {
  const path = await mkdtemp(join(tmpdir(), 'slipway-audit-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) }
}

async function readEntries(path: string): Promise<AuditEntry[]> {
  const text = await readFile(path, 'utf8')
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}

test('each entry is an appended line with its time, in a file of mode 0600', async () => {
  await using directory = await temporaryDirectory()
  const path = join(directory.path, 'audit.log')
  for (const request_id of ['a', 'b']) {
    using file = new AuditFile(path, () => {})
    file.write({ ...entry, request_id })
    expect((await readEntries(path)).at(-1)).toMatchObject({
      request_id,
      time: expect.stringMatching(/^\d{4}-.*Z$/),
    })
  }
  expect((await readEntries(path)).map(({ request_id }) => request_id)).toEqual(['a', 'b'])
  expect((await stat(path)).mode & 0o777).toBe(0o600)
})

test('SIGHUP reopens the file', async () => {
  await using directory = await temporaryDirectory()
  const path = join(directory.path, 'audit.log')
  using file = new AuditFile(path, () => {})
  file.write({ ...entry, request_id: 'before' })
  await rename(path, `${path}.1`)
  file.write({ ...entry, request_id: 'moved' })
  process.emit('SIGHUP', 'SIGHUP')
  file.write({ ...entry, request_id: 'after' })
  expect((await readEntries(`${path}.1`)).map(({ request_id }) => request_id)).toEqual(['before', 'moved'])
  expect((await readEntries(path)).map(({ request_id }) => request_id)).toEqual(['after'])
})

test('a file that cannot be opened is a readable error, and failed writes are logged', async () => {
  await using directory = await temporaryDirectory()
  expect(() => new AuditFile(join(directory.path, 'nowhere', 'audit.log'), () => {})).toThrow(
    /audit log .* cannot be opened: ENOENT/,
  )
  const lines: unknown[][] = []
  using full = new AuditFile('/dev/full', (...line) => void lines.push(line))
  full.write(entry)
  expect(lines).toEqual([['error', 'the audit log cannot be written', { ...entry, error: 'ENOSPC' }]])
})

test('a file that cannot be reopened stays in use', async () => {
  await using directory = await temporaryDirectory()
  const place = join(directory.path, 'place')
  const path = join(place, 'audit.log')
  await mkdir(place)
  const lines: unknown[][] = []
  using file = new AuditFile(path, (...line) => void lines.push(line))
  await rename(place, `${place}-moved`)
  process.emit('SIGHUP', 'SIGHUP')
  expect(lines).toMatchObject([['error', 'the audit log cannot be reopened', { error: 'ENOENT' }]])
  file.write(entry)
  expect(await readEntries(join(`${place}-moved`, 'audit.log'))).toHaveLength(1)
})
