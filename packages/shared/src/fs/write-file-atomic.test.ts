import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { writeFileAtomic } from './write-file-atomic.ts'

const root = await mkdtemp(join(tmpdir(), 'slipway-write-'))
afterAll(() => rm(root, { recursive: true }))

test('the text is replaced as a whole, for its owner alone, and an old draft is no obstacle', async () => {
  const path = join(root, 'file')
  await writeFile(join(root, '.file.draft'), 'left by a crash')
  await writeFileAtomic(path, 'first')
  await writeFileAtomic(path, 'second')
  expect(await readFile(path, 'utf8')).toBe('second')
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  expect(await readdir(root)).toEqual(['file'])
})

test('a failure leaves no draft', async () => {
  await expect(writeFileAtomic(join(root, 'none/file'), '')).rejects.toMatchObject({ code: 'ENOENT' })
  await expect(writeFileAtomic('/dev/full/file', '')).rejects.toMatchObject({ code: 'ENOTDIR' })
  expect(await readdir(root)).toEqual(['file'])
})
