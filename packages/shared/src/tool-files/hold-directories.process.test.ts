import { realpathSync } from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, test, vi } from 'vitest'
import { type Libc, loadLibc } from '../process/libc.ts'

const { EMFILE, ENOSYS, EPERM } = constants.errno
const directory = realpathSync(tmpdir())
let answers: number[] = []

vi.mock('../process/libc.ts', async (importOriginal) => {
  const original = await importOriginal<{ readonly loadLibc: typeof loadLibc }>()
  return {
    loadLibc: async (): Promise<Libc | undefined> => {
      const libc = await original.loadLibc()
      const openDirectoryInPool = async (path: string) =>
        answers.shift() ?? (await libc?.openDirectoryInPool(path)) ?? -ENOSYS
      return libc && { ...libc, openDirectoryInPool }
    },
  }
})

const testWhereHeld = test.skipIf((await loadLibc()) === undefined)

beforeEach(() => vi.resetModules())

async function pathInUse(): Promise<string> {
  const { inRealDirectory } = await import('./tool-files.ts')
  return await inRealDirectory(join(directory, 'x'), async (path) => path)
}

testWhereHeld('a failure that passes is an error, and says nothing about the system', async () => {
  answers = [-EMFILE]
  await expect(pathInUse()).rejects.toMatchObject({ code: 'EMFILE' })
  expect(await pathInUse()).toMatch(/^\/proc\/self\/fd\/\d+\/x$/)
})

testWhereHeld('a system without the call is asked once', async () => {
  for (const errno of [ENOSYS, EPERM]) {
    vi.resetModules()
    answers = [-errno]
    expect([await pathInUse(), await pathInUse()]).toEqual(Array(2).fill(join(directory, 'x')))
  }
})
