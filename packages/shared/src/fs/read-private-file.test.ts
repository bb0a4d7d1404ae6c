import { execFileSync } from 'node:child_process'
import { chmod, chown, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { readPrivateFile } from './read-private-file.ts'

const root = await mkdtemp(join(tmpdir(), 'slipway-private-'))
afterAll(() => rm(root, { recursive: true }))

test.skipIf(process.platform === 'win32')('a file is read when its user alone may read it', async () => {
  const path = join(root, 'file')
  await writeFile(path, 'text', { mode: 0o600 })
  expect(await readPrivateFile(path)).toBe('text')
  for (const mode of [0o644, 0o640, 0o602]) {
    await chmod(path, mode)
    expect([mode, await readPrivateFile(path)]).toEqual([mode, undefined])
  }
  await chmod(path, 0o400)
  expect(await readPrivateFile(path)).toBe('text')
  await symlink('file', join(root, 'link'))
  execFileSync('mkfifo', ['-m', '600', join(root, 'pipe')])
  for (const name of ['link', 'missing', '.', 'pipe'])
    expect(await readPrivateFile(join(root, name))).toBeUndefined()
})

test.skipIf(process.getuid?.() !== 0)('a file of another user is not read', async () => {
  const path = join(root, 'foreign')
  await writeFile(path, 'text', { mode: 0o600 })
  await chown(path, 65_534, 65_534)
  expect(await readPrivateFile(path)).toBeUndefined()
})
