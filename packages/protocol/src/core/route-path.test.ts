import { expect, test } from 'vitest'
import { buildRoutePath } from './route-path.ts'

const route = { path: '/api/{id}/files/{path*}' }

test('parameters are encoded, and slashes only where the route has no rest', () => {
  expect(buildRoutePath(route, { id: 'a/b?', path: 'c d//..e/%2e%2e/' })).toBe(
    '/api/a%2Fb%3F/files/c%20d//..e/%252e%252e/',
  )
})

test.for(['\ud83d', 'a/\ude00b', '.', '..', 'a/..', '../a', 'a/./b', '..\\a', 'a\\..'])(
  'the dot segment or half character of %j is refused',
  (value) => {
    const problem = expect.objectContaining({ code: 'bad_request' })
    expect(() => buildRoutePath(route, { id: value, path: 'a' })).toThrow(problem)
    expect(() => buildRoutePath(route, { id: 'a', path: value })).toThrow(problem)
  },
)
