import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { sandboxPaths } from './sandbox-paths.ts'
import { SandboxRecords } from './sandbox-record.ts'

const root = mkdtempSync(join(tmpdir(), 'slipway-records-'))
afterAll(() => rmSync(root, { recursive: true }))

test('a damaged record is a fault of its sandbox, and never taken for one that is missing', async () => {
  const records = new SandboxRecords(root, 'ledger')
  const good = await records.getOrCreate('good')
  await records.getOrCreate('bad')
  const { record: path } = sandboxPaths(root, 'bad')
  const bytes = readFileSync(path, 'utf8')
  const newer = JSON.stringify({ ...JSON.parse(bytes), version: 2 })
  for (const text of ['', bytes.slice(0, 40), 'null', '[]', newer]) {
    writeFileSync(path, text)
    const words = /bad\/process\.json cannot be read: .* Restore it/
    await expect(records.read('bad'), text).rejects.toThrow(words)
    await expect(records.getOrCreate('bad'), text).rejects.toThrow(words)
    expect(await records.find('bad'), text).toMatchObject({ id: 'bad', fault: expect.stringMatching(words) })
    expect((await records.list()).toSorted((a, b) => (a.id < b.id ? -1 : 1))).toEqual([
      expect.objectContaining({ id: 'bad', fault: expect.stringMatching(words) }),
      good,
    ])
    expect(readFileSync(path, 'utf8')).toBe(text)
  }
  rmSync(path)
  mkdirSync(path)
  await expect(records.read('bad')).rejects.toThrow('cannot be read')
  rmSync(path, { recursive: true })
  writeFileSync(path, bytes)
  expect(await records.read('bad')).toMatchObject({ id: 'bad', fault: null })
  expect(await new SandboxRecords(root, 'another').list()).toEqual([])
  expect(await records.read('none')).toBeUndefined()
})

test('an error that says nothing of the record is no fault of its sandbox', async () => {
  const ledger = new SandboxRecords(join(root, 'errors'), 'ledger')
  const record = await ledger.getOrCreate('one')
  let code: string | undefined
  const records = new SandboxRecords(join(root, 'errors'), 'ledger', async () => {
    if (code !== undefined) throw Object.assign(new Error(code), { code })
    return JSON.stringify(record)
  })
  for (code of ['EMFILE', 'EIO', 'ENOMEM', 'ESTALE'])
    for (const read of [() => records.find('one'), () => records.read('one'), () => records.list()])
      await expect(read()).rejects.toMatchObject({ code })
  for (code of ['EISDIR', 'ELOOP', 'EACCES', 'EPERM'])
    expect(await records.find('one')).toMatchObject({ fault: expect.stringContaining('cannot be read') })
  code = undefined
  expect(await records.list()).toEqual([record])
})

test('a damaged record of another server belongs to that one', async () => {
  const records = new SandboxRecords(join(root, 'shared'), 'ledger')
  const another = new SandboxRecords(join(root, 'shared'), 'another')
  const newer = { ...(await another.getOrCreate('one')), version: 2 }
  const { record: path } = sandboxPaths(records.directory, 'one')
  for (const text of [newer, { ledger: 'another' }].map((value) => JSON.stringify(value))) {
    writeFileSync(path, text)
    expect(await records.find('one')).toBeUndefined()
    expect(await records.list()).toEqual([])
    await expect(records.getOrCreate('one')).rejects.toThrow('does not belong to this server')
    await expect(another.read('one')).rejects.toThrow('cannot be read')
    expect(readFileSync(path, 'utf8')).toBe(text)
  }
})
