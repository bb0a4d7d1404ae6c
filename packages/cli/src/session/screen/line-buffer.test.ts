import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LineBuffer } from './line-buffer.ts'

test('a line is returned once, when its line feed comes', () => {
  const lines = new LineBuffer()
  expect(lines.push('one')).toBe('')
  expect(lines.push('')).toBe('')
  expect(lines.partial).toBe('one')
  expect(lines.push(' line\ntwo\n\nthr')).toBe('one line\ntwo\n\n')
  expect(lines.partial).toBe('thr')
  expect(lines.push('ee\n')).toBe('three\n')
  expect(lines.partial).toBe('')
})

test('however a text is split, nothing is lost, and only complete lines are returned', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: fc.constantFrom('a', '\n', '\r', 'é') })), (pieces) => {
      const lines = new LineBuffer()
      let printed = ''
      for (const piece of pieces) {
        const complete = lines.push(piece)
        expect(complete === '' || complete.endsWith('\n')).toBe(true)
        expect(lines.partial).not.toContain('\n')
        printed += complete
      }
      expect(printed + lines.partial).toBe(pieces.join(''))
    }),
  )
})
