import { randomUUID } from 'node:crypto'
import { chmod, mkdir, mkdtemp, readdir, realpath, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { ProgramFolder } from './program-folder.ts'

const marker = `test-${randomUUID()}`
let root: string

beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'slipway-place-')))
})
afterEach(async () => {
  await rm(root, { recursive: true })
  await ProgramFolder.removeLeftovers({ SLIPWAY_SERVER: marker })
})

/** The programs of a name that npm finds from a folder, and what else it reads above it. */
async function findAbove(folder: string, name: string): Promise<string[]> {
  const found: string[] = []
  for (let at = folder; ; at = dirname(at)) {
    for (const file of [`node_modules/.bin/${name}`, '.npmrc', 'package.json']) {
      const path = join(at, file)
      if (
        await stat(path).then(
          () => true,
          () => false,
        )
      )
        found.push(path)
    }
    if (at === dirname(at)) return found
  }
}

/** A clone with a program of its author, and the data directory of a server in it. */
async function plantProgram(folder: string): Promise<string> {
  await mkdir(join(folder, 'node_modules/.bin'), { recursive: true })
  await writeFile(join(folder, 'node_modules/.bin/mcp-server-x'), '', { mode: 0o755 })
  await writeFile(join(folder, '.npmrc'), 'ignore-scripts=false\n')
  const data = join(folder, '.slipway/conversations')
  await mkdir(data, { recursive: true })
  return data
}

test('a folder is empty, the own one of the user, and no program of others is above it', async () => {
  await using folder = await ProgramFolder.create({ env: { SLIPWAY_SERVER: marker }, directory: root })
  const parent = join(await realpath(homedir()), '.cache/slipway/programs', marker)
  expect([dirname(folder.path), folder.isOwn]).toEqual([parent, true])
  expect([await readdir(folder.path), (await stat(folder.path)).mode & 0o777]).toEqual([[], 0o700])
  const other = await ProgramFolder.create({ env: { SLIPWAY_SERVER: marker } })
  expect(await readdir(parent)).toHaveLength(2)
  await other[Symbol.asyncDispose]()
  expect(await readdir(parent)).toHaveLength(1)
})

test.for([
  ['in a shared directory of temporary files', (at: string) => ({ HOME: at })],
  ['in the cache of a clone', (at: string) => ({ HOME: homedir(), XDG_CACHE_HOME: join(at, 'cache') })],
  ['behind a link', (at: string) => ({ HOME: join(at, 'link') })],
  ['missing', () => ({ HOME: '/nonexistent' })],
  ['no directory', () => ({ HOME: '/dev/null' })],
  ['a relative one', () => ({ HOME: 'relative' })],
] as const)('a program starts in / where the home directory is %s', async ([, environment]) => {
  const data = await plantProgram(root)
  await chmod(root, 0o755)
  await mkdir(join(root, 'link-target'))
  await symlink(join(root, 'link-target'), join(root, 'link'))
  expect(await findAbove(data, 'mcp-server-x')).toHaveLength(2)
  const env = { ...environment(root), SLIPWAY_SERVER: marker }
  await using folder = await ProgramFolder.create({ env, directory: root })
  expect([folder.path, folder.isOwn]).toEqual(['/', false])
  expect(await findAbove(folder.path, 'mcp-server-x')).toEqual([])
  expect((await readdir(root)).sort()).toEqual(['.npmrc', '.slipway', 'link', 'link-target', 'node_modules'])
})

test('a program starts in / where the home directory is in a project or in the workspace', async () => {
  const home = import.meta.dirname
  await using inProject = await ProgramFolder.create({ env: { HOME: home, SLIPWAY_SERVER: marker } })
  const place = { env: { SLIPWAY_SERVER: marker }, directory: homedir() }
  await using inWorkspace = await ProgramFolder.create(place)
  expect([inProject.path, inWorkspace.path]).toEqual(['/', '/'])
  expect(await readdir(home)).not.toContain('.cache')
})
