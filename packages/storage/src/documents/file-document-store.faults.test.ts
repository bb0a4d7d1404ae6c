import * as systemFiles from 'node:fs/promises'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { FileDocumentStore } from './file-document-store.ts'

type Files = Pick<typeof systemFiles, 'open' | 'rename' | 'rm'>
/** Whether the call does its work before it fails. */
type Fault = { readonly call: number; readonly isDone: boolean }

const failure = () => Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })

/** Files whose call number `fault.call` fails, and how many there were. */
function faultyFiles(fault: Fault | undefined): { readonly files: Files; readonly calls: string[] } {
  const calls: string[] = []
  async function point<T>(name: string, work: () => Promise<T>, undo?: (done: T) => unknown): Promise<T> {
    calls.push(name)
    const isHit = calls.length - 1 === fault?.call
    if (isHit && !fault.isDone) throw failure()
    const result = await work()
    if (!isHit) return result
    await undo?.(result)
    throw failure()
  }
  const open = (async (...options: Parameters<typeof systemFiles.open>) => {
    const file = await point(
      'open',
      () => systemFiles.open(...options),
      (opened) => opened.close(),
    )
    const { sync, writeFile } = file
    file.sync = () => point('sync', () => sync.call(file))
    file.writeFile = (...content) => point('write', () => writeFile.call(file, ...content))
    return file
  }) as typeof systemFiles.open
  return {
    calls,
    files: {
      open,
      rename: (...paths) => point('rename', () => systemFiles.rename(...paths)),
      rm: (...options) => point('rm', () => systemFiles.rm(...options)),
    },
  }
}

const traced = faultyFiles(undefined)
{
  using place = temporaryDirectory()
  await writeTwice(place.path, traced.files)
}
const faults = traced.calls.flatMap((name, call) => [
  { name, call, isDone: false },
  { name, call, isDone: true },
])

/** A document is created, replaced and removed, each repeated after a failure as a client does. */
async function writeTwice(directory: string, files: Files): Promise<string[]> {
  const store = new FileDocumentStore({ directory, encoding: 'utf8', files })
  const seen: string[] = []
  for (const text of ['one', 'two', undefined]) {
    const change = () =>
      store.update('', 'd.json', () => (text === undefined ? undefined : Buffer.from(text)))
    await change().catch(async (error: unknown) => {
      expect(error).toMatchObject({ code: 'unavailable', message: expect.stringContaining('d.json') })
      // Another store of the same file reads what this one reads.
      const reader = new FileDocumentStore({ directory, encoding: 'utf8' })
      const read = String(await store.get('', 'd.json'))
      expect(read).toBe(String(await reader.get('', 'd.json')))
      expect([seen.at(-1) ?? 'undefined', String(text)]).toContain(read)
      await change()
    })
    seen.push(String(await store.get('', 'd.json')))
  }
  return seen
}

test(`a failure at each of ${faults.length} points leaves the old or the new document, and none of the draft`, async () => {
  expect(traced.calls).toContain('rename')
  for (const fault of faults) {
    using place = temporaryDirectory()
    const { files } = faultyFiles(fault)
    expect(await writeTwice(place.path, files), JSON.stringify(fault)).toEqual(['one', 'two', 'undefined'])
    expect(await systemFiles.readdir(place.path), JSON.stringify(fault)).toEqual([])
  }
})

/** A store, whose syncs of its directory fail while `disk.isFailing`. */
function storeOfDisk(directory: string, rename: Files['rename'] = systemFiles.rename) {
  const disk = { isFailing: false, syncs: 0 }
  const open = (async (...options: Parameters<typeof systemFiles.open>) => {
    const file = await systemFiles.open(...options)
    const { sync } = file
    file.sync = async () => {
      if (disk.isFailing && (await file.stat()).isDirectory()) throw failure()
      disk.syncs += 1
      await sync.call(file)
    }
    return file
  }) as typeof systemFiles.open
  const files = { ...systemFiles, open, rename }
  return { disk, store: new FileDocumentStore({ directory, encoding: 'utf8', files }) }
}

test('what a failed write may have left is durable before it is read', async () => {
  using place = temporaryDirectory()
  const { disk, store } = storeOfDisk(place.path)
  await store.update('', 'd', () => Buffer.from('old'))
  disk.isFailing = true
  await expect(store.update('', 'd', () => Buffer.from('new'))).rejects.toMatchObject({ code: 'unavailable' })
  await expect(store.get('', 'd')).rejects.toMatchObject({ code: 'unavailable' })
  disk.isFailing = false
  const before = disk.syncs
  expect(String(await store.get('', 'd'))).toBe('new')
  expect(disk.syncs).toBe(before + 1)
})

test('what a failed write may have left is durable before it is read, also after a read during the write', async () => {
  using place = temporaryDirectory()
  let during = async () => {}
  const { disk, store } = storeOfDisk(place.path, async (...paths) => {
    await during()
    await systemFiles.rename(...paths)
  })
  await store.update('', 'd', () => Buffer.from('old'))
  during = async () => {
    expect(String(await store.get('', 'd'))).toBe('old')
    disk.isFailing = true
  }
  await expect(store.update('', 'd', () => Buffer.from('new'))).rejects.toMatchObject({ code: 'unavailable' })
  await expect(store.get('', 'd')).rejects.toMatchObject({ code: 'unavailable' })
})
