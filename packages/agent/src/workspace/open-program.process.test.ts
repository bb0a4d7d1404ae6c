import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { sandboxCommand } from './command-sandbox.ts'
import { Workspace } from './workspace.ts'

let directory: string
beforeEach(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-program-')))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

const env = { PATH: '/usr/local/bin:/usr/bin:/bin' }

async function isAlive(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => undefined)
  return stat !== undefined && !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2))
}

test.each(['the program', 'the workspace'])(
  'the end of %s ends what it has started, in other sessions too',
  async (what) => {
    const workspace = await Workspace.open({ directory, env })
    const { child, isStarted } = await workspace.openProgram('sh', [
      '-c',
      'setsid sleep 300 & echo $!; exec cat',
    ])
    expect(await isStarted).toBe(true)
    const [bytes] = await once(child.stdout, 'data')
    const pid = Number(String(bytes))
    expect(await isAlive(pid)).toBe(true)
    if (what === 'the program') child.stdin.end()
    else await workspace[Symbol.asyncDispose]()
    await expect.poll(() => isAlive(pid), { timeout: 20_000 }).toBe(false)
    await workspace[Symbol.asyncDispose]()
  },
)

test('a program that is missing is not started', async () => {
  await using workspace = await Workspace.open({ directory, env })
  const { isStarted } = await workspace.openProgram('/nothing/there', [])
  expect(await isStarted).toBe(false)
  await expect(workspace.openProgram('a\0b', [])).rejects.toThrow(TypeError)
})

test('in a sandbox the folders of a program are shown in what is hidden, and may be changed', async () => {
  const hidden = join(directory, 'hidden')
  const own = join(hidden, 'own')
  await mkdir(own, { recursive: true })
  const places = { directory: '/srv', readable: [hidden], hidden: [hidden], writable: [own] }
  const args = await sandboxCommand({ mode: 'read-only', network: true }, places)
  const at = (...words: string[]) =>
    args.findIndex((_, index) => words.every((word, offset) => args[index + offset] === word))
  expect(at('--tmpfs', hidden)).toBeGreaterThan(-1)
  expect(at('--bind', own, own)).toBeGreaterThan(at('--tmpfs', hidden))
})
