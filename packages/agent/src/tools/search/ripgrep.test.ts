import { execFileSync } from 'node:child_process'
import { mkdir, symlink, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import type { Tool } from '../core/tool.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { openGlob } from './glob.ts'
import { openGrep } from './grep.ts'

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

/** Files, the first one the newest. */
async function files(contents: Readonly<Record<string, string>>): Promise<void> {
  for (const [at, [name, content]] of Object.entries(contents).entries()) {
    await mkdir(dirname(fixtures.path(name)), { recursive: true })
    await writeFile(fixtures.path(name), content)
    await utimes(fixtures.path(name), 1_700_000_000 - at, 1_700_000_000 - at)
  }
}

const names = (paths: readonly string[]) => paths.map((path) => path.slice(fixtures.directory.length + 1))

test('files are found at any depth, the newest first', async () => {
  await files({ 'b.ts': '', 'src/deep/a.ts': '', 'c.ts': '', 'd.js': '' })
  const found = await find({ pattern: '*.ts' })
  expect(names(found.files)).toEqual(['b.ts', 'src/deep/a.ts', 'c.ts'])
  expect(found).toMatchObject({
    is_error: false,
    pattern: '*.ts',
    search_path: fixtures.directory,
    truncated: false,
  })
  expect(found.outputText).toBe(found.files.join('\n'))
})

test.each([
  ['**/*.ts', ['a.ts', 'src/b.ts', 'src/x/c.ts']],
  ['src/*.ts', ['src/b.ts']],
  ['./src/*.ts', ['src/b.ts']],
  ['src/**', ['src/b.ts', 'src/x/c.ts']],
  ['{a,b}.ts', ['a.ts', 'src/b.ts']],
  ['*', ['a.ts', 'src/b.ts', 'src/x/c.ts']],
  ['.github/**/*.yml', ['.github/w/ci.yml']],
  ['.env', ['.env']],
  ['ignored/*', []],
  ['!*.ts', []],
  ['*.rs', []],
])('%s finds what it says, without what is hidden or ignored', async (pattern, expected) => {
  const plain = { 'a.ts': '', 'src/b.ts': '', 'src/x/c.ts': '' }
  const hidden = { '.github/w/ci.yml': '', '.env': '', 'src/.h/d.ts': '' }
  await files({ ...plain, ...hidden, 'ignored/e.ts': '', 'src/ignored/f.ts': '', '.gitignore': 'ignored/\n' })
  execFileSync('git', ['init', '-q', fixtures.directory])
  expect(names((await find({ pattern })).files)).toEqual(expected)
})

test('an absolute pattern is searched below its own directory', async () => {
  await files({ 'src/a.ts': '', 'src/x/a.ts': '', 'b.ts': '' })
  const found = await find({ pattern: `${fixtures.path('src')}/**/*.ts` })
  expect(found).toMatchObject({ search_path: fixtures.path('src') })
  expect(names(found.files)).toEqual(['src/a.ts', 'src/x/a.ts'])
  expect(names((await find({ pattern: fixtures.path('src/a.ts') })).files)).toEqual(['src/a.ts'])
  expect(await find({ pattern: '/etc/*' })).toMatchObject({ is_error: true, files: [] })
})

test('truncated is said only when there are more than 100', async () => {
  await files(Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`${at}.txt`, ''])))
  expect(await find({ pattern: '*.txt' })).toMatchObject({ truncated: false })
  await writeFile(fixtures.path('newest.txt'), '')
  const found = await find({ pattern: '*.txt' })
  expect(found.truncated).toBe(true)
  expect(found.files).toHaveLength(100)
  expect(found.files[0]).toBe(fixtures.path('newest.txt'))
  expect(found.outputText).toMatch(/\[Only the newest 100 are listed/)
})

test('names with line ends and escapes are one path each, and one line', async () => {
  await files({ 'new\nline\u001b.txt': '' })
  const found = await find({ pattern: '*.txt' })
  expect(found.files).toEqual([fixtures.path('new\nline\u001b.txt')])
  expect(found.outputText.split('\n')).toHaveLength(1)
})

test.each([
  [{ pattern: '{a' }, /The search failed/],
  [{ pattern: '' }, /empty/],
  [{ pattern: '*', path: 'a.txt' }, /not a directory/],
  [{ pattern: '*', path: 'missing' }, /no directory/],
  [{ pattern: '*', path: '../outside' }, /outside/],
  [{ pattern: '*', path: 'link' }, /outside/],
  [{ pattern: 'a\0b' }, /NUL/],
])('glob with %j is refused', async (args, why) => {
  await files({ 'a.txt': '' })
  await symlink(fixtures.outside, fixtures.path('link'))
  const found = await find(args)
  expect(found).toMatchObject({ is_error: true, files: [], truncated: false })
  expect(found.outputText).toMatch(why)
})

test('links are not followed out, and what is no file does not hold the search', async () => {
  await writeFile(join(fixtures.outside, 'secret.txt'), 'secret')
  await symlink(fixtures.outside, fixtures.path('out'))
  await symlink(join(fixtures.outside, 'secret.txt'), fixtures.path('secret.txt'))
  await symlink('/dev/zero', fixtures.path('zero.txt'))
  execFileSync('mkfifo', [fixtures.path('pipe.txt')])
  await files({ 'a.txt': 'a secret' })
  expect(names((await find({ pattern: '**/*.txt' })).files)).toEqual(['a.txt'])
  expect(names((await search({ pattern: 'secret' })).matches)).toEqual(['a.txt'])
  expect(await search({ pattern: 'secret', path: 'out' })).toMatchObject({ is_error: true })
  expect(await search({ pattern: 'secret', path: 'pipe.txt' })).toMatchObject({ is_error: true })
})

test('grep lists the files in which a pattern matches, ignoring case, newest first', async () => {
  await files({ 'b.ts': 'a TODO here', 'src/a.ts': 'todo', 'c.js': 'Todo\n', 'd.ts': 'nothing' })
  const found = await search({ pattern: 'to[d]o' })
  expect(names(found.matches)).toEqual(['b.ts', 'src/a.ts', 'c.js'])
  expect(found).toMatchObject({ include_pattern: null, search_path: fixtures.directory, truncated: false })
  const some = await search({ pattern: 'todo', include: '*.ts', path: fixtures.directory })
  expect(names(some.matches)).toEqual(['b.ts', 'src/a.ts'])
  expect(some.include_pattern).toBe('*.ts')
  expect(await search({ pattern: 'missing' })).toMatchObject({ is_error: false, matches: [] })
})

test('grep leaves out hidden files unless they are named, and always what is ignored and .git', async () => {
  await files({
    'a.yml': 'x',
    '.b.yml': 'x',
    '.d/c.yml': 'x',
    'ignored/d.yml': 'x',
    '.gitignore': 'ignored\n',
  })
  execFileSync('git', ['init', '-q', fixtures.directory])
  await writeFile(fixtures.path('.git/e.yml'), 'x')
  expect(names((await search({ pattern: 'x' })).matches)).toEqual(['a.yml'])
  for (const include of ['*.yml', '**/*.yml'])
    expect(names((await search({ pattern: 'x', include })).matches)).toEqual(['a.yml'])
  for (const include of ['.b.yml', '.*.yml'])
    expect(names((await search({ pattern: 'x', include })).matches)).toEqual(['.b.yml'])
  expect(names((await search({ pattern: 'x', include: '.d/**' })).matches)).toEqual(['.d/c.yml'])
  expect(names((await search({ pattern: 'x', include: '**' })).matches)).not.toContain('ignored/d.yml')
})

test('grep shows the matching lines of each file with their numbers', async () => {
  await files({ 'b.ts': 'no\n  a TODO here\nno\ntodo: \u001b[1mx', 'a\nb.ts': 'todo\r\n', 'c.js': 'no' })
  expect((await search({ pattern: 'todo' })).outputText).toBe(
    [
      fixtures.path('b.ts'),
      '     1- no',
      '     2:   a TODO here',
      '     3- no',
      '     4: todo: \ufffd[1mx',
      JSON.stringify(fixtures.path('a\nb.ts')),
      '     1: todo',
    ].join('\n'),
  )
  const one = await search({ pattern: 'TODO', path: 'b.ts' })
  expect(one.outputText.split('\n')).toHaveLength(5)
})

test('few matching lines come with two lines around them, many without', async () => {
  const lines = Array.from({ length: 40 }, (_, at) =>
    at % 20 === 10 ? 'hit' : at % 2 === 0 ? 'even' : 'odd',
  )
  await files({ 'a.txt': lines.join('\n') })
  expect((await search({ pattern: 'hit' })).outputText.split('\n').slice(1)).toEqual([
    ...['     9- even', '    10- odd', '    11: hit', '    12- odd', '    13- even'],
    ...['    29- even', '    30- odd', '    31: hit', '    32- odd', '    33- even'],
  ])
  expect((await search({ pattern: 'odd' })).outputText).not.toContain('- ')
})

test.each([
  ['todo', ['a.txt', 'b.txt']],
  ['(?-i)todo', ['b.txt']],
  ['one\\n *two', ['c.txt']],
  ['one\n  two', ['c.txt']],
  ['(?s)one.+two', ['c.txt']],
  ['one.+two', []],
  ['x\\\\new', ['d.txt']],
])('the pattern %j matches in %j', async (pattern, expected) => {
  await files({ 'a.txt': 'TODO\n', 'b.txt': 'todo\n', 'c.txt': 'one\n  two\n', 'd.txt': 'x\\new\n' })
  expect(names((await search({ pattern })).matches)).toEqual(expected)
})

test('a match across lines is shown with all its lines', async () => {
  await files({ 'a.txt': 'zero\none\ntwo\nthree\nfour\nfive\n' })
  expect((await search({ pattern: 'one\\ntwo' })).outputText.split('\n').slice(1)).toEqual([
    ...['     1- zero', '     2: one', '     3: two', '     4- three', '     5- four'],
  ])
})

test('grep bounds the lines of a file, of all files, and of each line', async () => {
  const many = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`${at}.txt`, 'x\n'.repeat(100)]))
  await files({ 'long.txt': `${'x'.repeat(100_000)}\n`, ...many })
  const { outputText, matches } = await search({ pattern: 'x' })
  expect(matches).toHaveLength(21)
  const lines = outputText.split('\n')
  expect(lines.filter((line) => /^ +\d+: /.test(line))).toHaveLength(200)
  expect(lines.filter((line) => line.endsWith('[more lines match]'))).toHaveLength(20)
  for (const line of lines) expect(line.length).toBeLessThan(500)
  for (const match of matches) expect(outputText).toContain(match)
})

test('an ignore file holds outside of a repository too', async () => {
  await files({ 'a.txt': 'x', 'build/b.txt': 'x', '.gitignore': 'build/\n' })
  expect(names((await search({ pattern: 'x' })).matches)).toEqual(['a.txt'])
  expect(names((await find({ pattern: '**/*.txt' })).files)).toEqual(['a.txt'])
})

test('the end of a pattern matches before CR LF', async () => {
  await files({ 'a.txt': 'alpha\r\nbeta\r\n' })
  const found = await search({ pattern: 'alpha$' })
  expect(names(found.matches)).toEqual(['a.txt'])
  expect(found.outputText).toMatch(/ 1: alpha\n {5}2- beta$/)
})

test('grep searches one file when the path is a file', async () => {
  await files({ 'a.txt': 'x', '-e': 'x' })
  expect(names((await search({ pattern: 'x', path: 'a.txt' })).matches)).toEqual(['a.txt'])
  expect(names((await search({ pattern: 'x', path: '-e' })).matches)).toEqual(['-e'])
  expect((await search({ pattern: 'y', path: 'a.txt' })).matches).toEqual([])
})

test.each(['(', '[', '(?=x)', '*a{'])('the pattern %j that cannot be read is an error', async (pattern) => {
  await files({ 'a.txt': 'x' })
  const found = await search({ pattern })
  expect(found).toMatchObject({ is_error: true, matches: [], pattern })
  expect(found.outputText).toMatch(/The search failed/)
})

test.each(['-v', '--files', '--pre=/bin/sh'])('a pattern such as %s is no option', async (pattern) => {
  await files({ 'a.txt': `x ${pattern}`, 'b.txt': 'x' })
  expect(names((await search({ pattern })).matches)).toEqual(['a.txt'])
  expect((await find({ pattern })).files).toEqual([])
})

test('an empty pattern matches every file with a line, and a binary file is searched to its first NUL', async () => {
  await files({ 'a.txt': 'x\n', 'b.bin': 'needle\0needle' })
  expect(names((await search({ pattern: '' })).matches)).toContain('a.txt')
})

test('a search ends when it is aborted', async () => {
  await files({ 'a.txt': 'x' })
  const controller = new AbortController()
  const running = grep.run({ kind: 'GrepAction', pattern: 'x' }, controller.signal)
  controller.abort()
  await expect(running).rejects.toThrow()
})
