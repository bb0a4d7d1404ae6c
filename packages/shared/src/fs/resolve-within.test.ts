import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { isWithin, resolveWithin } from './resolve-within.ts'

const base = await realpath(await mkdtemp(join(tmpdir(), 'slipway-resolve-')))
const root = join(base, 'root')
await mkdir(join(root, 'folder'), { recursive: true })
await writeFile(join(root, 'folder/file'), 'text')
await writeFile(join(base, 'secret'), 'secret')
await symlink('folder/file', join(root, 'inner'))
await symlink('../secret', join(root, 'outer'))
await symlink('..', join(root, 'up'))
afterAll(() => rm(base, { recursive: true }))

const rows = [
  ['folder/file', { kind: 'file', path: join(root, 'folder/file') }],
  ['/folder//./file', { kind: 'file', path: join(root, 'folder/file') }],
  ['', { kind: 'directory', path: root }],
  ['inner', { kind: 'file', path: join(root, 'folder/file') }],
  ['outer', { kind: 'outside' }],
  ['up/secret', { kind: 'outside' }],
  ['../secret', { kind: 'outside' }],
  ['folder/../../secret', { kind: 'outside' }],
  ['folder/file/below', { kind: 'missing' }],
  ['nothing', { kind: 'missing' }],
  ['a\0b', { kind: 'missing' }],
] as const

test.each(rows)('%j', async (path, expected) => {
  expect(await resolveWithin(root, path)).toMatchObject(expected)
})

test('a sibling whose name begins like the root is not within it', () => {
  expect(isWithin('/a/b', '/a/b')).toBe(true)
  expect(isWithin('/a/b', '/a/b/c')).toBe(true)
  expect(isWithin('/a/b', '/a/bc')).toBe(false)
  expect(isWithin('/', '/a')).toBe(true)
})
