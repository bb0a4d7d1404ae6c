import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import type { Tool } from '../core/tool.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { openPlanningFileEditor } from './file-editor.ts'

let fixtures: ToolFixtures
let tool: Tool
beforeEach(async () => {
  fixtures = await ToolFixtures.open()
  tool = await fixtures.tool(openPlanningFileEditor)
  return () => fixtures[Symbol.asyncDispose]()
})

const run = (args: Record<string, unknown>, by = tool) =>
  fixtures.run(by, 'PlanningFileEditorObservation', args)

test('the plan is made with headings when it is needed, and changes tell old and new content', async () => {
  const path = fixtures.path('.agents_tmp/PLAN.md')
  const seen = await run({ command: 'view', path })
  expect(seen.outputText).toContain('## Steps')
  const before = await readFile(path, 'utf8')
  const edited = await run({
    command: 'str_replace',
    path,
    old_str: '## Steps',
    new_str: '## Steps\n\n1. Begin',
  })
  expect(edited).toMatchObject({
    is_error: false,
    old_content: before,
    new_content: before.replace('## Steps', '## Steps\n\n1. Begin'),
  })
  expect(await run({ command: 'undo_edit', path })).toMatchObject({ new_content: before })
})

test('a plan can be created whole', async () => {
  const path = fixtures.path('.agents_tmp/PLAN.md')
  expect(await run({ command: 'create', path, file_text: '# Mine\n' })).toMatchObject({ prev_exist: false })
  expect(await readFile(path, 'utf8')).toBe('# Mine\n')
})

test('a plan at the top of the workspace goes before', async () => {
  await writeFile(fixtures.path('PLAN.md'), 'old\n')
  const args = { command: 'insert', insert_line: 1, new_str: 'new' }
  expect(await run({ ...args, path: fixtures.path('.agents_tmp/PLAN.md') })).toMatchObject({ is_error: true })
  expect(await run({ ...args, path: fixtures.path('PLAN.md') })).toMatchObject({ is_error: false })
  expect(await readdir(fixtures.directory)).toEqual(['PLAN.md'])
})

test('the place of the plan is a parameter, and stays inside', async () => {
  const by = await fixtures.tool(openPlanningFileEditor, { plan_path: 'notes/plan.md' })
  const args = { command: 'create', file_text: 'x' }
  expect(await run({ ...args, path: fixtures.path('notes/plan.md') }, by)).toMatchObject({ is_error: false })
  const outside = await fixtures.tool(openPlanningFileEditor, {
    plan_path: join(fixtures.outside, 'plan.md'),
  })
  expect(await run({ ...args, path: join(fixtures.outside, 'plan.md') }, outside)).toMatchObject({
    is_error: true,
  })
  expect(await readdir(fixtures.outside)).toEqual([])
})

test.each([
  { command: 'create', file_text: 'x' },
  { command: 'str_replace', old_str: 'a', new_str: 'b' },
  { command: 'insert', insert_line: 0, new_str: 'b' },
  { command: 'undo_edit' },
])('other files are viewed and not changed: $command', async (args) => {
  const path = fixtures.path('a.txt')
  await writeFile(path, 'a\n')
  expect((await run({ command: 'view', path })).outputText).toContain('1\ta')
  const result = await run({ ...args, path })
  expect(result).toMatchObject({ is_error: true, path: null })
  expect(result.outputText).toContain(fixtures.path('.agents_tmp/PLAN.md'))
  expect(await readFile(path, 'utf8')).toBe('a\n')
  expect(await readdir(fixtures.directory)).toEqual(['a.txt'])
})

test('a plan folder that leads outside is refused', async () => {
  await symlink(fixtures.outside, fixtures.path('.agents_tmp'))
  await mkdir(join(fixtures.outside, 'x'))
  const path = fixtures.path('.agents_tmp/PLAN.md')
  expect(await run({ command: 'create', path, file_text: 'x' })).toMatchObject({ is_error: true })
  expect(await readdir(fixtures.outside)).toEqual(['x'])
})
