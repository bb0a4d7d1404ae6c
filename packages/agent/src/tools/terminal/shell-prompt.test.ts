import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { keyName, keystrokes } from './keys.ts'
import { commandLine, PromptReader, variablesFile } from './shell-prompt.ts'

const nonce = '0123456789abcdef'
const marker = `\x1b]slipway;${nonce};7\x1f3\x1f-1\x1f/usr/bin/python\x1f/a\r\nb\x1fc;${nonce}\x07`
const prompt = { line: 7, exitCode: 3, pid: -1, python: '/usr/bin/python', directory: '/a\nb\x1fc' }

function read(...chunks: Buffer[]): unknown[] {
  const reader = new PromptReader(nonce)
  const parts = chunks.flatMap((chunk) => reader.read(Buffer.from(chunk)))
  // Neighbouring output is one.
  const joined: unknown[] = []
  for (const part of parts) {
    const last = joined.at(-1)
    if (Buffer.isBuffer(part) && typeof last === 'string')
      joined[joined.length - 1] = last + part.toString('latin1')
    else joined.push(Buffer.isBuffer(part) ? part.toString('latin1') : part)
  }
  return joined
}

test('prompts are found wherever the output is split', () => {
  const output = Buffer.from(`before\x1b[31m${marker}between${marker}${marker}after`)
  void fc.assert(
    fc.property(fc.array(fc.nat({ max: output.length }), { maxLength: 20 }), (places) => {
      const cuts = [0, ...places.sort((a, b) => a - b), output.length]
      const chunks = cuts.slice(1).map((end, at) => output.subarray(cuts[at], end))
      expect(read(...chunks)).toEqual(['before\x1b[31m', prompt, 'between', prompt, prompt, 'after'])
    }),
    { numRuns: 500 },
  )
})

test.each([
  marker.replaceAll(nonce, 'fedcba9876543210'),
  marker.replace(nonce, 'x'),
  `slipway;${nonce};7;${nonce}`,
  `\\033]slipway;${nonce};7;${nonce}\\007`,
])('what looks like a prompt is none: %j', (text) => {
  expect(read(Buffer.from(`${text}.`))).toEqual([Buffer.from(`${text}.`).toString('latin1')])
})

test('an endless start of a prompt is emitted as output', () => {
  const parts = read(Buffer.from(`\x1b]slipway;${nonce};`), Buffer.alloc(100_000, 'x'))
  expect(parts).toEqual(['x'.repeat(100_000)])
})

test('a typed line is short enough for a terminal', () => {
  expect(commandLine(Number.MAX_SAFE_INTEGER).length).toBeLessThan(255)
})

test('variables are quoted, and names that a shell has not are left out', () => {
  expect(variablesFile({ A: "it's\n$x", 'b-c': '1', '1d': '1', E: 'a\0b' })).toBe(
    "export A='it'\\''s\n$x'\nexport E='ab'\n",
  )
})

test.each([
  ['C-c', '\x03'],
  ['c-D', '\x04'],
  ['CTRL-c', '\x03'],
  ['ctrl+x', '\x18'],
  ['Ctrl-D', '\x04'],
  ['C-z', '\x1a'],
  ['C-[', '\x1b'],
  ['C-\\', '\x1c'],
  ['C-?', '\x7f'],
  ['UP', '\x1b[A'],
  ['PGDN', '\x1b[6~'],
  ['ENTER', '\r'],
  ['TAB', '\t'],
])('%s is a key', (name, code) => {
  expect(keystrokes(name)).toBe(code)
  expect(keyName(name)).toBe(name)
})

test.each([
  ['y', 'y\r'],
  ['y\n', 'y\r'],
  ['a\nb', 'a\rb\r'],
  ['C-cc', 'C-cc\r'],
  ['ctrl', 'ctrl\r'],
  ['ctrl c', 'ctrl c\r'],
  ['up', 'up\r'],
  ['constructor', 'constructor\r'],
])('%j is text, and Enter follows', (text, code) => {
  expect(keystrokes(text)).toBe(code)
  expect(keyName(text)).toBeUndefined()
})
