import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { selectBenchmarks } from './registry.ts'
import { runIsolated } from './run-isolated.ts'

const directory = await mkdtemp(join(tmpdir(), 'slipway-bench-'))
afterAll(() => rm(directory, { recursive: true }))

async function program(name: string, text: string): Promise<URL> {
  const path = join(directory, `${name}.mjs`)
  await writeFile(path, text)
  return pathToFileURL(path)
}

test("a benchmark's result is the outcome that it sends; without an outcome it has failed", async () => {
  const rows = await program('rows', `process.send({ rows: [] }, () => process.exit())`)
  const notRun = await program('not-run', `process.send({ notRun: process.argv[2] }, () => process.exit())`)
  const crash = await program('crash', `process.abort()`)
  const exit = await program('exit', `process.exit(3)`)
  expect(await runIsolated(rows, [])).toEqual({ rows: [] })
  expect(await runIsolated(notRun, ['no engine'])).toEqual({ notRun: 'no engine' })
  expect(await runIsolated(crash, [])).toEqual({ failed: 'its process ended with SIGABRT' })
  expect(await runIsolated(exit, [])).toEqual({ failed: 'its process ended with code 3' })
})

test('a name selects a benchmark or a group', () => {
  expect(selectBenchmarks('pages')).toEqual(['pages'])
  expect(selectBenchmarks('sandboxes')).toEqual([
    'sandboxes-bubblewrap',
    'sandboxes-process',
    'sandboxes-kubernetes',
    'sandboxes-docker',
    'many-sandboxes',
  ])
  expect(selectBenchmarks('nothing')).toEqual([])
})
