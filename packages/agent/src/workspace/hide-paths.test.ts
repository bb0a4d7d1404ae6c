import { mkdir, mkdtemp, realpath, rename, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { currentPaths } from './current-paths.ts'
import { hidingCommand } from './hide-paths.ts'

let root: string
beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'slipway-hide-')))
})
afterEach(() => rm(root, { recursive: true }))

/** The paths that a command line mounts with an option. */
function mounted(command: readonly string[], option: string): string[] {
  return command.flatMap((word, at) => (word === option ? [command[at + 1] ?? ''] : []))
}

test('a link in the place of the workspace shows nothing of what is hidden', async () => {
  const [data, workspace] = [join(root, 'data'), join(root, 'data/work')]
  await mkdir(workspace, { recursive: true })
  const places = { hidden: [data], readable: [], writable: [workspace] }
  expect(mounted(hidingCommand('bwrap', places, root), '--bind')).toContain(workspace)
  await rename(workspace, join(data, 'moved'))
  await symlink(data, workspace)
  const command = hidingCommand('bwrap', places, root)
  expect(mounted(command, '--tmpfs')).toContain(data)
  expect(mounted(command, '--bind').filter((path) => path.startsWith(data))).toEqual([])
})

test.runIf(process.platform === 'linux')(
  'a directory is hidden where it is after a folder above it was renamed',
  async () => {
    const data = join(root, 'share/data')
    await mkdir(data, { recursive: true })
    expect(currentPaths([data])).toEqual([data])
    await rename(join(root, 'share'), join(root, 'other'))
    // A decoy.
    await mkdir(data, { recursive: true })
    const command = hidingCommand('bwrap', { hidden: [data], readable: [], writable: [] }, root)
    expect(mounted(command, '--tmpfs')).toEqual(expect.arrayContaining([data, join(root, 'other/data')]))
  },
)

test('a directory that does not exist is hidden once it does', async () => {
  const data = join(root, 'late')
  const hidden = () =>
    mounted(hidingCommand('bwrap', { hidden: [data], readable: [], writable: [] }, root), '--tmpfs')
  expect(hidden()).not.toContain(data)
  await mkdir(data)
  expect(hidden()).toContain(data)
})
