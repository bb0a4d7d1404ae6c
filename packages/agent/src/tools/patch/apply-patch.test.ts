import { chmod, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type ApplyPatchObservation, applyPatchObservation } from '@slipway/protocol'
import { beforeEach, expect, test } from 'vitest'
import type { Tool } from '../core/tool.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { openApplyPatch } from './apply-patch.ts'
import { parsePatch } from './parse-patch.ts'

let fixtures: ToolFixtures
let tool: Tool
beforeEach(async () => {
  fixtures = await ToolFixtures.open()
  tool = await fixtures.tool(openApplyPatch)
  return () => fixtures[Symbol.asyncDispose]()
})

async function apply(...lines: readonly string[]): Promise<ApplyPatchObservation> {
  const parsed = tool.parse({ patch: ['*** Begin Patch', ...lines, '*** End Patch'].join('\n') })
  if ('error' in parsed) throw new Error(parsed.error)
  return applyPatchObservation.parse(await tool.run(parsed.action, new AbortController().signal))
}

const content = (name: string) => readFile(fixtures.path(name), 'utf8')
const file = (name: string, text: string | Uint8Array) => writeFile(fixtures.path(name), text)
const allFiles = async () => (await readdir(fixtures.directory, { recursive: true })).sort()

test('one patch adds, changes, moves and deletes files', async () => {
  await file('change.txt', 'line 1\nline 2\n')
  await file('gone.txt', 'x\n')
  await file('old.txt', 'from\n')
  const done = await apply(
    '*** Add File: nested/new.txt',
    '+created',
    '+twice',
    '*** Delete File: gone.txt',
    '*** Update File: change.txt',
    '@@',
    '-line 2',
    '+changed',
    '*** Update File: old.txt',
    '*** Move to: renamed/dir/name.txt',
    '@@',
    '-from',
    '+to',
  )
  expect(done).toMatchObject({
    is_error: false,
    message: 'Done:\nA nested/new.txt\nD gone.txt\nM change.txt\nM renamed/dir/name.txt (moved from old.txt)',
  })
  expect(await content('nested/new.txt')).toBe('created\ntwice\n')
  expect(await content('change.txt')).toBe('line 1\nchanged\n')
  expect(await content('renamed/dir/name.txt')).toBe('to\n')
  expect(await allFiles()).toEqual(
    ['change.txt', 'nested', 'nested/new.txt', 'renamed', 'renamed/dir', 'renamed/dir/name.txt'].sort(),
  )
})

const update = (path: string, ...lines: readonly string[]) => [`*** Update File: ${path}`, ...lines]

test.each([
  [
    'several parts',
    'foo\nbar\nbaz\nqux\n',
    ['@@', ' foo', '-bar', '+BAR', '@@', ' baz', '-qux', '+QUX'],
    'foo\nBAR\nbaz\nQUX\n',
  ],
  [
    'interleaved parts',
    'a\nb\nc\nd\ne\nf\n',
    ['@@', ' a', '-b', '+B', '@@', ' c', ' d', '-e', '+E', '@@', ' f', '+g', '*** End of File'],
    'a\nB\nc\nd\nE\nf\ng\n',
  ],
  ['a first part without @@', 'import foo\n', [' import foo', '+bar'], 'import foo\nbar\n'],
  ['the end of the file', 'x\ny\nx\ny\n', ['@@', ' x', '-y', '+z', '*** End of File'], 'x\ny\nx\nz\n'],
  ['an insertion at the end', 'a\n', ['@@', '+b', '*** End of File'], 'a\nb\n'],
  [
    'a line before',
    'class A:\n  def f():\n    pass\nclass B:\n  def f():\n    pass\n',
    ['@@ class B:', '@@   def f():', '-    pass', '+    return'],
    'class A:\n  def f():\n    pass\nclass B:\n  def f():\n    return\n',
  ],
  [
    'a line before with other blanks',
    'def a():\n    x\ndef b():\n    x\n',
    ['@@ def b(): ', '-    x', '+    y'],
    'def a():\n    x\ndef b():\n    y\n',
  ],
  ['an insertion after a line', 'a\nb\n', ['@@ a', '+x'], 'a\nx\nb\n'],
  ['the first of equal places', 'x\nx\n', ['@@', '-x', '+y'], 'y\nx\n'],
  ['no final line end', 'only', ['@@', '-only', '+first', '+second'], 'first\nsecond\n'],
  ['an empty line of context without its blank', 'a\n\nb\n', ['@@', ' a', '', '-b', '+c'], 'a\n\nc\n'],
  ['another indentation', 'if a:\n\tb\n', ['@@', ' if a:', '-    b', '+    c'], 'if a:\n\tc\n'],
  ['trailing blanks', 'a  \nb\n', ['@@', ' a', '-b', '+c'], 'a  \nc\n'],
  [
    'typographic characters',
    'import x  # a – b “c”\n',
    ['@@', '-import x  # a - b "c"', '+import y  # a - b "c"'],
    'import y  # a – b “c”\n',
  ],
  ['CR alone', 'a\rb\r', ['@@', ' a', '-b', '+c', '+d'], 'a\rc\rd\r'],
  ['several line ends', 'a\r\nb\nc\n', ['@@ a', '+x', '+y', '@@', ' c', '+z'], 'a\r\nx\r\ny\r\nb\nc\nz\n'],
  ['CR LF', 'a\r\nb\r\n', ['@@', ' a', '-b', '+c'], 'a\r\nc\r\n'],
])('an update: %s', async (_, before, lines, after) => {
  await file('a.txt', before)
  expect(await apply(...update('a.txt', ...lines))).toMatchObject({ is_error: false })
  expect(await content('a.txt')).toBe(after)
})

test('what was tolerated and what broke is said', async () => {
  await file('a.json', '{"a":\t1}\n\t \n')
  const done = await apply(...update('a.json', '@@', ' {"a":\t1}', '-', '+x'))
  expect(done.message).toMatch(/trailing blanks[\s\S]*a\.json is broken now/)
})

test.each([
  ['lines that are missing', update('a.txt', '@@', '-missing', '+x'), /do not occur in a\.txt/],
  ['a header that is missing', update('a.txt', '@@ missing', '-one', '+x'), /after @@ does not occur/],
  ['similar lines twice', update('a.txt', '@@', '-  one', '+  x'), /more than once/],
  ['a missing file', update('missing.txt', '@@', '-a', '+b'), /no file/],
  ['a delete of a missing file', ['*** Delete File: missing.txt'], /no file/],
  ['a delete of a directory', ['*** Delete File: dir'], /directory/],
  ['a new file that is there', ['*** Add File: a.txt', '+x'], /already there/],
  ['a move onto a file', [...update('a.txt', '*** Move to: b.txt', '@@', '-one', '+x')], /already there/],
  ['a path outside', ['*** Add File: ../outside/x', '+x'], /outside the workspace/],
  ['a link to outside', ['*** Add File: link/x', '+x'], /outside the workspace/],
  ['the same file twice', [...update('b.txt', '@@', '-b', '+c'), '*** Delete File: ./b.txt'], /same file/],
  ['an update without change', ['*** Update File: a.txt'], /no change/],
  ['no file', [], /changes no file/],
  ['an unknown line', ['*** Rename File: a.txt'], /is expected/],
  ['a line without mark', update('a.txt', '@@', 'one'), /begins with/],
])('with %s nothing is changed', async (_, lines, why) => {
  await file('a.txt', 'one\n one\n')
  await file('b.txt', 'b\n')
  await mkdir(fixtures.path('dir'))
  await symlink(fixtures.outside, fixtures.path('link'))
  const before = await allFiles()
  const refused = await apply('*** Add File: first.txt', '+x', ...(lines.length === 0 ? [] : lines)).catch(
    () => undefined,
  )
  const only = lines.length === 0 ? await apply() : refused
  expect(only).toMatchObject({ is_error: true })
  expect(only?.message).toMatch(/^Nothing was changed/)
  expect(only?.message).toMatch(why)
  if (lines.length > 0) expect(await allFiles()).toEqual(before)
  expect([await content('a.txt'), await content('b.txt')]).toEqual(['one\n one\n', 'b\n'])
})

test('a failure while writing takes back what was written', async () => {
  await file('a.txt', 'a\n')
  await chmod(fixtures.path('a.txt'), 0o640)
  await file('read-only.txt', 'b\n')
  await chmod(fixtures.path('read-only.txt'), 0o444)
  await file('gone.txt', 'c\n')
  const refused = await apply(
    '*** Add File: new.txt',
    '+x',
    '*** Delete File: gone.txt',
    ...update('a.txt', '*** Move to: moved.txt', '@@', '-a', '+x'),
    ...update('read-only.txt', '@@', '-b', '+x'),
  )
  expect(refused.message).toMatch(/read-only/)
  expect(await allFiles()).toEqual(['a.txt', 'gone.txt', 'read-only.txt'])
  expect([await content('a.txt'), await content('gone.txt')]).toEqual(['a\n', 'c\n'])
  expect((await stat(fixtures.path('a.txt'))).mode & 0o777).toBe(0o640)
})

test('a change, a removal and a move are undone, one call each', async () => {
  await file('a.txt', 'a\n')
  await file('gone.txt', 'c\n')
  await chmod(fixtures.path('gone.txt'), 0o640)
  await mkdir(fixtures.path('d'))
  await file('d/old.txt', 'from\n')
  const before = await allFiles()
  await apply(
    ...['*** Delete File: gone.txt', ...update('a.txt', '@@', '-a', '+b')],
    ...update('d/old.txt', '*** Move to: new.txt', '@@', '-from', '+to'),
    ...['*** Add File: added.txt', '+x'],
  )
  await rm(fixtures.path('d'), { recursive: true })
  for (const name of ['gone.txt', 'a.txt', 'added.txt'])
    expect(await apply(`*** Undo File: ${name}`)).toMatchObject({ is_error: false })
  const moved = await apply('*** Undo File: new.txt')
  expect(moved.message).toContain(`D new.txt (moved from or to ${fixtures.path('d/old.txt')})`)
  expect(await allFiles()).toEqual(before)
  expect([await content('a.txt'), await content('gone.txt'), await content('d/old.txt')]).toEqual([
    ...['a\n', 'c\n', 'from\n'],
  ])
  expect((await stat(fixtures.path('gone.txt'))).mode & 0o777).toBe(0o640)
  expect(await apply('*** Undo File: d/old.txt')).toMatchObject({ is_error: true })
})

test('an undo never loses what something else wrote, at either path of a move', async () => {
  await file('old.txt', 'from\n')
  await file('gone.txt', 'c\n')
  await apply('*** Delete File: gone.txt', ...update('old.txt', '*** Move to: new.txt', '@@', '-from', '+to'))
  await file('gone.txt', 'of the user\n')
  expect((await apply('*** Undo File: gone.txt')).message).toMatch(/changed by something else/)
  await file('old.txt', 'of the user\n')
  for (const name of ['old.txt', 'new.txt'])
    expect((await apply(`*** Undo File: ${name}`)).message).toMatch(/old\.txt was changed by something else/)
  await rm(fixtures.path('old.txt'))
  await apply(...update('new.txt', '@@', '-to', '+later'))
  expect((await apply('*** Undo File: old.txt')).message).toMatch(/changed after the move/)
  expect(await allFiles()).toEqual(['gone.txt', 'new.txt'])
  await apply('*** Undo File: new.txt')
  expect(await apply('*** Undo File: old.txt')).toMatchObject({ is_error: false })
  expect([await content('gone.txt'), await content('old.txt')]).toEqual(['of the user\n', 'from\n'])
})

test('an undo stands alone, and a patch that fails leaves nothing to undo', async () => {
  await file('a.txt', 'a\n')
  const alone = await apply('*** Undo File: a.txt', '*** Add File: b.txt', '+x')
  expect(alone.message).toMatch(/stands alone/)
  await file('read-only.txt', 'b\n')
  await chmod(fixtures.path('read-only.txt'), 0o444)
  await apply(...update('a.txt', '@@', '-a', '+x'), ...update('read-only.txt', '@@', '-b', '+x'))
  expect((await apply('*** Undo File: a.txt')).message).toMatch(/no edit/)
})

test.each(["<<'EOF'\n", 'apply_patch <<EOF\n', '<<"EOF"\n'])(
  'a patch in a here document (%j) is read',
  (start) => {
    const patch = `${start}*** Begin Patch\n*** Delete File: a b.txt\n*** End Patch\nEOF\n`
    expect(parsePatch(patch)).toEqual([{ kind: 'delete', path: 'a b.txt' }])
  },
)

const git = (...lines: readonly string[]) => lines.join('\n')

test.each<[string, Record<string, string>, string, Record<string, string>]>([
  [
    'a fenced patch',
    { 'a.txt': 'a\n' },
    git('```diff', '*** Begin Patch', ...update('a.txt', '@@', '-a', '+b'), '*** End Patch', '```'),
    { 'a.txt': 'b\n' },
  ],
  [
    'a unified diff',
    { 'a.txt': 'a\nb\nc\n' },
    git('--- a/a.txt', '+++ b/a.txt', '@@ -1,3 +1,4 @@', ' a', '-b', '+B', '+x', ' c', ''),
    { 'a.txt': 'a\nB\nx\nc\n' },
  ],
  [
    'a unified diff without prefixes, with times, in a fence',
    { 'd/a.txt': 'a\n' },
    git(
      '```',
      '--- d/a.txt.orig\t2026-01-01 00:00:00',
      '+++ d/a.txt\t2026-01-02',
      '@@ -1 +1 @@',
      '-a',
      '+b',
      '```',
    ),
    { 'd/a.txt': 'b\n' },
  ],
  [
    'the place that the number tells, of two equal ones',
    { 'a.txt': 'x\n1\n2\n3\n4\nx\n' },
    git('--- a/a.txt', '+++ b/a.txt', '@@ -1 +1,2 @@', '+new', ' x', '@@ -6 +7 @@', '-x', '+y'),
    { 'a.txt': 'new\nx\n1\n2\n3\n4\ny\n' },
  ],
  [
    'the second of two equal places by its number',
    { 'a.txt': 'x\n1\n2\n3\n4\nx\n' },
    git('--- a/a.txt', '+++ b/a.txt', '@@ -6 +6 @@ def f():', '-x', '+y'),
    { 'a.txt': 'x\n1\n2\n3\n4\ny\n' },
  ],
  [
    'an insertion without context',
    { 'a.txt': '1\n2\n3\n' },
    git('--- a/a.txt', '+++ b/a.txt', '@@ -1,0 +2 @@', '+x', '@@ -3,0 +5 @@', '+y'),
    { 'a.txt': '1\nx\n2\n3\ny\n' },
  ],
  [
    'a git diff that adds, removes, renames and changes',
    { 'gone.txt': 'g\n', 'old name.txt': 'o\n', 'same.txt': 's\n' },
    git(
      ...['diff --git a/new.txt b/new.txt', 'new file mode 100644', 'index 0000000..1', '--- /dev/null'],
      ...['+++ b/new.txt', '@@ -0,0 +1,2 @@', '+one', '+two', 'diff --git a/gone.txt b/gone.txt'],
      ...['deleted file mode 100644', 'index 1..0', '--- a/gone.txt', '+++ /dev/null', '@@ -1 +0,0 @@', '-g'],
      ...['diff --git a/old name.txt b/d/new name.txt', 'similarity index 50%', 'rename from old name.txt'],
      ...['rename to d/new name.txt', 'index 1..2 100644', '--- a/old name.txt\t', '+++ b/d/new name.txt\t'],
      ...['@@ -1 +1 @@', '-o', '+n', 'diff --git a/same.txt b/moved.txt', 'similarity index 100%'],
      ...['rename from same.txt', 'rename to moved.txt', ''],
    ),
    { 'd/new name.txt': 'n\n', 'moved.txt': 's\n', 'new.txt': 'one\ntwo\n' },
  ],
  [
    'a name that git quotes',
    { 'ä b.txt': 'a\n' },
    git('--- "a/\\303\\244 b.txt"', '+++ "b/\\303\\244 b.txt"', '@@ -1 +1 @@', '-a', '+b'),
    { 'ä b.txt': 'b\n' },
  ],
  [
    'a last line without an end',
    { 'a.txt': 'a\nb', 'b.txt': 'a\n' },
    git(
      ...['--- a/a.txt', '+++ b/a.txt', '@@ -1,2 +1,2 @@', ' a', '-b', '\\ No newline at end of file', '+c'],
      ...['\\ No newline at end of file', '--- a/b.txt', '+++ b/b.txt', '@@ -1 +1 @@', '-a', '+b'],
    ),
    { 'a.txt': 'a\nc', 'b.txt': 'b\n' },
  ],
  [
    'removed lines that look like the name of a file',
    { 'a.sql': '-- a\n-- b\n' },
    git('--- a/a.sql', '+++ b/a.sql', '@@ -1,2 +1,1 @@', '--- a', ' -- b'),
    { 'a.sql': '-- b\n' },
  ],
  [
    'numbers of a diff in the own form',
    { 'a.txt': 'x\ny\nx\n' },
    git('*** Begin Patch', ...update('a.txt', '@@ -3,1 +3,1 @@', '-x', '+z'), '*** End Patch'),
    { 'a.txt': 'x\ny\nz\n' },
  ],
  [
    'dots and a closed line of context in the own form',
    { 'a.txt': 'def f():\n  x\n  y\n' },
    git(
      '*** Begin Patch',
      ...update('a.txt', '@@ ... @@', '@@ def f(): @@', '-  x', '+  z'),
      '*** End Patch',
    ),
    { 'a.txt': 'def f():\n  z\n  y\n' },
  ],
])('%s is applied', async (_, before, patch, after) => {
  for (const [name, text] of Object.entries(before)) {
    await mkdir(join(fixtures.path(name), '..'), { recursive: true })
    await file(name, text)
  }
  const parsed = tool.parse({ patch })
  if ('error' in parsed) throw new Error(parsed.error)
  // What is asked about, judged and run is one text.
  const { patch: shown } = parsed.action as unknown as { patch: string }
  expect(shown).toMatch(/^\*\*\* Begin Patch\n/)
  const done = applyPatchObservation.parse(await tool.run(parsed.action, new AbortController().signal))
  expect(done).toMatchObject({ is_error: false })
  const names = (await allFiles()).filter((name) => name.includes('.'))
  const texts = await Promise.all(names.map(async (name) => [name, await content(name)] as const))
  expect(Object.fromEntries(texts)).toEqual(after)
})

test.each([
  ['binary data', git('diff --git a/a b/a', 'GIT binary patch', 'literal 1')],
  ['a copy', git('diff --git a/a b/b', 'copy from a', 'copy to b')],
])('a diff with %s is refused in words', (_, patch) => {
  expect(tool.parse({ patch })).toMatchObject({ error: expect.stringMatching(/cannot apply/) })
})

test.each(['', 'x', '*** Begin Patch\n*** Delete File: a', '*** Delete File: a\n*** End Patch'])(
  '%j is no patch',
  (text) => {
    expect(() => parsePatch(text)).toThrow(/patch (?:begins|ends)/)
  },
)

test('patches of the same file share a key with its other edits', () => {
  const parsed = tool.parse({ patch: '*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** End Patch' })
  if ('error' in parsed) throw new Error(parsed.error)
  expect(tool.resources(parsed.action)).toEqual(
    ['a', 'b'].map((name) => `file:${join(fixtures.directory, name)}`),
  )
})
