import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createNeedle, encodeParts } from '../../text/needle.ts'
import { foldedMessage, likePattern } from './folded-text.ts'

/** Characters that need care: NUL, lone and paired surrogates, noncharacters of escapes, wildcards, cases. */
const char = fc.constantFrom(
  ...['a', 'A', 'ſ', 'S', 'σ', 'ς', '%', '_', '\\', '\0', '\n', ' ', '\ud83d', '\ude00', '\u{1f600}'],
  ...['\ufdd0', '\ufdd1', '\ufdef', '\u{10fffe}', '\u{10ffff}', '\ue000'],
)
const text = fc.array(char, { maxLength: 8 }).map((chars) => chars.join(''))

test('a pattern matches exactly the messages with a part that contains the needle', () => {
  fc.assert(
    fc.property(fc.array(text, { minLength: 1, maxLength: 3 }), text, (parts, needle) => {
      const message = { kind: 'MessageEvent', llm_message: { content: parts.map(textContent) } }
      const folded = foldedMessage(Buffer.from(JSON.stringify(message))) ?? ''
      expect(folded.includes('\0') || !folded.isWellFormed()).toBe(false)
      const expected = encodeParts(parts).bytes.includes(createNeedle(needle).bytes)
      expect(folded.includes(literalOf(likePattern(needle)))).toBe(expected)
    }),
    { numRuns: 2_000 },
  )
})

test('an event without texts has no folded text', () => {
  expect(foldedMessage(Buffer.from('{"kind":"X"}'))).toBeUndefined()
  expect(foldedMessage(Buffer.from('no JSON'))).toBeUndefined()
})

function textContent(part: string) {
  return { type: 'text', text: part }
}

/** The text that a pattern `%text%` looks for. */
function literalOf(pattern: string): string {
  return pattern.slice(1, -1).replace(/\\([\\%_])/g, '$1')
}
