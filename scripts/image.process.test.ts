import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'

test('the build of the image says what it needs, without a stack, and leaves no folder', async () => {
  const TMPDIR = await mkdtemp(join(tmpdir(), 'slipway-image-test-'))
  const build = (...args: string[]) => {
    const options = { encoding: 'utf8', env: { ...process.env, TMPDIR } } as const
    return spawnSync(process.execPath, [resolve('deploy/build.ts'), ...args], options)
  }
  const socket = join(TMPDIR, 'no.sock')
  const { status, stderr } = build('--engine-socket', socket)
  expect(stderr).toMatch(
    /^No container engine answers at .*no\.sock \(.*ENOENT.*\)\.\nStart Docker or Podman.*\n$/,
  )
  expect(status).toBe(1)
  expect(build('--server', 'other')).toMatchObject({
    status: 2,
    stderr: expect.stringMatching(/^--server is one of /),
  })
  expect(readdirSync(TMPDIR).filter((name) => name.startsWith('slipway-image-'))).toEqual([])
  await rm(TMPDIR, { recursive: true })
})
