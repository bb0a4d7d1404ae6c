import { spawnSync } from 'node:child_process'
import {
  constants,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { inRealDirectory, makeRealDirectory, openReal } from './tool-files.ts'

let root: string
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'sw-real-')))
  mkdirSync(join(root, 'folder'))
})
afterEach(() => rmSync(root, { recursive: true }))

const flags = constants.O_RDWR | constants.O_CREAT

test('a file is opened by its path, and by none with a link in any part', async () => {
  await (await openReal(join(root, 'folder/file'), flags)).close()
  await makeRealDirectory(join(root, 'folder/a/b'))
  symlinkSync('folder', join(root, 'link'))
  symlinkSync('file', join(root, 'folder/last'))
  const loop = { code: 'ELOOP', syscall: 'open' }
  await expect(openReal(join(root, 'link/file'), flags)).rejects.toMatchObject(loop)
  await expect(openReal(join(root, 'folder/last'), flags)).rejects.toMatchObject(loop)
  await expect(makeRealDirectory(join(root, 'link/c/d'))).rejects.toMatchObject(loop)
  await expect(openReal(join(root, 'none/file'), flags)).rejects.toMatchObject({ code: 'ENOENT' })
})

test('the directory is the same one for as long as the function runs', async () => {
  await inRealDirectory(join(root, 'folder/file'), async (path) => {
    renameSync(join(root, 'folder'), join(root, 'moved'))
    mkdirSync(join(root, 'folder'))
    await writeFile(path, 'x')
  })
  expect(readFileSync(join(root, 'moved/file'), 'utf8')).toBe('x')
})

test.skipIf(process.getuid?.() !== 0)('also where the process of another user hides from debuggers', () => {
  const program = `
    const { loadLibc } = await import(${JSON.stringify(import.meta.resolve('../process/libc.ts'))})
    const { inRealDirectory } = await import(${JSON.stringify(import.meta.resolve('./tool-files.ts'))})
    ;(await loadLibc()).disableDumps()
    const { stat } = await import('node:fs/promises')
    console.log(await inRealDirectory('/usr/bin', async (path) => path.startsWith('/proc/self/fd/') && (await stat(path)).isDirectory()))`
  const args = ['--reuid=65534', '--clear-groups', process.execPath, '--input-type=module', '-e', program]
  const { stdout, stderr } = spawnSync('setpriv', args, { encoding: 'utf8' })
  expect(stdout || stderr).toBe('true\n')
})
