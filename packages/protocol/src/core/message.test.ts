import { expect, test } from 'vitest'
import { compareRisk, isRiskAtLeast, message, type SecurityRisk, textContent } from './message.ts'
import { validationIssues } from './validation-issues.ts'

test('risks are ordered from unknown to high', () => {
  const mixed: SecurityRisk[] = ['HIGH', 'UNKNOWN', 'MEDIUM', 'LOW']
  expect(mixed.sort(compareRisk)).toEqual(['UNKNOWN', 'LOW', 'MEDIUM', 'HIGH'])
  expect(isRiskAtLeast('HIGH', 'MEDIUM')).toBe(true)
  expect(isRiskAtLeast('MEDIUM', 'MEDIUM')).toBe(true)
  expect(isRiskAtLeast('UNKNOWN', 'LOW')).toBe(false)
})

test('a text has nothing but its three members', () => {
  expect(textContent.parse({ text: 't' })).toEqual({ type: 'text', cache_prompt: false, text: 't' })
  const value = { text: 't', enable_truncation: true }
  const result = textContent.safeParse(value)
  expect(result.error && validationIssues(result.error, [], value)).toEqual([
    { loc: ['enable_truncation'], msg: 'Extra inputs are not permitted', type: 'extra_forbidden' },
  ])
})

test('a message takes texts and images and passes over members that it does not know', () => {
  const content = [{ type: 'image', image_urls: ['data:,'] }, { text: 't' }]
  expect(message.parse({ role: 'user', content, vision_enabled: true })).toEqual({
    role: 'user',
    content: [
      { type: 'image', cache_prompt: false, image_urls: ['data:,'] },
      { type: 'text', cache_prompt: false, text: 't' },
    ],
    thinking_blocks: [],
  })
})

test('a part of a message is judged as what it says it is', () => {
  const content = [{ type: 'image' }, { type: 'text' }, { type: 'text', text: 't', x: 1 }]
  const value = { role: 'user', content }
  const result = message.safeParse(value)
  expect(result.error && validationIssues(result.error, ['body'], value)).toMatchObject([
    { loc: ['body', 'content', 0, 'image_urls'], type: 'missing' },
    { loc: ['body', 'content', 1, 'text'], type: 'missing' },
    { loc: ['body', 'content', 2, 'x'], type: 'extra_forbidden' },
  ])
})
