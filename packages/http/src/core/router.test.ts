import { expect, test } from 'vitest'
import { Router } from './router.ts'

function createRouter(): Router<string> {
  const router = new Router<string>()
  const add = (path: string, methods: readonly string[]) =>
    router.add(path, methods, path, () => `${path} refused`)
  add('/', ['GET'])
  add('/api/things', ['POST'])
  add('/api/things/search', ['GET'])
  add('/api/things/{id}', ['GET', 'DELETE'])
  add('/api/things/{id}', ['PATCH'])
  add('/api/files/{path*}', ['POST'])
  add('/docs/*', ['GET'])
  return router
}

function methodsAt(url: string): string[] | string | undefined {
  const match = createRouter().find(url)
  return typeof match === 'object' ? [...match.entry.methods.keys()] : match
}

test('an address has the methods of its path, a literal before a parameter', () => {
  expect(methodsAt('/')).toEqual(['GET'])
  expect(methodsAt('/api/things?x=/1')).toEqual(['POST'])
  expect(methodsAt('/api/things/')).toEqual(['POST'])
  expect(methodsAt('/api/things/search')).toEqual(['GET'])
  expect(methodsAt('/api/things/%73earch')).toEqual(['GET'])
  expect(methodsAt('/api/things/7')).toEqual(['GET', 'DELETE', 'PATCH'])
  expect(methodsAt('/api/files/a/b/c')).toEqual(['POST'])
  expect(methodsAt('/docs/x.js')).toEqual(['GET'])
})

test('unknown and invalid addresses differ', () => {
  for (const url of ['/api', '/api/things/7/8', '/api/other', '//x', '*'])
    expect(methodsAt(url)).toBeUndefined()
  for (const url of ['/api/%zz', `/api/things/${'x'.repeat(4_097)}`]) expect(methodsAt(url)).toBe('invalid')
})

test('parameters are decoded and the rest of a path has its name', () => {
  expect(createRouter().find('/api/things/a%2Fb')).toMatchObject({ params: { id: 'a/b' } })
  expect(createRouter().find('/api/files/a%20b/c')).toMatchObject({ params: { path: 'a b/c' } })
})

test('the fallback of a path serves its other methods', () => {
  expect(createRouter().find('/api/things/7')).toMatchObject({
    entry: { fallback: '/api/things/{id} refused' },
  })
})
