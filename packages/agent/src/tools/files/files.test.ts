import { execFileSync } from 'node:child_process'
import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import type { Tool } from '../core/tool.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { openEdit, openWriteFile } from './edit.ts'
import { openListDirectory, openReadFile } from './read-file.ts'

let fixtures: ToolFixtures
let tools: { edit: Tool; write: Tool; read: Tool; list: Tool }
beforeEach(async () => {
  fixtures = await ToolFixtures.open()
  tools = {
    edit: await fixtures.tool(openEdit),
    write: await fixtures.tool(openWriteFile),
    read: await fixtures.tool(openReadFile),
    list: await fixtures.tool(openListDirectory),
  }
  return () => fixtures[Symbol.asyncDispose]()
})

type Args = Record<string, unknown>
const edit = (args: Args) => fixtures.run(tools.edit, 'EditObservation', args)
const write = (args: Args) => fixtures.run(tools.write, 'WriteFileObservation', args)
const read = (args: Args) => fixtures.run(tools.read, 'ReadFileObservation', args)
const listDirectory = (args: Args) => fixtures.run(tools.list, 'ListDirectoryObservation', args)
const content = (name: string) => readFile(fixtures.path(name), 'utf8')
const file = (name: string, text: string | Uint8Array) => writeFile(fixtures.path(name), text)

test('edit replaces every occurrence when there are as many as expected', async () => {
  await file('a.txt', 'x y x\r\n')
  expect(
    await edit({ file_path: 'a.txt', old_string: 'x', new_string: '$&', expected_replacements: 2 }),
  ).toMatchObject({
    is_error: false,
    file_path: fixtures.path('a.txt'),
    is_new_file: false,
    replacements_made: 2,
    old_content: 'x y x\r\n',
    new_content: '$& y $&\r\n',
  })
  expect(await content('a.txt')).toBe('$& y $&\r\n')
})

test.each([
  [{ old_string: 'x', new_string: 'z' }, /occurs 2 times in a\.txt, but 1 were expected/],
  [{ old_string: 'q', new_string: 'z' }, /does not occur/],
  [{ old_string: 'x', new_string: 'x' }, /same/],
  [{ old_string: 'x', new_string: 'z', expected_replacements: 0 }, /but 0 were expected/],
  [{ old_string: '', new_string: 'z' }, /exists already/],
])('edit with %j is refused and changes nothing', async (args, why) => {
  await file('a.txt', 'x y x')
  const result = await edit({ file_path: 'a.txt', ...args })
  expect(result).toMatchObject({ is_error: true, file_path: null, replacements_made: 0 })
  expect(result.outputText).toMatch(why)
  expect(await content('a.txt')).toBe('x y x')
})

test('edit with an empty old text creates the file with its directories', async () => {
  expect(await edit({ file_path: 'd/e/a.txt', old_string: '', new_string: 'x' })).toMatchObject({
    is_error: false,
    is_new_file: true,
    replacements_made: 0,
    new_content: 'x',
  })
  expect(await content('d/e/a.txt')).toBe('x')
})

test('write_file creates, replaces, and reports the old content', async () => {
  expect(await write({ file_path: 'd/a.txt', content: 'one\r\n' })).toMatchObject({
    is_new_file: true,
    file_path: fixtures.path('d/a.txt'),
    old_content: null,
    new_content: 'one\r\n',
  })
  await chmod(fixtures.path('d/a.txt'), 0o640)
  expect(await write({ file_path: fixtures.path('d/a.txt'), content: 'two\n' })).toMatchObject({
    is_new_file: false,
    old_content: 'one\r\n',
    new_content: 'two\n',
  })
  expect(await content('d/a.txt')).toBe('two\n')
  expect((await stat(fixtures.path('d/a.txt'))).mode & 0o777).toBe(0o640)
})

test('write_file keeps the encoding of a file where it can', async () => {
  await file('a.txt', Buffer.from('ü', 'latin1'))
  await write({ file_path: 'a.txt', content: 'ä' })
  expect(await readFile(fixtures.path('a.txt'))).toEqual(Buffer.from('ä', 'latin1'))
  await write({ file_path: 'a.txt', content: '世' })
  expect(await content('a.txt')).toBe('世')
})

test('write_file replaces what is binary or too large to be read, and makes nothing too large', async () => {
  await file('a', Buffer.alloc(11 * 1024 * 1024))
  expect(await write({ file_path: 'a', content: 'x' })).toMatchObject({ is_error: false, old_content: null })
  await file('b', Buffer.from([0, 1]))
  expect(await write({ file_path: 'b', content: 'x' })).toMatchObject({ is_error: false, old_content: null })
  expect((await write({ file_path: 'b', content: 'x'.repeat(10 * 1024 * 1024 + 1) })).is_error).toBe(true)
  expect(await content('b')).toBe('x')
})

test('read_file shows lines with numbers and says what follows', async () => {
  const lines = Array.from({ length: 1500 }, (_, at) => `line ${at + 1}`)
  await file('a.txt', lines.join('\n'))
  const first = await read({ file_path: 'a.txt' })
  expect(first).toMatchObject({ is_truncated: true, lines_shown: [1, 1000], total_lines: 1500 })
  expect(first.outputText).toMatch(/^ {5}1 {2}line 1\n/)
  expect(first.outputText).toMatch(/1000 {2}line 1000\n\[500 lines follow; the next offset is 1000\.\]$/)
  const rest = await read({ file_path: 'a.txt', offset: 1000 })
  expect(rest).toMatchObject({ is_truncated: true, lines_shown: [1001, 1500] })
  expect(rest.file_content).toBe(lines.slice(1000).join('\n'))
  const part = await read({ file_path: fixtures.path('a.txt'), offset: 1, limit: 2 })
  expect(part).toMatchObject({
    file_content: 'line 2\nline 3\n',
    lines_shown: [2, 3],
    file_path: fixtures.path('a.txt'),
  })
  expect(await read({ file_path: 'a.txt', offset: 0, limit: 1500 })).toMatchObject({ is_truncated: false })
})

test('read_file refuses an offset beyond the end and takes an empty file', async () => {
  await file('a.txt', '1\n2\n')
  expect(await read({ file_path: 'a.txt', offset: 2 })).toMatchObject({ is_error: true, file_path: 'a.txt' })
  await file('b.txt', '')
  expect(await read({ file_path: 'b.txt' })).toMatchObject({ is_error: false, total_lines: 0 })
})

test('read_file bounds what it shows', async () => {
  await file('a.txt', `${'\u0001'.repeat(200_000)}\n`.repeat(10))
  const result = await read({ file_path: 'a.txt' })
  expect(result.outputText.length).toBeLessThanOrEqual(50_000)
  expect(result).toMatchObject({ is_error: false, is_truncated: true })
})

test('list_directory puts the listing where the model reads it', async () => {
  await mkdir(fixtures.path('b/c/d'), { recursive: true })
  await file('b/x.txt', 'abc')
  await file('.hidden', 'ab')
  await symlink('/etc', fixtures.path('link'))
  const one = await listDirectory({})
  expect(one.entries.map(({ name }) => name)).toEqual(['.hidden', 'b', 'link'])
  expect(one).toMatchObject({ dir_path: fixtures.directory, total_count: 3, is_truncated: false })
  expect(one.entries[0]).toMatchObject({ path: fixtures.path('.hidden'), is_directory: false, size: 2 })
  expect(new Date(one.entries[0]?.modified_time ?? '').getTime()).toBeGreaterThan(Date.now() - 3_600_000)
  expect(one.outputText).toMatch(/^\.:\n\.hidden {2}2 bytes {2}\d{4}-.*Z\nb\/ {2}.*\nlink \(link\) {2}/)
  const two = await listDirectory({ dir_path: fixtures.directory, recursive: true })
  expect(two.entries.map(({ path }) => path.slice(fixtures.directory.length))).toEqual([
    '/.hidden',
    '/b',
    '/b/c',
    '/b/x.txt',
    '/link',
  ])
})

test('names of any bytes are listed in one line each and fit into an event', async () => {
  execFileSync('sh', [
    '-c',
    `cd '${fixtures.directory}' && touch "$(printf 'bad\\377name')" "$(printf 'new\\nline')"`,
  ])
  for (let at = 0; at < 400; at++) await file(`${'\u0001'.repeat(240)}${at}`, '')
  const result = await listDirectory({})
  expect(result.is_truncated).toBe(true)
  expect(result.entries.length).toBeGreaterThan(50)
  expect(result.outputText.length).toBeLessThanOrEqual(50_000)
  expect(result.outputText).not.toContain('\u0001')
})

test('a name that is no UTF-8 is listed with its size', async () => {
  execFileSync('sh', ['-c', `cd '${fixtures.directory}' && printf abc > "$(printf 'bad\\377name')"`])
  expect((await listDirectory({})).entries).toMatchObject([{ name: 'bad\ufffdname', size: 3 }])
})

test('what is no directory is not listed', async () => {
  await file('a.txt', '')
  expect(await listDirectory({ dir_path: 'a.txt' })).toMatchObject({ is_error: true, dir_path: null })
  expect((await listDirectory({ dir_path: 'missing' })).outputText).toMatch(/no directory/)
  expect((await listDirectory({})).outputText).not.toMatch(/empty/)
})

test('no file tool leaves the workspace', async () => {
  await writeFile(join(fixtures.outside, 'secret'), 'secret')
  await symlink(fixtures.outside, fixtures.path('out'))
  await symlink(join(fixtures.outside, 'secret'), fixtures.path('file'))
  for (const path of [
    'out/secret',
    'out/new',
    'file',
    '../outside/secret',
    join(fixtures.outside, 'secret'),
    'a\0',
  ]) {
    expect(await edit({ file_path: path, old_string: 'secret', new_string: 'x' })).toMatchObject({
      is_error: true,
    })
    expect(await edit({ file_path: path, old_string: '', new_string: 'x' })).toMatchObject({ is_error: true })
    expect(await write({ file_path: path, content: 'x' })).toMatchObject({ is_error: true })
    expect(await read({ file_path: path })).toMatchObject({ is_error: true, file_content: '' })
    expect(await listDirectory({ dir_path: path })).toMatchObject({ is_error: true, entries: [] })
  }
  expect(await listDirectory({ dir_path: 'out', recursive: true })).toMatchObject({
    is_error: true,
    entries: [],
  })
  expect((await listDirectory({ recursive: true })).outputText).not.toContain('secret')
  expect(await readdir(fixtures.outside)).toEqual(['secret'])
  expect(await readFile(join(fixtures.outside, 'secret'), 'utf8')).toBe('secret')
})

test('a file cannot be written below a file, nor in the place of a directory', async () => {
  await file('a.txt', '')
  await mkdir(fixtures.path('d'))
  for (const file_path of ['a.txt/b', 'd'])
    expect(await write({ file_path, content: 'x' })).toMatchObject({ is_error: true, file_path: null })
})

test('two edits of one file at the same time are both there', async () => {
  await file('a.txt', 'a b')
  await Promise.all([
    edit({ file_path: 'a.txt', old_string: 'a', new_string: '1' }),
    edit({ file_path: './d/../a.txt', old_string: 'b', new_string: '2' }),
  ])
  expect(await content('a.txt')).toBe('1 2')
})
