import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type CallIdForm, fitCallId, fitPropertyName, fitToolName } from './fit-names.ts'

const texts = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 400 }),
  fc.stringMatching(/^[\w:.-]{1,80}$/),
  fc.constantFrom(
    'my tool',
    'my_tool',
    'my.tool',
    '読む',
    't'.repeat(300),
    '',
    '-a',
    '1a',
    'a:b',
    'a.b',
    'a_b',
  ),
)

test.each<[string, (text: string) => string, RegExp]>([
  ['a name of a tool', fitToolName, /^[A-Za-z][\w-]{0,63}$/],
  ['a name of a property', fitPropertyName, /^[\w.-]{1,64}$/],
  ['any id', (id) => fitCallId(id, 'any'), /^[\x21-\x7e]{1,400}$/],
  ['a word', (id) => fitCallId(id, 'word'), /^[\w-]{1,64}$/],
  ['an id of OpenAI', (id) => fitCallId(id, 'short'), /^[\w-]{1,40}$/],
  ['an id of Mistral', (id) => fitCallId(id, 'nine'), /^[a-zA-Z0-9]{9}$/],
])('%s: every text fits, one that fits is unchanged, and two stay two', (_, fit, form) => {
  fc.assert(
    fc.property(fc.uniqueArray(texts, { minLength: 2, maxLength: 8 }), (all) => {
      const fitted = all.map(fit)
      for (const text of fitted) expect(text).toMatch(form)
      expect(fitted.map(fit)).toEqual(fitted)
      expect(all.filter((text) => form.test(text)).every((text) => fit(text) === text)).toBe(true)
      expect(new Set(fitted).size).toBe(all.length)
    }),
  )
})

test('ids of other providers are told apart where their signs are not allowed', () => {
  for (const form of ['word', 'short', 'nine'] satisfies CallIdForm[])
    expect(
      new Set(['functions.a:0', 'functions:a.0', 'functions_a_0'].map((id) => fitCallId(id, form))).size,
    ).toBe(3)
  expect(fitCallId('functions.a:0', 'any')).toBe('functions.a:0')
})
