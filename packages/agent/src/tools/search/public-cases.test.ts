import { mkdir, symlink, utimes, writeFile } from 'node:fs/promises'
import { dirname, isAbsolute, relative } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import type { Tool } from '../core/tool.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { openGlob } from './glob.ts'
import { openGrep } from './grep.ts'

/**
 * The public cases of OpenHands' glob and grep (software-agent-sdk, `tests/tools/glob`, `tests/tools/grep`),
 * restated. Those of its fallbacks without ripgrep have no counterpart: ripgrep is a dependency here.
 */
let fixtures: ToolFixtures
let glob: Tool
let grep: Tool
beforeEach(async () => {
  fixtures = await ToolFixtures.open()
  glob = await fixtures.tool(openGlob)
  grep = await fixtures.tool(openGrep)
  return () => fixtures[Symbol.asyncDispose]()
})

const find = (args: Record<string, unknown>) => fixtures.run(glob, 'GlobObservation', args)
const search = (args: Record<string, unknown>) => fixtures.run(grep, 'GrepObservation', args)

/** Files, each newer than the one before. */
async function write(files: Readonly<Record<string, string>>): Promise<void> {
  for (const [at, [name, content]] of Object.entries(files).entries()) {
    await mkdir(dirname(fixtures.path(name)), { recursive: true })
    await writeFile(fixtures.path(name), content)
    await utimes(fixtures.path(name), 1_700_000_000 + at, 1_700_000_000 + at)
  }
}

const names = (paths: readonly string[]) => {
  for (const path of paths) expect(isAbsolute(path)).toBe(true)
  return paths.map((path) => relative(fixtures.directory, path))
}
const many = (extension: string) =>
  Object.fromEntries(Array.from({ length: 150 }, (_, n) => [`file${n}.${extension}`, 'test']))

test.each<[string, Record<string, string>, Record<string, unknown>, readonly string[]]>([
  ['a name pattern', { 'a.py': '', 'b.py': '', 'readme.md': '' }, { pattern: '*.py' }, ['a.py', 'b.py']],
  [
    'a pattern for all directories',
    { 'src/app.py': '', 'tests/test_app.py': '' },
    { pattern: '**/*.py' },
    ['src/app.py', 'tests/test_app.py'],
  ],
  ['nothing that fits', { 'readme.md': '', 'config.json': '' }, { pattern: '*.py' }, []],
  [
    'directories are none',
    { 'src/x/a.txt': '', 'file.txt': '' },
    { pattern: '*' },
    ['file.txt', 'src/x/a.txt'],
  ],
  [
    'several extensions',
    { 'config.json': '', 'config.yaml': '', 'config.yml': '', 'config.toml': '', 'app.py': '' },
    { pattern: 'config.*' },
    ['config.json', 'config.toml', 'config.yaml', 'config.yml'],
  ],
  ['an empty directory', {}, { pattern: '*' }, []],
])('glob: %s', async (_, files, args, expected) => {
  await write(files)
  const found = await find(args)
  expect(found).toMatchObject({ is_error: false, truncated: false, search_path: fixtures.directory })
  expect(names(found.files).sort()).toEqual(expected)
})

test('glob: another directory is searched alone', async () => {
  await write({ 'sub/file1.txt': '', 'sub/file2.txt': '', 'main.txt': '' })
  const found = await find({ pattern: '*.txt', path: fixtures.path('sub') })
  expect(found.search_path).toBe(fixtures.path('sub'))
  expect(names(found.files).sort()).toEqual(['sub/file1.txt', 'sub/file2.txt'])
})

test('glob: a directory that is missing is an error', async () => {
  const found = await find({ pattern: '*.py', path: fixtures.path('missing') })
  expect(found).toMatchObject({ is_error: true, files: [] })
})

test('glob: the newest file is the first, and 100 are shown', async () => {
  await write({ 'file1.txt': '', 'file2.txt': '', 'file3.txt': '' })
  expect(names((await find({ pattern: '*.txt' })).files)[0]).toBe('file3.txt')
  await write(many('md'))
  const found = await find({ pattern: '*.md' })
  expect(found.files).toHaveLength(100)
  expect(found.truncated).toBe(true)
})

test('glob: a file is found by its own name, not by links to it', async () => {
  await write({ 'real/target.data': 'target' })
  await symlink(fixtures.path('real/target.data'), fixtures.path('link.txt'))
  expect(names((await find({ pattern: '*.txt' })).files)).toEqual([])
  expect(names((await find({ pattern: '*.data' })).files)).toEqual(['real/target.data'])
})

test.each<[string, Record<string, string>, Record<string, unknown>, readonly string[]]>([
  [
    'a text',
    { 'app.py': "print('a')\n", 'utils.py': "x\nprint('b')\n", 'c.py': 'y' },
    { pattern: 'print' },
    ['app.py', 'utils.py'],
  ],
  ['any case', { 'case.py': "Print('a')", 'b.py': 'PRINT' }, { pattern: 'print' }, ['b.py', 'case.py']],
  [
    'only some names',
    { 'test.py': 'test', 'test.js': 'test', 'readme.md': '# Test' },
    { pattern: 'test', include: '*.py' },
    ['test.py'],
  ],
  ['nothing', { 'test.py': 'def main(): pass' }, { pattern: 'nonexistent' }, []],
  ['no hidden file', { 'visible.py': 'test', '.hidden.py': 'test' }, { pattern: 'test' }, ['visible.py']],
  [
    'no hidden directory',
    { 'visible.py': 'test', '.hidden/secret.py': 'test' },
    { pattern: 'test', include: '*.py' },
    ['visible.py'],
  ],
])('grep: %s', async (_, files, args, expected) => {
  await write(files)
  const found = await search(args)
  expect(found).toMatchObject({ is_error: false, truncated: false, search_path: fixtures.directory })
  expect([...new Set(names(found.matches))].sort()).toEqual(expected)
})

test('grep: a hidden file is searched when it is named', async () => {
  await write({ 'visible.py': 'test', '.env': 'test' })
  expect(names((await search({ pattern: 'test', include: '.env' })).matches)).toEqual(['.env'])
})

test('grep: another directory is searched alone', async () => {
  await write({ 'sub/file.py': "print('a')", 'other.py': "print('a')" })
  const found = await search({ pattern: 'print', path: fixtures.path('sub') })
  expect(found.search_path).toBe(fixtures.path('sub'))
  expect(names(found.matches)).toEqual(['sub/file.py'])
})

test.each([
  ['a directory that is missing', { pattern: 'test', path: '/nonexistent/path' }],
  ['an invalid pattern', { pattern: '[invalid' }],
])('grep: %s is an error', async (_, args) => {
  expect(await search(args)).toMatchObject({ is_error: true, matches: [] })
})

test('grep: the newest file is the first, and 100 are shown', async () => {
  await write({ 'old.py': 'test', 'new.py': 'test' })
  expect(names((await search({ pattern: 'test' })).matches)).toEqual(['new.py', 'old.py'])
  await write(many('py'))
  const found = await search({ pattern: 'test' })
  expect(found.matches).toHaveLength(100)
  expect(found.truncated).toBe(true)
})

test('grep and glob: calls at the same time do not disturb each other', async () => {
  await write({ 'a/one.py': 'alpha', 'b/two.txt': 'beta' })
  const rounds = Array.from({ length: 4 }, async () => [
    names((await search({ pattern: 'alpha', path: fixtures.path('a') })).matches),
    names((await search({ pattern: 'beta', path: fixtures.path('b') })).matches),
    names((await find({ pattern: '*.txt' })).files),
  ])
  for (const round of await Promise.all(rounds))
    expect(round).toEqual([['a/one.py'], ['b/two.txt'], ['b/two.txt']])
})
