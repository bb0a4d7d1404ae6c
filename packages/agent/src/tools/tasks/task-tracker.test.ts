import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import type { Tool } from '../core/tool.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { openTaskTracker } from './task-tracker.ts'

let fixtures: ToolFixtures
let tool: Tool
beforeEach(async () => {
  fixtures = await ToolFixtures.open()
  tool = await fixtures.tool(openTaskTracker)
  return () => fixtures[Symbol.asyncDispose]()
})

const run = (args: Record<string, unknown>) => fixtures.run(tool, 'TaskTrackerObservation', args)

test('a plan replaces the list, and a view shows it after a restart too', async () => {
  expect((await run({})).outputText).toMatch(/no tasks/)
  const task_list = [
    { title: 'read', notes: 'two\nlines', status: 'done' },
    { title: 'write', status: 'in_progress' },
    { title: 'test' },
  ]
  const planned = await run({ command: 'plan', task_list })
  expect(planned).toMatchObject({ is_error: false, command: 'plan' })
  expect(planned.outputText).toBe(
    '1 of 3 tasks are done.\n1. [x] read\n   two\n   lines\n2. [>] write\n3. [ ] test',
  )
  tool = await fixtures.tool(openTaskTracker)
  const viewed = await run({ command: 'view' })
  expect(viewed.task_list).toEqual(planned.task_list)
  expect(viewed.outputText).toBe(planned.outputText)
  expect(await readdir(fixtures.context.directory)).toEqual(['TASKS.json'])
  expect(JSON.parse(await readFile(join(fixtures.context.directory, 'TASKS.json'), 'utf8'))).toEqual(
    viewed.task_list,
  )
})

test('a plan without a list is refused and shows the list that stays', async () => {
  expect(await run({ command: 'plan' })).toMatchObject({ task_list: [], is_error: false })
  const { task_list } = await run({ command: 'plan', task_list: [{ title: 'read' }] })
  for (const empty of [{ command: 'plan' }, { command: 'plan', task_list: [] }]) {
    const refused = await run(empty)
    expect(refused).toMatchObject({ is_error: true, task_list })
    expect(refused.outputText).toMatch(/stays as it is:\n0 of 1 tasks are done\.\n1\. \[ \] read/)
  }
  expect((await run({})).task_list).toEqual(task_list)
})

test.each(['', 'no json', '{"a":1}', '[{"status":"todo"}]', '[1]'])(
  'a stored list with %j is an error until a new one is planned',
  async (content) => {
    await writeFile(join(fixtures.context.directory, 'TASKS.json'), content)
    expect(await run({})).toMatchObject({ is_error: true, command: 'view', task_list: [] })
    expect(await run({ command: 'plan', task_list: [{ title: 'a' }] })).toMatchObject({ is_error: false })
    expect(await run({})).toMatchObject({ is_error: false })
  },
)

test('calls of the task tracker share a key', () => {
  expect(tool.resources({ kind: 'TaskTrackerAction', command: 'view', task_list: [] })).toEqual([
    'task_tracker',
  ])
})
