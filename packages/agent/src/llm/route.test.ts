import { llm } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { resolveRoute } from './route.ts'

test('an unknown provider without an address is refused with what is missing', () => {
  expect(resolveRoute(llm.parse({ model: 'nobody/knows' }))).toEqual({
    issue: expect.stringContaining('base_url'),
  })
  expect(resolveRoute(llm.parse({ model: 'azure/d' }))).toEqual({
    issue: expect.stringContaining('base_url'),
  })
})

test('names of the object prototype are no providers', () => {
  expect(resolveRoute(llm.parse({ model: 'constructor/x' }))).toHaveProperty('issue')
  expect(resolveRoute(llm.parse({ model: 'toString/x', base_url: 'http://h' }))).toMatchObject({
    name: 'toString/x',
  })
})
