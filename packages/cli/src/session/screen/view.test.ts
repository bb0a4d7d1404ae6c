import { expect, test } from 'vitest'
import { visibleWidth } from './live-region.ts'
import { drawView, type SessionView } from './view.ts'

const view: SessionView = {
  streaming: '',
  activity: '',
  question: undefined,
  tasks: [],
  queue: [],
  editor: { text: '', cursor: 0 },
  suggestions: [],
  chosen: 0,
  facts: ['/help'],
}
const question = (count: number) => ({
  head: 'Allow this?',
  lines: Array.from({ length: count }, (_, n) => `  line ${n}`),
  top: undefined as number | undefined,
  keys: `  y yes · a always: ${'word '.repeat(40)}end`,
})

test('a question that fits is shown whole, with all its keys', () => {
  const { lines, questionRoom } = drawView({ ...view, question: question(5) }, 40, 30)
  expect(questionRoom).toBe(0)
  expect(lines.join('')).toContain('  line 0  line 1  line 2  line 3  line 4')
  expect(lines.join('')).toContain('word end')
  for (const line of lines) expect(visibleWidth(line)).toBeLessThan(40)
})

test('a question that is longer than the screen shows its beginning, its end and what is hidden', () => {
  const { lines } = drawView({ ...view, question: question(500) }, 40, 24)
  expect(lines.length).toBeLessThan(24)
  const at = lines.findIndex((line) => line.includes('lines hidden: '))
  const [, hidden = ''] = /(\d+) lines/.exec(lines[at] ?? '') ?? []
  const first = lines.slice(0, at).filter((line) => line.startsWith('  line'))
  expect(first).toEqual(first.map((_, n) => `  line ${n}`))
  expect(lines[at + 1]).toBe(`  line ${first.length + Number(hidden)}`)
  expect(lines.join('')).toContain('  line 499')
  for (const line of lines) expect(visibleWidth(line)).toBeLessThan(40)
})

test('the part of a question that the user went to has its place in it', () => {
  const part = { ...question(500), top: 200 }
  const { lines, questionRoom } = drawView({ ...view, question: part }, 40, 24)
  const rows = Array.from({ length: questionRoom }, (_, n) => `  line ${200 + n}`)
  expect(lines.join('\n')).toContain(['  … 200 lines above: ↑ PgUp', ...rows].join('\n'))
  expect(lines.join('\n')).toContain(`  … ${300 - questionRoom} lines below: ↓ PgDn`)
})
