import { cpSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { openBashEvents } from './bash-events/bash-events.ts'
import { openControlPlaneStore } from './control-plane/control-plane-store.ts'

/** What happens between two starts to the databases beside the log. */

const stores = [
  {
    name: 'bash.db',
    async use(directory: string) {
      using events = openBashEvents(join(directory, 'bash.db'))
      const command = { conversationId: null, commandId: 'a', isLast: true, body: Buffer.from('{}') }
      for (let n = 1; n <= 20; n++)
        events.add([{ ...command, instant: events.lastInstant + 1, id: `${events.lastInstant}`, order: n }])
      return events.totals.count
    },
  },
  {
    name: 'control.db',
    async use(directory: string) {
      await using store = await openControlPlaneStore({ directory })
      const names = Array.from({ length: 20 }, (_, n) => `${n}`)
      for (const name of names) await store.documents.update('', name, (old) => Buffer.from(`${old}.`))
      return names.length
    },
  },
]

const zeroPage = (path: string, page: number) => {
  const bytes = readFileSync(path)
  bytes.fill(0, (page - 1) * 4096, page * 4096)
  writeFileSync(path, bytes)
}

test.each(stores)(
  '$name that is deleted, emptied or exchanged is refused with the next step',
  async ({ name, use }) => {
    for (const [damage, message] of [
      [(path: string) => rmSync(path), /is missing, but .*mark is there/],
      [(path: string) => truncateSync(path, 0), /is empty, but .*mark is there/],
      [(path: string, other: string) => cpSync(other, path), /is another one than .*mark belongs to/],
    ] as const) {
      using directory = temporaryDirectory()
      using otherDirectory = temporaryDirectory()
      await use(directory.path)
      await use(otherDirectory.path)
      // It opens again as it is.
      await use(directory.path)
      const path = join(directory.path, name)
      damage(path, join(otherDirectory.path, name))
      for (let n = 0; n < 2; n++) {
        await expect(use(directory.path)).rejects.toThrow(message)
        await expect(use(directory.path)).rejects.toThrow(`${path} `)
        await expect(use(directory.path)).rejects.toThrow(/Restore it from a backup, or .*mark away/)
      }
      // The advice.
      if (!String(message).includes('another')) rmSync(path, { force: true })
      rmSync(path.replace('.db', '.mark'))
      await use(directory.path)
    }
  },
)

test.each(stores)('each page of $name that is zeroed is noticed when it is opened', async ({ name, use }) => {
  using original = temporaryDirectory()
  using directory = temporaryDirectory()
  const pristine = original.path
  await use(pristine)
  const pages = readFileSync(join(pristine, name)).length / 4096
  expect(pages).toBeGreaterThan(4)
  for (let page = 1; page <= pages; page++) {
    const copy = join(directory.path, 'copy')
    cpSync(pristine, copy, { recursive: true })
    zeroPage(join(copy, name), page)
    await expect(use(copy), `page ${page}`).rejects.toThrow(/damaged.*backup/s)
    rmSync(copy, { recursive: true })
  }
})

test.each(stores)(
  '$name of an earlier version, without a mark, opens and gets one',
  async ({ name, use }) => {
    using directory = temporaryDirectory()
    await use(directory.path)
    const mark = join(directory.path, name.replace('.db', '.mark'))
    for (const change of [() => rmSync(mark), () => writeFileSync(mark, 'damaged')]) {
      change()
      await use(directory.path)
      rmSync(join(directory.path, name))
      await expect(use(directory.path)).rejects.toThrow(/is missing/)
      rmSync(mark)
      await use(directory.path)
    }
  },
)

test('bash.db that is put back from before it had an id opens, and has that of its mark', async () => {
  using directory = temporaryDirectory()
  const [bash] = stores
  await bash?.use(directory.path)
  const path = join(directory.path, 'bash.db')
  {
    using db = new DatabaseSync(path)
    db.exec('PRAGMA application_id = 0')
  }
  expect(await bash?.use(directory.path)).toBe(40)
  expect(await bash?.use(directory.path)).toBe(60)
})
