import { mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { makeDirectory } from './make-directory.ts'

const root = await mkdtemp(join(tmpdir(), 'slipway-make-directory-'))
afterAll(() => rm(root, { recursive: true }))

test('missing parents are created with the mode; the first one is the answer', async () => {
  const path = join(root, 'a/b/c')
  expect(await makeDirectory(path, 0o700)).toBe(join(root, 'a'))
  expect(await makeDirectory(path, 0o700)).toBeUndefined()
  expect(await makeDirectory(join(path, 'd'))).toBe(join(path, 'd'))
  for (const directory of [join(root, 'a'), path]) expect((await stat(directory)).mode & 0o777).toBe(0o700)
})

test('a file or a dangling link in the way is an error', async () => {
  await writeFile(join(root, 'file'), '')
  await symlink(join(root, 'nowhere'), join(root, 'link'))
  await expect(makeDirectory(join(root, 'file'))).rejects.toMatchObject({ code: 'EEXIST' })
  await expect(makeDirectory(join(root, 'file/below'))).rejects.toMatchObject({ code: 'ENOTDIR' })
  await expect(makeDirectory(join(root, 'link'))).rejects.toMatchObject({ code: 'EEXIST' })
})

test.skipIf(process.platform !== 'linux')('below /proc it fails at once', async () => {
  await expect(makeDirectory('/proc/none/such')).rejects.toMatchObject({ code: 'ENOENT' })
})
