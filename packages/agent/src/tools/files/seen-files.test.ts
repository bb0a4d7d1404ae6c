import { writeFile } from 'node:fs/promises'
import { beforeEach, expect, test } from 'vitest'
import { openApplyPatch } from '../patch/apply-patch.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { openEdit, openWriteFile } from './edit.ts'
import { openFileEditor } from './file-editor.ts'
import { openReadFile } from './read-file.ts'

let fixtures: ToolFixtures
let path = ''
beforeEach(async () => {
  fixtures = await ToolFixtures.open()
  path = fixtures.path('a.txt')
  await writeFile(path, 'one\ntwo\n')
  return () => fixtures[Symbol.asyncDispose]()
})

const stale = 'Something else had changed the file since you last read it.'

const edit = async (args: object) =>
  (await fixtures.run(await fixtures.tool(openFileEditor), 'FileEditorObservation', { path, ...args }))
    .outputText
const view = () => edit({ command: 'view' })
const replace = (old_str: string, new_str: string) => edit({ command: 'str_replace', old_str, new_str })

test('an edit of a file that something else has changed is made and says so, once', async () => {
  await view()
  await writeFile(path, 'one\ntwo\nthree\n')
  expect(await replace('two', '2')).toContain(stale)
  expect(await replace('one', '1')).not.toContain(stale)
  expect(await edit({ command: 'undo_edit' })).toContain('undone')
  expect(await replace('one', 'I')).not.toContain(stale)
})

test('the tools for files know of each other what they have shown and written', async () => {
  const editFile = await fixtures.tool(openEdit)
  const change = async (old_string: string, new_string: string) =>
    (await fixtures.run(editFile, 'EditObservation', { file_path: path, old_string, new_string })).outputText
  const patch = async (old: string, text: string) => {
    const tool = await fixtures.tool(openApplyPatch)
    const file = `*** Begin Patch\n*** Update File: ${path}\n-${old}\n+${text}\n*** End Patch`
    const parsed = tool.parse({ patch: file })
    if ('error' in parsed) throw new Error(parsed.error)
    return JSON.stringify(await tool.run(parsed.action, new AbortController().signal))
  }
  await fixtures.run(await fixtures.tool(openReadFile), 'ReadFileObservation', { file_path: path })
  expect(await change('one', '1')).not.toContain(stale)
  expect(await patch('two', '2')).not.toContain(stale)
  expect(await replace('1', 'I')).not.toContain(stale)
  await writeFile(path, 'I\n2\n3\n')
  expect(await patch('2', 'II')).toContain(stale)
  await writeFile(path, 'I\nII\n3\n4\n')
  expect(await change('I\nII', '1\n2')).toContain(stale)
})

test('a file that is there and was not read is not created, and replacing it is said', async () => {
  const create = () => edit({ command: 'create', file_text: 'x\n' })
  expect(await create()).toContain('You have not read it: view it')
  const write = async (file_path: string) =>
    (
      await fixtures.run(await fixtures.tool(openWriteFile), 'WriteFileObservation', {
        file_path,
        content: 'y\n',
      })
    ).outputText
  expect(await write(path)).toContain('You had not read what it replaced.')
  expect(await write(path)).not.toContain('read')
  await writeFile(path, 'z\n')
  expect(await write(path)).toContain(stale)
  expect(await create()).not.toContain('not read')
  expect(await write(fixtures.path('new.txt'))).not.toContain('read')
})
