import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startReaper } from './reaper.ts'

const unshare = ['unshare', '--map-root-user', '--user', '--mount'] as const
const canUnshare = spawnSync(unshare[0], [...unshare.slice(1), 'true']).status === 0

/** A program that has printed a line; nothing names the folder but what is given. */
async function start(program: string, args: readonly string[], env: object = {}): Promise<ChildProcess> {
  const child = spawn(program, args, {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  await once(child.stdout ?? child, 'data')
  return child
}

const wait = 'echo started; while :; do sleep 1; done'

test.skipIf(!canUnshare)('a folder takes its own processes with it, and none of any other', async () => {
  const base = await mkdtemp(join(tmpdir(), 'reaped-'))
  onTestFinished(() => rm(base, { recursive: true, force: true }))
  const [folder, longer, foreign] = [join(base, '2'), join(base, '20'), join(base, 'other')]
  for (const path of [folder, longer, foreign]) await mkdir(path)
  const inMounts = (path: string) => {
    const script = `mount --bind "$0" /mnt && cd / && unset PWD OLDPWD && ${wait}`
    // The name of the folder is in the arguments of the shell alone, which replaces itself.
    return start('sh', ['-c', `exec ${unshare.join(' ')} sh -c '${script}' "$F"`], { F: path })
  }
  const own = [await start('sh', ['-c', wait], { TMPDIR: folder }), await inMounts(folder)]
  const others = [
    await start('sh', ['-c', wait], { TMPDIR: longer }),
    await start('sh', ['-c', wait, 'a shell', `${folder}0/file`]),
    await inMounts(foreign),
    await start(unshare[0], [...unshare.slice(1), 'sh', '-c', wait]),
  ]
  await startReaper(folder).reap()
  expect(own.map(({ signalCode }) => signalCode)).toEqual(['SIGKILL', 'SIGKILL'])
  expect(others.map(({ signalCode, exitCode }) => signalCode ?? exitCode)).toEqual(others.map(() => null))
  expect([folder, longer, foreign].map(existsSync)).toEqual([false, true, true])
})
