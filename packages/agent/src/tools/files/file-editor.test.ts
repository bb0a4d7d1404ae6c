import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmod,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import fc from 'fast-check'
import sharp from 'sharp'
import { beforeEach, expect, test } from 'vitest'
import type { Tool } from '../core/tool.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { openEdit, openWriteFile } from './edit.ts'
import { openFileEditor } from './file-editor.ts'

let fixtures: ToolFixtures
let tool: Tool
beforeEach(async () => {
  fixtures = await ToolFixtures.open()
  tool = await fixtures.tool(openFileEditor)
  return () => fixtures[Symbol.asyncDispose]()
})

const run = (args: Record<string, unknown>) => fixtures.run(tool, 'FileEditorObservation', args)

async function file(name: string, content: string | Uint8Array): Promise<string> {
  await writeFile(fixtures.path(name), content)
  return fixtures.path(name)
}

async function runExpectingFailure(args: Record<string, unknown>): Promise<string> {
  const { outputText, ...members } = await run(args)
  expect(members).toMatchObject({
    is_error: true,
    path: null,
    old_content: null,
    new_content: null,
    command: args.command,
  })
  return outputText
}

test('a view numbers the lines', async () => {
  const path = await file('a.txt', 'one\ntwo\n')
  const result = await run({ command: 'view', path })
  expect(result).toMatchObject({ is_error: false, path, prev_exist: true, command: 'view' })
  expect(result.outputText).toBe(`${path}, 2 lines:\n     1\tone\n     2\ttwo`)
})

test('a view of a range shows it and says where the file ends', async () => {
  const path = await file('a.txt', '1\n2\n3\n4')
  expect((await run({ command: 'view', path, view_range: [2, 3] })).outputText).toBe(
    `${path}, lines 2 to 3 of 4:\n     2\t2\n     3\t3`,
  )
  expect((await run({ command: 'view', path, view_range: [4, -1] })).outputText).toMatch(/: {0}\n {5}4\t4$/)
  expect((await run({ command: 'view', path, view_range: [3, 99] })).outputText).toMatch(
    /4\t4\n\[The file ends with line 4\.\]$/,
  )
})

test.each([[[0, 1]], [[5, 6]], [[3, 2]], [[1]], [[1, 2, 3]], [[-1, -1]]])(
  'the range %j of four lines is refused',
  async (view_range) => {
    await runExpectingFailure({ command: 'view', path: await file('a.txt', '1\n2\n3\n4\n'), view_range })
  },
)

test('an empty file is said to be empty', async () => {
  const path = await file('a.txt', '')
  expect((await run({ command: 'view', path })).outputText).toMatch(/is empty/)
  expect(await runExpectingFailure({ command: 'view', path, view_range: [1, 1] })).toMatch(/empty/)
})

test('a view of a long file keeps head and tail with their own numbers', async () => {
  const lines = Array.from({ length: 400_000 }, (_, at) => `line ${at + 1}`)
  const path = await file('long.txt', lines.join('\n'))
  const { outputText } = await run({ command: 'view', path })
  expect(outputText.length).toBeLessThanOrEqual(16_000)
  for (const line of outputText.split('\n').slice(1)) {
    const [, number, content] = /^ *(\d+)\t(.*)$/.exec(line) ?? []
    if (number === undefined) expect(line).toMatch(/^\[Left out from line \d+ on\./)
    else expect(content).toBe(`line ${number}`)
  }
  expect(outputText).toMatch(/400000\tline 400000$/)
  const before = [...outputText.matchAll(/^ *(\d+)\t/gm)].map(([, number]) => Number(number))
  const gap = before.findIndex((number, at) => (before[at + 1] ?? number + 1) !== number + 1)
  expect(outputText).toContain(`[Left out from line ${(before[gap] ?? 0) + 1} on.`)
})

test('a file of one huge line is cut within it', async () => {
  const path = await file('min.js', 'x'.repeat(5_000_000))
  expect((await run({ command: 'view', path })).outputText.length).toBeLessThanOrEqual(16_000)
})

test('a view of a directory shows two levels and counts what is hidden', async () => {
  await mkdir(fixtures.path('a/b/c'), { recursive: true })
  await mkdir(fixtures.path('.git'))
  await file('.env', '')
  await file('a/b/deep.txt', '')
  await file('z.txt', '')
  await symlink(fixtures.outside, fixtures.path('out'))
  const { outputText } = await run({ command: 'view', path: fixtures.directory })
  expect(outputText.split('\n').slice(1)).toEqual([
    'a/',
    'a/b/',
    'out (link)',
    'z.txt',
    '[2 hidden ones, with a dot in front of the name, are left out.]',
  ])
  expect(
    await runExpectingFailure({ command: 'view', path: fixtures.directory, view_range: [1, 2] }),
  ).toMatch(/view_range/)
})

test('names of files cannot write lines or colours into a listing', async () => {
  await file('new\nline\u001b[31m\u202e.txt', '')
  const { outputText } = await run({ command: 'view', path: fixtures.directory })
  expect(outputText.split('\n')).toHaveLength(2)
  expect(outputText).toContain('"new\\u000aline\\u001b[31m\\u202e.txt"'.replace('\\u000a', '\\n'))
})

const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)

test('an image is shown as one, by what it is and not by its name', async () => {
  const { content } = await run({ command: 'view', path: await file('a.jpg', png) })
  expect(content[1]).toEqual({
    cache_prompt: false,
    type: 'image',
    image_urls: [`data:image/png;base64,${png.toString('base64')}`],
  })
})

test('an image that no event has room for is shown smaller, and stays as it is', async () => {
  const raw = { width: 900, height: 700, channels: 3 } as const
  const large = await sharp(randomBytes(900 * 700 * 3), { raw })
    .png()
    .toBuffer()
  expect(large.length).toBeGreaterThan(1024 * 1024)
  const path = await file('large.png', large)
  const { content, outputText } = await run({ command: 'view', path })
  expect(outputText).toContain(`The image ${path}, made smaller:`)
  const url = content.flatMap((block) => (block.type === 'image' ? block.image_urls : [])).join()
  expect(url).toMatch(/^data:image\/jpeg;base64,/)
  const shown = Buffer.from(url.slice(url.indexOf(',')), 'base64')
  expect(shown.length).toBeLessThanOrEqual(512 * 1024)
  expect((await sharp(shown).metadata()).format).toBe('jpeg')
  expect(await readFile(path)).toEqual(large)
})

test('a large image that is broken, and one that no model takes, are refused in words', async () => {
  const large = Buffer.concat([png.subarray(0, 30), Buffer.alloc(600_000)])
  expect(await runExpectingFailure({ command: 'view', path: await file('a.png', large) })).toMatch(
    /The image is broken/,
  )
  const bmp = Buffer.concat([Buffer.from('BM'), Buffer.alloc(60)])
  expect(await runExpectingFailure({ command: 'view', path: await file('a.bmp', bmp) })).toMatch(/Convert/)
})

test('a text that is named like an image is a text', async () => {
  expect((await run({ command: 'view', path: await file('a.png', 'hello') })).outputText).toMatch(/1\thello/)
})

test('a new file has exactly the requested text', async () => {
  const path = fixtures.path('new.txt')
  const made = await run({ command: 'create', path, file_text: 'a\r\nb' })
  expect(made).toMatchObject({ prev_exist: false, path, old_content: null, new_content: 'a\r\nb' })
  expect(await readFile(path, 'utf8')).toBe('a\r\nb')
  expect((await stat(path)).mode & 0o777).toBe(0o666 & ~process.umask())
})

test('what is there is not created again, nor a file below a file', async () => {
  const path = await file('a.txt', 'old')
  expect(await runExpectingFailure({ command: 'create', path, file_text: 'new' })).toMatch(/already there/)
  expect(await runExpectingFailure({ command: 'create', path: fixtures.directory, file_text: '' })).toMatch(
    /already there/,
  )
  await runExpectingFailure({ command: 'create', path: fixtures.path('a.txt/b.txt'), file_text: '' })
  expect(await runExpectingFailure({ command: 'create', path: fixtures.path('b.txt') })).toMatch(/file_text/)
  expect(await readFile(path, 'utf8')).toBe('old')
})

test('str_replace changes the one match and shows the lines around it', async () => {
  const lines = Array.from({ length: 20 }, (_, at) => `line ${at + 1}`)
  const path = await file('a.txt', lines.join('\n'))
  const edited = await run({ command: 'str_replace', path, old_str: 'line 10', new_str: 'LINE\nTEN' })
  const content = lines.join('\n').replace('line 10', 'LINE\nTEN')
  expect(edited).toMatchObject({ old_content: lines.join('\n'), new_content: content })
  expect(await readFile(path, 'utf8')).toBe(content)
  expect(edited.outputText).toContain('     6\tline 6\n')
  expect(edited.outputText).toContain('    10\tLINE\n    11\tTEN\n')
  expect(edited.outputText).toMatch(/15\tline 14$/)
})

test('several matches are reported with their lines and nothing changes', async () => {
  const path = await file('a.txt', 'x\ny\nx\n')
  expect(await runExpectingFailure({ command: 'str_replace', path, old_str: 'x', new_str: 'z' })).toMatch(
    /lines 1, 3\./,
  )
  const overlapping = await file('b.txt', 'aaa')
  await runExpectingFailure({ command: 'str_replace', path: overlapping, old_str: 'aa', new_str: 'b' })
  const many = await file('c.txt', 'x'.repeat(1_000_000))
  expect(
    await runExpectingFailure({ command: 'str_replace', path: many, old_str: 'x', new_str: 'b' }),
  ).toMatch(/and more/)
})

test('an old text with other blank lines and trailing blanks is found without them', async () => {
  const path = await file('a.txt', 'one\ntwo\nthree\n')
  await run({ command: 'str_replace', path, old_str: '\ntwo  \n', new_str: '\n2\n' })
  expect(await readFile(path, 'utf8')).toBe('one\n2\nthree\n')
})

test.each([
  [{ old_str: 'missing', new_str: 'x' }, /does not occur/],
  [{ old_str: 'one', new_str: 'one' }, /same/],
  [{ old_str: 'one' }, /new_str/],
  [{ new_str: 'one' }, /old_str/],
  [{ old_str: '', new_str: 'one' }, /old_str/],
  [{ old_str: '  \n ', new_str: 'one' }, /does not occur/],
  [{ old_str: ' one ', new_str: 'one\n\n' }, /indentation/],
  [{ old_str: '\n\none \n', new_str: '\ntwo\n' }, /does not occur/],
])('str_replace with %j is refused', async (args, why) => {
  const path = await file('a.txt', 'one\n')
  expect(await runExpectingFailure({ command: 'str_replace', path, ...args })).toMatch(why)
  expect(await readFile(path, 'utf8')).toBe('one\n')
})

test('a text that does not occur is answered with the nearest lines and what differs', async () => {
  const path = await file('a.ts', 'one()\nif (a) {\n  two(\u200bx)\n}\n')
  const args = { command: 'str_replace', path, old_str: 'if (a) {\n  two(x)\n', new_str: '' }
  const failure = await runExpectingFailure(args)
  expect(failure).toContain('The nearest lines are 2 to 3:\n     2\tif (a) {\n     3\t  two(\u200bx)')
  expect(failure).toContain('Line 3 differs: an invisible character (the file has U+200B).')
})

test('a replacement is literal', async () => {
  const path = await file('a.txt', 'cost')
  await run({ command: 'str_replace', path, old_str: 'cost', new_str: "$& $1 $' $$" })
  expect(await readFile(path, 'utf8')).toBe("$& $1 $' $$")
})

test.each([
  ['a\nb\n', 0, 'x', 'x\na\nb\n'],
  ['a\nb\n', 1, 'x\n', 'a\nx\nb\n'],
  ['a\nb\n', 2, 'x', 'a\nb\nx\n'],
  ['a\nb', 2, 'x', 'a\nb\nx'],
  ['', 0, 'x', 'x\n'],
  ['a\r\nb\r\n', 1, 'x\ny', 'a\r\nx\r\ny\r\nb\r\n'],
  ['a\r\nb', 2, 'x\r\ny', 'a\r\nb\r\nx\r\ny'],
  ['a\rb\r', 1, 'x\ny', 'a\rx\ry\rb\r'],
  // Of several line ends, those of the line before.
  ['a\r\nb\nc\n', 1, 'x\ny', 'a\r\nx\r\ny\r\nb\nc\n'],
  ['a\r\nb\nc\n', 2, 'x\ny', 'a\r\nb\nx\ny\nc\n'],
  ['a\r\nb\nc\n', 0, 'x\ny', 'x\r\ny\r\na\r\nb\nc\n'],
])('into %j after line %d goes %j', async (before, insert_line, new_str, after) => {
  const path = await file('a.txt', before)
  expect(await run({ command: 'insert', path, insert_line, new_str })).toMatchObject({
    is_error: false,
    old_content: before,
    new_content: after,
  })
  expect(await readFile(path, 'utf8')).toBe(after)
})

test('insert needs its members and a line that is there', async () => {
  const path = await file('a.txt', 'a\nb\n')
  expect(await runExpectingFailure({ command: 'insert', path, insert_line: 3, new_str: 'x' })).toMatch(
    /0 \(the top\) to 2/,
  )
  expect(await runExpectingFailure({ command: 'insert', path, new_str: 'x' })).toMatch(/insert_line/)
  expect(await runExpectingFailure({ command: 'insert', path, insert_line: 0 })).toMatch(/new_str/)
})

test('encoding and line ends of a file stay', async () => {
  const utf16 = Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from('ä\r\nb\r\n', 'utf16le')])
  const path = await file('utf16.txt', utf16)
  await run({ command: 'str_replace', path, old_str: 'ä\nb', new_str: 'ö\n€' })
  expect(await readFile(path)).toEqual(
    Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from('ö\r\n€\r\n', 'utf16le')]),
  )
  const latin = await file('latin.txt', Buffer.from('Grüße\n', 'latin1'))
  await run({ command: 'str_replace', path: latin, old_str: 'Grüße', new_str: 'Grüße, Jörg' })
  expect(await readFile(latin)).toEqual(Buffer.from('Grüße, Jörg\n', 'latin1'))
  const mixed = await file('mixed.txt', 'a\r\nb\r\nc\nd\n')
  await run({ command: 'str_replace', path: mixed, old_str: 'a\nb', new_str: 'A\nB' })
  expect(await readFile(mixed, 'utf8')).toBe('A\r\nB\r\nc\nd\n')
  await run({ command: 'str_replace', path: mixed, old_str: 'A', new_str: '1\n2' })
  await run({ command: 'str_replace', path: mixed, old_str: 'd', new_str: '3\n4' })
  expect(await readFile(mixed, 'utf8')).toBe('1\r\n2\r\nB\r\nc\n3\n4\n')
  const old = await file('old.txt', 'one\rtwo\rthree\r')
  expect((await run({ command: 'view', path: old })).outputText).toContain('     2\ttwo\n     3\tthree')
  await run({ command: 'str_replace', path: old, old_str: 'one\ntwo', new_str: '1\nand\n2' })
  expect(await readFile(old, 'utf8')).toBe('1\rand\r2\rthree\r')
})

test('mode bits stay, and no temporary file is left', async () => {
  const path = await file('run.sh', 'one\n')
  await chmod(path, 0o751)
  await run({ command: 'str_replace', path, old_str: 'one', new_str: 'two' })
  expect((await stat(path)).mode & 0o7777).toBe(0o751)
  expect(await readdir(fixtures.directory)).toEqual(['run.sh'])
})

test('a read-only file is viewed and not changed', async () => {
  const path = await file('a.txt', 'one\n')
  await chmod(path, 0o444)
  expect((await run({ command: 'view', path })).is_error).toBe(false)
  expect(await runExpectingFailure({ command: 'str_replace', path, old_str: 'one', new_str: 'two' })).toMatch(
    /read-only/,
  )
  expect(await runExpectingFailure({ command: 'undo_edit', path })).toMatch(/no edit/)
})

test('another name of the same file keeps its content, so a link from outside is not written through', async () => {
  await writeFile(join(fixtures.outside, 'secret'), 'one')
  await link(join(fixtures.outside, 'secret'), fixtures.path('hard'))
  await run({ command: 'str_replace', path: fixtures.path('hard'), old_str: 'one', new_str: 'two' })
  expect(await readFile(join(fixtures.outside, 'secret'), 'utf8')).toBe('one')
})

test('hard links within the workspace stay links of one file, also when an edit is undone', async () => {
  const path = await file('a.txt', 'one')
  await mkdir(fixtures.path('d'))
  const other = fixtures.path('d/b.txt')
  await link(path, other)
  await link(path, join(fixtures.outside, 'c.txt'))
  await run({ command: 'str_replace', path, old_str: 'one', new_str: 'two' })
  expect(await readFile(other, 'utf8')).toBe('two')
  await run({ command: 'str_replace', path: other, old_str: 'two', new_str: 'three' })
  expect(await readFile(path, 'utf8')).toBe('three')
  await run({ command: 'undo_edit', path: other })
  expect(await readFile(path, 'utf8')).toBe('two')
  expect((await stat(path)).ino).toBe((await stat(other)).ino)
  expect(await readFile(join(fixtures.outside, 'c.txt'), 'utf8')).toBe('one')
  const names = await readdir(fixtures.directory, { recursive: true })
  expect(names.sort()).toEqual(['a.txt', 'd', 'd/b.txt'])
})

test('edits are undone one after another, by another process of the same conversation too', async () => {
  const path = await file('a.txt', '0')
  for (let at = 0; at < 12; at++)
    await run({ command: 'str_replace', path, old_str: String(at), new_str: String(at + 1) })
  tool = await fixtures.tool(openFileEditor)
  for (let at = 11; at >= 2; at--) {
    const undone = await run({ command: 'undo_edit', path })
    expect(undone).toMatchObject({ old_content: String(at + 1), new_content: String(at) })
  }
  expect(await runExpectingFailure({ command: 'undo_edit', path })).toMatch(/no edit/)
  expect(await readFile(path, 'utf8')).toBe('2')
})

test('a file that was removed comes back by undo, with its mode', async () => {
  const path = await file('a.txt', 'one')
  await chmod(path, 0o675)
  await run({ command: 'str_replace', path, old_str: 'one', new_str: 'two' })
  await rm(path)
  expect(await run({ command: 'undo_edit', path })).toMatchObject({ prev_exist: false, new_content: 'one' })
  expect((await stat(path)).mode & 0o777).toBe(0o675)
})

test('a new file gets its folders, and its creation is undone unless something else changed it', async () => {
  const path = fixtures.path('x/y/new.txt')
  const create = () => run({ command: 'create', path, file_text: 'one' })
  expect(await create()).toMatchObject({ is_error: false, prev_exist: false })
  await run({ command: 'str_replace', path, old_str: 'one', new_str: 'two' })
  await run({ command: 'undo_edit', path })
  const undone = await run({ command: 'undo_edit', path })
  expect(undone).toMatchObject({ is_error: false, old_content: 'one', new_content: null })
  expect(undone.outputText).toMatch(/is missing now/)
  expect(await readdir(fixtures.path('x/y'))).toEqual([])
  expect(await runExpectingFailure({ command: 'undo_edit', path })).toMatch(/no edit/)
  await create()
  await writeFile(path, 'of the user')
  expect(await runExpectingFailure({ command: 'undo_edit', path })).toMatch(/changed by something else/)
  await rm(path)
  expect(await runExpectingFailure({ command: 'undo_edit', path })).toMatch(/removed by something else/)
})

test('changes by the other tools for files are undone too', async () => {
  const path = fixtures.path('d/a.txt')
  const edit = await fixtures.tool(openEdit)
  const write = await fixtures.tool(openWriteFile)
  const undo = () => run({ command: 'undo_edit', path })
  await fixtures.run(write, 'WriteFileObservation', { file_path: 'd/a.txt', content: 'one' })
  await fixtures.run(write, 'WriteFileObservation', { file_path: path, content: 'two' })
  await fixtures.run(edit, 'EditObservation', { file_path: path, old_string: 'two', new_string: 'three' })
  const contents = [await undo(), await undo(), await undo()].map(({ new_content }) => new_content)
  expect(contents).toEqual(['two', 'one', null])
  await fixtures.run(edit, 'EditObservation', { file_path: path, old_string: '', new_string: 'x' })
  expect(await undo()).toMatchObject({ is_error: false, new_content: null })
})

test('an edit that was refused leaves nothing to undo', async () => {
  const path = await file('a.txt', Buffer.from([0x61, 0xd7, 0x62, 0xf8, 0xff, 0xe8, 0xfe]))
  expect(await runExpectingFailure({ command: 'str_replace', path, old_str: 'a', new_str: 'é' })).toMatch(
    /encoding of the file is not known/,
  )
  await runExpectingFailure({ command: 'undo_edit', path })
  await run({ command: 'str_replace', path, old_str: 'a', new_str: 'A' })
  expect(await readFile(path)).toEqual(Buffer.from([0x41, 0xd7, 0x62, 0xf8, 0xff, 0xe8, 0xfe]))
})

test('a character that the encoding lacks makes the file UTF-8, and the undo restores its bytes', async () => {
  const bytes = Buffer.from('Grüße\r\nb\r\n', 'latin1')
  const path = await file('a.txt', bytes)
  const edited = await run({ command: 'str_replace', path, old_str: 'b', new_str: '→' })
  expect(edited.outputText).toMatch(/encoded in latin-1.*UTF-8 now/)
  expect(await readFile(path, 'utf8')).toBe('Grüße\r\n→\r\n')
  await run({ command: 'undo_edit', path })
  expect(await readFile(path)).toEqual(bytes)
})

test('Cyrillic in windows-1251 is shown, edited and stored in windows-1251', async () => {
  const bytes = Buffer.from('cff0e8e2e5f22c20ece8f0210a', 'hex')
  const path = await file('a.txt', bytes)
  expect((await run({ command: 'view', path })).outputText).toContain('Привет, мир!')
  const edited = await run({ command: 'str_replace', path, old_str: 'мир', new_str: 'Мир' })
  expect(edited.new_content).toBe('Привет, Мир!\n')
  expect(await readFile(path)).toEqual(Buffer.from('cff0e8e2e5f22c20cce8f0210a', 'hex'))
})

test('an undo never loses what something else wrote meanwhile', async () => {
  const path = await file('a.txt', 'one\n')
  await run({ command: 'str_replace', path, old_str: 'one', new_str: 'two' })
  await writeFile(path, 'two\nof the user\n')
  expect(await runExpectingFailure({ command: 'undo_edit', path })).toMatch(/changed by something else/)
  expect(await readFile(path, 'utf8')).toBe('two\nof the user\n')
  await run({ command: 'str_replace', path, old_str: 'two', new_str: 'three' })
  await run({ command: 'undo_edit', path })
  expect(await readFile(path, 'utf8')).toBe('two\nof the user\n')
  await runExpectingFailure({ command: 'undo_edit', path })
  await writeFile(path, 'two\n')
  await run({ command: 'undo_edit', path })
  expect(await readFile(path, 'utf8')).toBe('one\n')
})

test('an edit and its undo give the bytes back', async () => {
  const contents = fc.array(fc.constantFrom('a', 'b', '\n', '\r\n', 'ä', '😀', '$&', '\ufeff', '\t'), {
    minLength: 1,
    maxLength: 20,
  })
  await fc.assert(
    fc.asyncProperty(contents, contents, fc.nat(), async (parts, other, seed) => {
      const text = parts.join('')
      const from = seed % text.length
      const old_str = text.slice(from, from + 1 + (seed % 7))
      const path = await file('p.txt', text)
      const before = await readFile(path)
      const edited = await run({ command: 'str_replace', path, old_str, new_str: other.join('') })
      if (edited.is_error) {
        expect(await readFile(path)).toEqual(before)
        return
      }
      // Line ends are those of the file, so texts that differ only in them change nothing.
      const isSame = old_str.replaceAll('\r\n', '\n') === other.join('').replaceAll('\r\n', '\n')
      if (!isSame) expect((await readFile(path)).equals(before)).toBe(false)
      await run({ command: 'undo_edit', path })
      expect(await readFile(path)).toEqual(before)
    }),
    { numRuns: 150 },
  )
})

test('of edits at the same time none is lost, by whatever path', async () => {
  const words = Array.from({ length: 20 }, (_, at) => `word${at}_`)
  const path = await file('a.txt', words.join('\n'))
  await symlink(path, fixtures.path('link.txt'))
  await Promise.all(
    words.map((word, at) =>
      run({
        command: 'str_replace',
        path: at % 2 ? path : fixtures.path('link.txt'),
        old_str: word,
        new_str: `done${at}_`,
      }),
    ),
  )
  expect(await readFile(path, 'utf8')).toBe(words.map((_, at) => `done${at}_`).join('\n'))
  expect((await lstat(fixtures.path('link.txt'))).isSymbolicLink()).toBe(true)
})

test('a large content is left out of the event', async () => {
  const path = await file('a.txt', `${'x'.repeat(300_000)}\nend`)
  expect(await run({ command: 'str_replace', path, old_str: 'end', new_str: 'END' })).toMatchObject({
    is_error: false,
    old_content: null,
    new_content: null,
  })
  const escapes = await file('b.txt', `${'\u0001'.repeat(100_000)}\nend`)
  expect(
    (await run({ command: 'str_replace', path: escapes, old_str: 'end', new_str: '' })).old_content,
  ).toBe(null)
})

test('a path of any length is refused shortly', async () => {
  for (const path of [`/${'x'.repeat(300_000)}`, 'x'.repeat(300_000), `/${'x/'.repeat(100_000)}`])
    expect((await runExpectingFailure({ command: 'view', path })).length).toBeLessThanOrEqual(16_000)
})

test('what a conversation keeps of a private file is private', async () => {
  const path = await file('a.txt', 'secret')
  await chmod(path, 0o600)
  await run({ command: 'str_replace', path, old_str: 'secret', new_str: 'x' })
  const entries = await readdir(fixtures.context.directory, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  expect(files).toHaveLength(1)
  for (const { parentPath, name } of files) expect((await stat(join(parentPath, name))).mode & 0o077).toBe(0)
})

test('a relative path is one of the workspace, and leads nowhere else', async () => {
  await file('a.txt', 'here')
  expect(await run({ command: 'view', path: 'a.txt' })).toMatchObject({
    is_error: false,
    path: fixtures.path('a.txt'),
  })
  expect(await runExpectingFailure({ command: 'view', path: '../outside/secret' })).toContain('outside')
})

const commands = [
  { command: 'view' },
  { command: 'create', file_text: 'x' },
  { command: 'str_replace', old_str: 'secret', new_str: 'x' },
  { command: 'insert', insert_line: 0, new_str: 'x' },
  { command: 'undo_edit' },
]

test.each(commands)('no way leads out of the workspace: $command', async (args) => {
  await writeFile(join(fixtures.outside, 'secret'), 'secret')
  await symlink(join(fixtures.outside, 'secret'), fixtures.path('file'))
  await symlink(fixtures.outside, fixtures.path('directory'))
  await symlink(join(fixtures.outside, 'dangling'), fixtures.path('dangling'))
  const names = [
    'file',
    'directory/secret',
    'directory/new',
    'dangling',
    '../outside/secret',
    'a\0b',
    'x'.repeat(5000),
  ]
  for (const name of names) await runExpectingFailure({ ...args, path: `${fixtures.directory}/${name}` })
  await runExpectingFailure({ ...args, path: '../outside/secret' })
  await runExpectingFailure({ ...args, path: '/etc/passwd' })
  await runExpectingFailure({ ...args, path: '' })
  expect(await readdir(fixtures.outside)).toEqual(['secret'])
  expect(await readFile(join(fixtures.outside, 'secret'), 'utf8')).toBe('secret')
})

test.each(commands)('what is no regular file is refused at once: $command', async (args) => {
  execFileSync('mkfifo', [fixtures.path('pipe')])
  await symlink('/dev/zero', fixtures.path('zero'))
  const server = createServer().listen(fixtures.path('socket'))
  await new Promise((done) => server.once('listening', done))
  for (const name of ['pipe', 'zero', 'socket'])
    await runExpectingFailure({ ...args, path: fixtures.path(name) })
  server.close()
})

test('bytes that are no text are refused', async () => {
  const path = await file('a.bin', Buffer.from([1, 2, 0, 3]))
  expect(await runExpectingFailure({ command: 'view', path })).toMatch(/binary/)
  expect(await runExpectingFailure({ command: 'insert', path, insert_line: 0, new_str: 'x' })).toMatch(
    /binary/,
  )
})

test('what is missing, and what is a directory, cannot be edited', async () => {
  expect(await runExpectingFailure({ command: 'view', path: fixtures.path('missing') })).toMatch(/no file/)
  expect(await runExpectingFailure({ command: 'view', path: `${await file('a.txt', '')}/x` })).toMatch(
    /no file/,
  )
  expect(
    await runExpectingFailure({ command: 'insert', path: fixtures.directory, insert_line: 0, new_str: '' }),
  ).toMatch(/directory/)
})

test('a file of 100 MB is refused without reading it, and none becomes larger than the limit', async () => {
  const handle = await open(fixtures.path('huge'), 'w')
  await handle.truncate(100 * 1024 * 1024)
  await handle.close()
  expect(await runExpectingFailure({ command: 'view', path: fixtures.path('huge') })).toMatch(/larger than/)
  const path = await file('a.txt', `${'x\n'.repeat(5_200_000)}end`)
  expect(
    await runExpectingFailure({ command: 'str_replace', path, old_str: 'end', new_str: 'y'.repeat(200_000) }),
  ).toMatch(/would become larger/)
})

test('calls of the same file share a key', () => {
  const action = (path: string) => ({ kind: 'FileEditorAction', command: 'view', path }) as const
  expect(tool.resources(action('/a/../b'))).toEqual(['file:/b'])
  expect(tool.resources(action('b'))).toEqual([`file:${fixtures.path('b')}`])
})

test('a call that is aborted before it begins does nothing', async () => {
  const action = {
    kind: 'FileEditorAction',
    command: 'create',
    path: fixtures.path('a'),
    file_text: '',
  } as const
  await expect(tool.run(action, AbortSignal.abort())).rejects.toThrow()
  expect(await readdir(fixtures.directory)).toEqual([])
})
