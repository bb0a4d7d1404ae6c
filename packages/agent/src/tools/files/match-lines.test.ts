import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ToolError } from '../core/tool-failure.ts'
import { replaceText } from './text-changes.ts'

/** The text after a str_replace; undefined when it is refused. */
function replaced(text: string, old_str: string, new_str: string): string | undefined {
  try {
    const command = { command: 'str_replace', path: 'a', old_str, new_str } as const
    return replaceText(command, { text, encoding: 'utf-8', lineEnd: '\n' }).text
  } catch (error) {
    if (error instanceof ToolError) return undefined
    throw error
  }
}

test.each([
  ['total = max(1)\n', '    x\n', '    y\n', undefined],
  ['total = max(1)\n', ' max(1) ', ' min(1) ', undefined],
  ['HELLO WORLD  \nx\n', 'HELLO WORLD', 'HELLO', 'HELLO  \nx\n'],
  ['a  \nb\n', 'a\nb', 'a\nc', 'a  \nc\n'],
  ['a\nb\n', 'a  \nb', 'a  \nc', 'a\nc\n'],
  ['a \nb\n', 'a\nb\n', 'c\nb\n', 'c \nb\n'],
  ['a\r\nb\r\nc\n', 'a\nb', 'A\nx\nB', 'A\r\nx\r\nB\r\nc\n'],
  ['a\nb', 'a\nb\n', 'a\nc\n', 'a\nc'],
  [
    'if a:\n\tb\n\tc\n',
    'if a:\n    b\n    c',
    'if a:\n    b\n    if d:\n        c',
    'if a:\n\tb\n\tif d:\n\t\tc\n',
  ],
  [
    'f:\n\tif a:\n\t\tb\n',
    '    if a:\n        b\n',
    '    if c:\n        b\n    d\n',
    'f:\n\tif c:\n\t\tb\n\td\n',
  ],
  [
    'f {\n    a\n    b\n}\n',
    '  a\n  b\n',
    '  a\n  if (x) {\n    b\n  }\n',
    'f {\n    a\n    if (x) {\n        b\n    }\n}\n',
  ],
  ['\t/**\n\t * one\n\t */\n', '    /**\n     * one\n', '    /**\n     * two\n', '\t/**\n\t * two\n\t */\n'],
  ['if a:\n\tb\nc \n', 'c', 'if c:\n    d', 'if a:\n\tb\nif c:\n    d \n'],
  ['if a:\n\tb\nc \n', 'c\n', 'if c:\n    d\n', 'if a:\n\tb\nif c: \n\td\n'],
  ['f(a) \n  b\n', 'f(a)\n', 'f(a,\n      b)\n', 'f(a, \n      b)\n  b\n'],
  // One shift that is no level.
  ['   a {\n     b\n   }\n', 'a {\n  b\n}\n', 'a {\n  b\n    c\n}\n', '   a {\n     b\n       c\n   }\n'],
  // Two shifts.
  ['  a {\n         b\n  }\n', 'a {\n  b\n}\n', 'a {\n  b\n  c\n}\n', undefined],
  ['   a {\n    b\n }\n', ' a {\n  b\n}\n', ' a {\n  c\n}\n', undefined],
  // The structure differs.
  ['if a:\n    b\nc\n', 'if a:\n    b\n    c', 'if a:\n    b\n    d', undefined],
  ['say(“yes”) or ‘no’\n', 'say("yes") or \'no\'', 'say("yes") and \'no\'', 'say(“yes”) and ‘no’\n'],
  ['say("a")\n', 'say(“a”)', 'say(“b”, “c”)', 'say("b", "c")\n'],
  ['a – b — c\n', 'a - b - c', 'a - b - d', 'a – b — d\n'],
  ['a\u00a0b\n', 'a b', 'a c', 'a\u00a0c\n'],
  ['  x\n    x\n', '\tx\n', '\ty\n', undefined],
  ['a \na\t\n', 'a  \n', 'b\n', undefined],
  ['a\n', '  \n ', 'b', undefined],
  ['x\na\n\nb\n', '\na\n\nb \n', '\na\n\nc \n', 'x\na\n\nc\n'],
  ['a\n\t\nb\n', 'a\n\nb', 'a\nb', 'a\nb\n'],
  ['it’s\n', "it's", 'it’s', undefined],
])('in %j, %j becomes %j: %j', (text, old, added, expected) => {
  expect(replaced(text, old, added)).toBe(expected)
})

test('what was tolerated is named', () => {
  const file = { text: 'if a:\n\tb“  \n', encoding: 'utf-8', lineEnd: '\n' } as const
  const command = {
    command: 'str_replace',
    path: 'a',
    old_str: 'if a:\n  b"',
    new_str: 'if a:\n  c"',
  } as const
  expect(replaceText(command, file)).toMatchObject({
    text: 'if a:\n\tc“  \n',
    note: expect.stringMatching(/indentation, trailing blanks, quotes, dashes/),
  })
})

interface Block {
  readonly level: number
  readonly text: string
  readonly trail: string
}

const words = [
  'if (a) {',
  '}',
  'let x = 1',
  'say("yes")',
  'say(“yes”)',
  'don’t',
  "don't",
  'a - b',
  'a – b',
  '',
  '# x',
]
const block: fc.Arbitrary<Block> = fc.record({
  level: fc.integer({ min: 0, max: 3 }),
  text: fc.oneof(
    fc.constantFrom(...words),
    fc.nat(40).map((number) => `line ${number}`),
  ),
  trail: fc.constantFrom('', '', '', ' ', '\t'),
})
const plain = (text: string) => text.replace(/[‘’]/g, "'").replace(/[“”]/g, '"').replace(/[–—]/g, '-')
const units = ['\t', '  ', '    ', '        ']

/** An edit of some lines of a file, as a careless model writes it. */
const nearMiss = fc.record({
  lines: fc.array(block, { minLength: 3, maxLength: 30 }),
  fileUnit: fc.constantFrom(...units),
  ends: fc.constantFrom(['\n'], ['\n'], ['\r\n', '\n']),
  from: fc.nat(),
  length: fc.integer({ min: 1, max: 6 }),
  change: fc.constantFrom('word', 'remove', 'add', 'nest'),
  changedAt: fc.nat(),
  textUnit: fc.constantFrom(...units),
  trails: fc.constantFrom('keep', 'drop', 'add'),
  hasPlainCharacters: fc.boolean(),
  isEnded: fc.boolean(),
})

test('a careless edit changes what is meant, or nothing', () => {
  const cases = Number(process.env.SLIPWAY_EDIT_CASES ?? 500)
  let applied = 0
  let possible = 0
  fc.assert(
    fc.property(nearMiss, (edit) => {
      const { fileUnit, textUnit, ends } = edit
      let depth = -1
      const lines = edit.lines.map((line) => {
        if (line.text !== '') depth = Math.min(depth + 1, line.level)
        return { ...line, level: line.text === '' ? 0 : depth }
      })
      const from = edit.from % lines.length
      const chosen = lines.slice(from, from + edit.length)
      const at = edit.changedAt % chosen.length
      const changed: Block[] = chosen.flatMap((line, index) => {
        if (index !== at) return [line]
        if (edit.change === 'remove') return []
        if (edit.change === 'word') return [{ ...line, text: `${line.text}CHANGED` }]
        const isFlat = chosen.every(({ level, text }) => level === 0 || text === '')
        return [
          line,
          { level: line.level + (!isFlat && edit.change === 'nest' ? 1 : 0), text: 'NEW', trail: '' },
        ]
      })
      if (changed.length === 0) return
      const render = (all: readonly Block[], unit: string, isModel: boolean) =>
        all.map(({ level, text, trail }) => {
          const body = isModel && edit.hasPlainCharacters ? plain(text) : text
          const blanks =
            !isModel || edit.trails === 'keep' ? trail : edit.trails === 'drop' ? '' : `${trail} `
          return (body === '' ? '' : unit.repeat(level)) + body + blanks
        })
      const join = (all: readonly string[], isEnded: boolean, crlf = false) =>
        all.join(crlf ? '\r\n' : '\n') + (isEnded ? (crlf ? '\r\n' : '\n') : '')
      const hasMixedEnds = ends.length > 1
      const end = (index: number) => ends[index % ends.length] ?? '\n'
      const file = render(lines, fileUnit, false)
        .map((line, index) => line + end(index))
        .join('')
      const before = render(lines.slice(0, from), fileUnit, false)
        .map((line, index) => line + end(index))
        .join('')
      const after = render(lines.slice(from + chosen.length), fileUnit, false)
        .map((line, index) => line + end(from + chosen.length + index))
        .join('')
      const isEnded = edit.isEnded || chosen.at(-1)?.text === ''
      const old = join(render(chosen, textUnit, true), isEnded)
      const added = join(render(changed, textUnit, true), isEnded)
      const result = replaced(file, old, added)
      // What must never happen: a change outside of the place.
      const key = (text: string) =>
        plain(text)
          .replaceAll('\r', '')
          .split('\n')
          .map((line) => line.trim())
      if (result === undefined) {
        const oldKeys = key(old).slice(0, chosen.length)
        const fileKeys = key(file)
        const similar = fileKeys.filter((_, index) =>
          oldKeys.every((one, next) => fileKeys[index + next] === one),
        )
        const hasBody = chosen.some(({ text }) => text !== '')
        if (similar.length === 1 && hasBody && !file.includes(old)) possible++
        return
      }
      if (file.includes(old)) return
      possible++
      applied++
      expect(result.startsWith(before) && result.endsWith(after)).toBe(true)
      const inside = result.slice(before.length, result.length - after.length)
      const expected = render(changed, fileUnit, false)
      expect(key(inside).filter((line) => line !== '')).toEqual(
        expected.map((line) => plain(line).trim()).filter((line) => line !== ''),
      )
      const indents = (all: readonly string[]) =>
        all.filter((line) => line.trim() !== '').map((line) => /^[ \t]*/.exec(line)?.[0])
      expect(indents(inside.split(/\r?\n/))).toEqual(indents(expected))
      // Lines that stay have the bytes of the file.
      const kept = render(
        chosen.filter((_, index) => index !== at),
        fileUnit,
        false,
      )
      const written = inside.split(/\r?\n/)
      // Of lines that the model cannot tell apart, any may be the one that stays.
      const isUnique = new Set(key(old)).size === key(old).length
      if (isUnique) for (const line of kept) expect(written).toContain(line)
      if (hasMixedEnds) expect(inside).not.toMatch(/\r(?!\n)/)
    }),
    { numRuns: cases },
  )
  expect(applied / possible).toBeGreaterThanOrEqual(0.95)
})
