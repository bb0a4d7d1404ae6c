import { afterAll, beforeAll, expect, test } from 'vitest'
import { openGlob } from '../search/glob.ts'
import { openGrep } from '../search/grep.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { openFileEditor } from './file-editor.ts'
import { listDirectory } from './listing.ts'
import { openListDirectory } from './read-file.ts'

/** A directory of 10,000 files with a line each. */
let fixtures: ToolFixtures
beforeAll(async () => {
  fixtures = await ToolFixtures.open()
  const script = 'seq 10000 | split -l 1 -a 4 - a-file-with-a-name-'
  expect((await fixtures.context.workspace.run('sh', ['-c', script])).exitCode).toBe(0)
}, 120_000)
afterAll(() => fixtures[Symbol.asyncDispose](), 120_000)

test('a view shows 1,000 entries and counts the others', async () => {
  const args = { command: 'view', path: fixtures.directory }
  const { outputText } = await fixtures.run(
    await fixtures.tool(openFileEditor),
    'FileEditorObservation',
    args,
  )
  expect(outputText.length).toBeLessThanOrEqual(16_000)
  expect(outputText).toContain('[9000 more are left out.')
})

test('list_directory shows 500 entries and counts the others', async () => {
  const result = await fixtures.run(await fixtures.tool(openListDirectory), 'ListDirectoryObservation', {})
  expect(result).toMatchObject({ total_count: 10_000, is_truncated: true })
  expect(result.entries).toHaveLength(500)
  expect(result.outputText).toContain('[9500 more are left out.')
})

test('glob and grep list 100 files and say that there are more', async () => {
  const found = await fixtures.run(await fixtures.tool(openGlob), 'GlobObservation', { pattern: '**/*name*' })
  expect(found).toMatchObject({ truncated: true, is_error: false })
  expect(found.files).toHaveLength(100)
  const searched = await fixtures.run(await fixtures.tool(openGrep), 'GrepObservation', { pattern: '1' })
  expect(searched).toMatchObject({ truncated: true, is_error: false })
  expect(searched.matches).toHaveLength(100)
})

test('entries are in the order of their names, each once', async () => {
  const options = { levels: 2, includesHidden: true } as const
  const { entries, isComplete } = await listDirectory(
    fixtures.directory,
    options,
    new AbortController().signal,
  )
  const names = entries.map(({ name }) => name)
  expect(isComplete).toBe(true)
  expect(new Set(names).size).toBe(10_000)
  expect(names).toEqual([...names].sort())
})

test('a listing ends when it is aborted', async () => {
  const options = { levels: 1, includesHidden: true } as const
  await expect(listDirectory(fixtures.directory, options, AbortSignal.abort())).rejects.toThrow()
})
