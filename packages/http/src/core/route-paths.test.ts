import { expect, test } from 'vitest'
import { RoutePaths } from './route-paths.ts'

function paths(): RoutePaths {
  const made = new RoutePaths()
  made.add('/', ['GET'])
  made.add('/api/things', ['POST'])
  made.add('/api/things/search', ['GET'])
  made.add('/api/things/{id}', ['GET', 'DELETE'])
  made.add('/api/things/{id}', ['PATCH'])
  made.add('/api/files/{path*}', ['POST'])
  made.add('/docs/*', ['GET'])
  return made
}

test('an address has the methods of its path, a literal before a parameter', () => {
  const at = (url: string) => paths().methodsForUrl(url)
  expect(at('/')).toEqual(['GET'])
  expect(at('/api/things?x=/1')).toEqual(['POST'])
  expect(at('/api/things/')).toEqual(['POST'])
  expect(at('/api/things/search')).toEqual(['GET'])
  expect(at('/api/things/%73earch')).toEqual(['GET'])
  expect(at('/api/things/7')).toEqual(['GET', 'DELETE', 'PATCH'])
  expect(at('/api/files/a/b/c')).toEqual(['POST'])
  expect(at('/docs/x.js')).toEqual(['GET'])
  for (const url of ['/api', '/api/things/7/8', '/api/other', '/api/things//', '//x', '/api/things/%zz/1'])
    expect([url, at(url)]).toEqual([url, url === '/api/things//' ? ['POST'] : undefined])
})

test('a path is taken for another one with the methods that only the other one has', () => {
  expect(paths().conflictingMethods('/api/things/search')).toEqual(['DELETE', 'PATCH'])
  expect(paths().conflictingMethods('/api/things/{id}')).toEqual([])
  expect(paths().conflictingMethods('/api/things')).toEqual([])
})
