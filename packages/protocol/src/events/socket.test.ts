import { expect, test } from 'vitest'
import { parseInstant } from '../core/instant.ts'
import { authFrame, eventsSocketQuery } from './socket.ts'

test('the query of the socket takes each way to ask for history', () => {
  expect(eventsSocketQuery.parse({})).toEqual({})
  expect(eventsSocketQuery.parse({ resend_all: 'true' })).toEqual({ resend_all: true })
  expect(eventsSocketQuery.parse({ resend_mode: 'since', after_timestamp: '2026-03-01T10:00:00' })).toEqual({
    resend_mode: 'since',
    after_timestamp: parseInstant('2026-03-01T10:00:00Z'),
  })
  expect(eventsSocketQuery.parse({ after: '0' })).toEqual({ after: { position: 0 } })
  const cursor = { position: 41, digest: '9f3c01ab' }
  expect(eventsSocketQuery.parse({ after: '41.9f3c01ab' })).toEqual({ after: cursor })
})

test.each([
  { resend_mode: 'some' },
  { resend_all: 'perhaps' },
  { after: '' },
  { after: '-1' },
  { after: '1.5' },
  { after: '41.9F3C01AB' },
  { after_timestamp: 'noon' },
])('the socket query %j is refused', (query) => {
  expect(eventsSocketQuery.safeParse(query).success).toBe(false)
})

test('a frame with more than type and key is no auth frame', () => {
  expect(authFrame.safeParse({ type: 'auth', session_api_key: 'k' }).success).toBe(true)
  expect(authFrame.safeParse({ type: 'auth', session_api_key: 'k', role: 'user' }).success).toBe(false)
  expect(authFrame.safeParse({ type: 'auth' }).success).toBe(false)
})
