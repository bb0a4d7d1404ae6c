import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { copyIndex } from '../git/copy-index.ts'
import { open, readFile, writeFile } from './index.ts'

let directory: string

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'special-'))
})

afterEach(() => rmSync(directory, { recursive: true }))

function makePipe(): string {
  const pipe = join(directory, 'pipe')
  expect(spawnSync('mkfifo', [pipe]).status).toBe(0)
  return pipe
}

// A call that waited would never end, and hold a thread of all files: the test would run into its timeout.
test('a pipe in the place of a file is waited for neither when it is read nor when it is written', async () => {
  const pipe = makePipe()
  expect(await readFile(pipe)).toEqual(Buffer.alloc(0))
  await expect(writeFile(pipe, 'x')).rejects.toThrow('ENXIO')
  await using file = await open(pipe, 0)
  expect((await file.stat()).isFIFO()).toBe(true)
})

test('an index of git is copied whole, and is not newer', async () => {
  const [index, copy] = [join(directory, 'index'), join(directory, 'copy')]
  const bytes = Buffer.alloc(200_000, 'index')
  writeFileSync(index, bytes)
  utimesSync(index, 1_000_000_000, 1_000_000_000.0019)
  await copyIndex(index, copy)
  expect(readFileSync(copy)).toEqual(bytes)
  expect(statSync(copy).mtimeMs).toBe(1_000_000_000_001)
})

test('an index of git that is a pipe, a device or too large is not copied', async () => {
  const [copy, large] = [join(directory, 'copy'), join(directory, 'large')]
  writeFileSync(large, '')
  truncateSync(large, 2 ** 30 + 1)
  for (const index of [makePipe(), '/dev/zero', large])
    await expect(copyIndex(index, copy)).rejects.toThrow('is not an index of git')
  await expect(copyIndex(join(directory, 'none'), copy)).rejects.toThrow('ENOENT')
})
