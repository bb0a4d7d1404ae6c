import { expect, test } from 'vitest'
import { isBrowserLoopback, isLoopback } from './loopback.ts'

test.each(['localhost', '127.0.0.1', '127.1.2.3', '::1', '[::1]'])('%s is this machine', (host) => {
  expect(isLoopback(host)).toBe(true)
  expect(isBrowserLoopback(host)).toBe(true)
})

test.each(['', 'localhost.example.org', '127.0.0.1.example.org', '127.0.0', '0.0.0.0', '::', '10.0.0.1'])(
  '"%s" is another machine',
  (host) => {
    expect(isLoopback(host)).toBe(false)
    expect(isBrowserLoopback(host)).toBe(false)
  },
)

test('a name below localhost is this machine for browsers alone', () => {
  expect(isBrowserLoopback('app.localhost')).toBe(true)
  expect(isLoopback('app.localhost')).toBe(false)
})
