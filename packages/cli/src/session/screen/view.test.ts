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
  keys: `  y yes · a always: ${'word '.repeat(40)}end`,
})

test('a question that fits is shown whole, with all its keys', () => {
  const { lines, isQuestionCut } = drawView({ ...view, question: question(5) }, 40, 30)
  expect(isQuestionCut).toBe(false)
  expect(lines.join('')).toContain('  line 0  line 1  line 2  line 3  line 4')
  expect(lines.join('')).toContain('word end')
  for (const line of lines) expect(visibleWidth(line)).toBeLessThan(40)
})

test('a question that is longer than the screen shows its end and says that it is cut', () => {
  const { lines, isQuestionCut } = drawView({ ...view, question: question(500) }, 40, 24)
  expect(isQuestionCut).toBe(true)
  expect(lines.length).toBeLessThan(24)
  const at = lines.findIndex((line) => line.includes('lines before these: scroll up'))
  const [, hidden = ''] = /(\d+) lines/.exec(lines[at] ?? '') ?? []
  expect(lines[at + 1]).toBe(`  line ${hidden}`)
  expect(lines.join('')).toContain('  line 499')
})
