import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { Editor } from './editor.ts'
import { addToHistory, readHistory } from './history.ts'
import { type Key, KeyReader } from './keys.ts'
import { contentWithFiles, suggestFiles } from './mentions.ts'

const names = (keys: readonly Key[]) => keys.map((key) => (key.kind === 'key' ? key.name : key.text))

test('keys are read wherever the pieces of the input end', () => {
  const input = 'hé\u001b[A\u001b[200~a\r\nb\u001b[1\u001b[201~\u001b[1;5D\r\u001b\r\u0003\u001b[99~x'
  const expected = ['hé', 'up', 'a\nb\u001b[1', 'word-left', 'enter', 'alt-enter', 'ctrl-c', 'x']
  expect(names(new KeyReader().push(input))).toEqual(expected)
  fc.assert(
    fc.property(fc.array(fc.nat(input.length), { maxLength: 6 }), (cuts) => {
      const reader = new KeyReader()
      const ends = [...cuts, input.length].sort((a, b) => a - b)
      const keys = ends.flatMap((end, at) => reader.push(input.slice(ends[at - 1] ?? 0, end)))
      // A text that was cut comes in pieces.
      expect(names(keys).join('|').replace('h|é', 'hé')).toBe(expected.join('|'))
    }),
  )
})

test('an escape alone is a key when nothing follows it', () => {
  const reader = new KeyReader()
  expect(reader.push('\u001b')).toEqual([])
  expect(reader.isWaiting).toBe(true)
  expect(names(reader.flush())).toEqual(['escape'])
  expect(reader.isWaiting).toBe(false)
})

function type(editor: Editor, input: string): Editor {
  for (const key of new KeyReader().push(input)) editor.handle(key)
  return editor
}

test('text is edited by characters, words and lines, also of several code units', () => {
  expect(type(new Editor(), 'ab👩‍👩‍👧c\u007f\u007f').fullText).toBe('ab')
  expect(type(new Editor(), 'one two three\u0017\u001b[D\u001b[D!').fullText).toBe('one tw!o ')
  const editor = type(new Editor(), 'first\nsecond line')
  expect(editor.fullText).toBe('first\nsecond line')
  type(editor, '\u001b[A\u0001> ')
  expect(editor.fullText).toBe('> first\nsecond line')
  type(editor, '\u000b')
  expect(editor.fullText).toBe('> \nsecond line')
})

test('earlier messages come back, and what was being written too', () => {
  const editor = type(new Editor(['one', 'two']), 'three')
  type(editor, '\u001b[A')
  expect(editor.fullText).toBe('two')
  type(editor, '\u001b[A\u001b[A')
  expect(editor.fullText).toBe('one')
  type(editor, '\u001b[B\u001b[B')
  expect(editor.fullText).toBe('three')
})

test('a long paste is a mark that stands for all of it', () => {
  const long = 'x'.repeat(1_000_000)
  const editor = type(new Editor(), `see \u001b[200~${long}\u001b[201~ ok`)
  expect(editor.state.text).toBe('see [Pasted text 1: 1 lines, 1000000 characters] ok')
  expect(editor.submit()).toBe(`see ${long} ok`)
  expect(editor.fullText).toBe('')
})

test('the history is kept in a private file, the newest last, without repeats', async () => {
  const directory = await temporaryDirectory()
  for (const entry of ['a', 'b\nc', 'a']) await addToHistory(directory, entry)
  expect(await readHistory(directory)).toEqual(['b\nc', 'a'])
})

test('files are suggested after an @ and sent with the message', async () => {
  const directory = await temporaryDirectory()
  await mkdir(join(directory, 'src'))
  await writeFile(join(directory, 'src', 'main.ts'), 'code')
  await writeFile(join(directory, 'src', 'image.bin'), '\u0000')
  expect(await suggestFiles('see @s', directory)).toEqual(['@src/'])
  expect(await suggestFiles('see @src/MA', directory)).toEqual(['@src/main.ts'])
  expect(await suggestFiles('mail a@s', directory)).toEqual([])
  const text = 'see @src/main.ts, @src/image.bin and @nothing'
  expect(await contentWithFiles(text, directory)).toEqual([
    { type: 'text', text },
    { type: 'text', text: '<file path="src/main.ts">\ncode\n</file>' },
  ])
})

async function temporaryDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-input-test-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  return directory
}
