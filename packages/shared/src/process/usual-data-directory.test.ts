import {
  chmod,
  cp,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  realpath,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { adoptDataDirectory, type DataKind, usualDataDirectory } from './usual-data-directory.ts'

let root: string
let env: Readonly<Record<string, string>>

beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'usual-')))
  env = { XDG_DATA_HOME: join(root, 'data') }
})
afterEach(() => rm(root, { recursive: true }))

const local = (name: string) => join(root, name, '.slipway')

/** A data directory of an earlier version in a working directory, whose log was written after its key. */
async function makeLocal(name: string): Promise<void> {
  await mkdir(local(name), { recursive: true, mode: 0o700 })
  await writeFile(join(local(name), 'secret.key'), 'key', { mode: 0o600 })
  await sleep(30)
  await writeFile(join(local(name), 'log.db'), 'log', { mode: 0o600 })
}

/** What a version that is installed now, or was before the directory was made, means by no name. */
function usual(
  name: string,
  { installedMs = Date.now() + 1_000, usedMs = 10, kind = 'agent' as DataKind } = {},
) {
  return usualDataDirectory(kind, { env, directory: join(root, name), age: { installedMs, usedMs } })
}

const refused = 'is not known to be your own'

test('each working directory has its own folders, short and outside of it', async () => {
  await mkdir(join(root, 'one/project'), { recursive: true })
  await mkdir(join(root, 'two/project'), { recursive: true })
  await symlink('one', join(root, 'link'))
  const [one, two, sandboxes, linked] = await Promise.all([
    usual('one/project'),
    usual('two/project'),
    usual('one/project', { kind: 'sandbox' }),
    usual('link/project'),
  ])
  expect(one.path).toMatch(/\/data\/slipway-servers\/project-[0-9a-f]{12}$/)
  expect(new Set([one.path, two.path, sandboxes.path]).size).toBe(3)
  expect(linked).toEqual(one)
  expect(await usual('one/project')).toEqual({ path: one.path })
  await mkdir(join(root, `ünusual "name" ${'x'.repeat(200)}`))
  const { path } = await usual(`ünusual "name" ${'x'.repeat(200)}`)
  expect(path).toMatch(/-servers\/_nusual_name_x{7}-[0-9a-f]{12}$/)
  expect(await readdir(join(root, 'one/project'))).toEqual([])
  expect((await lstat(join(root, 'data/slipway-servers'))).mode & 0o777).toBe(0o700)
})

test('the first command accepts a directory of an earlier version, and no later one does', async () => {
  await makeLocal('first')
  await makeLocal('second')
  const found = { path: local('first'), target: expect.stringContaining('/slipway-servers/first-') }
  expect(await usual('first')).toEqual(found)
  await expect(usual('second')).rejects.toThrow(refused)
  // It stays recorded, also for later versions.
  expect(await usual('first', { installedMs: 0 })).toEqual(found)
  await expect(usual('second', { installedMs: Date.now() + 100_000 })).rejects.toThrow('slipway data --adopt')
})

test('a first command elsewhere leaves nothing to be accepted', async () => {
  await makeLocal('project')
  await mkdir(join(root, 'elsewhere'))
  await usual('elsewhere')
  await expect(usual('project')).rejects.toThrow(refused)
})

test.for<[string, () => Promise<unknown>, object]>([
  ['came after this version', async () => {}, { installedMs: 0 }],
  ['was unpacked at once', async () => {}, { usedMs: 3_600_000 }],
  ['is open to others', () => chmod(local('clone'), 0o755), {}],
  ['has no key', () => rm(join(local('clone'), 'secret.key')), {}],
  ['has no log', () => rm(join(local('clone'), 'log.db')), {}],
  [
    'is a link',
    async () => {
      await rename(local('clone'), join(root, 'target'))
      await symlink('../target', local('clone'))
    },
    {},
  ],
])('the first command refuses a directory that %s', async ([, change, age]) => {
  await makeLocal('clone')
  await change()
  await expect(usual('clone', age)).rejects.toThrow(refused)
  await expect(usual('clone')).rejects.toThrow(refused)
})

test('a directory is adopted on purpose, at its place and with what it has', async () => {
  await mkdir(join(root, 'clone'))
  const adopt = (name: string) => adoptDataDirectory('agent', { env, directory: join(root, name) })
  await expect(adopt('clone')).rejects.toThrow('has no files')
  await makeLocal('clone')
  expect(await adopt('clone')).toMatchObject({ path: local('clone') })
  expect(await usual('clone')).toMatchObject({ path: local('clone') })
  // A copy elsewhere, and another directory at the same place.
  await cp(join(root, 'clone'), join(root, 'copy'), { recursive: true })
  await expect(usual('copy')).rejects.toThrow(refused)
  await rm(local('clone'), { recursive: true })
  expect(await usual('clone')).toEqual({ path: expect.stringContaining('/slipway-servers/clone-') })
  await makeLocal('clone')
  await expect(usual('clone')).rejects.toThrow(refused)
  await writeFile(join(local('clone'), 'data.id'), 'guessed', { mode: 0o600 })
  await expect(usual('clone')).rejects.toThrow(refused)
})

test('a directory without files, and a file in its place, are not in the way', async () => {
  await mkdir(local('empty'), { recursive: true })
  await writeFile(join(local('empty'), '.gitignore'), '*\n')
  expect(await usual('empty')).toEqual({ path: expect.stringContaining('/slipway-servers/empty-') })
  await mkdir(join(root, 'file'))
  await writeFile(local('file'), '')
  expect(await usual('file')).toEqual({ path: expect.stringContaining('/slipway-servers/file-') })
})

test('where nothing can be written, nothing is accepted', async () => {
  await writeFile(join(root, 'data'), '')
  await makeLocal('project')
  await expect(usual('project')).rejects.toThrow(refused)
})
