import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import type { Tool } from '../core/tool.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { openFileEditor } from './file-editor.ts'

/**
 * The public cases of OpenHands' file editor (software-agent-sdk, `tests/tools/file_editor`), restated. Texts
 * of results are ours; where the answer is another one, `docs/differences.md` says why.
 */
let fixtures: ToolFixtures
let tool: Tool
let path: string
const text = 'This is a test file.\nThis file is for testing purposes.'
beforeEach(async () => {
  fixtures = await ToolFixtures.open()
  tool = await fixtures.tool(openFileEditor)
  path = await write('test.txt', text)
  return () => fixtures[Symbol.asyncDispose]()
})

async function write(name: string, content: string): Promise<string> {
  await mkdir(dirname(fixtures.path(name)), { recursive: true })
  await writeFile(fixtures.path(name), content)
  return fixtures.path(name)
}

const run = (args: Record<string, unknown>) => fixtures.run(tool, 'FileEditorObservation', { path, ...args })
const content = () => readFile(path, 'utf8')
const lines = (count: number) => Array.from({ length: count }, (_, at) => `Line ${at + 1}`)

/** A call that changes nothing and says why. */
async function refused(args: Record<string, unknown>, why: RegExp): Promise<void> {
  const before = await content()
  const parsed = tool.parse({ path, ...args })
  const said = 'error' in parsed ? parsed.error : (await run(args)).outputText
  if (!('error' in parsed)) expect(await run(args)).toMatchObject({ is_error: true })
  expect(said).toMatch(why)
  expect(await content()).toBe(before)
}

test('a text is replaced, and the result has the file before and after', async () => {
  const done = await run({ command: 'str_replace', old_str: 'test file', new_str: 'sample file' })
  expect(done).toMatchObject({ is_error: false, path, prev_exist: true, old_content: text })
  expect(done.new_content).toBe(text.replace('test file', 'sample file'))
  expect(done.outputText).toContain('     1\tThis is a sample file.')
  expect(done.outputText).toContain('     2\tThis file is for testing purposes.')
  expect(await content()).toBe(done.new_content)
})

test('a view shows what looks like markup as it is', async () => {
  const markup = "match = re.search(\n    r'<out_[0-9a-f]{32}>(.*?)</out_[0-9a-f]{32}>',\n)\n"
  await write('test.txt', markup)
  expect((await run({ command: 'view' })).outputText).toContain('<out_[0-9a-f]{32}>(.*?)</out_[0-9a-f]{32}>')
})

test('view, replace, insert and undo in a row', async () => {
  await write('test.txt', 'line 1\nline 2\nline 3\n')
  for (const args of [
    { command: 'view' },
    { command: 'str_replace', old_str: 'line 2', new_str: 'replaced line' },
    { command: 'insert', insert_line: 1, new_str: 'inserted line' },
    { command: 'undo_edit' },
  ])
    expect(await run(args)).toMatchObject({ is_error: false })
  expect(await content()).toBe('line 1\nreplaced line\nline 3\n')
})

test('tabs stay tabs, in views, in what is sought and in what is written', async () => {
  await write('test.txt', 'no tabs\n\tindented\nline\twith\ttabs\n')
  expect((await run({ command: 'view' })).outputText).toContain('\tline\twith\ttabs')
  await run({ command: 'str_replace', old_str: 'line\twith\ttabs', new_str: 'new\tline' })
  await run({ command: 'insert', insert_line: 1, new_str: '\tindented\tline' })
  expect(await content()).toBe('no tabs\n\tindented\tline\n\tindented\nnew\tline\n')
})

test('several lines with tabs are replaced', async () => {
  await write('test.txt', 'def test():\n\tprint("Hello, World!")')
  const done = await run({
    command: 'str_replace',
    old_str: 'def test():\n\tprint("Hello, World!")',
    new_str: 'def test():\n\tprint("Hello, Universe!")',
  })
  expect(done.outputText).toContain('     1\tdef test():\n     2\t\tprint("Hello, Universe!")')
})

test.each([
  ['several lines', 'This is a new file.\nWith multiple lines.'],
  ['no line', ''],
])('a file with %s is created in a directory that is there', async (_, file_text) => {
  path = fixtures.path('new.txt')
  const done = await run({ command: 'create', file_text })
  expect(done).toMatchObject({ is_error: false, prev_exist: false, new_content: file_text })
  expect(await content()).toBe(file_text)
})

test('a view of a long line and of many lines is cut, and says so', async () => {
  for (const long of ['A'.repeat(100_000), 'Line 1\n'.repeat(16_000)]) {
    await write('test.txt', long)
    const { outputText } = await run({ command: 'view' })
    expect(outputText).toMatch(/left out|cut/i)
    expect(outputText.length).toBeLessThan(40_000)
  }
})

test('a view numbers the lines, and there is none after the last', async () => {
  const { outputText } = await run({ command: 'view' })
  expect(outputText).toContain('1\tThis is a test file.\n     2\tThis file is for testing purposes.')
  expect(outputText).not.toContain('3\t')
})

test('a view of a directory goes two levels deep, leaves out hidden entries and tells of them', async () => {
  await write('tree/visible.txt', '')
  await write('tree/.hidden1', '')
  await write('tree/.hidden_dir/visible3.txt', '')
  await write('tree/dir/visible2.txt', '')
  await write('tree/dir/.hidden2', '')
  await write('tree/dir/deep/too-deep.txt', '')
  const { outputText } = await run({ command: 'view', path: fixtures.path('tree') })
  for (const name of ['visible.txt', 'dir/visible2.txt', 'dir/deep']) expect(outputText).toContain(name)
  for (const name of ['.hidden1', '.hidden2', 'visible3', 'too-deep']) expect(outputText).not.toContain(name)
  expect(outputText).toMatch(/\b3 hidden/)
})

test('a hidden directory that is named is shown, and a link to a directory too', async () => {
  await write('.tree/dir/file.txt', '')
  await symlink(fixtures.path('.tree'), fixtures.path('link'))
  for (const name of ['.tree', 'link'])
    expect((await run({ command: 'view', path: fixtures.path(name) })).outputText).toContain('dir/file.txt')
})

test('a view of a directory with very many files is cut, and says so', async () => {
  await mkdir(fixtures.path('large'))
  await Promise.all(
    Array.from({ length: 1500 }, (_, n) => writeFile(fixtures.path(`large/file_${n}.txt`), '')),
  )
  const { outputText } = await run({ command: 'view', path: fixtures.path('large') })
  expect(outputText).toMatch(/left out|more|cut/i)
})

test('a view of a range shows that range', async () => {
  await write('test.txt', lines(200).join('\n'))
  const { outputText } = await run({ command: 'view', view_range: [50, 100] })
  expect(outputText).toContain('    50\tLine 50\n')
  expect(outputText).toContain('   100\tLine 100')
  expect(outputText).not.toMatch(/Line 49\b|Line 101\b/)
})

test('a range beyond the end is shown up to the end, with a note', async () => {
  await write('test.txt', 'line 1\nline 2\nline 3\n')
  const done = await run({ command: 'view', view_range: [1, 10] })
  expect(done.is_error).toBe(false)
  expect(done.outputText).toMatch(/line 3[\s\S]*ends with line 3/)
})

test.each([[[1]], [[3, 1]]])('the range %j is refused', async (view_range) => {
  await refused({ command: 'view', view_range }, /view_range/)
})

test('what is there more than once is refused with the lines', async () => {
  await refused({ command: 'str_replace', old_str: 'test', new_str: 'sample' }, /\b1\b.*\b2\b/s)
  const block = 'def example():\n    print("Hello")\n    return True'
  await write('test.txt', `${block}\n\nprint('separator')\n\n${block}`)
  await refused({ command: 'str_replace', old_str: block, new_str: 'x' }, /\b1\b.*\b7\b/s)
})

test.each([
  [
    'a text that is missing',
    { command: 'str_replace', old_str: 'Not there', new_str: 'x' },
    /Nothing|not|no /i,
  ],
  ['an empty text', { command: 'str_replace', old_str: '', new_str: 'x' }, /old_str/],
  ['no text', { command: 'str_replace', new_str: 'x' }, /old_str/],
  [
    'the same text',
    { command: 'str_replace', old_str: 'test file', new_str: 'test file' },
    /same|differ|equal/i,
  ],
  ['a line below zero', { command: 'insert', insert_line: -1, new_str: 'x' }, /insert_line/],
  ['a line beyond the end', { command: 'insert', insert_line: 10, new_str: 'x' }, /insert_line/],
  ['an insertion without a line', { command: 'insert', new_str: 'x' }, /insert_line/],
  ['an insertion without a text', { command: 'insert', insert_line: 1 }, /new_str/],
  ['an undo without an edit', { command: 'undo_edit' }, /undo|edit/i],
  ['a file that is there', { command: 'create', file_text: 'New' }, /exists|there/i],
])('refused: %s', async (_, args, why) => {
  await refused(args, why)
})

test('a new file without a text is refused', async () => {
  const other = fixtures.path('none.txt')
  const parsed = tool.parse({ command: 'create', path: other })
  const said = 'error' in parsed ? parsed.error : (await run({ command: 'create', path: other })).outputText
  expect(said).toContain('file_text')
})

test('lines are removed by an empty text', async () => {
  await write('test.txt', 'Line 1\nLine to remove\nLine 3')
  await run({ command: 'str_replace', old_str: 'Line to remove\n', new_str: '' })
  expect(await content()).toBe('Line 1\nLine 3')
})

test.each([
  [1, 'Inserted line', 'This is a test file.\nInserted line\nThis file is for testing purposes.'],
  [1, '', 'This is a test file.\n\nThis file is for testing purposes.'],
  [0, '中文文本', `中文文本\n${text}`],
])('after line %j the text %j is inserted', async (insert_line, new_str, after) => {
  expect(await run({ command: 'insert', insert_line, new_str })).toMatchObject({ is_error: false })
  expect(await content()).toBe(after)
})

test('edits are undone one after the other', async () => {
  await run({ command: 'str_replace', old_str: 'test file', new_str: 'sample file v1' })
  await run({ command: 'str_replace', old_str: 'sample file v1', new_str: 'sample file v2' })
  await run({ command: 'undo_edit' })
  expect(await content()).toContain('sample file v1')
  await run({ command: 'undo_edit' })
  expect(await content()).toBe(text)
})

test('snippets of a large file have the right line numbers', async () => {
  await write('test.txt', `${lines(700).join('\n')}\n`)
  const first = await run({ command: 'str_replace', old_str: 'Line 500\n', new_str: '500 new\n' })
  expect(first.outputText).toContain('   500\t500 new')
  const second = await run({ command: 'str_replace', old_str: '500 new\n', new_str: '' })
  expect(second.outputText).toContain('   499\tLine 499\n   500\tLine 501')
  const third = await run({ command: 'insert', insert_line: 499, new_str: 'Inserted line at 500' })
  expect(third.outputText).toContain('   500\tInserted line at 500')
})

test.each([
  ['a missing file', () => fixtures.path('missing/file.txt'), 'view', /not|no /i],
  ['a directory', () => fixtures.directory, 'str_replace', /directory/],
  ['a path of another system', () => 'C:\\foo', 'create', /absolute|start with \//],
])('%s is refused', async (_, of, command, why) => {
  const more = { old_str: 'something', new_str: 'new', file_text: 'hello' }
  const done = await run({ command, path: of(), ...more })
  expect(done.is_error).toBe(true)
  expect(done.outputText).toMatch(why)
})

test('a relative path is one of the workspace', async () => {
  expect(await run({ command: 'view', path: 'test.txt' })).toMatchObject({ is_error: false, path })
})
