import { execFileSync } from 'node:child_process'
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { createFile, fileMutex, readExistingFile, readFileIfExists, replaceFile } from './file-access.ts'
import { failureText, ToolError } from './tool-failure.ts'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-access-'))
  return () => rm(directory, { recursive: true, force: true })
})

test.each(['/dev/zero', '/dev/null', '/dev/tty', '/proc', `/proc/${process.pid}/exe`])(
  '%s is refused',
  async (path) => {
    await expect(readExistingFile(path)).rejects.toThrow(ToolError)
  },
)

test('a pipe without a writer is refused and not waited for', async () => {
  execFileSync('mkfifo', [join(directory, 'pipe')])
  await expect(readExistingFile(join(directory, 'pipe'))).rejects.toThrow(ToolError)
  await expect(replaceFile(join(directory, 'pipe'), Buffer.alloc(0))).rejects.toThrow(ToolError)
})

test('a file that states no size is read to its end, and not beyond the limit', async () => {
  expect((await readExistingFile(`/proc/${process.pid}/status`)).bytes.toString()).toMatch(/^Name:/)
  await expect(readFileIfExists(`/proc/${process.pid}/status`, 10)).rejects.toThrow(/larger than 10 bytes/)
})

test('a file of exactly the limit is read', async () => {
  const path = join(directory, 'a')
  await writeFile(path, 'abc')
  expect((await readFileIfExists(path, 3))?.bytes.toString()).toBe('abc')
  await expect(readFileIfExists(path, 2)).rejects.toThrow(ToolError)
  expect(await readFileIfExists(join(directory, 'b'))).toBeUndefined()
})

test('a replaced file keeps its mode, a new one gets the usual mode, and nothing else is left', async () => {
  const path = join(directory, 'a')
  await replaceFile(path, Buffer.from('1'))
  expect((await stat(path)).mode & 0o777).toBe(0o666 & ~process.umask())
  await chmod(path, 0o4710)
  await replaceFile(path, Buffer.from('2'))
  expect((await stat(path)).mode & 0o7777).toBe(0o4710)
  expect(await readFile(path, 'utf8')).toBe('2')
  expect(await readdir(directory)).toEqual(['a'])
})

test('a file that cannot take the place of another leaves nothing behind', async () => {
  await expect(replaceFile(directory, Buffer.from('1'))).rejects.toThrow(ToolError)
  await expect(createFile(directory, Buffer.from('1'))).rejects.toThrow(ToolError)
  expect(await readdir(directory)).toEqual([])
})

test('of many who create a file one succeeds', async () => {
  const tries = Array.from({ length: 10 }, (_, at) =>
    createFile(join(directory, 'a'), Buffer.from(String(at))),
  )
  const results = await Promise.allSettled(tries)
  expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
})

test('work on one file is done one after another, after a failure too', async () => {
  const done: number[] = []
  const work = (number: number) => async () => {
    done.push(number)
    await new Promise(setImmediate)
    done.push(number)
    if (number === 1) throw new Error('one')
  }
  const all = await Promise.allSettled([0, 1, 2].map((number) => fileMutex.runExclusive('/a', work(number))))
  expect(done).toEqual([0, 0, 1, 1, 2, 2])
  expect(all.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
})

test('only failures of the world have a text for the model', async () => {
  expect(failureText(new Error('ours'))).toBeUndefined()
  expect(failureText(new TypeError('ours'))).toBeUndefined()
  expect(failureText(await readFile(join(directory, 'a')).catch((error) => error))).toMatch(/ENOENT/)
})
