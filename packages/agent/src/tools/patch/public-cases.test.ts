import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { applyPatchObservation } from '@slipway/protocol'
import { beforeEach, expect, test } from 'vitest'
import type { Tool } from '../core/tool.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { openApplyPatch } from './apply-patch.ts'
import { parsePatch } from './parse-patch.ts'

/**
 * The public cases of the patch format, restated: those of its inventor (openai/codex, `apply-patch`) and
 * those of OpenHands (software-agent-sdk, `tests/tools/apply_patch`). Where ours answers otherwise, the case
 * says so and `docs/differences.md` says why.
 */
type Files = Readonly<Record<string, string>>
type Case = readonly [name: string, before: Files, patch: string, after: Files | 'refused']

let fixtures: ToolFixtures
let tool: Tool
beforeEach(async () => {
  fixtures = await ToolFixtures.open()
  tool = await fixtures.tool(openApplyPatch)
  return () => fixtures[Symbol.asyncDispose]()
})

async function write(files: Files): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(fixtures.path(name)), { recursive: true })
    await writeFile(fixtures.path(name), text)
  }
}

async function read(directory = fixtures.directory): Promise<Files> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  const texts = files.map(
    async (path) => [path.slice(directory.length + 1), await readFile(path, 'utf8')] as const,
  )
  return Object.fromEntries(await Promise.all(texts))
}

async function run(patch: string) {
  const parsed = tool.parse({ patch })
  if ('error' in parsed) throw new Error(parsed.error)
  return applyPatchObservation.parse(await tool.run(parsed.action, new AbortController().signal))
}

const patchOf = (...lines: readonly string[]) => ['*** Begin Patch', ...lines, '*** End Patch'].join('\n')
const updateOf = (path: string, ...lines: readonly string[]) => patchOf(`*** Update File: ${path}`, ...lines)

const codex: readonly Case[] = [
  [
    'an environment by its id, of which there is one here only',
    { 'f.txt': 'old\n' },
    patchOf('*** Environment ID: other', '*** Update File: f.txt', '@@', '-old', '+new'),
    'refused',
  ],
  [
    'a file is added',
    {},
    patchOf('*** Add File: bar.md', '+This is a new file'),
    { 'bar.md': 'This is a new file\n' },
  ],
  [
    'several operations',
    { 'modify.txt': 'line1\nline2\n', 'delete.txt': 'obsolete\n' },
    patchOf(
      ...['*** Add File: nested/new.txt', '+created', '*** Delete File: delete.txt'],
      ...['*** Update File: modify.txt', '@@', '-line2', '+changed'],
    ),
    { 'modify.txt': 'line1\nchanged\n', 'nested/new.txt': 'created\n' },
  ],
  [
    'several parts',
    { 'multi.txt': 'line1\nline2\nline3\nline4\n' },
    updateOf('multi.txt', '@@', '-line2', '+changed2', '@@', '-line4', '+changed4'),
    { 'multi.txt': 'line1\nchanged2\nline3\nchanged4\n' },
  ],
  [
    'a move to a new directory',
    { 'old/name.txt': 'old content\n', 'old/other.txt': 'unrelated file\n' },
    updateOf('old/name.txt', '*** Move to: renamed/dir/name.txt', '@@', '-old content', '+new content'),
    { 'renamed/dir/name.txt': 'new content\n', 'old/other.txt': 'unrelated file\n' },
  ],
  ['an empty patch', { 'foo.txt': 'stable\n' }, patchOf(), 'refused'],
  [
    'lines that are missing',
    { 'modify.txt': 'line1\nline2\n' },
    updateOf('modify.txt', '@@', '-missing', '+changed'),
    'refused',
  ],
  [
    'the removal of a missing file',
    { 'foo.txt': 'stable\n' },
    patchOf('*** Delete File: missing.txt'),
    'refused',
  ],
  ['an update without lines', { 'foo.txt': 'stable\n' }, updateOf('foo.txt'), 'refused'],
  [
    'an update of a missing file',
    { 'foo.txt': 'stable\n' },
    updateOf('missing.txt', '@@', '-old', '+new'),
    'refused',
  ],
  // Codex overwrites in the next two cases.
  [
    'a move onto a file that is there',
    { 'old/name.txt': 'from\n', 'renamed/dir/name.txt': 'existing\n' },
    updateOf('old/name.txt', '*** Move to: renamed/dir/name.txt', '@@', '-from', '+new'),
    'refused',
  ],
  [
    'a new file where one is',
    { 'duplicate.txt': 'old content\n' },
    patchOf('*** Add File: duplicate.txt', '+new content'),
    'refused',
  ],
  ['the removal of a directory', { 'dir/foo.txt': 'stable\n' }, patchOf('*** Delete File: dir'), 'refused'],
  ['an unknown header', { 'foo.txt': 'stable\n' }, patchOf('*** Frobnicate File: foo'), 'refused'],
  [
    'a last line without a line end gets one',
    { 'no_newline.txt': 'no newline at end' },
    updateOf('no_newline.txt', '@@', '-no newline at end', '+first line', '+second line'),
    { 'no_newline.txt': 'first line\nsecond line\n' },
  ],
  // Codex keeps the first change here.
  [
    'a failure after a change takes it back',
    {},
    patchOf('*** Add File: created.txt', '+hello', '*** Update File: missing.txt', '@@', '-old', '+new'),
    'refused',
  ],
  [
    'additions alone go to the end',
    { 'input.txt': 'line1\nline2\n' },
    updateOf('input.txt', '@@', '+added line 1', '+added line 2'),
    { 'input.txt': 'line1\nline2\nadded line 1\nadded line 2\n' },
  ],
  [
    'blanks before the header of a file',
    { 'foo.txt': 'old\n' },
    patchOf('  *** Update File: foo.txt', '@@', '-old', '+new'),
    { 'foo.txt': 'new\n' },
  ],
  [
    'blanks around the first and the last line',
    { 'file.txt': 'one\n' },
    ' *** Begin Patch\n*** Update File: file.txt\n@@\n-one\n+two\n*** End Patch ',
    { 'file.txt': 'two\n' },
  ],
  [
    'letters beyond ASCII',
    { 'foo.txt': 'line1\nnaïve café\nline3\n' },
    updateOf('foo.txt', '@@', ' line1', '-naïve café', '+naïve café ✅'),
    { 'foo.txt': 'line1\nnaïve café ✅\nline3\n' },
  ],
  [
    'a file is deleted',
    { 'keep.txt': 'keep\n', 'obsolete.txt': 'obsolete\n' },
    patchOf('*** Delete File: obsolete.txt'),
    { 'keep.txt': 'keep\n' },
  ],
  [
    'lines are only removed',
    { 'lines.txt': 'line1\nline2\nline3\n' },
    updateOf('lines.txt', '@@', ' line1', '-line2', ' line3'),
    { 'lines.txt': 'line1\nline3\n' },
  ],
  [
    'a part at the end of the file',
    { 'tail.txt': 'first\nsecond\n' },
    updateOf('tail.txt', '@@', ' first', '-second', '+second updated', '*** End of File'),
    { 'tail.txt': 'first\nsecond updated\n' },
  ],
  [
    'CR LF of the file stays',
    { 'crlf.txt': 'one\r\ntwo\r\nthree\r\n' },
    updateOf('crlf.txt', '@@', '-one', '+uno', '@@', ' two', '+', '+between', ' three'),
    { 'crlf.txt': 'uno\r\ntwo\r\n\r\nbetween\r\nthree\r\n' },
  ],
  [
    'repeated lines keep their order',
    { 'repeated.txt': 'a\nb\n' },
    updateOf('repeated.txt', '@@', '-a', '-b', '+b', '+b', '+a'),
    { 'repeated.txt': 'b\nb\na\n' },
  ],
  [
    'a repeated line keeps its line end',
    { 'context.txt': 'same\r\nsame\n' },
    updateOf('context.txt', '@@', '-same', ' same'),
    { 'context.txt': 'same\n' },
  ],
  [
    'mixed line ends stay where nothing changes',
    { 'mixed.txt': 'one\r\ntwo\nthree\r\nfour\n' },
    updateOf('mixed.txt', '@@', ' one', ' two', '-three', '+THREE', ' four'),
    { 'mixed.txt': 'one\r\ntwo\nTHREE\r\nfour\n' },
  ],
  [
    'a new last line end is that of the file',
    { 'end.txt': 'one\r\ntwo' },
    updateOf('end.txt', '@@', '-one', '+ONE'),
    { 'end.txt': 'ONE\r\ntwo\r\n' },
  ],
  [
    'a dash of ASCII finds a typographic one',
    { 'unicode.py': 'import asyncio  # local import – avoids top‑level dep\n' },
    updateOf(
      'unicode.py',
      ...['@@', '-import asyncio  # local import - avoids top-level dep', '+import asyncio  # HELLO'],
    ),
    { 'unicode.py': 'import asyncio  # HELLO\n' },
  ],
  [
    'the first line is replaced',
    { 'first.txt': 'foo\nbar\nbaz\n' },
    updateOf('first.txt', '@@', '-foo', '+FOO', ' bar', ''),
    { 'first.txt': 'FOO\nbar\nbaz\n' },
  ],
  [
    'the last line is replaced',
    { 'last.txt': 'foo\nbar\nbaz\n' },
    updateOf('last.txt', '@@', ' foo', ' bar', '-baz', '+BAZ', ''),
    { 'last.txt': 'foo\nbar\nBAZ\n' },
  ],
  [
    'a line is added at the end of the file',
    { 'insert.txt': 'foo\nbar\nbaz\n' },
    updateOf('insert.txt', '@@', '+quux', '*** End of File', ''),
    { 'insert.txt': 'foo\nbar\nbaz\nquux\n' },
  ],
  [
    'parts between parts',
    { 'interleaved.txt': 'a\nb\nc\nd\ne\nf\n' },
    updateOf(
      'interleaved.txt',
      ...['@@', ' a', '-b', '+B', '@@', ' d', '-e', '+E', '@@', ' f', '+g', '*** End of File'],
    ),
    { 'interleaved.txt': 'a\nB\nc\nd\nE\nf\ng\n' },
  ],
]

const openHands: readonly Case[] = [
  [
    'a line is added behind another',
    { 'FACTS.txt': 'The tools are integrated.\n' },
    updateOf('FACTS.txt', '@@', ' The tools are integrated.', '+Patches work.'),
    { 'FACTS.txt': 'The tools are integrated.\nPatches work.\n' },
  ],
  ['an absolute path outside', {}, patchOf('*** Add File: /etc/passwd', '+x'), 'refused'],
  [
    'several changes in one part',
    { 'multi.txt': 'a1\na2\na3\na4\na5\n' },
    updateOf('multi.txt', '@@', ' a1', '-a2', '+A2', ' a3', ' a4', '-a5', '+A5'),
    { 'multi.txt': 'a1\nA2\na3\na4\nA5\n' },
  ],
  [
    'several files',
    { 'file1.txt': 'x1\nx2\n', 'file2.txt': 'y1\ny2\n' },
    patchOf(
      ...['*** Update File: file1.txt', '@@', ' x1', '-x2', '+X2'],
      ...['*** Update File: file2.txt', '@@', ' y1', '-y2', '+Y2'],
    ),
    { 'file1.txt': 'x1\nX2\n', 'file2.txt': 'y1\nY2\n' },
  ],
  [
    'a file is added, one changed, one removed',
    { 'existing.txt': 'base\n', 'delete_me.txt': 'gone soon\n' },
    patchOf(
      ...['*** Add File: added.txt', '+new content', '*** Update File: existing.txt', '@@', ' base', '+more'],
      '*** Delete File: delete_me.txt',
    ),
    { 'added.txt': 'new content\n', 'existing.txt': 'base\nmore\n' },
  ],
  [
    'a part that begins before the end of the one before',
    { 'multi.txt': 'line1\nline2\nline3\nline4\n' },
    updateOf(
      'multi.txt',
      ...['@@', ' line1', '-line2', '+line2a', ' line3', '@@', ' line3', '+line3a', ' line4'],
    ),
    'refused',
  ],
  [
    'trailing blanks of the file are kept',
    { 'fuzz.txt': 'a\ncontext line   \nend\n' },
    updateOf('fuzz.txt', '@@', ' context line', '-end', '+END'),
    { 'fuzz.txt': 'a\ncontext line   \nEND\n' },
  ],
  ['the removal of a missing file', {}, patchOf('*** Delete File: missing.txt'), 'refused'],
  [
    'the same new file twice',
    {},
    patchOf('*** Add File: dup.txt', '+one', '*** Add File: dup.txt', '+two'),
    'refused',
  ],
  ['a path to the parent', {}, patchOf('*** Add File: ../escape.txt', '+x'), 'refused'],
  ['a path beside the workspace', {}, patchOf('*** Add File: ../outside/owned.txt', '+x'), 'refused'],
  ['a patch without its first line', {}, 'INVALID HEADER\n*** End Patch', 'refused'],
  [
    'a move to the parent',
    { 'source.txt': 'hello\n' },
    updateOf('source.txt', '*** Move to: ../outside.txt', '@@', ' hello'),
    'refused',
  ],
]

test.each([
  ...codex.map(([name, ...rest]) => [`codex: ${name}`, ...rest] as const),
  ...openHands.map(([name, ...rest]) => [`OpenHands: ${name}`, ...rest] as const),
])('%s', async (_, before, patch, after) => {
  await write(before)
  const done = await run(patch)
  expect([done.is_error, await read()]).toEqual(after === 'refused' ? [true, before] : [false, after])
  expect(await read(fixtures.outside)).toEqual({})
})

test('codex: an absolute path inside the workspace is as good as a relative one', async () => {
  await write({ 'source.txt': 'session directory content\n' })
  const done = await run(
    updateOf(fixtures.path('source.txt'), '@@', '-session directory content', '+updated content'),
  )
  expect([done.is_error, await read()]).toEqual([false, { 'source.txt': 'updated content\n' }])
})

const hunk = { isAtEnd: false, headers: [], newLines: [], oldLines: [] }

test.each([
  [
    'all kinds of a patch',
    patchOf(
      ...['*** Add File: path/add.py', '+abc', '+def', '*** Delete File: path/delete.py'],
      ...['*** Update File: path/update.py', '*** Move to: path/update2.py'],
      ...['@@ def f():', '-    pass', '+    return 123'],
    ),
    [
      { kind: 'add', path: 'path/add.py', text: 'abc\ndef\n' },
      { kind: 'delete', path: 'path/delete.py' },
      {
        ...{ kind: 'update', path: 'path/update.py', moveTo: 'path/update2.py' },
        hunks: [{ ...hunk, headers: ['def f():'], oldLines: ['    pass'], newLines: ['    return 123'] }],
      },
    ],
  ],
  [
    'an update before a new file',
    patchOf('*** Update File: file.py', '@@', '+line', '*** Add File: other.py', '+content'),
    [
      { kind: 'update', path: 'file.py', moveTo: undefined, hunks: [{ ...hunk, newLines: ['line'] }] },
      { kind: 'add', path: 'other.py', text: 'content\n' },
    ],
  ],
  [
    'several lines before a part',
    updateOf('a', '@@ class BaseClass', '@@     def method()', ' context', '-old', '+new'),
    [
      {
        ...{ kind: 'update', path: 'a', moveTo: undefined },
        hunks: [
          {
            ...hunk,
            headers: ['class BaseClass', '    def method()'],
            oldLines: ['context', 'old'],
            newLines: ['context', 'new'],
          },
        ],
      },
    ],
  ],
  [
    'an empty line of context',
    updateOf('a', '@@ change_context', '', ' context', '-remove', '+add', ' context2'),
    [
      {
        ...{ kind: 'update', path: 'a', moveTo: undefined },
        hunks: [
          {
            ...hunk,
            headers: ['change_context'],
            oldLines: ['', 'context', 'remove', 'context2'],
            newLines: ['', 'context', 'add', 'context2'],
          },
        ],
      },
    ],
  ],
])('codex: %s is read', (_, patch, parsed) => {
  expect(parsePatch(patch)).toEqual(parsed)
})

const inner = updateOf('file2.py', ' import foo', '+bar')

test.each([`<<EOF\n${inner}\nEOF\n`, `<<'EOF'\n${inner}\nEOF\n`, `<<"EOF"\n${inner}\nEOF\n`])(
  'codex: a here document is a patch: %j',
  (patch) => {
    expect(parsePatch(patch)).toEqual(parsePatch(inner))
  },
)

test.each([
  'bad',
  '*** Begin Patch\nbad',
  `<<"EOF'\n${inner}\nEOF\n`,
  '<<EOF\n*** Begin Patch\n*** Update File: file2.py\nEOF\n',
  updateOf('a', '@@'),
  updateOf('a', '@@', 'bad'),
  updateOf('a', '@@', '*** End of File'),
])('codex: no patch: %j', (patch) => {
  expect(() => parsePatch(patch)).toThrow()
})
