import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { assertInWorkspace } from './assert-in-workspace.ts'

test('paths that lead into the workspace pass, whatever links and dots they have; others do not', async () => {
  using directory = temporaryDirectory()
  const at = (...names: string[]) => join(directory.path, ...names)
  mkdirSync(at('work/sub'), { recursive: true })
  mkdirSync(at('work-sibling'))
  mkdirSync(at('outside/deep'), { recursive: true })
  writeFileSync(at('work/file'), '')
  symlinkSync('sub', at('work/inner'))
  symlinkSync(at('outside/deep'), at('work/escape'))
  symlinkSync(at('outside/new'), at('work/dangling'))
  symlinkSync('loop', at('work/loop'))
  symlinkSync(at('work'), at('link'))
  const root = at('link')
  const isInside = (path: string) =>
    assertInWorkspace(root, path, 'path').then(
      () => true,
      () => false,
    )
  for (const path of [
    '',
    'file',
    'sub/../file',
    'inner/new/file',
    'new/directory/file',
    'file/below',
    '..new',
  ])
    expect(await isInside(`${at('work')}/${path}`), path).toBe(true)
  expect(await isInside(at('link/file'))).toBe(true)
  for (const path of [
    '..',
    'sub/../../outside',
    '../work-sibling/x',
    'escape',
    'escape/new',
    'escape/../deep',
    'inner/../../outside',
    'escape/../../work/file',
    'dangling',
    'dangling/x',
    'loop',
    'loop/x',
    'file\0',
  ])
    expect(await isInside(`${at('work')}/${path}`), path).toBe(path === 'escape/../../work/file')
  for (const path of ['work/file', '', '/', directory.path]) expect(await isInside(path), path).toBe(false)
  await expect(assertInWorkspace(root, '/etc', 'cwd')).rejects.toMatchObject({
    code: 'invalid',
    message: 'cwd must be inside the conversation workspace',
  })
})

test('a workspace that is gone can be written again', async () => {
  using directory = temporaryDirectory()
  const gone = join(directory.path, 'gone')
  await assertInWorkspace(gone, join(gone, 'a/b'), 'path')
  await expect(assertInWorkspace(gone, directory.path, 'path')).rejects.toMatchObject({ code: 'invalid' })
})
